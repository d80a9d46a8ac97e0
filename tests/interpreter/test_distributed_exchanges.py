"""Reductions and dots in threads: the recorded order, each thread's result, operands where instructions take them."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from tests.interpreter.placing import Shape, blocked, both, loaded, module_of, pointers, ran, stored, tile
from tilewright.interpreter import Buffer, DistributionError, execute, execute_distributed
from tilewright.lang import LinearLayout, Module, tile_layouts

X = np.random.default_rng(2).integers(-(2**31), 2**31, 4096).astype(np.int32)


def reduced(
    shape: Shape, layout: LinearLayout, axis: int, tree: tuple[int, ...], warps: int = 1, combine: str = "mul_add",
    ordered: bool = True, scratch: int = 0, result: LinearLayout | None = None,
) -> Module:  # fmt: skip
    """A kernel that reduces a tile along an axis by 3 * left + right, which shows the bracketing, or by an op."""
    region = f"    %s = {combine} %l, %r : i32"
    if combine == "mul_add":
        region = """    %three = constant {value = 3} : i32
    %m = mul_i %l, %three : i32
    %s = add_i %m, %r : i32"""
    rest = shape[:axis] + shape[axis + 1 :]
    placed = (tile_layouts.sliced(layout, axis) if result is None else result) if rest else None
    type_ = "i32" if placed is None else tile(rest, "i32", placed)
    attributes = f"{{axis = {axis}, tree = {tree}, ordered = {str(ordered).lower()}, scratch = {scratch}}}"
    op = f"""  %b = reduce %a {attributes} : {type_} {{
  ^combine(%l: i32, %r: i32):
{region}
    yield %s
  }}"""
    store = "  store %out, %b" if placed is None else stored("b", rest, placed)
    return module_of(loaded("a", shape, layout), op, store, warps=warps, shared=1 << 14)


#: Shape, layout, axis, the order in which threads fold, warps.
ORDERS: list[tuple[Shape, LinearLayout, int, tuple[int, ...], int]] = [
    ((64,), blocked((64,), (2,), (32,), (1,)), 0, (0, 1, 2, 3, 4, 5), 1),
    ((64,), blocked((64,), (1,), (32,), (1,)), 0, (5, 0, 1, 2, 3, 4), 1),
    ((256,), blocked((256,), (2,), (32,), (2,)), 0, (0, 7, 1, 2, 3, 4, 5, 6), 2),
    ((16,), blocked((16,), (1,), (32,), (2,)), 0, (0, 1, 2, 3), 2),
    ((8, 32), blocked((8, 32), (1, 4), (4, 8), (2, 2)), 1, (0, 1, 2, 3, 4), 4),
    ((8, 64), blocked((8, 64), (1, 4), (4, 8), (2, 2)), 1, (0, 1, 2, 3, 4, 5), 4),
    ((16, 8), blocked((16, 8), (1, 2), (8, 4), (2, 1)), 0, (0, 1, 2, 3), 2),
    ((4, 8, 16), blocked((4, 8, 16), (1, 2, 1), (2, 2, 8), (1, 2, 1)), 1, (0, 1, 2), 2),
]


@pytest.mark.parametrize("number", range(len(ORDERS)))
def test_threads_fold_in_the_recorded_order(number: int) -> None:
    shape, layout, axis, tree, warps = ORDERS[number]
    both(reduced(shape, layout, axis, tree, warps), X, prod(shape) // shape[axis])


def test_another_order_than_that_of_the_threads_is_refused() -> None:
    shape, layout, axis, _, warps = ORDERS[2]
    for tree, what in (((0, 1, 7, 2, 3, 4, 5, 6), "order of registers, lanes and warps"), ((0, 1), "256 elements")):
        with pytest.raises(DistributionError, match=what):
            ran(execute_distributed, reduced(shape, layout, axis, tree, warps), X, 1)


def test_an_order_that_does_not_count_must_not_count() -> None:
    """Lanes put their own part first then, so that they differ where the op is not commutative."""
    shape, layout, axis, tree, warps = ORDERS[0]
    both(reduced(shape, layout, axis, tree, warps, "add_i", ordered=False), X, 1)
    with pytest.raises(DistributionError, match="reduce: threads differ in row 0: .* in warp 0, lane 0, register 0"):
        ran(execute_distributed, reduced(shape, layout, axis, tree, warps, "sub_i", ordered=False), X, 1)


def test_warps_reduce_through_shared_memory_only() -> None:
    shape, layout, axis, tree, warps = ORDERS[2]
    with pytest.raises(DistributionError, match="reduce: warp 0 needs element"):
        ran(execute_distributed, reduced(shape, layout, axis, tree, warps, scratch=-1), X, 1)
    shape, layout, axis, tree, warps = ORDERS[0]
    both(reduced(shape, layout, axis, tree, warps, scratch=-1), X, 1)


def test_a_result_must_be_where_its_threads_have_it() -> None:
    shape, layout, axis, tree, warps = ORDERS[6]
    other = blocked((8,), (1,), (32,), (2,))
    with pytest.raises(DistributionError, match="reduce: warp 0, lane 1, register 0 is element .* takes an exchange"):
        ran(execute_distributed, reduced(shape, layout, axis, tree, warps, result=other), X, 8)


# --- dots ---


def columns(register: list[tuple[int, ...]], lane: list[tuple[int, ...]], shape: Shape) -> LinearLayout:
    """A layout of one warp."""
    return LinearLayout.from_bases(
        {"register": register, "lane": lane, "warp": []}, dict(tile_layouts.tile_dims(shape))
    )


#: The fragments of `mma.sync.m16n8k16` for f16 (PTX ISA 9.1, 9.7.14.5.8): a, b, and the accumulator.
ROWS = [(1, 0), (2, 0), (4, 0)]
A = columns([(0, 1), (8, 0), (0, 8)], [(0, 2), (0, 4), *ROWS], (16, 16))
B = columns([(1, 0), (8, 0)], [(2, 0), (4, 0), (0, 1), (0, 2), (0, 4)], (16, 8))
C = columns([(0, 1), (8, 0)], [(0, 2), (0, 4), *ROWS], (16, 8))
#: Rows of a and columns of b in the threads of their results.
PLAIN_C = columns([(0, 1), (0, 2)], [(0, 4), (1, 0), (2, 0), (4, 0), (8, 0)], (16, 8))
PLAIN_A = columns([(0, 1), (0, 2), (0, 4), (0, 8)], [(0, 0), (1, 0), (2, 0), (4, 0), (8, 0)], (16, 16))
PLAIN_B = columns([(1, 0), (2, 0), (4, 0), (8, 0), (0, 1), (0, 2)], [(0, 4), *[(0, 0)] * 4], (16, 8))


def product(
    a: LinearLayout, b: LinearLayout, acc: LinearLayout, instruction: str = "mma", scratch: int = -1
) -> list[np.ndarray]:
    """What a kernel leaves of f16 [16, 16] @ [16, 8], in threads and as values."""
    module = module_of(
        pointers("pa", "a", (16, 16), a, "f16"), f"  %x = load %pa : {tile((16, 16), 'f16', a)}",
        pointers("pb", "b", (16, 8), b, "f16"), f"  %y = load %pb : {tile((16, 8), 'f16', b)}",
        f"  %acc = constant {{value = 0.5}} : {tile((16, 8), 'f32', acc)}",
        f"""  %c = dot %x, %y, %acc {{instruction = "{instruction}", scratch = {scratch}}} :
        {tile((16, 8), "f32", acc)}""".replace("\n", ""),
        pointers("pc", "out", (16, 8), acc, "f32"), "  store %pc, %c",
        parameters="%a: ptr<f16>, %b: ptr<f16>, %out: ptr<f32>", shared=1 << 12,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(shape).astype(np.float16) for shape in ((16, 16), (16, 8)))
    found: list[np.ndarray] = []
    for run in (execute_distributed, execute):
        out = np.zeros((16, 8), np.float32)
        run(module, [Buffer.of("a", x), Buffer.of("b", y), Buffer.of("out", out)], (1, 1, 1))
        found.append(out)
    return found


@pytest.mark.parametrize(
    "given", [(A, B, C), (PLAIN_A, PLAIN_B, PLAIN_C, "fma"), (A, B, PLAIN_C, "fma", 0)], ids=["mma", "fma", "shared"]
)
def test_a_dot_is_the_reference_of_what_threads_hold(given: tuple[LinearLayout, LinearLayout, LinearLayout]) -> None:
    got, want = product(*given)
    assert (got == want).all() and len(np.unique(got)) > 100


def test_operands_must_be_where_the_instruction_takes_them() -> None:
    turned = columns([(0, 1), (8, 0), (0, 8)], [(1, 0), (0, 2), (0, 4), (2, 0), (4, 0)], (16, 16))
    with pytest.raises(DistributionError, match=r"element \(1, 0\) of %x is in warp 0, lane 1, .* has it in lane 4"):
        product(turned, B, C)
    with pytest.raises(DistributionError, match="of %y is in warp 0"):
        product(A, PLAIN_B, C)
    with pytest.raises(DistributionError, match="of %acc is in warp 0"):
        product(A, B, PLAIN_C)
    with pytest.raises(DistributionError, match=r"dot: thread 0 needs element \(0, 2\) of %x and does not hold it"):
        product(A, PLAIN_B, PLAIN_C, "fma")


def two_warps(a: LinearLayout, b: LinearLayout, acc: LinearLayout) -> Module:
    """A kernel of two warps with a dot of constants, 32 rows of results."""
    tiles = {"x": ("f16", a), "y": ("f16", b), "z": ("f32", acc)}
    made = [f"  %{n} = constant {{value = 1.0}} : {tile(at.shape, e, at)}" for n, (e, at) in tiles.items()]
    dot = f"""  %c = dot %x, %y, %z {{instruction = "mma"}} : {tile((32, 8), "f32", acc)}"""
    return module_of(*made, dot, warps=2, parameters="%p: ptr<i32>")


def taller(layout: LinearLayout, registers: list[tuple[int, ...]], warp: tuple[int, ...]) -> LinearLayout:
    """A fragment with more registers, in two warps that differ by `warp`."""
    bases = {**layout.bases, "register": registers, "warp": [warp]}
    shape = (32 if layout is not B else 16, layout.shape[1])
    return LinearLayout.from_bases(bases, dict(tile_layouts.tile_dims(shape)))


def test_a_warp_must_hold_the_rows_of_its_results() -> None:
    a, b, c = taller(A, [(0, 1), (8, 0), (0, 8)], (16, 0)), taller(B, [(1, 0), (8, 0)], (0, 0)), C
    c = taller(C, [(0, 1), (8, 0)], (16, 0))
    given = [Buffer.of("p", X)]
    execute_distributed(two_warps(a, b, c), given, (1, 1, 1))
    along_k = taller(A, [(0, 1), (8, 0), (16, 0)], (0, 8))
    with pytest.raises(DistributionError, match=r"dot: warp 0 needs element \(0, 8\) of %x and does not hold it"):
        execute_distributed(two_warps(along_k, b, c), given, (1, 1, 1))
    halves = taller(A, [(0, 1), (16, 0), (0, 8)], (8, 0)), b, taller(C, [(0, 1), (16, 0)], (8, 0))
    with pytest.raises(DistributionError, match="threads do not hold both results that are 8 apart along axis 0"):
        execute_distributed(two_warps(*halves), given, (1, 1, 1))
