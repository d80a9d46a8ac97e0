"""Random nested control flow, in batches, coroutines and uniform batches, agrees with Python, program by program."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilewright.interpreter import Buffer, Options, execute, run_function
from tilewright.lang import I32, OPS, Block, Builder, Function, Module, Value, parse_module, verify

# A little language of i32 variables, run per program by Python and, as IR, by the executor.

VARIABLES = 4
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "add_i": lambda a, b: a + b,
    "sub_i": lambda a, b: a - b,
    "mul_i": lambda a, b: a * b,
    "xor": lambda a, b: a ^ b,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "cmp_lt_s": lambda a, b: a < b,
    "cmp_eq_i": lambda a, b: a == b,
    "cmp_ge_s": lambda a, b: a >= b,
}


def wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


@dataclass(frozen=True)
class Assign:
    target: int
    operator: str
    left: int
    right: int


@dataclass(frozen=True)
class If:
    comparison: str
    left: int
    right: int
    then: tuple[Any, ...]
    other: tuple[Any, ...]


@dataclass(frozen=True)
class For:
    """`for i in range(start % 7, stop % 11, step)`: the bounds come from variables, kept small; i goes to `target`."""

    target: int
    start: int
    stop: int
    step: int
    body: tuple[Any, ...]


@dataclass(frozen=True)
class While:
    """Runs while the comparison holds and fewer than `variable % 5` rounds have passed."""

    comparison: str
    left: int
    right: int
    rounds: int
    body: tuple[Any, ...]


VARIABLE = st.integers(0, VARIABLES - 1)
COMPARISON = st.sampled_from(sorted(COMPARISONS))


def blocks(statements: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    body = st.lists(statements, max_size=3).map(tuple)
    return st.one_of(
        st.builds(If, COMPARISON, VARIABLE, VARIABLE, body, body),
        st.builds(For, VARIABLE, VARIABLE, VARIABLE, st.sampled_from((-3, -1, 1, 2)), body),
        st.builds(While, COMPARISON, VARIABLE, VARIABLE, VARIABLE, body),
    )


ASSIGNS = st.builds(Assign, VARIABLE, st.sampled_from(sorted(OPERATORS)), VARIABLE, VARIABLE)
PROGRAMS = st.lists(st.recursive(ASSIGNS, blocks, max_leaves=8), min_size=1, max_size=4).map(tuple)


def interpret(statements: tuple[Any, ...], v: list[int]) -> None:
    """Run statements on the variables of one program."""
    for s in statements:
        if isinstance(s, Assign):
            v[s.target] = wrap(OPERATORS[s.operator](v[s.left], v[s.right]))
        elif isinstance(s, If):
            interpret(s.then if COMPARISONS[s.comparison](v[s.left], v[s.right]) else s.other, v)
        elif isinstance(s, For):
            for i in range(v[s.start] & 7, v[s.stop] & 15, s.step):
                v[s.target] = i
                interpret(s.body, v)
        else:
            rounds, limit = 0, v[s.rounds] & 3
            while COMPARISONS[s.comparison](v[s.left], v[s.right]) and rounds < limit:
                interpret(s.body, v)
                rounds += 1


class Emitter:
    """Emits statements as IR, with the variables as loop-carried values.

    With `look` a pointer, each list of statements begins with a volatile load from it, and is a scheduling point.
    """

    def __init__(self) -> None:
        self.build = Builder()
        self.look: Value | None = None

    def number(self, value: int) -> Value:
        return self.build.value(OPS["constant"], (), {"value": value}, I32)

    def op(self, name: str, *operands: Value) -> Value:
        return self.build.value(OPS[name], operands)

    def region(self, emit: Callable[[Block], None], arguments: int = 0) -> Block:
        outer, block = self.build.block, Block((I32,) * arguments)
        assert outer is not None
        self.build.at_end(block)
        emit(block)
        self.build.at_end(outer)
        return block

    def emit(self, statements: tuple[Any, ...], v: list[Value]) -> list[Value]:
        if self.look is not None:
            self.build.value(OPS["load"], (self.look,), {"volatile": True})
        for s in statements:
            if isinstance(s, Assign):
                v = [*v[: s.target], self.op(s.operator, v[s.left], v[s.right]), *v[s.target + 1 :]]
            elif isinstance(s, If):
                v = self.emit_if(s, v)
            elif isinstance(s, For):
                v = self.emit_for(s, v)
            else:
                v = self.emit_while(s, v)
        return v

    def emit_if(self, s: If, v: list[Value]) -> list[Value]:
        def side(body: tuple[Any, ...]) -> Callable[[Block], None]:
            return lambda _: self.build.create(OPS["yield"], self.emit(body, v)) and None

        flag = self.op(s.comparison, v[s.left], v[s.right])
        regions = (self.region(side(s.then)), self.region(side(s.other)))
        return list(self.build.create(OPS["if"], (flag,), {}, (I32,) * VARIABLES, regions).results)

    def emit_for(self, s: For, v: list[Value]) -> list[Value]:
        def body(block: Block) -> None:
            index, *inner = block.arguments
            inner[s.target] = index
            self.build.create(OPS["yield"], self.emit(s.body, inner))

        start, stop = self.op("and", v[s.start], self.number(7)), self.op("and", v[s.stop], self.number(15))
        regions = (self.region(body, VARIABLES + 1),)
        return list(self.build.create(OPS["for"], (start, stop, self.number(s.step), *v), {}, None, regions).results)

    def emit_while(self, s: While, v: list[Value]) -> list[Value]:
        limit, zero, one = self.op("and", v[s.rounds], self.number(3)), self.number(0), self.number(1)

        def before(block: Block) -> None:
            rounds, *inner = block.arguments
            holds = self.op(s.comparison, inner[s.left], inner[s.right])
            flag = self.op("and", holds, self.op("cmp_lt_s", rounds, limit))
            self.build.create(OPS["condition"], (flag, rounds, *inner))

        def after(block: Block) -> None:
            rounds, *inner = block.arguments
            self.build.create(OPS["yield"], (self.op("add_i", rounds, one), *self.emit(s.body, inner)))

        regions = (self.region(before, VARIABLES + 1), self.region(after, VARIABLES + 1))
        return list(self.build.create(OPS["while"], (zero, *v), {}, (I32,) * (VARIABLES + 1), regions).results[1:])


def kernel_text() -> str:
    """A module with a kernel that loads a row of variables, calls `f` on them, and stores the results there."""
    each = range(VARIABLES)
    values, results = (", ".join(f"%{name}{i}" for i in each) for name in "vr")
    body = ["%pid = program_id {axis = 0} : i32"]
    for i in each:
        body.append(f"%i{i} = constant {{value = {i}}} : i32")
    body.append(f"%size = constant {{value = {VARIABLES}}} : i32")
    body.append("%base = mul_i %pid, %size : i32")
    body.append("%row = add_ptr %x, %base : ptr<i32>")
    for i in each:
        body.append(f"%p{i} = add_ptr %row, %i{i} : ptr<i32>")
        body.append(f"%v{i} = load %p{i} : i32")
    body.append(f'{results} = call %x, {values} {{callee = "f"}} : {", ".join(["i32"] * VARIABLES)}')
    body += [f"store %p{i}, %r{i}" for i in each]
    return "\n".join(["module {", "kernel @k(%x: ptr<i32>) {", *body, "return", "}", "}"])


def compiled(statements: tuple[Any, ...], looks: bool) -> Module:
    """The statements as a function of the variables, and a kernel that applies it to each row of `x`."""
    module, emitter = parse_module(kernel_text()), Emitter()
    function = Function("f", Block((module.kernel.arguments[0].type, *(I32,) * VARIABLES)), (I32,) * VARIABLES)
    emitter.build.at_end(function.body)
    if looks:
        emitter.look = function.arguments[0]
    emitter.build.create(OPS["return"], emitter.emit(statements, function.arguments[1:]))
    module.add(function)
    verify(module)
    return module


STARTS = st.tuples(*[st.integers(-9, 9)] * VARIABLES)


@given(PROGRAMS, st.lists(STARTS, min_size=1, max_size=6), st.sampled_from((1, 16, 1 << 20)))
def test_random_control_flow_is_that_of_each_program_alone(
    statements: tuple[Any, ...], starts: list[Any], chunk_bytes: int
) -> None:
    expected = [list(start) for start in starts]
    for variables in expected:
        interpret(statements, variables)
    x = np.array(starts, np.int32)
    execute(
        compiled(statements, looks=False), [Buffer.of("x", x)], (len(starts), 1, 1), Options(chunk_bytes=chunk_bytes)
    )
    assert x.tolist() == expected


@given(PROGRAMS, st.lists(STARTS, min_size=1, max_size=4), st.integers(0, 3))
def test_random_control_flow_is_the_same_in_coroutines(
    statements: tuple[Any, ...], starts: list[Any], seed: int
) -> None:
    expected = [list(start) for start in starts]
    for variables in expected:
        interpret(statements, variables)
    x = np.array(starts, np.int32)
    execute(compiled(statements, looks=True), [Buffer.of("x", x)], (len(starts), 1, 1), Options(seed=seed))
    assert x.tolist() == expected


@given(PROGRAMS, STARTS, st.integers(1, 3))
def test_uniform_operands_stay_uniform_and_give_what_one_program_computes(
    statements: tuple[Any, ...], start: tuple[int, ...], count: int
) -> None:
    """One operand says that there are `count` programs; no result depends on it."""
    expected = list(start)
    interpret(statements, expected)
    operands = [np.zeros(count, np.int64), *(np.array([value], np.int32) for value in start)]
    results = run_function(compiled(statements, looks=False), "f", operands)
    assert np.array(results).T.tolist() == [expected] * count


TILES = """
kernel @sums(%x: ptr<f32>, %out: ptr<f32>, %counts: ptr<i32>) {
  %pid = program_id {axis = 0} : i32
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %three = constant {value = 3} : i32
  %p = add_ptr %counts, %pid : ptr<i32>
  %count = load %p : i32
  %lane = arange {start = 0, end = 8} : tile<8xi32>
  %columns = constant {value = 6} : tile<8xi32>
  %mask = cmp_lt_s %lane, %columns : tile<8xi1>
  %base = splat %x {shape = (8,)} : tile<8xptr<f32>>
  %first = add_ptr %base, %lane : tile<8xptr<f32>>
  %row = constant {value = 6} : tile<8xi32>
  %nothing = constant {value = 0.0} : tile<8xf32>
  %sum, %last = for %zero, %count, %one, %nothing, %first : tile<8xf32>, tile<8xptr<f32>> {
  ^body(%i: i32, %acc: tile<8xf32>, %at: tile<8xptr<f32>>):
    %v = load %at, %mask, %nothing : tile<8xf32>
    %far = cmp_ge_s %i, %pid : i1
    %new = if %far : tile<8xf32> {
    ^then:
      %more = add_f %acc, %v : tile<8xf32>
      yield %more
    ^else:
      %less = sub_f %acc, %v : tile<8xf32>
      yield %less
    }
    %next = add_ptr %at, %row : tile<8xptr<f32>>
    yield %new, %next
  }
  %many = cmp_ge_s %count, %three : i1
  %shown, %place = if %many : tile<8xi1>, tile<8xptr<f32>> {
  ^then:
    yield %mask, %first
  ^else:
    %none = constant {value = 0} : tile<8xi1>
    yield %none, %last
  }
  %eight = constant {value = 8} : i32
  %offset = mul_i %pid, %eight : i32
  %home = add_ptr %out, %offset : ptr<f32>
  %homes = splat %home {shape = (8,)} : tile<8xptr<f32>>
  %to = add_ptr %homes, %lane : tile<8xptr<f32>>
  %one8 = constant {value = 1.0} : tile<8xf32>
  %ones = load %place, %shown, %one8 : tile<8xf32>
  %result = add_f %sum, %ones : tile<8xf32>
  store %to, %result
  return
}
"""


def test_tiles_pointers_and_masks_diverge_and_merge() -> None:
    """Carried accumulators and pointers, captured masks, and branches that yield a different kind of tile each."""
    module = parse_module("module {\n" + TILES + "\n}")
    verify(module)
    counts = np.array([4, 0, 5, 2, 4, 1, 3], np.int32)
    x = np.arange(36, dtype=np.float32).reshape(6, 6)
    expected = np.zeros((7, 8), np.float32)
    for p, count in enumerate(counts.tolist()):
        for i in range(count):
            expected[p, :6] += x[i] if i >= p else -x[i]
        expected[p] += np.append(x[0], [1, 1]) if count >= 3 else 1
    for chunk_bytes in (1, 100, 1 << 20):
        out = np.full((7, 8), -1, np.float32)
        buffers = [Buffer.of("x", x), Buffer.of("out", out), Buffer.of("counts", counts)]
        execute(module, buffers, (7, 1, 1), Options(chunk_bytes=chunk_bytes))
        assert np.array_equal(out, expected)
