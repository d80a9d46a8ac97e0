"""Functions: parameters, calls, specialisation, compile-time values, sources."""

import collections
import enum
import linecache
import math
from typing import NamedTuple

import pytest

from tests.lang.codegen_tools import compile_kernel, mistake, names_of, text_of
from tilewright.lang import CompilationError, Location, Module
from tilewright.lang import language as tl
from tilewright.lang.context import Options
from tilewright.lang.frontend import (
    ConstexprFunction,
    DeviceFunction,
    constexpr_function,
    dependencies,
    device_function,
    generate,
    used_globals,
)

N = tl.constexpr(8)
ANNOTATED: tl.constexpr = 16
TYPE = tl.float16
NOTHING = None


class Mode(enum.Enum):
    FAST = 1
    SAFE = 2


class Pair(NamedTuple):
    first: object
    second: object


Point = collections.namedtuple("Point", "x y")


@constexpr_function
def half(n):
    return n // 2


@device_function
def add(x, y=3, *, scale: tl.constexpr = 2):
    return (x + y) * scale


@device_function
def total(*values):
    result = 0
    for value in values:
        result += value
    return result


@device_function
def both(x):
    return x, x + 1


@device_function
def factorial(n: tl.constexpr):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@device_function
def pick(pair):
    return pair.second


@device_function
def apply(f, x):
    return f(x)


@device_function
def double(x):
    return x + x


def results(module: Module, name: str) -> tuple[str, ...]:
    return tuple(map(str, module.functions[name].result_types))


def test_a_device_function_is_emitted_once_for_each_specialisation() -> None:
    def kernel(n):
        a = add(n)
        b = add(n + 1)
        c = add(n, 4)
        d = add(n, y=3)
        tl.device_print("", a, b, c, d)

    module = compile_kernel(kernel)
    assert list(module.functions) == ["kernel", "add", "add_1"]
    callees = [op.attributes["callee"] for op in module.kernel.walk() if op.name == "call"]
    assert callees == ["add", "add", "add_1", "add"]


def test_runtime_and_compile_time_arguments_specialise_differently() -> None:
    def kernel(n):
        three = 3
        tl.device_print("", add(n, three), add(n, 3))

    module = compile_kernel(kernel)
    assert [len(f.arguments) for f in module.functions.values()] == [1, 2, 1]


def test_compile_time_results_survive_the_call() -> None:
    def kernel():
        tl.device_print("", tl.arange(0, factorial(4) + N))

    assert "arange {start = 0, end = 32}" in text_of(kernel)


def test_keyword_only_parameters_and_defaults() -> None:
    def kernel(n):
        tl.device_print("", add(n, scale=5))

    assert "constant {value = 5} : i32" in text_of(kernel)


def test_star_args_take_and_spread_tuples() -> None:
    def kernel(n):
        values = (n, n + 1)
        tl.device_print("", total(n, *values))

    module = compile_kernel(kernel)
    assert len(module.functions["total"].arguments) == 3


def test_several_results() -> None:
    def kernel(n):
        a, b = both(n)
        tl.device_print("", a, b)

    assert results(compile_kernel(kernel), "both") == ("i32", "i32")


def test_named_tuples_keep_their_fields_through_calls() -> None:
    def kernel(n):
        tl.device_print("", pick(Pair(n, n * 2)), pick(Point(1, n)) if False else n)

    assert results(compile_kernel(kernel), "pick") == ("i32",)


def test_a_function_is_an_argument() -> None:
    def kernel(n):
        tl.device_print("", apply(double, n))

    module = compile_kernel(kernel)
    assert list(module.functions) == ["kernel", "apply", "double"]


def test_a_function_without_return_gives_none() -> None:
    def kernel(p):
        nothing = tl.store(p, 1.0)
        tl.static_assert(nothing is None)

    assert "store" in names_of(compile_kernel(kernel, p="*fp32"))


def test_names_from_outside() -> None:
    closed = tl.constexpr(2)
    kind = tl.int16

    def kernel(p):
        x = tl.full((N, ANNOTATED), 0, TYPE).to(kind) * closed
        tl.static_assert(NOTHING is None and Mode.FAST is not Mode.SAFE)
        tl.static_assert(math.pi > 3 and half(N) == 4 and math.log2(8) == 3)
        tl.store(p + tl.zeros((N, ANNOTATED), tl.int32), x)

    assert "tile<8x16xi16>" in text_of(kernel, p="*i16")


def test_a_tuple_parameter_has_an_argument_for_each_tensor() -> None:
    def kernel(pair, c):
        p, q = pair
        tl.store(p, q * pair[1] + c[1])

    module = generate(
        DeviceFunction(kernel),
        {"pair": (tl.pointer_type(tl.int32), tl.int32)},
        {"c": (1, 2)},
        {"pair": {"divisibility": 16}},
    )
    assert [str(v.type) for v in module.kernel.arguments] == ["ptr<i32>", "i32"]
    assert module.kernel.argument_attributes == [{"divisibility": 16}, {"divisibility": 16}]


def test_locations_are_absolute_and_name_the_function() -> None:
    def kernel(p):
        x = tl.load(p)
        tl.store(p, x + 1)

    first = kernel.__code__.co_firstlineno
    module = compile_kernel(kernel, p="*i32")
    name = f"{__name__}.{kernel.__qualname__}"
    assert module.kernel.location == Location(name, first, 5)
    places = {op.name: op.location for op in module.kernel.walk()}
    assert places["load"] == Location(name, first + 1, 13)
    assert places["add_i"] == Location(name, first + 2, 21)
    assert places["store"] == Location(name, first + 2, 9)


def test_locations_survive_decorators_and_continuation_lines() -> None:
    @device_function
    def kernel(
        p,
    ):
        tl.store(
            p,
            tl.load(p) + 1,
        )

    first = kernel.function.__code__.co_firstlineno
    module = compile_kernel(kernel, p="*i32")
    places = {op.name: op.location.line - first for op in module.kernel.walk()}
    assert (places["store"], places["load"]) == (4, 6)
    assert module.kernel.location.line == first + 1


def test_variables_name_their_values() -> None:
    def kernel(p):
        offset = tl.program_id(0) * 4
        tl.store(p + offset, 1.0)

    text = text_of(kernel, p="*fp32")
    assert "%offset = mul_i" in text and "kernel @kernel(%p: ptr<f32>)" in text


def test_a_multi_line_string_in_an_indented_function_is_kept() -> None:
    def kernel():
        tl.device_print(
            """a
b""",
            1,
        )

    assert '"a\\nb"' in text_of(kernel)


def test_dependencies_are_what_the_source_can_reach() -> None:
    def kernel(p):
        x = add(tl.load(p), N)
        tl.store(p, apply(double, x) + half(ANNOTATED))

    found = dependencies(DeviceFunction(kernel))
    names = [(d.function.name, d.name) for d in found]
    assert names == [
        ("kernel", "ANNOTATED"),
        ("kernel", "N"),
        ("kernel", "add"),
        ("kernel", "apply"),
        ("kernel", "double"),
        ("kernel", "half"),
    ]
    assert [d.current() is d.value for d in found] == [True] * len(found)
    assert list(used_globals(DeviceFunction(kernel)).values()) == [16, 8, half]


def test_dependencies_follow_calls_once_and_look_up_the_present_value() -> None:
    space = {"__name__": "changing", "device_function": device_function, "K": tl.constexpr(1)}
    text = "@device_function\ndef g(x):\n    return x + K\n@device_function\ndef f(x):\n    return g(g(x)) + f(x)\n"
    linecache.cache["<changing>"] = (len(text), None, text.splitlines(keepends=True), "<changing>")
    exec(compile(text, "<changing>", "exec"), space)
    found = dependencies(space["f"])
    assert [d.name for d in found] == ["f", "g", "K"]
    space["K"] = tl.constexpr(2)
    assert found[-1].value.value == 1 and found[-1].current().value == 2


def test_constexpr_functions_run_on_the_host_too() -> None:
    assert isinstance(half, ConstexprFunction)
    assert half(9) == 4 and half(tl.constexpr(6)) == 3


def test_a_device_function_does_not_run_on_the_host() -> None:
    with pytest.raises(CompilationError, match="add was called outside of a kernel"):
        add(1, 2)


def test_the_traceback_holds_no_frames_of_the_walk() -> None:
    def kernel(n):
        unknown(n)  # noqa: F821

    error = mistake(kernel)
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert frames == ["mistake", "compile_kernel", "generate"]
    assert error.__cause__ is None and error.__suppress_context__


def test_the_cause_of_a_compile_time_failure_is_kept() -> None:
    def kernel():
        tl.static_print(half("x"))

    assert isinstance(mistake(kernel).__cause__, TypeError)


def test_debug_options_reach_the_operations() -> None:
    def kernel(n):
        assert n > 0, "positive"

    assert "assert" not in names_of(compile_kernel(kernel))
    module = generate(DeviceFunction(kernel), {"n": tl.int32}, {}, options=Options(debug=True))
    assert "assert" in names_of(module)
