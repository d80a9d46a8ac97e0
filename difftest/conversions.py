"""A tile moved between two layouts by compiled code, with a look at every thread's copy of every element.

The kernel numbers the elements of a tile in one layout, converts it to another, and stores what comes out. Of threads
that hold replicas of an element each stores its own: the tile is stretched along one more dimension, whose index tells
the replicas apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler import Compiled, compile_module
from tilewright.interpreter import Buffer, Counters, load_ptx, run_ptx
from tilewright.lang import (
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    OPS,
    Block,
    Builder,
    Function,
    IntType,
    LinearLayout,
    Location,
    Module,
    PointerType,
    ScalarType,
    TileType,
    Value,
    bit_width,
    f2,
    tile_layouts,
)

from .generator.layouts import PlacedTile

LANE, REGISTER, WARP = tile_layouts.LANE, tile_layouts.REGISTER, tile_layouts.WARP
#: Elements that are moved as such, by width in bits; each comes as an integer.
ELEMENTS: Mapping[int, tuple[ScalarType, ...]] = {
    1: (I1,), 8: (I8,), 16: (I16, F16), 32: (I32, F32), 64: (I64, F64, PointerType(I8)),
}  # fmt: skip
SCRAMBLE = 0x9E3779B1
HERE = Location("difftest.conversions", 1, 1)


@dataclass(frozen=True)
class ConversionRun:
    """A conversion as compiled code, and what came of running it."""

    compiled: Compiled
    counters: Counters
    got: NDArray[Any]
    expected: NDArray[Any]

    @cached_property
    def wrong(self) -> int:
        """How many copies of elements are not what they should be."""
        return int(np.count_nonzero(self.got != self.expected[:, None]))


def run_conversion(source: PlacedTile, target: PlacedTile, element: ScalarType, machine: str) -> ConversionRun:
    """Compile a conversion for a target of the compiler's and run it in the emulator, with all its checks."""
    module = conversion_module(source.layout, target.layout, element)
    compiled = compile_module(module, machine, source.num_warps, until="ptx")
    bits = bit_width(element)
    expected = scrambled(prod(source.shape), bits)
    got = np.zeros((len(expected), copies(target.layout)), expected.dtype)
    threads, name = 32 * source.num_warps, compiled.metadata.name
    ptx = load_ptx(str(compiled.stages["ptx"]))
    given = [Buffer.of("out", got.reshape(-1))]
    counters = run_ptx(ptx, name, (1,), (threads,), given, shared_bytes=compiled.metadata.shared)
    return ConversionRun(compiled, counters, got, expected)


def scrambled(count: int, bits: int) -> NDArray[Any]:
    """What the elements of a tile are, one after another: numbers that no linear mistake keeps."""
    mixed = np.arange(count, dtype=np.uint32) * np.uint32(SCRAMBLE)
    mixed ^= mixed >> np.uint32(18)
    if bits == 64:
        return mixed.view(np.int32).astype(np.int64) * SCRAMBLE
    return (mixed & 1).astype(np.int8) if bits == 1 else mixed.astype(f"u{bits // 8}").view(f"i{bits // 8}")


def replicas(layout: LinearLayout) -> list[tuple[str, int]]:
    """The bits of lanes and warps, by name and number, that only make replicas."""
    bits = [(name, at) for name in (REGISTER, LANE, WARP) for at in range(len(layout.bases[name]))]
    pivots = f2.eliminate(layout.transpose(ins=(REGISTER, LANE, WARP)).columns).pivots
    return [bit for at, bit in enumerate(bits) if not pivots >> at & 1 and bit[0] != REGISTER]


def copies(layout: LinearLayout) -> int:
    """How many threads hold each element."""
    return 1 << len(replicas(layout))


def stretched(layout: LinearLayout) -> LinearLayout:
    """The layout of all copies, [elements, copies]: the tile's, with a place of its own for each replica."""
    told_apart = replicas(layout)
    flat = tile_layouts.reshape(layout, (prod(layout.shape), 1)).bases
    bases = {
        name: [
            (vector[0], 1 << told_apart.index((name, at)) if (name, at) in told_apart else 0)
            for at, vector in enumerate(vectors)
            if name != REGISTER or any(vector)
        ]
        for name, vectors in flat.items()
    }
    return LinearLayout.from_bases(bases, {"dim0": prod(layout.shape), "dim1": 1 << len(told_apart)})


def conversion_module(source: LinearLayout, target: LinearLayout, element: ScalarType) -> Module:
    """The kernel. It stores elements as integers, I1 as I8."""
    count, stored = prod(source.shape), IntType(max(8, bit_width(element)))
    body = Block()
    pointer = body.add_argument(PointerType(stored), "out")
    make = _Maker(Builder(body))
    make.builder.location = HERE
    numbers = make.numbers(tile_layouts.reshape(source, (count,)))
    tile = make.shaped(make.as_element(make.mixed(numbers, stored), element), source)
    moved = make.placed("convert_layout", [tile], tile.type, target)
    flat = make.as_integer(make.shaped(moved, tile_layouts.reshape(target, (count,))), stored)
    column = make.placed("expand_dims", [flat], flat.type, tile_layouts.reshape(target, (count, 1)), axis=1)
    all_of_them = stretched(target)
    tall = make.placed("broadcast", [column], flat.type, all_of_them, shape=all_of_them.shape)
    places = make.numbers(tile_layouts.reshape(all_of_them, (prod(all_of_them.shape),)))
    places = make.shaped(places, all_of_them)
    base = make.placed("splat", [pointer], pointer.type, all_of_them, shape=all_of_them.shape)
    address = make.placed("add_ptr", [base, places], pointer.type, all_of_them)
    make.builder.create(OPS["atomic_store"], [address, tall], {"sem": "relaxed"})
    make.builder.create(OPS["return"])
    module = Module()
    module.add(Function("conversion", body, (), {}, [{"divisibility": 16}], HERE))
    return module


class _Maker:
    """Makes operations whose results are placed."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def placed(
        self, name: str, operands: Sequence[Value], element: Any, layout: LinearLayout, **attributes: Any
    ) -> Value:
        scalar = element.element if isinstance(element, TileType) else element
        return self.builder.value(OPS[name], operands, attributes, TileType(layout.shape, scalar, layout))

    def shaped(self, value: Value, layout: LinearLayout) -> Value:
        """A tile with its elements in another shape, in the layout that this makes of its own."""
        return self.placed("reshape", [value], value.type, layout, shape=layout.shape)

    def numbers(self, layout: LinearLayout) -> Value:
        return self.placed("arange", [], I32, layout, start=0, end=layout.shape[0])

    def binary(self, name: str, value: Value, number: int) -> Value:
        layout: Any = value.type.layout if isinstance(value.type, TileType) else None
        constant = self.placed("constant", [], value.type, layout, value=number)
        return self.placed(name, [value, constant], value.type, layout)

    def cast(self, name: str, value: Value, element: ScalarType) -> Value:
        layout: Any = value.type.layout if isinstance(value.type, TileType) else None
        return self.placed(name, [value], element, layout)

    def mixed(self, numbers: Value, stored: IntType) -> Value:
        """What `scrambled` makes of the numbers."""
        value = self.binary("mul_i", numbers, SCRAMBLE - (1 << 32))
        value = self.placed("xor", [value, self.binary("shr_u", value, 18)], I32, _layout(value))
        if stored.width == 64:
            return self.binary("mul_i", self.cast("ext_s", value, I64), SCRAMBLE)
        return value if stored == I32 else self.cast("trunc_i", value, stored)

    def as_element(self, value: Value, element: ScalarType) -> Value:
        """An integer as an element of its width, or its lowest bit."""
        if isinstance(element, PointerType):
            return self.cast("int_to_ptr", value, element)
        if element == I1:
            return self.cast("trunc_i", value, element)
        return value if isinstance(element, IntType) else self.cast("bitcast", value, element)

    def as_integer(self, value: Value, stored: IntType) -> Value:
        """An element as an integer."""
        element = value.type.element if isinstance(value.type, TileType) else I1
        if isinstance(element, PointerType):
            return self.cast("ptr_to_int", value, stored)
        if element == I1:
            return self.cast("ext_u", value, stored)
        return value if isinstance(element, IntType) else self.cast("bitcast", value, stored)


def _layout(value: Value) -> Any:
    return value.type.layout if isinstance(value.type, TileType) else None
