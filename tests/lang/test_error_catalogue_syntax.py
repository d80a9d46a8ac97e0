"""One real mistake for each class of the catalogue in `lang/errors/syntax.py`, with the full text of its error.

Line numbers count from the `def` of the function, and FILE is this file.
"""

# ruff: noqa: B007, F821, F841

import inspect
import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lang.catalogue import Case, error_of, read_cases, report_of
from tests.lang.codegen_tools import mistake, shown
from tilewright.lang import CompilationError
from tilewright.lang import language as tl
from tilewright.lang.errors import syntax
from tilewright.lang.frontend import constexpr_function, device_function

SIZE = 4


def plain(x):
    return x


@constexpr_function
def checked(n):
    if n % 2:
        raise ValueError(f"{n} is odd")
    return n


@device_function
def tile(x, BLOCK: tl.constexpr):
    return x + tl.arange(0, BLOCK)


@device_function
def forever(x, n: tl.constexpr):
    return forever(x, n + 1)


@device_function
def again(x):
    return again(x - 1) if x > 0 else x


def defined(text: str, file: str, keep: bool) -> Any:
    """The function `f` of a source that `inspect` finds only if it is kept."""
    if keep:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "elsewhere"}
    exec(compile(text, file, "exec"), space)
    return space["f"]


#: More mistakes in kernels, from a file.
TEXTS = read_cases(Path(__file__).parent / "error_texts" / "syntax.txt")
#: (class, what is compiled, the text of the error)
CASES: list[tuple[type[CompilationError], Any, str]] = []


def case(kind: type[CompilationError], text: str) -> Callable[[Any], Any]:
    """Add a case: the kernel under this decorator, and the text of its error without the first newline."""

    def add(kernel: Any) -> Any:
        CASES.append((kind, kernel, text.removeprefix("\n").removesuffix("\n")))
        return kernel

    return add


@case(
    syntax.UnsupportedConstruct,
    """
FILE:2:5: in tests.lang.test_error_catalogue_syntax.unsupported_construct
    2 |     try:
      |     ^^^^
error: `try` cannot be used in a kernel
hint: errors do not exist at run time; test for them
""",
)
def unsupported_construct(n):
    try:
        n = n + 1
    except ValueError:
        pass


@case(
    syntax.UnknownName,
    """
FILE:3:29: in tests.lang.test_error_catalogue_syntax.unknown_name
    3 |     tl.static_print(é, "ü", pain(n))
      |                             ^^^^
error: `pain` is not defined
hint: did you mean `plain`?
""",
)
def unknown_name(n):
    é = "ü"
    tl.static_print(é, "ü", pain(n))


@case(
    syntax.NotDefined,
    """
FILE:4:26: in tests.lang.test_error_catalogue_syntax.not_defined
    4 |     tl.device_print("x", x)
      |                          ^
error: `x` is not defined here: it is only defined when the condition at line 2 holds
hint: give it a value before, with the type that it has later
""",
)
def not_defined(n):
    if n > 3:
        x = n
    tl.device_print("x", x)


@case(
    syntax.UnknownAttribute,
    """
FILE:2:5: in tests.lang.test_error_catalogue_syntax.unknown_attribute
    2 |     tl.sotre(p, n)
      |     ^^^^^^^^
error: the module tilewright.language has no attribute `sotre`
hint: did you mean `store`?
""",
)
def unknown_attribute(p, n):
    tl.sotre(p, n)


@case(
    syntax.NonConstexprGlobal,
    """
FILE:2:13: in tests.lang.test_error_catalogue_syntax.non_constexpr_global
    2 |     x = n + SIZE
      |             ^^^^
error: `SIZE` is the Python value 4 from outside of the kernel
expected: a constexpr, None, a dtype, a module, or a function of kernels
hint: write `SIZE = tl.constexpr(...)` there, or pass it as a parameter
""",
)
def non_constexpr_global(n):
    x = n + SIZE


@case(
    syntax.PlainPythonFunction,
    """
FILE:2:9: in tests.lang.test_error_catalogue_syntax.plain_python_function
    2 |     x = plain(n)
      |         ^^^^^
error: `plain` is a plain Python function
expected: a function of `tl` or `math`, or one decorated with @tilewright.jit or @tilewright.constexpr_function
hint: decorate it: @tilewright.jit compiles it, @tilewright.constexpr_function runs it at compile time
""",
)
def plain_python_function(n):
    x = plain(n)


@case(
    syntax.ConstexprReassigned,
    """
FILE:3:5: in tests.lang.test_error_catalogue_syntax.constexpr_reassigned
    3 |     x = 4
      |     ^
error: `x` is a constexpr since line 2 and cannot change
hint: use another name, or drop the annotation to make it a runtime value
""",
)
def constexpr_reassigned(n):
    x: tl.constexpr = 3
    x = 4


@case(
    syntax.NotCallable,
    """
FILE:2:5: in tests.lang.test_error_catalogue_syntax.not_callable
    2 |     n(3)
      |     ^^^^
error: an int32 scalar is no function
expected: a function of `tl`, a device function, or a method
""",
)
def not_callable(n):
    n(3)


@case(
    syntax.ConstexprParameter,
    """
FILE:2:5: in tests.lang.test_error_catalogue_syntax.constexpr_parameter
    2 |     tile(n, n)
      |     ^^^^^^^^^^
error: tile: parameter `BLOCK` is a constexpr, but the argument is an int32 scalar
expected: a value known at compile time
hint: pass a literal or a constexpr, or drop `tl.constexpr` from the parameter
""",
)
def constexpr_parameter(n):
    tile(n, n)


@case(
    syntax.ConstexprNeeded,
    """
FILE:2:14: in tests.lang.test_error_catalogue_syntax.constexpr_needed
    2 |     for i in tl.static_range(n):
      |              ^^^^^^^^^^^^^^^^^^
error: the bound of an unrolled range must be known at compile time, but it is an int32 scalar
expected: a constexpr
hint: loop with `for ... in tl.range(...)` instead
""",
)
def constexpr_needed(n):
    for i in tl.static_range(n):
        pass


@case(
    syntax.CompileTimeFailure,
    """
FILE:2:9: in tests.lang.test_error_catalogue_syntax.compile_time_failure
    2 |     x = checked(3)
      |         ^^^^^^^^^^
error: `checked` failed at compile time: ValueError: 3 is odd
""",
)
def compile_time_failure(n):
    x = checked(3)


@case(
    syntax.EndlessRecursion,
    """
FILE:2:12: in tests.lang.test_error_catalogue_syntax.again
    2 |     return again(x - 1) if x > 0 else x
      |            ^^^^^^^^^^^^
error: again calls itself again with arguments of the same types and no other compile-time values
expected: a recursion that compile-time values end, at most 40 calls deep
hint: there is no recursion at run time; use a loop
called from FILE:2:5: in tests.lang.test_error_catalogue_syntax.endless_recursion
    2 |     again(n)
      |     ^^^^^^^^
""",
)
def endless_recursion(n):
    again(n)


@case(
    syntax.CallsTooDeep,
    """
FILE:2:12: in tests.lang.test_error_catalogue_syntax.forever
    2 |     return forever(x, n + 1)
      |            ^^^^^^^^^^^^^^^^^
error: the call of forever is nested more than 40 calls deep
expected: at most 40 calls inside of each other, recursive ones included
hint: use a loop
called from FILE:2:5: in tests.lang.test_error_catalogue_syntax.calls_too_deep
    2 |     forever(n, 0)
      |     ^^^^^^^^^^^^^
""",
)
def calls_too_deep(n):
    forever(n, 0)


@case(
    syntax.CannotUnpack,
    """
FILE:2:5: in tests.lang.test_error_catalogue_syntax.cannot_unpack
    2 |     a, b = n, n, n
      |     ^^^^
error: a tuple of 3 values cannot be unpacked into 2 names
expected: a tuple of 2 values
""",
)
def cannot_unpack(n):
    a, b = n, n, n


@case(
    syntax.MismatchedBranches,
    """
FILE:4:9: in tests.lang.test_error_catalogue_syntax.mismatched_branches
    4 |         x = 2.5
      |         ^
error: `x` is a float32 scalar where the condition at line 3 holds, and an int32 scalar where it does not
expected: one type on both paths
hint: cast one of them, or use two names
""",
)
def mismatched_branches(n):
    x = n
    if n > 3:
        x = 2.5


@case(
    syntax.MismatchedTernary,
    """
FILE:2:9: in tests.lang.test_error_catalogue_syntax.mismatched_ternary
    2 |     x = n if n > 3 else 2.5
      |         ^^^^^^^^^^^^^^^^^^^
error: the conditional expression is an int32 scalar where its condition holds, and a float32 scalar where it does not
expected: one type
hint: cast one of them, for example `x.to(tl.float32)`
""",
)
def mismatched_ternary(n):
    x = n if n > 3 else 2.5


@case(
    syntax.LoopCarriedTypeChanged,
    """
FILE:4:9: in tests.lang.test_error_catalogue_syntax.loop_carried_type_changed
    4 |         total += tl.arange(0, 4)
      |         ^^^^^^^^^^^^^^^^^^^^^^^^
error: `total` is an int32 scalar before the loop at line 3, and an int32 tile of shape (4,) after an iteration
expected: one type throughout
hint: start with the final type, for example `tl.zeros(shape, dtype)`, or use another name inside
""",
)
def loop_carried_type_changed(n):
    total = 0
    for i in range(n):
        total += tl.arange(0, 4)


@case(
    syntax.MismatchedReturns,
    """
FILE:4:5: in tests.lang.test_error_catalogue_syntax.mismatched_returns
    4 |     return 2.5
      |     ^^^^^^^^^^
error: mismatched_returns returns an int32 scalar on one path and the constexpr 2.5 on another
expected: one type on every path
hint: cast the values to one type, and end every path with a `return`
""",
)
def mismatched_returns(n):
    if n > 3:
        return n
    return 2.5


@case(
    syntax.KernelReturnsValue,
    """
FILE:4:5: in tests.lang.test_error_catalogue_syntax.kernel_returns_value
    4 |     return 7
      |     ^^^^^^^^
error: the kernel kernel_returns_value returns an int32 scalar
expected: a bare `return`
hint: store results through pointers
""",
)
def kernel_returns_value(n):
    if n > 3:
        return n
    return 7


@case(
    syntax.TileCondition,
    """
FILE:2:8: in tests.lang.test_error_catalogue_syntax.tile_condition
    2 |     if tl.arange(0, 4) > n:
      |        ^^^^^^^^^^^^^^^^^^^
error: the condition of `if` is an int1 tile of shape (4,)
expected: a scalar; which way would a tile go?
hint: select elements with `tl.where(condition, x, y)`, or reduce the tile to a scalar first
""",
)
def tile_condition(n):
    if tl.arange(0, 4) > n:
        return


@case(
    syntax.NotIterable,
    """
FILE:2:14: in tests.lang.test_error_catalogue_syntax.not_iterable
    2 |     for i in n:
      |              ^
error: a loop over an int32 scalar
expected: `range`, `tl.range`, `tl.static_range` or a tuple
""",
)
def not_iterable(n):
    for i in n:
        pass


@case(
    syntax.ZeroStep,
    """
FILE:2:5: in tests.lang.test_error_catalogue_syntax.zero_step
    2 |     for i in range(0, n, 0):
      |     ^^^^^^^^^^^^^^^^^^^^^^^^
error: the step of the range is 0
expected: a positive or negative step
""",
)
def zero_step(n):
    for i in range(0, n, 0):
        pass


@case(
    syntax.EndlessLoop,
    """
FILE:2:5: in tests.lang.test_error_catalogue_syntax.endless_loop
    2 |     while True:
      |     ^^^^^^^^^^^
error: the condition of the loop is always true, and nothing leaves the loop
hint: end it with `break` or `return`
""",
)
def endless_loop(n):
    while True:
        n += 1


# --- mistakes that no kernel holds ---


@case(
    syntax.NotAKernelFunction,
    """
error: a lambda cannot be compiled
expected: a function written with `def`
""",
)
def a_lambda():
    device_function(lambda x: x)


@case(
    syntax.UnsupportedParameter,
    """
error: kernel: `**options` cannot be a parameter of a kernel
expected: positional or keyword parameters, with or without defaults, and `*args`
""",
)
def keyword_dictionary():
    @device_function
    def kernel(n, **options):
        pass


@case(
    syntax.CalledOutsideKernel,
    """
error: tile was called outside of a kernel
hint: launch it as `kernel[grid](...)`, or call it from a function decorated with @tilewright.jit
""",
)
def on_the_host():
    tile(1, 2)


@case(
    syntax.SourceUnavailable,
    """
error: the source of elsewhere.f cannot be read: there is no text of <nowhere>
hint: define the kernel in a file or a notebook cell; `exec` and the prompt keep no source
""",
)
def without_source():
    mistake_of(defined("def f(n):\n    pass\n", "<nowhere>", keep=False))


@case(
    syntax.NestedTooDeeply,
    """
<deep>:1:1: in elsewhere.f
    1 | def f(n):
      | ^^^^^^^^^
error: the code is nested too deeply
hint: split long expressions, chains of `elif` and rows of `if ...: return`, or move parts into device functions
""",
)
def nested():
    terms = " +\n    ".join(["n"] * 600)
    mistake_of(defined(f"def f(n):\n    x = ({terms})\n", "<deep>", keep=True))


def mistake_of(kernel: Any) -> None:
    raise mistake(kernel)


def text_of(kernel: Any) -> str:
    """The text of the error that compiling a kernel, or calling a function without parameters, gives."""
    if inspect.signature(kernel).parameters:
        return shown(mistake(kernel, p="*i32"), kernel, forever, again)
    with pytest.raises(CompilationError) as caught:
        kernel()
    return str(caught.value)


@pytest.mark.parametrize(("kind", "kernel", "text"), CASES, ids=[kind.__name__ for kind, _, _ in CASES])
def test_the_full_text_of_the_error(kind: type[CompilationError], kernel: Any, text: str) -> None:
    assert text_of(kernel) == text


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: f"{text.kind}: {text.body}")
def test_the_report(text: Case, tmp_path: Path) -> None:
    error = error_of(text.body, tmp_path)
    assert report_of(error, tmp_path) == text.report
    assert type(error).__name__ == text.kind


def test_no_class_is_missing() -> None:
    classes = {
        value
        for value in vars(syntax).values()
        if inspect.isclass(value) and issubclass(value, CompilationError) and value is not CompilationError
    }
    assert {kind for kind, _, _ in CASES} | {getattr(syntax, each.kind) for each in TEXTS} == classes


def test_no_report_has_an_empty_line() -> None:
    reports = [text for _, _, text in CASES] + [each.report for each in TEXTS]
    assert [text for text in reports if re.search(r"^\w+: *$", text, re.MULTILINE)] == []


def test_a_class_without_a_fact_says_so_at_once() -> None:
    with pytest.raises(KeyError):
        syntax.NotCallable(found="None")
    assert str(syntax.NotCallable(found="None", hint="")).splitlines()[-1].startswith("expected: ")


def test_each_mistake_is_of_its_class() -> None:
    for kind, kernel, _ in CASES:
        if inspect.signature(kernel).parameters:
            assert type(mistake(kernel, p="*i32")) is kind, kind
        else:
            with pytest.raises(kind):
                kernel()
