"""One elementwise row on one choice of types, compiled for some number of warps, against the reference.

A kernel applies the row twice over the same operands: to wide tiles of several registers a thread, of one or two
dimensions, and to narrow ones: scalars, single elements, tiles smaller than a warp or than the block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from tests.compiler.building import Kernel, fetched, pointee, row_kernel
from tests.compiler.sweep_cells import WARPS, Cell
from tests.compiler.sweep_data import Array, codes_of, nan_mask, operand_codes, stored
from tests.compiler.sweep_device import run_on
from tests.compiler.sweep_report import Judgement
from tilewright.difftest.oracles.bounds import allowed, within
from tilewright.difftest.oracles.formats import decode, ordinal
from tilewright.difftest.oracles.reals import REAL_RULES
from tilewright.difftest.storage import Codes, carrier_of
from tilewright.interpreter import Buffer, execute
from tilewright.lang import I32, Module, Operation, PointerType, ScalarType, byte_width, with_shape
from tilewright.runtime import Device

#: What stands in results before a kernel runs; it must stay where no element goes.
UNTOUCHED = 0x5A
#: Rows whose NaNs have the reference's bits; those of a cast to 8 bits have them as well (docs/semantics.md).
MOVES_BITS = frozenset(("select", "bitcast", "neg_f", "abs_f"))
MOST_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Form:
    """The tiles of a kernel, and whether the length of the arrays is promised to be a multiple of 16."""

    wide: tuple[int, ...]
    narrow: tuple[int, ...]
    promised: bool


def form(cell: Cell, num_warps: int) -> Form:
    """The form of a cell's kernel: over the numbers of warps a cell gets every shape, and over the cells every pair."""
    threads, turn = 32 * num_warps, cell.number + WARPS.index(num_warps)
    wide = (((4 * threads,), (2, 2 * threads)), ((4, threads), (4 * threads,)))[turn // 4 % 2][turn % 2]
    narrow = ((), (1,), (8,), (threads // 2,))[turn % 4]
    return Form(wide, narrow, turn // 2 % 2 == 0)


def kernel_of(cell: Cell, shapes: Form) -> Module:
    """The kernel: pointers to the operands, to the wide tiles' results and the narrow ones', and the two lengths."""
    kernel = Kernel()
    sources = [kernel.pointer(pointee(element)) for element in cell.operands]
    sinks = [kernel.pointer(pointee(cell.result)) for _ in range(2)]
    lengths = [kernel.number(I32, "n", 16 if shapes.promised else 1), kernel.number(I32, "m")]
    for sink, length, shape in zip(sinks, lengths, (shapes.wide, shapes.narrow), strict=True):
        offsets = kernel.places(shape)
        mask = kernel.make("cmp_lt_s", [offsets, kernel.splat(length, shape)])
        loaded = [
            fetched(kernel, source, offsets, mask, element)
            for source, element in zip(sources, cell.operands, strict=True)
        ]
        made = kernel.make(cell.row, loaded, with_shape(cell.result, shape), dict(cell.attributes))
        if isinstance(cell.result, PointerType):
            made = kernel.make("ptr_to_int", [made], with_shape(pointee(cell.result), shape))
        kernel.do("store", [kernel.at(sink, offsets), made, mask])
    return kernel.module()


@dataclass(frozen=True, slots=True)
class Expectation:
    """The codes of operands, and the reference's of the results."""

    operands: tuple[Array, ...]
    results: Array


@lru_cache(4)
def expectation(cell: Cell, count: int) -> Expectation:
    """What the interpreter gives for the cell's operands."""
    codes = operand_codes(cell, count)
    arrays = [stored(each, element) for each, element in zip(codes, cell.operands, strict=True)]
    results = stored(np.zeros(count, np.uint8), cell.result)
    module = row_kernel(cell.row, [(cell.operands, cell.result)], 1024, dict(cell.attributes))
    buffers = [Buffer.of(f"a{place}", array) for place, array in enumerate((*arrays, results))]
    execute(module, [*buffers, count], (-(-count // 1024), 1, 1))
    return Expectation(tuple(codes), codes_of(results, cell.result))


def run_cell(device: Device, cell: Cell, num_warps: int, count: int) -> Judgement:
    """Compile and run a cell, and judge what it wrote: wide, then narrow tiles. Raises what compiling raises.

    `count` elements, a multiple of 16; the narrow tiles take as many as the same programs reach, less one.
    """
    want, shapes = expectation(cell, count), form(cell, num_warps)
    programs = -(-count // prod(shapes.wide))
    lengths = count, max(1, min(count, programs * prod(shapes.narrow)) - 1)
    sources = [stored(codes, element) for codes, element in zip(want.operands, cell.operands, strict=True)]
    sinks = [blank(cell.result, count + 16) for _ in lengths]
    run_on(device, kernel_of(cell, shapes), num_warps, [*sources, *sinks, *lengths], (programs, 1, 1))
    differing, share, wrong = 0, 0.0, list[str]()
    for sink, length, shape in zip(sinks, lengths, (shapes.wide, shapes.narrow), strict=True):
        got, untouched = codes_of(sink, cell.result), codes_of(blank(cell.result, count + 16), cell.result)
        operands = [codes[:length] for codes in want.operands]
        places, used, found = judge(cell, operands, got[:length], want.results[:length])
        if (got[length:] != untouched[length:]).any():
            found.append("an element past the end was written")
        wrong += [f"{cell}, {num_warps} warps, tile {shape}: {text}" for text in found[:MOST_SHOWN]]
        differing, share = differing + places, max(share, used)
    return Judgement(len(lengths), sum(lengths), differing, share, tuple(wrong))


def blank(element: ScalarType, count: int) -> Array:
    """A buffer that nobody has written to."""
    return stored(np.full(count * byte_width(element), UNTOUCHED, np.uint8).view(carrier_of(element)), element)


def judge(cell: Cell, operands: Sequence[Array], got: Array, want: Array) -> tuple[int, float, list[str]]:
    """How many results have other bits than the reference's, and `by_contract` of these."""
    differing = got != want
    if cell.row not in MOVES_BITS and not (cell.row == "cast_f" and byte_width(cell.result) == 1):
        differing &= ~(nan_mask(got, cell.result) & nan_mask(want, cell.result))
    places = np.flatnonzero(differing)
    if not len(places):
        return 0, 0.0, []
    columns = np.unique(np.stack([codes[places].astype(np.uint64) for codes in (*operands, got, want)]), axis=1)
    return len(places), *by_contract(cell, *(tuple(column.tolist()) for column in columns))


def by_contract(cell: Cell, *columns: Codes) -> tuple[float, list[str]]:
    """For codes of operands, results and reference: the largest share of what the row's contract allows, and what it
    does not allow. Special cases are exact in every contract."""
    *operands, got, want = columns
    fmt, share, wrong = cell.result, 0.0, list[str]()
    ranges = allowed(alone(cell), operands)
    for place, (code, reference, *given) in enumerate(zip(got, want, *operands, strict=True)):
        range_ = None if ranges is None or is_special(cell, given) else ranges[place]
        if range_ is not None and within(code, range_, fmt):
            share = max(share, share_of(ordinal(code, fmt) - ordinal(reference, fmt), range_, ordinal(reference, fmt)))
        else:
            shown = ", ".join(f"0x{each:x}" for each in given)
            wrong.append(f"of {shown} it gives 0x{code:x}, the reference 0x{reference:x}, allowed is {range_}")
    return share, wrong


def is_special(cell: Cell, codes: Sequence[int]) -> bool:
    """Whether an operand, or the real result, is a zero, an infinity or a NaN."""
    values = [decode(code, element) for code, element in zip(codes, cell.operands, strict=True)]  # type: ignore[arg-type]
    special = any(value == 0 or not math.isfinite(value) for value in values)
    return special or isinstance(REAL_RULES[cell.row](*values), float)


def share_of(distance: int, range_: tuple[int, int], reference: int) -> float:
    """How much of the way to the end of its range a result goes, in representable numbers."""
    end = range_[distance > 0] - reference
    return distance / end if end else 0.0


def alone(cell: Cell) -> Operation:
    """The row on scalars, for whoever wants an operation."""
    kernel = Kernel()
    made = kernel.make(cell.row, [kernel.number(each) for each in cell.operands], cell.result, dict(cell.attributes))
    assert made.producer is not None
    return made.producer
