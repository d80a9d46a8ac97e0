"""Tensor copies: `cp.async.bulk.tensor` of a box of an array, 1-D to 5-D, or of a column of pixels (im2col mode);
reductions and prefetches.

Elements outside the array are filled in when they are loaded, and left out when they are stored. Other modes
(im2col::w, gather4, scatter4) are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import LaunchError
from ...numerics import round_tf32
from ..access import unwatched
from ..frame import Frame, Index
from ..hopper.boxes import NAN, Box, box_at, column_at, offsets_of, packed
from ..hopper.checks import Place
from ..hopper.map_rules import TYPES_OF
from ..hopper.maps import ALIGNMENT, SIZE, TensorMap, decode_tensor_map
from ..hopper.refusals import refusal
from ..hopper.transfers import Convert, Target, Transfer
from ..site import Read, Site
from ..spaces import gathered, resolve
from ..table import Step, step
from ..targets import needs
from ..types import TYPES, UNSIGNED, Array
from .bulk import (
    Accesses,
    Lane,
    Operands,
    accesses,
    cast_to,
    combination,
    fault,
    key_of,
    lanes,
    placed,
    shared_place,
)
from .memory import address_operand, address_reader

_S32, _U16 = TYPES["s32"], TYPES["b16"]
_DIM = "<dim:1d|2d|3d|4d|5d>"
_PIXELS = "<dim:3d|4d|5d>"
_MODE = "[.<mode:tile>]"
_HINT = "[.L2::cache_hint]"
_SIGNAL = "mbarrier::complete_tx::bytes"
_BOX = 128
"""What the address of a box in shared memory must be a multiple of."""


def _rounded(bits: Array) -> Array:
    return round_tf32(bits.view(np.float32), "rtne").view(bits.dtype)


CONVERSIONS: dict[str, Convert] = {"tfloat32": _rounded, "tfloat32_ftz": _rounded}
"""What becomes of elements of a type when they are loaded, as on an H200; `ftz` changes nothing there."""


class Boxes:
    """The operand of a tensor map with coordinates."""

    def __init__(self, operands: Operands) -> None:
        self.site = operands.site
        self._map, operand = operands.address("generic", coordinates=True)
        self.rank = int(self.site.modifiers["dim"][0])
        if len(operand.coordinates) != self.rank:
            found = len(operand.coordinates)
            self.site.fail(f"`{self.site.instruction.opcode}` has {self.rank} coordinates, found {found}")
        self.pixels = (self.site.modifiers["mode"] or "tile") != "tile"
        self._coordinates: list[Read] = [self.site.read(part, _S32) for part in operand.coordinates]
        self._offsets: list[Read] = []

    def shift(self, operands: Operands) -> None:
        """Take the next operand, by how much a column is shifted, if there is one in this mode."""
        if self.pixels:
            self._offsets = operands.numbers(self.rank - 2, _U16)

    def tensor(self, lane: Lane) -> TensorMap:
        """The tensor map. Raises MemoryAccessError where none is, or one of another rank or mode."""
        tensor = tensor_map(self.site, lane, lane.value(self._map))
        if len(tensor.shape) != self.rank:
            raise fault(self.site, lane, f"{self.rank} coordinates for a tensor map of {len(tensor.shape)} dimensions")
        if (tensor.corners is not None) != self.pixels:
            kinds = ("boxes", "columns of pixels (im2col)")
            what = f"it copies {kinds[self.pixels]}, and the tensor map is one of {kinds[not self.pixels]}"
            raise fault(self.site, lane, what)
        return tensor

    def box(self, lane: Lane, tensor: TensorMap, writes: bool = False) -> Box:
        """The box or column at the coordinates. Raises MemoryAccessError where hardware refuses them."""
        coordinates = self.start(lane, tensor, writes)
        if not self.pixels:
            return box_at(tensor, coordinates, writes)
        return column_at(tensor, coordinates, offsets_of([lane.value(read) for read in self._offsets]), writes)

    def start(self, lane: Lane, tensor: TensorMap, writes: bool = False) -> list[int]:
        """The coordinates. Raises MemoryAccessError where hardware refuses them."""
        coordinates = [lane.value(read) for read in self._coordinates]
        if what := refusal(tensor, coordinates, writes):
            raise fault(self.site, lane, what)
        return coordinates


def tensor_map(site: Site, lane: Lane, address: int) -> TensorMap:
    """The tensor map at a generic address. Raises MemoryAccessError where none is, or one that breaks the rules."""
    if address % ALIGNMENT:
        raise fault(site, lane, f"a tensor map at {address:#x}, no multiple of {ALIGNMENT}")
    access = unwatched(site, 8, writes=False)
    addresses = np.uint64(address) + np.arange(0, SIZE, 8, dtype=np.uint64)
    cells = resolve(access, "generic", lane.frame, np.full(len(addresses), lane.thread), addresses)
    try:
        found = decode_tensor_map(gathered(cells, 0, len(addresses)).tobytes())
    except LaunchError as error:
        raise fault(site, lane, f"at {address:#x}, changed by the kernel: {error}") from error
    if found is None:
        raise fault(site, lane, f"no tensor map at {address:#x}: `encode_tensor_map` makes them for the emulator")
    return found


def _inside(uses: Accesses, lane: Lane, tensor: TensorMap, box: Box, writes: bool) -> Place:
    """The elements of a box that lie inside the array, in global memory."""
    carrier = UNSIGNED[8 * tensor.itemsize].carrier
    if not len(box.inside):
        return Place(lane.frame.shared, lane.frame.shared.typed(carrier), np.empty(0, np.intp))
    return placed(uses.write if writes else uses.read, lane, box.addresses[box.inside].view(np.uint64), str(carrier))


def _packed(uses: Accesses, lane: Lane, tensor: TensorMap, box: Box, address: int, writes: bool) -> Place:
    """All elements of a box, in shared memory."""
    nbytes, carrier = box.total * tensor.itemsize, UNSIGNED[8 * tensor.itemsize].carrier
    place, block = shared_place(uses.write if writes else uses.read, lane, address, nbytes, _BOX, str(carrier))
    rows = lane.frame.shared
    start = int(place.position[0]) * tensor.itemsize - block * rows.stride
    found = packed(tensor, box.total, start)
    if int(found.max()) + tensor.itemsize > rows.size:
        raise fault(uses.write.site, lane, f"the swizzle of a box at shared address {address:#x} leaves shared memory")
    return place._replace(position=(found + block * rows.stride) // tensor.itemsize)


_LOADED = f"{_SIGNAL}[.<cast:multicast::cluster>]{_HINT}"


@step(f"cp.async.bulk.tensor.{_DIM}.<to:shared::cluster|shared::cta>.global{_MODE}.{_LOADED}", "async")
@step(f"cp.async.bulk.tensor.{_PIXELS}.<to:shared::cluster|shared::cta>.global.<mode:im2col>.{_LOADED}", "async")
def load(site: Site) -> Step:
    operands = Operands(site)
    to, boxes = operands.address("shared")[0], Boxes(operands)
    barrier = operands.address("shared")[0]
    boxes.shift(operands)
    mask = operands.number(_U16) if site.modifiers["cast"] else None
    operands.end()
    uses = accesses(site, "global", "shared", "tensor copy")

    def run(frame: Frame, index: Index) -> None:
        for lane in lanes(frame, index):
            tensor = boxes.tensor(lane)
            box, chosen = boxes.box(lane, tensor), None if mask is None else lane.value(mask)
            begins, signals = (cast_to(site, lane, lane.value(read), chosen) for read in (to, barrier))
            targets = tuple(
                Target(_packed(uses, lane, tensor, box, begin, True), None, key_of(uses.signal, lane, signal))
                for begin, signal in zip(begins, signals, strict=True)
            )
            fill = NAN & (1 << 8 * tensor.itemsize) - 1 if tensor.fill == "nan" else 0
            transfer = Transfer(
                site, lane.thread, uses.read, uses.write, _inside(uses, lane, tensor, box, False), targets, box.total,
                box.total * tensor.itemsize, box.inside, fill, convert=CONVERSIONS.get(tensor.dtype),
            )  # fmt: skip
            frame.engines.transfers.issue(transfer, grouped=False)

    return run


_REDUCTION = "<red:add|min|max|inc|dec|and|or|xor>"


_OUT = "global.shared::cta"
_STORED = f"bulk_group{_HINT}"


@step(f"cp.async.bulk.tensor.{_DIM}.{_OUT}{_MODE}.{_STORED}", "async")
@step(f"cp.async.bulk.tensor.{_PIXELS}.{_OUT}.<mode:im2col_no_offs>.{_STORED}", "async")
@step(f"cp.reduce.async.bulk.tensor.{_DIM}.{_OUT}.{_REDUCTION}{_MODE}.{_STORED}", "async")
@step(f"cp.reduce.async.bulk.tensor.{_PIXELS}.{_OUT}.{_REDUCTION}.<mode:im2col_no_offs>.{_STORED}", "async")
def store(site: Site) -> Step:
    """The elements inside the array are written, or combined with what is there."""
    operands = Operands(site)
    boxes, origin = Boxes(operands), operands.address("shared")[0]
    operands.end()
    uses = accesses(site, "shared", "global", "tensor copy")

    def run(frame: Frame, index: Index) -> None:
        for lane in lanes(frame, index):
            tensor = boxes.tensor(lane)
            box, type_ = boxes.box(lane, tensor, writes=True), TYPES[TYPES_OF[tensor.dtype]]
            if site.modifiers.get("red"):
                _check_reduction(site, lane, tensor)
            flush = tensor.dtype.endswith("ftz")
            target = Target(_inside(uses, lane, tensor, box, True), box.inside)
            transfer = Transfer(
                site, lane.thread, uses.read, uses.write, _packed(uses, lane, tensor, box, lane.value(origin), False),
                (target,), box.total, box.total * tensor.itemsize, combine=combination(site, type_, flush),
            )  # fmt: skip
            frame.engines.transfers.issue(transfer, grouped=True)

    return run


_REDUCIBLE: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f64"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    **dict.fromkeys(("and", "or", "xor"), ("u32", "s32", "u64")),
}
"""The types of the elements that a reduction takes."""


def _check_reduction(site: Site, lane: Lane, tensor: TensorMap) -> None:
    op = site.modifiers["red"]
    if TYPES_OF[tensor.dtype] not in _REDUCIBLE[op]:
        raise fault(site, lane, f"no `{op}` of {tensor.dtype}")


@step(f"cp.async.bulk.prefetch.tensor.{_DIM}.L2.global{_MODE}{_HINT}", "prefetch")
@step(f"cp.async.bulk.prefetch.tensor.{_PIXELS}.L2.global.<mode:im2col>{_HINT}", "prefetch")
def prefetch(site: Site) -> Step:
    """Nothing but the checks of the tensor map, and of where a column begins."""
    operands = Operands(site)
    boxes = Boxes(operands)
    boxes.shift(operands)
    operands.end()

    def run(frame: Frame, index: Index) -> None:
        for lane in lanes(frame, index):
            tensor = boxes.tensor(lane)
            if boxes.pixels:
                boxes.start(lane, tensor)

    return run


@step("prefetch[.<space:param|const>].tensormap", "prefetch")
def prefetch_map(site: Site) -> Step:
    """Nothing but the check of the tensor map, where the address is a generic one."""
    needs(site, 90)
    site.arity(1)
    space = site.modifiers["space"] or "generic"
    address = address_reader(site, address_operand(site, 0), space)

    def run(frame: Frame, index: Index) -> None:
        for lane in lanes(frame, index) if space == "generic" else ():
            tensor_map(site, lane, lane.value(address))

    return run


def _refused(what: str) -> Callable[[Site], Step]:
    def build(site: Site) -> Step:
        site.fail(f"{what} (`{site.instruction.opcode}`) is not supported; tile and im2col are")

    return build


for _base in (f"cp.async.bulk.tensor.{_DIM}", f"cp.reduce.async.bulk.tensor.{_DIM}",
              f"cp.async.bulk.prefetch.tensor.{_DIM}"):  # fmt: skip
    step(f"{_base}.<rest:[^ ]*im2col::w[^ ]*>", "async")(_refused("im2col::w"))
    step(f"{_base}.<rest:[^ ]*(?:gather4|scatter4)[^ ]*>", "async")(_refused("gather and scatter"))
