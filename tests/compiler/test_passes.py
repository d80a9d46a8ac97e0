"""Each pass: IR before and after as text; and on kernels, the same results from the interpreter after every pass."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import numpy as np
import pytest

from tests.compiler.kernels import SAMPLES
from tilewright import lang
from tilewright.compiler import compile_module
from tilewright.compiler.passes.barriers import barriers
from tilewright.compiler.passes.cse import cse
from tilewright.compiler.passes.dce import dce
from tilewright.compiler.passes.fold import FOLDS, fold
from tilewright.compiler.passes.inline import inline
from tilewright.compiler.passes.licm import licm
from tilewright.interpreter import Buffer, execute
from tilewright.lang import OPS, Module


def text_of(arguments: str, body: str) -> str:
    return f"module {{num_warps = 4}} {{\nkernel @k({arguments}) {{\n{dedent(body)}\n  return\n}}\n}}"


def after(run: Callable[[Module], bool], source: str) -> tuple[list[str], bool]:
    """The lines of the module's text after a pass, without indents, and whether the pass says that it did anything."""
    module = lang.parse_module(source)
    lang.verify(module)
    changed = run(module)
    lang.verify(module)
    return [line.strip() for line in lang.print_module(module).splitlines()], changed


def test_inline_puts_the_body_in_place_and_extends_locations() -> None:
    lines, changed = after(inline, dedent("""
        module {
        kernel @k(%p: ptr<i32>, %x: i32) loc("m.k":1:1) {
          %y = call %x {callee = "f"} : i32 loc("m.k":2:5)
          %z = call %y {callee = "f"} : i32 loc("m.k":3:5)
          store %p, %z loc("m.k":4:1)
          return loc("m.k":5:1)
        }
        func @f(%a: i32) -> (i32) loc("m.f":7:1) {
          %b = add_i %a, %a : i32 loc("m.f":8:3)
          return %b loc("m.f":8:3)
        }
        }"""))  # fmt: skip
    assert changed
    assert [line for line in lines if "add_i" in line] == [
        '%b = add_i %x, %x : i32 loc("m.f":8:3 at "m.k":2:5)',
        '%b.1 = add_i %b, %b : i32 loc("m.f":8:3 at "m.k":3:5)',
    ]
    assert not any("call" in line or "func" in line for line in lines)


def test_fold_computes_constants_and_drops_identities() -> None:
    lines, changed = after(fold, text_of("%p: ptr<i32>, %x: i32, %c: i1", """
        %three = constant {value = 3} : i32
        %zero = constant {value = 0} : i32
        %nine = mul_i %three, %three : i32
        %same = add_i %x, %zero : i32
        %none = mul_i %same, %zero : i32
        %all = add_i %nine, %same : i32
        %total = add_i %all, %none : i32
        store %p, %total
    """))  # fmt: skip
    assert changed
    assert "%nine = constant {value = 9} : i32" in lines
    assert "%all = add_i %nine, %x : i32" in lines
    assert "store %p, %all" in lines


def test_fold_keeps_the_region_that_runs() -> None:
    lines, _ = after(fold, text_of("%p: ptr<i32>, %x: i32", """
        %yes = constant {value = 1} : i1
        %r = if %yes : i32 {
        ^then:
          %a = add_i %x, %x : i32
          yield %a
        ^else:
          yield %x
        }
        store %p, %r
    """))  # fmt: skip
    assert "%a = add_i %x, %x : i32" in lines and "store %p, %a" in lines
    assert not any("if" in line.split() for line in lines)


@pytest.mark.parametrize(("name", "literal"), [("mul_i", 1), ("div_s", 1), ("and", 0)])
def test_fold_knows_that_the_set_bit_is_minus_one(name: str, literal: int) -> None:
    """On i1 a product with 1 is the operand all the same, but a folded one must not read 1 as a number."""
    source = text_of(
        "%p: ptr<i1>, %x: i1",
        f"""
        %c = constant {{value = {literal}}} : i1
        %r = {name} %x, %c : i1
        store %p, %r
    """,
    )
    module = lang.parse_module(source)
    results: list[list[bool]] = []
    for _ in range(2):
        seen: list[bool] = []
        for x in (0, 1):
            out = np.zeros(1, np.bool_)
            execute(module, [Buffer.of("p", out), x], (1, 1, 1))
            seen.append(bool(out[0]))
        results.append(seen)
        fold(module)
    assert results[0] == results[1]


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("name", sorted(name for name in FOLDS if len(OPS[name].operands) == 2))
def test_fold_computes_what_the_interpreter_does(name: str, width: int) -> None:
    """On pairs with all signs and sizes; every result folds to a constant."""
    numbers = [0, 1, -1, 7, -1000003, 2**31 - 1, -(2**31), -(2 ** (width - 1)), 2 ** (width - 1) - 1]
    result = "i1" if name.startswith("cmp") else f"i{width}"
    lines = [f"%c{i} = constant {{value = {number}}} : i{width}" for i, number in enumerate(numbers)]
    for i, _ in enumerate(numbers):
        for j, _ in enumerate(numbers):
            place = f"%at{i}x{j} = add_ptr %p, %n{i}x{j} : ptr<{result}>"
            at = f"%n{i}x{j} = constant {{value = {len(numbers) * i + j}}} : i32"
            lines += [at, place, f"%r{i}x{j} = {name} %c{i}, %c{j} : {result}", f"store %at{i}x{j}, %r{i}x{j}"]
    module = lang.parse_module(text_of(f"%p: ptr<{result}>", "\n".join(lines)))
    outputs = [np.zeros(len(numbers) ** 2, np.bool_ if result == "i1" else f"i{width // 8}") for _ in range(2)]
    execute(module, [Buffer.of("p", outputs[0])], (1, 1, 1))
    fold(module)
    execute(module, [Buffer.of("p", outputs[1])], (1, 1, 1))
    assert outputs[0].tobytes() == outputs[1].tobytes()
    assert not any(operation.name == name for operation in module.walk())


def test_cse_merges_equal_operations_but_not_different_zeros() -> None:
    lines, changed = after(cse, text_of("%p: ptr<f32>, %x: f32", """
        %plus = constant {value = 0.0} : f32
        %minus = constant {value = -0.0} : f32
        %a = mul_f %x, %plus : f32
        %b = mul_f %plus, %x : f32
        %c = mul_f %x, %minus : f32
        %d = add_f %a, %b : f32
        %e = add_f %d, %c : f32
        store %p, %e
    """))  # fmt: skip
    assert changed
    assert "%d = add_f %a, %a : f32" in lines
    assert "%c = mul_f %x, %minus : f32" in lines


def test_dce_removes_dead_loads_but_no_volatile_ones() -> None:
    lines, changed = after(dce, text_of("%p: ptr<f32>", """
        %a = load %p : f32
        %b = add_f %a, %a : f32
        %v = load %p {volatile = true} : f32
    """))  # fmt: skip
    assert changed
    assert lines[2:] == ["%v = load %p {volatile = true} : f32", "return", "}", "}"]


def test_licm_moves_what_the_loop_does_not_change() -> None:
    lines, changed = after(licm, text_of("%p: ptr<i32>, %n: i32, %x: i32", """
        %zero = constant {value = 0} : i32
        %one = constant {value = 1} : i32
        %r = for %zero, %n, %one, %x : i32 {
        ^body(%i: i32, %c: i32):
          %square = mul_i %x, %x : i32
          %next = add_i %c, %square : i32
          yield %next
        }
        store %p, %r
    """))  # fmt: skip
    assert changed
    assert lines.index("%square = mul_i %x, %x : i32") < next(i for i, line in enumerate(lines) if " = for " in line)
    assert lines.index("%next = add_i %c, %square : i32") > next(i for i, line in enumerate(lines) if " = for " in line)


def test_barriers_stand_between_accesses_that_may_meet() -> None:
    lines, changed = after(barriers, text_of("%p: ptr<i32>, %q: ptr<i32>", """
        %a = load %p : i32
        %b = load %q : i32
        store %q, %a
        store %p, %b
        %c = load %q : i32
        store %q, %c
    """))  # fmt: skip
    assert changed
    names = [line.split("=")[-1].split()[0] for line in lines[2:-3]]
    assert names == ["load", "load", "barrier", "store", "store", "barrier", "load", "barrier", "store"]


@pytest.mark.parametrize("sem", ["relaxed", "acquire", "release"])
def test_who_acquires_is_waited_for_when_there_is_more_to_do(sem: str) -> None:
    """What the first thread stores needs no barrier; what the last atomic acquires nobody wants."""
    attributes = f'{{kind = "add_i", sem = "{sem}", scope = "gpu"}}'
    lines, _ = after(barriers, text_of("%p: ptr<i32>, %q: ptr<i32>, %one: i32", f"""
        %a = atomic_rmw %p, %one {attributes} : i32
        store %q, %one
        %b = load %q : i32
        %c = atomic_rmw %p, %one {attributes} : i32
    """))  # fmt: skip
    names = [line.split("=")[-1].split()[0] if " = " not in line else line.split(" = ")[1].split()[0] for line in lines]
    names = [name for name in names if name in ("barrier", "load", "store", "atomic_rmw")]
    assert names == ["atomic_rmw", "store", "barrier", "load", "barrier", "atomic_rmw"]


def test_a_loop_in_which_one_thread_stores_needs_no_barrier() -> None:
    lines, changed = after(barriers, text_of("%p: ptr<i32>, %n: i32", """
        %zero = constant {value = 0} : i32
        %one = constant {value = 1} : i32
        for %zero, %n, %one {
        ^body(%i: i32):
          %at = add_ptr %p, %i : ptr<i32>
          store %at, %i
          yield
        }
    """))  # fmt: skip
    assert not changed and not any(line.split()[0] == "barrier" for line in lines)


def test_a_barrier_stands_in_a_loop_that_meets_itself() -> None:
    lines, _ = after(barriers, text_of("%p: ptr<i32>, %n: i32", """
        %zero = constant {value = 0} : i32
        %one = constant {value = 1} : i32
        for %zero, %n, %one {
        ^body(%i: i32):
          %at = add_ptr %p, %i : ptr<i32>
          %x = load %at : i32
          store %p, %x
          yield
        }
    """))  # fmt: skip
    inside = lines[next(i for i, line in enumerate(lines) if line.startswith("^body")) :]
    kinds = [word for line in inside[2:7] for word in ("barrier", "load", "store", "yield") if word in line.split()]
    assert kinds == ["barrier", "load", "barrier", "store", "yield"]


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("num_warps", [1, 4])
def test_every_pass_leaves_the_results_as_they_are(name: str, num_warps: int) -> None:
    """The interpreter, which ignores layouts, on the module after each pass: bit for bit what it gave before."""
    sample = SAMPLES[name]()
    module = sample.module()
    wanted = results(module, sample.fresh(), sample.grid)
    passed: list[str] = []

    def look(each: str, now: Module) -> None:
        passed.append(each)
        assert lang.print_module(lang.parse_module(lang.print_module(now))) == lang.print_module(now)
        assert results(now, sample.fresh(), sample.grid) == wanted, each

    before = lang.print_module(module)
    with lang.knobs.scope(verify=True):
        compile_module(module, "sm_90a", num_warps, until="ttgir", hook=look)
    assert passed[0] == "inline" and passed[-1] == "barriers"
    assert lang.print_module(module) == before


def results(module: Module, arguments: list[object], grid: tuple[int, int, int]) -> list[bytes]:
    """What the arrays hold after a run."""
    given = [Buffer.of(f"a{i}", a) if isinstance(a, np.ndarray) else a for i, a in enumerate(arguments)]
    execute(module, given, grid)  # type: ignore[arg-type]
    return [a.tobytes() for a in arguments if isinstance(a, np.ndarray)]
