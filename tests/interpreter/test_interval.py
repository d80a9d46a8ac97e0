"""Kernels on enclosures: moves keep bits, open choices keep both sides, and what must be known is asked for."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.interpreter import Buffer, Enclosure, Undecided, enclose, execute
from tilewright.lang import parse_module

N = 8
FLOATS = "%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>"
#: Loads two tiles and leaves the addresses of a third in reach.
HEAD = f"""
%lane = arange {{start = 0, end = {N}}} : tile<{N}xi32>
%xs = splat %x {{shape = ({N},)}} : tile<{N}xptr<f32>>
%px = add_ptr %xs, %lane : tile<{N}xptr<f32>>
%ys = splat %y {{shape = ({N},)}} : tile<{N}xptr<f32>>
%py = add_ptr %ys, %lane : tile<{N}xptr<f32>>
%os = splat %out {{shape = ({N},)}} : tile<{N}xptr<f32>>
%po = add_ptr %os, %lane : tile<{N}xptr<f32>>
%a = load %px : tile<{N}xf32>
%b = load %py : tile<{N}xf32>
"""


Result = tuple[Enclosure, Any]


def run(body: str, x: Any, y: Any, out: Any = None, head: str = HEAD, parameters: str = FLOATS) -> Result:
    """The enclosures of `out` after a kernel, and what it holds, which is what the plain executor leaves there."""
    module = parse_module(f"module {{\nkernel @k({parameters}) {{\n{indent(head + body, '  ')}\n  return\n}}\n}}")
    enclosed, plain = (np.zeros(N, np.float32) if out is None else out.copy() for _ in range(2))
    inputs = [Buffer.of("x", np.array(x)), Buffer.of("y", np.array(y))]
    made = enclose(module, [*inputs, Buffer.of("out", enclosed)], (1, 1, 1))
    execute(module, [*inputs, Buffer.of("out", plain)], (1, 1, 1))
    assert plain.tobytes() == enclosed.tobytes()
    assert not made["out"].outside(enclosed).any()
    return made["out"], enclosed


def f32(*values: float) -> Any:
    return np.array((values * N)[:N], np.float32)


def steps(x: Any, count: int) -> Any:
    """Floats some units further from zero."""
    return (x.view(np.int32) + count).view(np.float32)


def test_what_is_only_moved_has_its_bits_those_of_a_nan_too() -> None:
    odd = np.array([0x7F812345, 0xFFC00001, 0x80000000, 0, 1, 0x7F800000, 0x3F800000, 0x40490FDB], np.uint32)
    allowed, out = run("store %po, %a", odd.view(np.float32), f32(0))
    assert (out.view(np.uint32) == odd).all() and (allowed.width() == 0).all()
    quiet = np.where(odd == 0x7F812345, 0x7FC12345, odd).astype(np.uint32).view(np.float32)
    assert allowed.outside(quiet).tolist() == [True] + [False] * 7
    assert allowed.shown(0) == "the NaN 0x7f812345" and allowed.shown(2) == "-0.0"
    other_zero = np.where(odd == 0x80000000, 0, odd).astype(np.uint32).view(np.float32)
    assert allowed.outside(other_zero).tolist() == [False] * 2 + [True] + [False] * 5


def test_a_nan_that_arithmetic_made_may_be_any() -> None:
    allowed, _ = run("%s = add_f %a, %b : tile<8xf32>\nstore %po, %s", f32(np.inf), f32(-np.inf, 1))
    any_nan = np.array([0x7FC00001, 0x7F800000] * 4, np.uint32).view(np.float32)
    assert not allowed.outside(any_nan).any()
    assert allowed.outside(f32(np.inf)).tolist() == [True, False] * 4
    assert allowed.shown(0) == "NaN"


def test_a_sum_of_exact_numbers_is_one_number_and_of_a_product_two() -> None:
    third, seven = f32(1 / 3, 0.1, 3.7), f32(7.1, -2.3)
    body = "%m = mul_f %a, %b : tile<8xf32>\n%s = {} : tile<8xf32>\nstore %po, %s"
    plain, out = run(body.format("add_f %a, %b"), third, seven)
    assert (plain.width() == 0).all() and plain.outside(steps(out, 1)).all()
    allowed, out = run(body.format("sub_f %m, %a"), third, seven)
    fused = (third.astype(np.float64) * seven - third).astype(np.float32)
    assert not allowed.outside(fused).any() and (fused != out).any()
    wide = np.abs(fused - out) + np.spacing(np.abs(out))
    assert allowed.outside(out + 2 * wide).all()


def test_a_product_is_fused_however_it_came_to_the_sum() -> None:
    """By way of memory, a choice and a loop: wherever elements only move a compiler may look through."""
    body = """
    %m = mul_f %a, %b : tile<8xf32>
    store %po, %m
    %l = load %po : tile<8xf32>
    %zero = constant {value = 0} : i32
    %two = constant {value = 2} : i32
    %one = constant {value = 1} : i32
    %r = for %zero, %two, %one, %l : tile<8xf32> {
    ^body(%i: i32, %c: tile<8xf32>):
      yield %c
    }
    %n = neg_f %r : tile<8xf32>
    %s = add_f %n, %a : tile<8xf32>
    store %po, %s
    """
    x, y = f32(1 / 3, 0.1, 3.7), f32(7.1, -2.3)
    allowed, _ = run(body, x, y)
    fused = (x - x.astype(np.float64) * y).astype(np.float32)
    assert not allowed.outside(fused).any()


def test_a_contract_widens_and_what_is_computed_from_it() -> None:
    body = "%e = exp %a : tile<8xf32>\n%s = {} : tile<8xf32>\nstore %po, %s"
    x = f32(0.3, -1.7, 5.5)
    allowed, out = run(body.format("add_f %e, %b"), x, f32(0))
    assert not allowed.outside(steps(out, 2)).any() and allowed.outside(steps(out, 12)).all()
    halved, _ = run(body.format("mul_f %e, %b"), x, f32(0.5))
    assert (halved.width() == allowed.width()).all()
    exact, _ = run(body.format("floor %e"), x, f32(0))
    assert (exact.width() == 0).all()


OPEN = """
%e = exp %a : tile<8xf32>
%c = cmp_lt_f %e, %b : tile<8xi1>
"""
#: exp of these is certainly below, certainly above, and as close to b as the reference can tell.
AT, BESIDE = f32(0.0, 2.0, 1.5, 0.75), np.exp(f32(0.5, 1.5, 1.5, 0.75).astype(np.float64)).astype(np.float32)


def test_a_choice_by_an_open_comparison_may_be_either_side() -> None:
    allowed, _ = run(OPEN + "%s = select %c, %a, %b : tile<8xf32>\nstore %po, %s", AT, BESIDE)
    assert not allowed.outside(AT)[2:4].any() and not allowed.outside(BESIDE)[2:4].any()
    assert allowed.outside(BESIDE)[0] and allowed.outside(AT)[1] and not allowed.outside(AT)[0]


def test_open_comparisons_meet_and_are_turned_round() -> None:
    body = (
        OPEN
        + """
    %yes = constant {value = 1} : tile<8xi1>
    %no = xor %c, %yes : tile<8xi1>
    %d = cmp_gt_f %a, %b : tile<8xi1>
    %both = and %no, %d : tile<8xi1>
    %any = or %both, %no : tile<8xi1>
    %s = select %any, %b, %a : tile<8xf32>
    store %po, %s
    """
    )
    allowed, _ = run(body, AT, BESIDE)
    assert not allowed.outside(AT)[2:4].any() and not allowed.outside(BESIDE)[2:4].any()
    assert allowed.outside(BESIDE)[0] and allowed.outside(AT)[1]


@pytest.mark.parametrize(
    "body",
    [
        "store %po, %a, %c",
        "%w = ext_u %c : tile<8xi32>\n%f = s_to_f %w : tile<8xf32>\nstore %po, %f",
        "%i = select %c, %lane, %seven : tile<8xi32>\n%f = s_to_f %i : tile<8xf32>\nstore %po, %f",
        "%i = bitcast %e : tile<8xi32>\n%f = s_to_f %i : tile<8xf32>\nstore %po, %f",
        "%t = mul_f %e, %big : tile<8xf32>\n%i = f_to_s %t : tile<8xi32>\n%f = s_to_f %i : tile<8xf32>\nstore %po, %f",
        "%old = atomic_rmw %po, %e {kind = \"max_f\", sem = \"relaxed\", scope = \"gpu\"} : tile<8xf32>",
    ],
    ids=["mask", "integer", "choice of integers", "bits", "cast", "atomic"],
)  # fmt: skip
def test_what_must_be_known_is_asked_for(body: str) -> None:
    constants = "%seven = constant {value = 7} : tile<8xi32>\n%big = constant {value = 1.0e7} : tile<8xf32>\n"
    with pytest.raises(Undecided):
        run(OPEN + constants + body, AT, BESIDE)


def test_what_is_known_all_the_same_is_taken() -> None:
    """Far from every edge nothing is open."""
    allowed, out = run(OPEN + "store %po, %a, %c", f32(0.0, 2.0), f32(3.0))
    assert out.tolist() == [0.0, 0.0] * 4 and (allowed.width() == 0).all()
    body = OPEN + "%i = f_to_s %e : tile<8xi32>\n%f = s_to_f %i : tile<8xf32>\nstore %po, %f"
    assert run(body, f32(2.0), f32(3.0))[1].tolist() == [7.0] * 8


def test_a_value_is_not_unlike_itself() -> None:
    body = "%e = exp %a : tile<8xf32>\n%c = cmp_ne_f %e, %e : tile<8xi1>\nstore %po, %b, %c"
    _, out = run(body, f32(1.0, np.nan), f32(4.0))
    assert out.tolist() == [0.0, 4.0] * 4


def test_narrow_formats_saturate_at_their_ends() -> None:
    """f8e4m3fn: 400 + 448 is 448 however it is computed, and a product of 8-bit floats is never fused."""
    names = HEAD.replace("f32", "f8e4m3fn")
    body = "%m = mul_f %a, %b : tile<8xf8e4m3fn>\n%s = add_f %m, %b : tile<8xf8e4m3fn>\nstore %po, %s"
    x, y = (np.array([v] * N, ml_dtypes.float8_e4m3fn) for v in (1.125, 416.0))
    allowed, out = run(body, x, y, np.zeros(N, x.dtype), names, FLOATS.replace("f32", "f8e4m3fn"))
    assert out.astype(float).tolist() == [448.0] * N and (allowed.width() == 0).all()


def test_one_buffer_has_one_format() -> None:
    body = """
    %q = bitcast %po : tile<8xptr<f16>>
    %h = load %q : tile<8xf16>
    store %po, %a
    """
    with pytest.raises(Undecided, match="as f16 and as f32|as f32 and as f16"):
        run(body, f32(1.0), f32(1.0))
