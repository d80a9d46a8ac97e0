"""What the frontend refuses beyond the catalogue's examples, and where it puts the blame."""

import builtins
import enum
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.lang.codegen_tools import from_text, mistake, shown
from tilewright.lang import CompilerBug, Span
from tilewright.lang import language as tl
from tilewright.lang.errors import operations, syntax
from tilewright.lang.frontend import DeviceFunction, constexpr_function, dependencies, device_function, generate
from tilewright.lang.frontend.absent import BUILTIN_ADVICE, TRITON_ADVICE
from tilewright.lang.frontend.admission import PYTHON_BUILTINS, may_call
from tilewright.lang.frontend.walker import REFUSED
from tilewright.lang.values import MEMBERS

CONSTRUCTS = {
    "del n": "`del`",
    "try:\n        pass\n    finally:\n        pass": "`try`",
    "try:\n        pass\n    except* ValueError:\n        pass": "`try`",
    "raise n": "`raise`",
    "with n:\n        pass": "`with`",
    "g = lambda: n": "a lambda",
    "def g():\n        pass": "a function inside the function",
    "class C:\n        pass": "a class",
    "import math": "`import`",
    "from math import pi": "`import`",
    "global x": "`global`",
    "yield n": "`yield`",
    "yield from n": "`yield from`",
    "async def g():\n        pass": "`async`",
    "match n:\n        case 1:\n            pass": "`match`",
    "x = {1: n}": "a dict",
    "x = {n}": "a set",
    "x = {i: i for i in (1, 2)}": "a dict comprehension",
    "x = {i for i in (1, 2)}": "a set comprehension",
    "x = list(i for i in (1, 2))": "a generator expression",
    "a, *b = (n, n)": "a starred target",
    "*a, = (n, n)": "a starred target",
    "n[0] = 1": "an assignment to an element",
    "n.x = 1": "an assignment to an attribute",
    "n[0] += 1": "an assignment to an element",
    "n.x: int = 1": "an assignment to an attribute",
    "x = n ** 2": "`**` of tensors",
    "x = n @ n": "`@` of tensors",
    "x = n in (1, 2)": "`in` of tensors",
    "x = g(**n)": "`**` in a call",
    "x = g[(1,)](n)": "the launch of a kernel",
    "x = b'bytes'": "a bytes literal",
    "x = 2j": "a complex literal",
    "for a, b in range(n):\n        pass": "a loop variable that is no plain name",
    "x = tl.float32[0]": "a subscript of the type float32",
}


@device_function
def g(x):
    return x


@pytest.mark.parametrize("code", CONSTRUCTS)
def test_a_construct_is_refused_by_name(code: str) -> None:
    error = mistake(from_text(f"def f(n):\n    {code}\n", g=g, tl=tl))
    assert isinstance(error, syntax.UnsupportedConstruct)
    assert error.facts["construct"] == CONSTRUCTS[code]
    assert error.facts["advice"] and error.spans[0].line == 2


def test_constructs_without_an_example_cannot_stand_in_a_kernel() -> None:
    """Python itself keeps them out of a plain function, or a `Starred` is met inside of another construct first."""
    examples = {name for name, _ in (REFUSED[kind] for kind in REFUSED)} - set(CONSTRUCTS.values())
    assert examples == {"`nonlocal`", "`async for`", "`async with`", "`await`", "a starred expression here"}


@constexpr_function
def needs_int(n):
    return n + 1


PLAIN = (1, 2)
LIST = [1]


class Odd(enum.Enum):
    """Whatever is asked of its member raises an exception."""

    RED = 1

    def refuse(self, *args: object) -> Any:
        raise RuntimeError("refuses")

    __bool__ = __eq__ = __abs__ = __getitem__ = __format__ = __add__ = __radd__ = refuse  # type: ignore[assignment]
    __hash__ = enum.Enum.__hash__
    fact = property(refuse)

    def method(self) -> None:
        pass


class Pair(NamedTuple):
    a: int
    b: int


def made(value: Any) -> Callable[..., Any]:
    def kernel(n):
        return value

    return kernel


CLASSES: list[tuple[str, type[Exception], str]] = [
    ("x = PLAIN", syntax.NonConstexprGlobal, "`PLAIN` is a tuple of (the constexpr 1, the constexpr 2)"),
    ("x = LIST", syntax.NonConstexprGlobal, "`LIST` is a value of type list"),
    ("x = math.sqrt(n)", syntax.ConstexprNeeded, "the argument of `sqrt` must be known"),
    ("x = needs_int(n)", syntax.ConstexprNeeded, "the argument of `needs_int` must be known"),
    ("x = needs_int('a')", syntax.CompileTimeFailure, "`needs_int` failed at compile time: TypeError"),
    ("x = int(n)", syntax.ConstexprNeeded, "the argument of `int` must be known"),
    ("x = int('q')", syntax.CompileTimeFailure, "ValueError"),
    ("x = (1, 2)[n]", syntax.ConstexprNeeded, "the index of a tuple"),
    ("x = (1, 2)[5]", syntax.BadIndex, "has no element 5"),
    ("x = [i for i in (1, 2) if n]", syntax.ConstexprNeeded, "the filter of a comprehension"),
    ("x = [i for i in range(n)]", syntax.ConstexprNeeded, "the bound of an unrolled range"),
    ("x = [i for i in (1, 2)]\n    y = i", syntax.UnknownName, "`i` is not defined"),
    ("x = f'{n}'", syntax.ConstexprNeeded, "a value in an f-string"),
    ("x: tl.constexpr = n", syntax.ConstexprNeeded, "the constexpr `x`"),
    ("x = 1 < 'a'", syntax.CompileTimeFailure, "TypeError"),
    ("x = -None", syntax.CompileTimeFailure, "`-None` failed at compile time: TypeError"),
    ("x = (n, 1) < (2, 3)", syntax.CompileTimeFailure, "the value of a tensor is not known at compile time"),
    ("x = tl.block_type(tl.float32, 5)", syntax.CompileTimeFailure, "`block_type` failed at compile time"),
    ("x = tl.float32.get_int_max_value()", syntax.CompileTimeFailure, "fp32 has no int_bitwidth"),
    ("x = f'{1:q}'", syntax.CompileTimeFailure, "the f-string failed at compile time: ValueError"),
    ("x = 'abc'.index('q')", syntax.CompileTimeFailure, "ValueError"),
    ("x = isinstance(n, 3)", syntax.CompileTimeFailure, "`isinstance` failed at compile time"),
    ("x = PAIR(1)", operations.BadArguments, "missing a required argument: 'b'"),
    ("x = COLOR(9)", syntax.CompileTimeFailure, "9 is not a valid"),
    ("x = 1 if ODD.RED else 2", syntax.CompileTimeFailure, "the truth of"),
    ("x = ODD.RED and n", syntax.CompileTimeFailure, "the truth of"),
    ("x = [i for i in (1, 2) if ODD.RED]", syntax.CompileTimeFailure, "the truth of"),
    ("x = ODD.RED == 1", syntax.CompileTimeFailure, "refuses"),
    ("x = ODD.RED.fact", syntax.CompileTimeFailure, "refuses"),
    ("x = ODD.RED[0]", syntax.CompileTimeFailure, "refuses"),
    ("x = f'{ODD.RED}'", syntax.CompileTimeFailure, "refuses"),
    ("x = abs(ODD.RED)", syntax.CompileTimeFailure, "refuses"),
    ("x = ODD.RED + n", operations.BadOperands, "does not exist for a value of type Odd"),
    ("x = ODD.RED.method()", syntax.PlainPythonFunction, "`method` is a plain Python function"),
    ("a, b = n", syntax.CannotUnpack, "an int32 scalar cannot be unpacked"),
    ("a, b = (n,)", syntax.CannotUnpack, "a tuple of 1 values"),
    ("for i in tl.range(n, num_stages=n):\n        pass", operations.NeedsConstexpr, "range: `num_stages`"),
    ("for i in range(n, 2.5):\n        pass", operations.BadOperand, "range does not take a float32 scalar"),
    ("x = g(1, 2, 3)", operations.BadArguments, "g: too many positional arguments"),
    ("x = g(1, y=2)", operations.BadArguments, "g: got an unexpected keyword argument 'y'"),
    ("x = len()", operations.BadArguments, "len: missing a required argument"),
    ("x = zip((1, 2))", syntax.UnavailableBuiltin, "unroll over indices"),
    ("x = y\n    y = 1", syntax.NotDefined, "it is assigned only later"),
    ("for i in range(n):\n        x = i\n    y = x", syntax.NotDefined, "only defined inside the loop at line 2"),
    ("for i in range(n):\n        pass\n    y = i", syntax.NotDefined, "only defined inside the loop at line 2"),
    ("if n > 3:\n        pass\n    else:\n        x = n\n    y = x", syntax.NotDefined, "does not hold"),
    ("while tl.arange(0, 4) > n:\n        pass", syntax.TileCondition, "the condition of `while`"),
    ("x = 1 if tl.arange(0, 4) > n else 2", syntax.TileCondition, "the condition of the conditional expression"),
    ("x = n.dtyp", syntax.UnknownAttribute, "did you mean `dtype`?"),
    ("x = None\n    for i in range(n):\n        x = i", syntax.LoopCarriedTypeChanged, "`x` is None before"),
    ("while n > 0:\n        n = n * 0.5", syntax.LoopCarriedTypeChanged, "`n` is an int32 scalar before"),
    ("x: tl.constexpr = 1\n    for i in range(n):\n        x = 2", syntax.ConstexprReassigned, "since line 2"),
    ("if n > 1:\n        return\n    return n", syntax.MismatchedReturns, "f returns None on one path"),
    ("for i in range(n):\n        return i", syntax.MismatchedReturns, "and None on another"),
    ("if n > 1:\n        x = g\n    else:\n        x = tl.sum", syntax.MismatchedBranches, "`x` is the function g"),
]


@pytest.mark.parametrize(("code", "kind", "words"), CLASSES, ids=[code for code, _, _ in CLASSES])
def test_a_mistake_is_of_its_class(code: str, kind: type[Exception], words: str) -> None:
    names = {"PLAIN": PLAIN, "LIST": LIST, "math": math, "needs_int": needs_int, "g": g, "tl": tl}
    names |= {"PAIR": Pair, "COLOR": enum.Enum("COLOR", "RED"), "ODD": Odd}
    error = mistake(from_text(f"def f(n):\n    {code}\n", **names))
    assert type(error) is kind
    assert words in str(error)


def test_a_closure_obeys_the_rule_for_globals() -> None:
    assert isinstance(mistake(made(3)), syntax.NonConstexprGlobal)
    assert isinstance(mistake(made(tl.constexpr(3))), syntax.KernelReturnsValue)


def test_an_unfilled_closure_is_an_unknown_name() -> None:
    def kernel(n):
        return later

    error = mistake(kernel)
    later = 1
    assert isinstance(error, syntax.UnknownName) and later


@device_function
def narrow(x, BLOCK: tl.constexpr):
    return x + tl.arange(0, BLOCK)


@device_function
def middle(x):
    y = narrow(x, 12)
    return y


def test_the_call_chain_runs_from_the_mistake_outward() -> None:
    def kernel(n):
        middle(n)

    text = shown(mistake(kernel), kernel, middle, narrow)
    here = __name__
    assert text.splitlines()[:3] == [
        f"FILE:2:16: in {here}.narrow",
        "    2 |     return x + tl.arange(0, BLOCK)",
        "      |                ^^^^^^^^^^^^^^^^^^^",
    ]
    assert text.splitlines()[-6:] == [
        f"called from FILE:2:9: in {here}.middle",
        "    2 |     y = narrow(x, 12)",
        "      |         ^^^^^^^^^^^^^",
        f"called from FILE:2:9: in {here}.{kernel.__qualname__}",
        "    2 |         middle(n)",
        "      |         ^^^^^^^^^",
    ]


def test_a_mistake_in_a_combining_function_names_the_reduction() -> None:
    @device_function
    def combine(a, b):
        return a + unknown  # noqa: F821

    def kernel(n):
        tl.reduce(tl.arange(0, 4), 0, combine)

    error = mistake(kernel)
    assert [span.text.strip() for span in error.spans] == [
        "return a + unknown  # noqa: F821",
        "tl.reduce(tl.arange(0, 4), 0, combine)",
    ]


def test_columns_count_characters_and_tabs_stay() -> None:
    error = mistake(from_text("def f(n):\n\té = 'äöü'; x = missing\n"))
    span = error.spans[0]
    assert (span.line, span.column, span.end_column) == (2, 17, 24)
    assert span.render().splitlines()[1] == "      | \t" + " " * 15 + "^" * 7


def test_a_span_over_several_lines_underlines_the_first_to_its_end() -> None:
    error = mistake(from_text("def f(n):\n    x = n(\n        3,\n    )\n"))
    assert (error.spans[0].line, error.spans[0].end_line) == (2, 4)
    assert error.spans[0].render().splitlines()[1].endswith("^^")


def test_a_changed_file_is_noticed() -> None:
    f = from_text("def f(n):\n    pass\n")
    f.__code__ = f.__code__.replace(co_name="other")
    error = mistake(f)
    assert isinstance(error, syntax.SourceUnavailable) and "has the file changed?" in str(error)


def test_other_things_than_functions_are_refused() -> None:
    async def waiting():
        pass

    for value, words in ((int, "the class int"), (3, "the int int"), (waiting, "the async function waiting")):
        with pytest.raises(syntax.NotAKernelFunction) as caught:
            DeviceFunction(value)
        assert words in str(caught.value)


def test_an_unexpected_exception_is_our_bug() -> None:
    class Broken(tl.dtype):
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("unforeseen")

        __hash__ = tl.dtype.__hash__

    def kernel(n, kind: tl.constexpr):
        tl.full((4,), n, kind)

    with pytest.raises(CompilerBug, match=r"RuntimeError: unforeseen .*kernel.*:\d+:9"):
        generate(DeviceFunction(kernel), {"n": tl.int32}, {"kind": Broken("fp32")})


def test_spans_are_values() -> None:
    error = mistake(from_text("def f(n):\n    x = y\n"))
    (span,) = error.spans
    assert span == Span(span.file, "texts.f", 2, 9, 2, 10, "    x = y")


def test_deep_code_is_refused_where_it_is() -> None:
    deep = device_function(from_text("def f(x):\n    return " + " + ".join(["x"] * 1500) + "\n"))

    def kernel(n):
        deep(n)

    error = mistake(kernel)
    assert isinstance(error, syntax.NestedTooDeeply)
    assert error.spans[0].text == "def f(x):"
    assert dependencies(DeviceFunction(kernel))[0].value is deep


def test_every_missing_name_of_triton_is_missing() -> None:
    assert [name for name in TRITON_ADVICE if hasattr(tl, name) or name in MEMBERS] == []
    assert [name for name in BUILTIN_ADVICE if name in PYTHON_BUILTINS or not hasattr(builtins, name)] == []


def test_only_what_cannot_change_may_be_called() -> None:
    allowed = (math.sqrt, abs, int, tuple, Pair, Odd, tl.load, tl.cdiv, tl.dtype, needs_int, "a".upper, tl.int8.is_int)
    refused = (np.zeros, np.float32, np.exp, functools.reduce, functools.partial, made, dict, sorted, type, object)
    assert [each for each in allowed if not may_call(each)] == []
    assert [each for each in refused if may_call(each)] == []
