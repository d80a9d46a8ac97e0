"""Buffers in shared memory. A buffer has no registers: its address is that of the `local_alloc` that it descends from.

A copy that needs no register is `cp.async`: 16 bytes past the first cache, 4 or 8 through it. Where the mask does not
hold it reads 0 bytes and fills up with zeros. Neighbours of less than 4 bytes go through a register instead.
"""

from __future__ import annotations

from functools import partial

from tilewright.lang import LinearLayout, Operation, ScalarType, Value, byte_width, element_of

from ..analysis.accesses import pointee, run_length
from ..analysis.buffers import dot_ahead, home, stage_bytes, stage_of
from ..analysis.constants import constant_of
from ..analysis.placement import layout_of, slots
from ..analysis.shared_accesses import Access, part_access, vectors
from .context import Lowering
from .memory import CLOBBER, both, masked_load, plain_load, store_words, words_for
from .registry import lowers
from .shared import Addresses, LoadedTile, store_tile
from .text import PTR, SHARED

#: What `cp.async` copies, in bytes, and through which cache.
COPIES = {4: "ca", 8: "ca", 16: "cg"}


@lowers("local_alloc")
def _local_alloc(to: Lowering, operation: Operation) -> None:
    to.values[operation.result] = ()


@lowers("async_commit")
def _async_commit(to: Lowering, operation: Operation) -> None:
    to.leave(operation, lambda: to.text.call("void", "llvm.nvvm.cp.async.commit.group", []))


@lowers("async_wait")
def _async_wait(to: Lowering, operation: Operation) -> None:
    to.text.call("void", "llvm.nvvm.cp.async.wait.group", [("i32", str(operation.attributes["pending"]))])
    for result in operation.results:
        to.values[result] = ()


@lowers("local_store")
def _local_store(to: Lowering, operation: Operation) -> None:
    buffer, index, tile = operation.operands
    layout = layout_of(tile.type)
    memory = layout_of(buffer.type)
    assert layout is not None and memory is not None
    base = stage_address(to, buffer, index)
    with to.only(slots(layout)):
        store_tile(to, base, stage_of(memory), layout, element_of(tile.type), to.values[tile])
    to.values[operation.result] = ()


@lowers("local_load")
def _local_load(to: Lowering, operation: Operation) -> None:
    buffer, index = operation.operands
    layout, memory = layout_of(operation.result.type), layout_of(buffer.type)
    assert layout is not None and memory is not None
    first = operation.attributes["first"]
    assert isinstance(first, tuple)
    access = part_access(stage_of(memory), layout, first, byte_width(element_of(buffer.type)))
    tile = LoadedTile(to, stage_address(to, buffer, index), access, element_of(buffer.type))
    only_for_a_dot = [user for user, _ in operation.result.uses] == [dot_ahead(operation)]
    to.values[operation.result] = tile if only_for_a_dot else tuple(tile)


def stage_address(to: Lowering, buffer: Value, index: Value) -> str:
    """The address of a stage of a buffer."""
    base = to.scratch(home(buffer))
    offset = to.text.value(f"mul i32 {to.scalar(index)}, {stage_bytes(buffer.type)}")
    return to.text.value(f"getelementptr i8, {SHARED} {base}, i32 {offset}")


@lowers("async_copy")
def _async_copy(to: Lowering, operation: Operation) -> None:
    pointer, buffer, index, enabled = operation.operands[:4]
    mask, layout, memory = operation.operand("mask"), layout_of(pointer.type), layout_of(buffer.type)
    assert layout is not None and memory is not None
    element = pointee(pointer)
    access = neighbours(stage_of(memory), layout, byte_width(element), run_length(to.facts, pointer, mask))
    addresses = Addresses(to, stage_address(to, buffer, index), access)
    wanted = both(to, to.scalar(enabled), to.chosen(slots(layout)))
    to.values[operation.result] = ()
    if constant_of(enabled) == 0:
        return

    def copy(group: tuple[int, ...], offset: int) -> None:
        chosen = "" if mask is None else to.values[mask][group[0]]
        source, target = to.values[pointer][group[0]], addresses.at(offset)
        if byte_width(element) * len(group) in COPIES:
            _copy(to, target, source, byte_width(element) * len(group), wanted, chosen)
        else:
            _copy_by_register(to, element, target, source, len(group), wanted, chosen)

    for group, offset in zip(access.groups, access.offsets, strict=True):
        to.leave(operation, partial(copy, group, offset))


def neighbours(memory: LinearLayout, layout: LinearLayout, size: int, run: int) -> Access:
    """Accesses to a stage of up to `run` registers that are neighbours there in the order in which they are numbered,
    as they are in global memory."""
    while True:
        access = vectors(memory, layout, size, size * run)
        if access.groups[0] == tuple(range(len(access.groups[0]))):
            return access
        run //= 2


def _copy(to: Lowering, target: str, source: str, size: int, wanted: str, mask: str) -> None:
    given = [(SHARED, target), (PTR, source)]
    text, constraints = f"cp.async.{COPIES[size]}.shared.global [$0], [$1], {size}", "l,l"
    if both(to, "", mask):
        given.append(("i32", to.text.value(f"select i1 {mask}, i32 {size}, i32 0")))
        text, constraints = f"{text}, $2", f"{constraints},r"
    if wanted:
        text, constraints = f"@${len(given)} {text}", f"{constraints},b"
        given.append(("i1", wanted))
    to.text.asm("void", f"{text};", f"{constraints},{CLOBBER}", given, effect=True)


def _copy_by_register(
    to: Lowering, element: ScalarType, target: str, source: str, count: int, wanted: str, mask: str
) -> None:
    words, predicate = words_for(element, count), both(to, wanted, mask)
    if predicate:
        loaded = masked_load(to, "ld.global", words, source, predicate, ["0"] * words.count)
    else:
        loaded = plain_load(to, words, source)
    store_words(to, "st.shared", words, (SHARED, target), loaded, wanted)
