"""Tensor maps that kernels change: `tensormap.replace`, and `tensormap.cp_fenceproxy`, which publishes one.

A map of the host's, or 128 zeros, gets one field after the other; whether they go together, the first copy finds out.
The memory of a map is read and written like any other: 16 words of one thread.
"""

from __future__ import annotations

import numpy as np

from ...errors import MemoryAccessError
from ..access import Access, access_of
from ..collective import aligned_gate
from ..errors import UninitializedError
from ..frame import WARP, Frame, Index, spread
from ..hopper.maps import ALIGNMENT, CHOICES, DIMENSIONS, SIZE, replaced
from ..site import Read, Site
from ..spaces import load, store
from ..syntax import Immediate
from ..table import Step, gated, step
from ..targets import needs, needs_one_of
from ..types import TYPES, Array
from .memory import address_operand, address_reader

_WORD = np.dtype(np.uint64)


class _Map:
    """The tensor maps that an operand points to."""

    def __init__(self, site: Site, number: int, space: str) -> None:
        self.site, self.space = site, space
        self._address = address_reader(site, address_operand(site, number), space)

    def access(self, writes: bool) -> Access:
        """An access to one of a map's words."""
        verb = "store of a tensor map's" if writes else "load of a tensor map's"
        return access_of(self.site, self.space, _WORD, 1, verb, writes)

    def addresses(self, frame: Frame, index: Index) -> Array:
        """Where they are. Raises MemoryAccessError where none can be."""
        found = spread(self._address(frame, index), frame.size(index))
        bad = found % np.uint64(ALIGNMENT) != 0
        if bad.any():
            at = int(np.argmax(bad))
            what = f"`{self.site.instruction.opcode}`: a tensor map at {int(found[at]):#x}, no multiple of {ALIGNMENT}"
            raise self.site.fault(MemoryAccessError, what, frame, int(frame.indices(index)[at]))
        return found


def _words(access: Access, frame: Frame, index: Index, addresses: Array) -> Array:
    """The words at some addresses: [threads, words]."""
    places = range(0, SIZE, _WORD.itemsize)
    return np.stack([load(access, frame, index, addresses + np.uint64(place))[0] for place in places], axis=1)


def _put(access: Access, frame: Frame, index: Index, addresses: Array, words: Array) -> None:
    for number, column in enumerate(words.T):
        store(access, frame, index, addresses + np.uint64(number * _WORD.itemsize), [np.ascontiguousarray(column)])


def _constant(site: Site, number: int, end: int, what: str) -> int:
    operand = site.operands[number]
    value = int(operand.value) if isinstance(operand, Immediate) and operand.kind == "int" else -1
    if not 0 <= value < end:
        site.fail(f"the {what} of `{site.instruction.opcode}` is a constant from 0 to {end - 1}")
    return value


_SPACE = "[.<space:global|shared::cta>]"


@step(f"tensormap.replace.tile.<field:global_address|global_stride>{_SPACE}.b1024.<type:b64>", "store")
@step("tensormap.replace.tile.<field:rank|box_dim|global_dim|element_stride|elemtype|interleave_layout|swizzle_mode|"
      f"fill_mode>{_SPACE}.b1024.<type:b32>", "store")  # fmt: skip
def replace(site: Site) -> Step:
    """Another value of a field, of one dimension where it has several. Raises MemoryAccessError where no map is."""
    needs_one_of(site, "sm_90a")
    m = site.modifiers
    field, several = m["field"], m["field"] in DIMENSIONS
    site.arity(3 if several else 2)
    number = _constant(site, 1, DIMENSIONS[field], "dimension") if several else 0
    if field in CHOICES:
        _constant(site, 1, CHOICES[field], "value")
    value: Read = site.read(site.operands[-1], TYPES[f"u{m['type'][1:]}"])
    place = _Map(site, 0, m["space"].partition("::")[0] or "generic")
    reads, writes = place.access(writes=False), place.access(writes=True)

    def run(frame: Frame, index: Index) -> None:
        addresses = place.addresses(frame, index)
        words = _words(reads, frame, index, addresses)
        values = spread(value(frame, index), len(words)).tolist()
        found = [replaced(row.tobytes(), field, number, new) for row, new in zip(words, values, strict=True)]
        for at, data in enumerate(found):
            if data is None:
                what = f"`{site.instruction.opcode}`: neither a tensor map nor {SIZE} zeros at {int(addresses[at]):#x}"
                raise site.fault(MemoryAccessError, what, frame, int(frame.indices(index)[at]))
        joined = b"".join(filter(None, found))
        _put(writes, frame, index, addresses, np.frombuffer(joined, _WORD).reshape(len(found), -1))

    return run


@gated("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.<scope:cta|cluster|gpu|sys>.sync.aligned",
       "store", aligned_gate)  # fmt: skip
def publish(site: Site) -> Step:
    """A map goes from shared to global memory, where copies may find it: the first lane of each warp takes it there.

    Raises MemoryAccessError where the lanes of a warp do not name the same places.
    """
    needs(site, 90)
    site.arity(3)
    size = site.operands[2]
    if not isinstance(size, Immediate) or size.value != SIZE:
        site.fail(f"`{site.instruction.opcode}` copies {SIZE} bytes")
    to, source = _Map(site, 0, "global"), _Map(site, 1, "shared")
    writes, reads = to.access(writes=True), source.access(writes=False)

    def run(frame: Frame, index: Index) -> None:
        threads = frame.indices(index)
        places = [each.addresses(frame, index).reshape(-1, WARP) for each in (to, source)]
        differ = np.any([(each != each[:, :1]).any(1) for each in places], axis=0)
        if differ.any():
            what = f"`{site.instruction.opcode}`: the lanes of a warp name different places"
            raise site.fault(MemoryAccessError, what, frame, int(threads[WARP * np.argmax(differ)]))
        first = threads[::WARP]
        target, origin = (np.ascontiguousarray(each[:, 0]) for each in places)
        words = _words(reads, frame, first, origin)
        if frame.holes:
            what = f"`{site.instruction.opcode}` of shared memory that nobody wrote"
            raise site.fault(UninitializedError, what, frame, int(frame.holes[0].threads[0]))
        _put(writes, frame, first, target, words)

    return run
