"""Axis analysis is sound: what it claims of a value holds of the elements that the interpreter computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.building import HERE
from tilewright import lang
from tilewright.compiler.analysis.axis import AxisInfo, axis_analysis
from tilewright.interpreter import run_function
from tilewright.lang import I8, I32, I64, OPS, Block, Builder, Function, Module, TileType, Value, element_of, shape_of

BINARY = ("add_i", "sub_i", "mul_i", "div_u", "div_s", "rem_u", "rem_s", "shl", "shr_u", "shr_s", "and", "or", "xor",
          "min_s", "max_u")  # fmt: skip
COMPARISONS = tuple(name for name in OPS if name.startswith("cmp_") and not name.endswith("_f"))
CASTS = {
    I8: (("ext_s", I32), ("ext_u", I64)),
    I32: (("ext_s", I64), ("ext_u", I64), ("trunc_i", I8)),
    I64: (("trunc_i", I32),),
}
VALUES = (0, 1, 2, 3, 4, 8, 12, 16, 24, 64, 100, 127, 128, 255, -1, -2, -8, -128)


class Growth:
    """A function of integers while it is drawn; every value made is returned."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.divisor = draw(st.sampled_from([1, 2, 4, 16]))
        self.body = Block([I32], ["n"])
        self.builder = Builder(self.body)
        self.builder.location = HERE
        self.values: list[Value] = list(self.body.arguments)

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def make(self, name: str, operands: list[Value], result: Any = None, **attributes: Any) -> Value:
        value = self.builder.value(OPS[name], operands, attributes, result)
        self.values.append(value)
        return value

    def grow(self) -> None:
        kind = self.pick(
            ["arange", "constant", "splat", "binary", "binary", "binary", "compare", "select", "cast", "shape"]
        )
        getattr(self, kind)()

    def arange(self) -> None:
        start = self.pick([0, 0, 4, 3, -8, 120])
        self.make("arange", [], start=start, end=start + self.pick([4, 16, 32]))

    def constant(self) -> None:
        element = self.pick([I8, I32, I64])
        shape = self.pick([(), (16,), (32,), (4, 16)])
        value = self.pick(VALUES)
        value = value if -(1 << element.width - 1) <= value < 1 << element.width else 1
        self.make("constant", [], TileType(shape, element) if shape else element, value=value)

    def splat(self) -> None:
        scalars = [v for v in self.values if not shape_of(v.type)]
        self.make("splat", [self.pick(scalars)], shape=self.pick([(16,), (32,), (4, 16)]))

    def alike(self, value: Value) -> Value:
        return self.pick([v for v in self.values if v.type == value.type])

    def binary(self) -> None:
        a = self.pick([v for v in self.values if element_of(v.type) in (I8, I32, I64)])
        self.make(self.pick(BINARY), [a, self.alike(a)])

    def compare(self) -> None:
        a = self.pick([v for v in self.values if element_of(v.type) in (I8, I32, I64)])
        self.make(self.pick(COMPARISONS), [a, self.alike(a)])

    def select(self) -> None:
        flags = [v for v in self.values if str(element_of(v.type)) == "i1"]
        if flags:
            flag = self.pick(flags)
            same = [v for v in self.values if shape_of(v.type) == shape_of(flag.type) and v not in flags]
            if same:
                a = self.pick(same)
                self.make("select", [flag, a, self.alike(a)])

    def cast(self) -> None:
        a = self.pick([v for v in self.values if element_of(v.type) in CASTS])
        name, to = self.pick(CASTS[element_of(a.type)])  # type: ignore[index]
        self.make(name, [a], lang.with_element(a.type, to))

    def shape(self) -> None:
        a = self.pick(self.values)
        extents = shape_of(a.type)
        if len(extents) == 1:
            made = self.make("expand_dims", [a], axis=self.pick([0, 1]))
            wide = tuple(4 if e == 1 else e for e in shape_of(made.type))
            self.make("broadcast", [made], shape=wide)
        elif len(extents) == 2:
            self.make("permute", [a], order=(1, 0))

    def function(self) -> Function:
        self.builder.create(OPS["return"], self.values)
        types = tuple(value.type for value in self.values)
        return Function("f", self.body, types, {}, [{"divisibility": self.divisor}], HERE)


@st.composite
def functions(draw: Any) -> tuple[Function, int]:
    """A function and a value for its argument that keeps the promise on it."""
    growth = Growth(draw)
    for _ in range(draw(st.integers(3, 14))):
        growth.grow()
    return growth.function(), growth.divisor * draw(st.sampled_from([0, 1, 2, 5, 16, -1, -6, 1 << 24]))


def holds(info: AxisInfo, array: Any, axis: int) -> bool:
    """Whether the facts along one axis are true of an array of integers."""
    lines = np.moveaxis(array, axis, -1).astype(np.int64)
    extent, bits = lines.shape[-1], 1 if array.dtype == np.bool_ else 8 * array.dtype.itemsize
    wrap = -1 if bits == 64 else (1 << bits) - 1
    runs = lines.reshape(-1, extent // info.contiguity[axis], info.contiguity[axis])
    rising = ((np.diff(runs, axis=-1) - 1) & wrap == 0).all()
    divided = (runs[..., 0] % info.divisibility[axis] == 0).all()
    equal = lines.reshape(-1, extent // info.constancy[axis], info.constancy[axis])
    return bool(rising and divided and (equal == equal[..., :1]).all())


@settings(max_examples=300, deadline=None)
@given(functions())
def test_the_claims_hold(drawn: tuple[Function, int]) -> None:
    function, argument = drawn
    module = Module()
    unused = Function("kernel", Block(), (), {}, [], HERE)
    builder = Builder(unused.body)
    builder.location = HERE
    builder.create(OPS["return"])
    module.add(unused)
    module.add(function)
    facts = axis_analysis(function)
    arrays = run_function(module, "f", [np.array([argument], np.int32)])
    for value, array in zip(function.body.terminator.operands, arrays, strict=True):
        info = facts[value]
        elements = array[0] if shape_of(value.type) else array[:1]
        for axis in range(len(info.contiguity)):
            assert holds(info, elements, axis), f"{lang.print_operation(value.producer)}: {info}"  # type: ignore[arg-type]
        if info.value is not None:
            assert (elements.astype(np.int64) & -1 == info.value).all() or elements.dtype == np.bool_


def facts_of(source: str, name: str) -> AxisInfo:
    module = lang.parse_module(source)
    facts = axis_analysis(module.kernel)
    return next(info for value, info in facts.items() if value.name == name)


def test_offsets_of_a_program_are_contiguous_and_aligned() -> None:
    info = facts_of("""
        module {
        kernel @k(%p: ptr<f32> {divisibility = 16}, %n: i32 {divisibility = 16}) {
          %pid = program_id {axis = 0} : i32
          %size = constant {value = 1024} : i32
          %first = mul_i %pid, %size : i32
          %start = splat %first {shape = (1024,)} : tile<1024xi32>
          %lanes = arange {start = 0, end = 1024} : tile<1024xi32>
          %offsets = add_i %start, %lanes : tile<1024xi32>
          %many = splat %n {shape = (1024,)} : tile<1024xi32>
          %mask = cmp_lt_s %offsets, %many : tile<1024xi1>
          %base = splat %p {shape = (1024,)} : tile<1024xptr<f32>>
          %at = add_ptr %base, %offsets : tile<1024xptr<f32>>
          return
        }
        }""", "at")  # fmt: skip
    assert info.contiguity == (1024,) and info.divisibility == (16,)


def test_a_loop_keeps_what_every_round_keeps() -> None:
    info = facts_of("""
        module {
        kernel @k(%p: ptr<f32> {divisibility = 16}, %n: i32) {
          %zero = constant {value = 0} : i32
          %step = constant {value = 8} : i32
          %r = for %zero, %n, %step, %zero : i32 {
          ^body(%i: i32, %c: i32):
            %next = add_i %c, %i : i32
            yield %next
          }
          %out = add_i %r, %zero : i32
          return
        }
        }""", "r")  # fmt: skip
    assert info.divisibility == (8,)
