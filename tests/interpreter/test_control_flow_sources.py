"""The same source run by Python and, compiled, by the executor: random control flow, and some known algorithms."""

import itertools
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.interpreter import run_function
from tilewright.lang import language as tl
from tilewright.lang.frontend import device_function, generate
from tilewright.lang.language import int32, uint32

NAMES = ("x", "y", "z")
INPUTS = [(a, b) for a in (0, 1, 2, 5, 13) for b in (0, 3, 7)]
_numbers = itertools.count()


def define(text: str, **names: Any) -> dict[str, Any]:
    """Execute a source that `inspect` can find."""
    file = f"<control flow {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"__name__": "sources", **names}
    exec(compile(text, file, "exec"), space)
    return space


def compiled(text: str, inputs: list[tuple[int, int]], dtype: Any = int32) -> list[tuple[int, ...]]:
    """What `f(a, b)` of the source returns for each input, in tile IR."""
    text = text.replace("def ", "@device_function\ndef ")
    driver = "@device_function\ndef kernel(a, b):\n    f(a, b)\n"
    space = define(text + driver, device_function=device_function, static_range=tl.static_range)
    module = generate(space["kernel"], {"a": dtype, "b": dtype}, {})
    columns = [np.array(column, np.int32) for column in zip(*inputs, strict=True)]
    results = [np.broadcast_to(r, len(inputs)).tolist() for r in run_function(module, "f", columns)]
    return list(zip(*results, strict=True))


def native(text: str, inputs: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    f: Callable[..., Any] = define(text, static_range=range)["f"]
    results = [f(a, b) for a, b in inputs]
    return [r if isinstance(r, tuple) else (r,) for r in results]


# --- random programs ---


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> str:
    if depth and draw(st.integers(0, 3)) == 0:
        left, right = draw(conditions(depth - 1)), draw(conditions(depth - 1))
        return draw(st.sampled_from([f"({left} and {right})", f"({left} or {right})", f"(not {left})"]))
    name, other = draw(st.sampled_from(NAMES)), draw(st.sampled_from((*NAMES, "a", "b")))
    constant = draw(st.integers(0, 20))
    templates = [f"{name} < {constant}", f"{name} & 1 == {constant & 1}", f"{name} > {other}", f"2 < {name} <= {other}"]
    return draw(st.sampled_from(templates))


@st.composite
def expressions(draw: st.DrawFn) -> str:
    name, other = draw(st.sampled_from((*NAMES, "a"))), draw(st.sampled_from((*NAMES, "b")))
    constant = draw(st.integers(0, 50))
    templates = [
        str(constant),
        f"({name} + {constant}) & 255",
        f"({name} * 3 + {other}) & 127",
        f"{name} ^ {constant}",
        f"({name} if {draw(conditions(1))} else {other})",
        f"min({name}, {other})",
        f"g({name}, {other})",
    ]
    return draw(st.sampled_from(templates))


class Writer:
    """Draws the statements of one function."""

    def __init__(self, draw: st.DrawFn, calls: bool, result: str) -> None:
        self.draw = draw
        self.calls = calls
        self.result = result
        self.lines: list[str] = []
        self.loops = 0
        self.budget = 14

    def block(self, indent: int, depth: int, in_loop: bool, in_static: bool) -> None:
        for _ in range(self.draw(st.integers(1, 3))):
            self.statement(indent, depth, in_loop)

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def expression(self) -> str:
        text = self.draw(expressions())
        return text if self.calls else text.replace("g(", "max(")

    def statement(self, indent: int, depth: int, in_loop: bool) -> None:
        self.budget -= 1
        kinds = ["assign", "assign", "pair"]
        if depth and self.budget > 0:
            kinds += ["if", "if", "if_else", "for", "while", "forever", "static"]
        if depth < 3:
            kinds += ["return"]
        if in_loop:
            kinds += ["break", "continue"]
        getattr(self, self.draw(st.sampled_from(kinds)))(indent, depth, in_loop)

    def assign(self, indent: int, depth: int, in_loop: bool) -> None:
        name = self.draw(st.sampled_from(NAMES))
        form = self.draw(st.sampled_from([f"{name} = {self.expression()}", f"{name} += 1"]))
        self.put(indent, form)

    def pair(self, indent: int, depth: int, in_loop: bool) -> None:
        self.put(indent, f"x, y = {self.expression()}, {self.expression()}")

    def _if(self, indent: int, depth: int, in_loop: bool) -> None:
        self.put(indent, f"if {self.draw(conditions())}:")
        self.block(indent + 1, depth - 1, in_loop, False)

    def if_else(self, indent: int, depth: int, in_loop: bool) -> None:
        self._if(indent, depth, in_loop)
        if self.draw(st.booleans()):
            self.put(indent, f"elif {self.draw(conditions())}:")
            self.block(indent + 1, depth - 1, in_loop, False)
        self.put(indent, "else:")
        self.block(indent + 1, depth - 1, in_loop, False)

    def _else(self, indent: int, depth: int, in_loop: bool) -> None:
        if self.draw(st.integers(0, 3)) == 0:
            self.put(indent, "else:")
            self.block(indent + 1, depth - 1, in_loop, False)

    def _counter(self) -> str:
        self.loops += 1
        return f"i{self.loops}"

    def _for(self, indent: int, depth: int, in_loop: bool) -> None:
        name, counter = self.draw(st.sampled_from(NAMES)), self._counter()
        step = self.draw(st.sampled_from(["", "", ", 2", ", 3"]))
        bounds = f"{name} & 7" if not step else f"1, {name} & 15{step}"
        if self.draw(st.integers(0, 4)) == 0:
            bounds = f"{name} & 7, -1, -2"
        self.put(indent, f"for {counter} in range({bounds}):")
        self.put(indent + 1, f"z = (z + {counter}) & 255")
        self.block(indent + 1, depth - 1, True, False)
        self._else(indent, depth, in_loop)

    def _while(self, indent: int, depth: int, in_loop: bool) -> None:
        name, counter = self.draw(st.sampled_from(NAMES)), self._counter()
        self.put(indent, f"{counter} = 0")
        tests = [
            f"{counter} < ({name} & 7)",
            f"{counter} < 6 and {self.draw(conditions())}",
            f"(z := (z + 1) & 255) > {counter} * 9 and {counter} < 5",
        ]
        test = self.draw(st.sampled_from(tests))
        if self.calls and self.draw(st.booleans()):
            test = f"{counter} < 5 and g({name}, {counter}) > 3"
        self.put(indent, f"while {test}:")
        self.put(indent + 1, f"{counter} += 1")
        self.block(indent + 1, depth - 1, True, False)
        self._else(indent, depth, in_loop)

    def forever(self, indent: int, depth: int, in_loop: bool) -> None:
        counter = self._counter()
        self.put(indent, f"{counter} = 0")
        self.put(indent, "while True:")
        self.put(indent + 1, f"{counter} += 1")
        self.put(indent + 1, f"if {counter} > 4:")
        self.put(indent + 2, self.draw(st.sampled_from(["break", f"return {self.result}"])))
        self.block(indent + 1, depth - 1, True, False)

    def static(self, indent: int, depth: int, in_loop: bool) -> None:
        counter = self._counter()
        self.put(indent, f"for {counter} in static_range({self.draw(st.integers(0, 3))}):")
        self.put(indent + 1, f"y = (y + {counter}) & 255")
        self.block(indent + 1, depth - 1, True, True)
        self._else(indent, depth, in_loop)

    def _return(self, indent: int, depth: int, in_loop: bool) -> None:
        self.put(indent, f"return {self.result}")

    def _break(self, indent: int, depth: int, in_loop: bool) -> None:
        self.put(indent, "break")

    def _continue(self, indent: int, depth: int, in_loop: bool) -> None:
        self.put(indent, "continue")


for _word in ("if", "for", "while", "return", "break", "continue"):
    setattr(Writer, _word, getattr(Writer, f"_{_word}"))


@st.composite
def programs(draw: st.DrawFn) -> str:
    lines: list[str] = []
    for name, calls, result in (("g", False, "(x + y) & 63"), ("f", True, "x, y, z")):
        writer = Writer(draw, calls, result)
        writer.put(0, f"def {name}(a, b):")
        writer.put(1, "x = a")
        writer.put(1, "y = b & 15")
        writer.put(1, "z = 7")
        writer.block(1, 3 if calls else 2, False, False)
        writer.put(1, f"return {result}")
        lines += writer.lines
    return "\n".join(lines) + "\n"


@given(programs())
def test_random_programs_do_what_python_does(text: str) -> None:
    assert compiled(text, INPUTS) == native(text, INPUTS), text


@pytest.mark.slow
@given(programs())
def test_many_random_programs_do_what_python_does(text: str) -> None:
    assert compiled(text, INPUTS) == native(text, INPUTS), text


# --- algorithms ---

ALGORITHMS = {
    "collatz": """
def f(a, b):
    steps = 0
    x = a + 1
    while x != 1:
        x = x // 2 if x & 1 == 0 else 3 * x + 1
        steps += 1
    return steps, x
""",
    "gcd": """
def f(a, b):
    x, y = a, b
    while y:
        x, y = y, x % y
    return x
""",
    "is_prime": """
def g(n):
    if n < 2:
        return False
    for d in range(2, n):
        if d * d > n:
            break
        if n % d == 0:
            return False
    return True

def f(a, b):
    count = 0
    for n in range(a, a + b * 3):
        if not g(n):
            continue
        count += 1
    return count
""",
    "first pair with a sum": """
def f(a, b):
    for i in range(b):
        for j in range(i, b):
            if i + j == a:
                return i, j
            if i + j > a:
                break
        else:
            i = -i
    return -1, -1
""",
    "for else": """
def f(a, b):
    found = 0
    for i in range(b):
        if i == a:
            break
    else:
        found = -1
        for j in static_range(3):
            if j == a:
                found = j
                break
        else:
            return found, 7
    return found, 8
""",
    "countdown": """
def f(a, b):
    total = 0
    for i in range(a, -b, -1):
        total = total * 2 + i & 1023
        if total > 900:
            break
    for i in range(a, -b, -3):
        total = (total ^ i) & 1023
    return total
""",
    "a loop variable outlives its loop": """
def f(a, b):
    i = -7
    for i in range(a, b):
        if i == 3:
            break
    return i
""",
    "recursion over a constexpr": """
def g(x, n):
    if n == 0:
        return x
    return g(x * 2 + n, n - 1)

def f(a, b):
    return g(a, 4), g(b, 0)
""",
    "side effects of conditions": """
def f(a, b):
    x = 0
    while (x := x + 3) < a + b:
        if x == 9:
            break
        if x & 1:
            continue
        b += 1
    return x, b
""",
    "a known condition that assigns": """
def f(a, b):
    x = 0
    while (x := x + 2) is not None:
        if x > a:
            break
        if x == b:
            return x, 0
    return x, 1
""",
    "chained comparisons": """
def f(a, b):
    return 0 < a <= b, a < b < 7 != a, not (a <= 5 and b > 1 or a == b)
""",
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_does_what_python_does(name: str) -> None:
    inputs = [(a, b) for a in range(9) for b in range(9)]
    assert compiled(ALGORITHMS[name], inputs) == native(ALGORITHMS[name], inputs)


STEPS = """
def f(a, b):
    total = 0
    count = 0
    for i in range(a, 10 - a, b):
        total = (total * 3 + i) & 1023
        count += 1
        {leave}
    return total, count
"""


@pytest.mark.parametrize("leave", ["pass", "if count == 50: break"])
@pytest.mark.parametrize("sign", [1, -1])
def test_steps_known_at_run_time_only(leave: str, sign: int) -> None:
    inputs = [(a, sign * step) for a in range(-3, 14) for step in (1, 2, 5)]
    text = STEPS.format(leave=leave)
    assert compiled(text, inputs) == native(text, inputs)


EDGES = """
def f(a, b):
    count = 0
    last = a
    for i in range(a, b, {step}):
        count += 1
        last = i
        if count == {limit}:
            break
    return count, last
"""


@pytest.mark.parametrize("limit", [3, 1000])
def test_a_loop_that_something_leaves_does_not_overflow_at_the_ends_of_its_type(limit: int) -> None:
    top, bottom = 2**31 - 1, -(2**31)
    up = EDGES.format(step=7, limit=limit)
    down = EDGES.format(step=-7, limit=limit)
    ascending = [(top - distance, top) for distance in (0, 1, 6, 7, 8, 20)] + [(top, bottom)]
    descending = [(bottom + distance, bottom) for distance in (0, 1, 6, 7, 8, 20)] + [(bottom, top)]
    assert compiled(up, ascending) == native(up, ascending)
    assert compiled(down, descending) == native(down, descending)


def test_unsigned_bounds_compare_without_a_sign() -> None:
    text = EDGES.format(step=1, limit=5)
    (found,) = compiled(text, [(2**32 - 3 - 2**32, 2**32 - 1 - 2**32)], uint32)
    assert found[0] == 2
