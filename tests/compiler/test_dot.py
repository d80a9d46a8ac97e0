"""Matrix products as compiled code: within the op's contract on the emulator, and by the instructions there are."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.compiler.building import Kernel
from tests.compiler.children import outcome
from tests.compiler.emulated import launch
from tests.compiler.kernels import Sample
from tests.compiler.test_passes import after
from tilewright import lang
from tilewright.compiler import TARGETS, RegistersExceeded, compile_module
from tilewright.compiler.analysis import conversion as conversions
from tilewright.compiler.passes.dots import choose_dots
from tilewright.difftest.strategies.reductions import DOT_ELEMENTS, PRECISIONS
from tilewright.interpreter import Bounded, Buffer, Options, execute
from tilewright.lang import BF16, F8E4M3FN, F16, F32, F64, FP8, I8, FloatType, Module, ScalarType, with_shape

Array = np.ndarray[Any, Any]


@tilewright.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STEP: tl.constexpr, PRECISION: tl.constexpr,
            LEFT_T: tl.constexpr, RIGHT_T: tl.constexpr):  # fmt: skip
    """`c = a @ b`, in steps along K; `LEFT_T` and `RIGHT_T`: the operand is in memory transposed."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, STEP)
    total = tl.zeros((M, N), c.dtype.element_ty)
    for k in range(0, K, STEP):
        if LEFT_T:
            x = tl.trans(tl.load(a + (k + inner)[:, None] * M + rows[None, :]))
        else:
            x = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        if RIGHT_T:
            y = tl.trans(tl.load(b + columns[:, None] * K + (k + inner)[None, :]))
        else:
            y = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        total = tl.dot(x, y, total, input_precision=PRECISION, out_dtype=c.dtype.element_ty)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


def draw(generator: np.random.Generator, shape: tuple[int, ...], kind: Any) -> Array:
    if kind is np.int8:
        return generator.integers(-128, 128, shape, np.int8)
    return generator.standard_normal(shape).astype(kind)


def product_sample(
    kind: Any, result: Any, shape: tuple[int, int, int], step: int, precision: str = "ieee", turned: str = ""
) -> Sample:
    """`turned` names the operands that are in memory transposed."""
    m, n, k = shape
    generator = np.random.default_rng(m * n + k)
    a, b = draw(generator, (m, k), kind), draw(generator, (k, n), kind)
    constants = {"M": m, "N": n, "K": k, "STEP": step, "PRECISION": precision}
    constants |= {"LEFT_T": "a" in turned, "RIGHT_T": "b" in turned}
    given = a.T.copy() if "a" in turned else a, b.T.copy() if "b" in turned else b
    return Sample(product, (*given, np.zeros((m, n), result)), (1, 1, 1), constants)


def buffers(arguments: list[Any]) -> list[Any]:
    return [Buffer.of(f"a{i}", a) if isinstance(a, np.ndarray) else a for i, a in enumerate(arguments)]


def ptx_of(sample: Sample, target: str = "sm_90a", num_warps: int = 4, num_stages: int = 1) -> str:
    compiled = compile_module(sample.module(), target, num_warps, num_stages=num_stages, until="ptx")
    return str(compiled.stages["ptx"])


def emulated(sample: Sample, target: str, num_warps: int, num_stages: int = 1, mma: str = "exact") -> Array:
    compiled = compile_module(sample.module(), target, num_warps, num_stages=num_stages, until="ptx")
    arguments = sample.fresh()
    launch(compiled, buffers(arguments), sample.grid, Options(mma=mma))  # type: ignore[arg-type]
    return arguments[2]


#: (NumPy type of the operands, of the result, the language's types of both, precision).
FLOAT_ROWS = (
    (np.float16, np.float32, F16, F32, "ieee"),
    (np.float16, np.float16, F16, F16, "ieee"),
    (ml_dtypes.bfloat16, np.float32, BF16, F32, "ieee"),
    *((np.float32, np.float32, F32, F32, precision) for precision in PRECISIONS),
    (np.float64, np.float64, F64, F64, "ieee"),
    (ml_dtypes.float8_e4m3fn, np.float32, lang.F8E4M3FN, F32, "ieee"),
    (ml_dtypes.float8_e5m2, np.float16, lang.F8E5M2, F16, "ieee"),
)


def bound_of(sample: Sample, operand: FloatType, result: FloatType, turned: str, precision: str) -> Bounded:
    """The exact product with the error that the contract allows. A step takes its own rounding, but no more than the
    whole product at once is granted here for each."""
    a, b, c = (np.asarray(array) for array in sample.arguments[:3])
    a, b = a.T if "a" in turned else a, b.T if "b" in turned else b
    if precision == "tf32":
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFF_E000)).view(np.float32) for x in (a.copy(), b.copy()))
    total, step = Bounded.exact(np.zeros(c.shape), result), int(sample.constants["STEP"])
    for k in range(0, a.shape[1], step):
        left, right = a[:, k : k + step].astype(np.float64), b[k : k + step].astype(np.float64)
        total = Bounded.exact(left, operand).dot(Bounded.exact(right, operand), total, precision)
    return total


#: (M, N, K), step along K, number of warps, transposed operands: whole instructions, more warps than fit, tiles that
#: are too small for any, and operands that are too many for registers.
CASES = (
    ((64, 64, 64), 32, 4, ""),
    ((16, 8, 64), 32, 8, "b"),
    ((32, 128, 32), 32, 2, "a"),
    ((8, 32, 32), 16, 4, "ab"),
    ((64, 4, 8), 8, 1, ""),
)


@pytest.mark.parametrize("row", FLOAT_ROWS, ids=lambda row: f"{row[2]}-{row[3]}-{row[4]}")
def test_float_products_are_within_their_contract(row: tuple[Any, ...]) -> None:
    kind, result, operand, accumulator, precision = row
    for number, (shape, step, num_warps, turned) in enumerate(CASES):
        sample = product_sample(kind, result, shape, step, precision, turned)
        bound = bound_of(sample, operand, accumulator, turned, precision)
        target = list(TARGETS)[(number + len(precision)) % len(TARGETS)]
        got = emulated(sample, target, num_warps, 1 + number % 3)
        assert bound.utilisation(got) <= 1, (shape, target)


@pytest.mark.parametrize("target", ["sm_90a", *(pytest.param(t, marks=pytest.mark.slow) for t in ("sm_80", "sm_89"))])
@pytest.mark.parametrize("row", [FLOAT_ROWS[i] for i in (0, 2, 4, 5, 6, 7, 9)], ids=lambda row: f"{row[2]}-{row[4]}")
def test_as_tensor_cores_add_they_are_too(row: tuple[Any, ...], target: str) -> None:
    kind, result, operand, accumulator, precision = row
    sample = product_sample(kind, result, (32, 32, 64), 32, precision)
    bound = bound_of(sample, operand, accumulator, "", precision)
    assert bound.utilisation(emulated(sample, target, 4, 2, "hardware")) <= 1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_of_integers_wrap_and_are_exact(case: tuple[Any, ...]) -> None:
    shape, step, num_warps, turned = case
    sample = product_sample(np.int8, np.int32, shape, step, turned=turned)
    wanted = sample.fresh()
    execute(sample.module(), buffers(wanted), sample.grid)
    assert np.array_equal(emulated(sample, "sm_80", num_warps), wanted[2])


# Instructions


def multiplies(ptx: str) -> set[str]:
    return set(re.findall(r"mma\.sync\.aligned\.(\S+)", ptx))


@pytest.mark.parametrize("target", TARGETS)
def test_half_precision_takes_matrix_instructions_everywhere(target: str) -> None:
    ptx = ptx_of(product_sample(np.float16, np.float32, (64, 64, 64), 32), target)
    assert multiplies(ptx) == {"m16n8k16.row.col.f32.f16.f16.f32"}
    assert ptx.count("mma.sync") == 2 * 4 * 2 and "ldmatrix" in ptx


@pytest.mark.parametrize(
    ("row", "target", "shape"),
    [
        (FLOAT_ROWS[1], "sm_80", "m16n8k16.row.col.f16.f16.f16.f16"),
        (FLOAT_ROWS[2], "sm_80", "m16n8k16.row.col.f32.bf16.bf16.f32"),
        (FLOAT_ROWS[4], "sm_80", "m16n8k8.row.col.f32.tf32.tf32.f32"),
        (FLOAT_ROWS[5], "sm_80", "m16n8k8.row.col.f32.tf32.tf32.f32"),
        (FLOAT_ROWS[6], "sm_80", "m16n8k16.row.col.f32.bf16.bf16.f32"),
        (FLOAT_ROWS[8], "sm_80", "m8n8k4.row.col.f64.f64.f64.f64"),
        (FLOAT_ROWS[9], "sm_86", "m16n8k16.row.col.f32.f16.f16.f32"),
        (FLOAT_ROWS[9], "sm_89", "m16n8k32.row.col.f32.e4m3.e4m3.f32"),
        (FLOAT_ROWS[10], "sm_90a", "m16n8k32.row.col.f16.e5m2.e5m2.f16"),
        ((np.int8, np.int32, I8, None, "ieee"), "sm_80", "m16n8k32.row.col.s32.s8.s8.s32"),
    ],
    ids=str,
)
def test_each_type_has_its_instruction(row: tuple[Any, ...], target: str, shape: str) -> None:
    sample = product_sample(row[0], row[1], (32, 32, 32), 32, row[4])
    assert multiplies(ptx_of(sample, target)) == {shape}


@pytest.mark.parametrize(("precision", "count"), [("tf32", 1), ("tf32x3", 3), ("bf16x3", 3), ("bf16x6", 6)])
def test_split_precisions_multiply_so_many_times(precision: str, count: int) -> None:
    depth = 16 if precision.startswith("bf16") else 8
    ptx = ptx_of(product_sample(np.float32, np.float32, (32, 32, 32), 32, precision))
    assert ptx.count("mma.sync") == 4 // 2 * 32 // depth * count  # 8 tiles of 16 x 8, shared by 4 warps


def test_ieee_multiplies_and_adds_in_a_loop_without_spilling() -> None:
    for shape, num_warps in (((64, 64, 64), 4), ((128, 128, 64), 8)):
        sample = product_sample(np.float32, np.float32, shape, 32)
        compiled = compile_module(sample.module(), "sm_90a", num_warps, num_stages=1)
        assert compiled.metadata.spills == 0
        assert "mma.sync" not in compiled.stages["ptx"] and "fma.rn.f32" in compiled.stages["ptx"]


def test_eight_bit_products_are_added_in_f32_as_often_as_asked() -> None:
    """On the one generation whose instruction adds them with fewer bits."""

    @tilewright.jit
    def short(a, b, c, MOST: tl.constexpr):
        rows, inner, columns = tl.arange(0, 16), tl.arange(0, 128), tl.arange(0, 8)
        x = tl.load(a + rows[:, None] * 128 + inner[None, :])
        y = tl.load(b + inner[:, None] * 8 + columns[None, :])
        total = tl.load(c + rows[:, None] * 8 + columns[None, :])
        total = tl.dot(x, y, total, max_num_imprecise_acc=MOST)
        tl.store(c + rows[:, None] * 8 + columns[None, :], total)

    kind = ml_dtypes.float8_e4m3fn
    given = np.ones((16, 128), kind), np.ones((128, 8), kind), np.zeros((16, 8), np.float32)
    counts = {
        (target, most): ptx_of(Sample(short, given, (1, 1, 1), {"MOST": most}), target, 1).count("add.rn.f32")
        for target in ("sm_89", "sm_90a")
        for most in (0, 64, 128)
    }
    assert [counts["sm_89", most] for most in (0, 64, 128)] == [16, 8, 4]
    assert not any(counts["sm_90a", most] for most in (0, 64, 128))


@pytest.mark.parametrize(
    ("target", "kind", "shape", "instruction", "enters"),
    [
        ("sm_80", "f8e4m3fn", (16, 8, 32), "mma", "f16"),
        ("sm_89", "f8e4m3fn", (16, 8, 32), "mma", ""),
        ("sm_89", "f8e4m3fn", (16, 8, 16), "fma", ""),
        ("sm_90a", "f8e4m3fnuz", (16, 8, 16), "mma", "f16"),
        ("sm_80", "f16", (8, 8, 16), "fma", ""),
    ],
)
def test_the_pass_chooses_by_type_shape_and_target(
    target: str, kind: str, shape: tuple[int, int, int], instruction: str, enters: str
) -> None:
    m, n, k = shape
    source = f"""module {{num_warps = 4, target = "{target}"}} {{
        kernel @k(%a: tile<{m}x{k}x{kind}>, %b: tile<{k}x{n}x{kind}>, %c: tile<{m}x{n}xf32>) {{
          %d = dot %a, %b, %c : tile<{m}x{n}xf32>
          return
        }}
        }}"""
    lines, changed = after(choose_dots, source)
    assert changed
    (dot,) = [line for line in lines if " dot " in line]
    assert f'instruction = "{instruction}"' in dot
    casts = [line for line in lines if "cast_f" in line]
    assert len(casts) == (2 if enters else 0) and all(f"x{enters}>" in line for line in casts)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("bits", [0x7F80_0001, 0xFF80_0FFF, 0x7FC0_0000, 0xFFFF_FFFF])
def test_a_nan_stays_one_in_every_precision(precision: str, bits: int) -> None:
    """Also one that the instruction, which sees the upper 19 bits of an operand, would take for an infinity."""
    sample = product_sample(np.float32, np.float32, (16, 8, 16), 16, precision)
    sample.arguments[0].view(np.uint32)[3, 5] = bits
    for mma in ("exact", "hardware"):
        got = emulated(sample, "sm_90a", 1, mma=mma)
        assert np.isnan(got[3]).all() and np.isfinite(np.delete(got, 3, 0)).all()


# What feeds them, and what holds them


@tilewright.jit
def chained(q, k, v, o, ROUNDS):
    i, j, d = tl.arange(0, 64), tl.arange(0, 32), tl.arange(0, 128)
    left = tl.load(q + i[:, None] * 128 + d[None, :])
    total = tl.zeros((64, 128), tl.float32)
    for at in range(ROUNDS):
        keys = tl.load(k + (at * 32 + j)[None, :] * 128 + d[:, None])
        scores = tl.dot(left, keys) * 0.125
        if at % 2 == 0:
            values = tl.load(v + (at * 32 + j)[:, None] * 128 + d[None, :])
            total = tl.dot(scores.to(tl.float16), values, total)
    tl.store(o + i[:, None] * 128 + d[None, :], total)


def chained_sample() -> Sample:
    generator = np.random.default_rng(3)
    arrays = [draw(generator, (rows, 128), np.float16) for rows in (64, 96, 96)]
    return Sample(chained, (*arrays, np.zeros((64, 128), np.float32), 3), (1, 1, 1))


def test_a_result_that_is_multiplied_again_stays_in_registers() -> None:
    """Shared memory is written for q, k and v, and at the end for the result; not for the 64 x 32 scores."""
    compiled = compile_module(chained_sample().module(), "sm_90a", 4, num_stages=1, until="ptx")
    lines = [line for line in str(compiled.stages["ttgir"]).splitlines() if "convert_layout" in line]
    assert lines and not [line for line in lines if "tile<64x32x" in line and "scratch" in line]
    assert str(compiled.stages["ptx"]).count("mma.sync") == 4 * 8 + 16 * 2


def test_chained_products_under_control_flow() -> None:
    sample = chained_sample()
    q, k, v = (np.asarray(array, np.float64) for array in sample.arguments[:3])
    total = Bounded.exact(np.zeros((64, 128)), F32)
    for at in (0, 2):
        part = slice(32 * at, 32 * at + 32)
        zeros = Bounded.exact(np.zeros((64, 32)), F32)
        scores = Bounded.exact(q, F16).dot(Bounded.exact(k[part].T, F16), zeros) * Bounded.exact(0.125, F32)
        total = scores.cast(F16).dot(Bounded.exact(v[part], F16), total)
    for num_warps, num_stages in ((1, 1), (4, 3)):
        compiled = compile_module(sample.module(), "sm_90a", num_warps, num_stages=num_stages, until="ptx")
        arguments = sample.fresh()
        launch(compiled, buffers(arguments), sample.grid)
        assert total.utilisation(arguments[3]) <= 1


@tilewright.jit
def until_large(a, c, LIMIT):
    i = tl.arange(0, 16)
    x = tl.load(a + i[:, None] * 16 + i[None, :])
    total = tl.dot(x, x)
    while tl.max(tl.max(total, 1), 0) < LIMIT:
        total = tl.dot(x, total.to(tl.float16), total)
    tl.store(c + i[:, None] * 16 + i[None, :], total)


def test_an_accumulator_in_a_while_loop() -> None:
    """Powers of a matrix of small whole numbers, which are exact."""
    x = (np.arange(256).reshape(16, 16) % 3 == 0).astype(np.float16)
    sample = Sample(until_large, (x, np.zeros((16, 16), np.float32), 500.0), (1, 1, 1))
    wanted = sample.fresh()
    execute(sample.module(), buffers(wanted), sample.grid)
    for num_warps in (1, 4):
        got = sample.fresh()
        launch(compile_module(sample.module(), "sm_80", num_warps, until="ptx"), buffers(got), sample.grid)
        assert np.array_equal(wanted[1], got[1]) and got[1].max() >= 500


# Large tiles


def test_a_large_result_reaches_memory_in_pieces() -> None:
    """128 KB of results on targets whose blocks have 99."""
    sample = product_sample(np.float16, np.float32, (128, 256, 16), 16)
    compiled = compile_module(sample.module(), "sm_86", 8, num_stages=1, until="ptx")
    assert compiled.metadata.shared == 64 * 1024
    arguments = sample.fresh()
    launch(compiled, buffers(arguments), sample.grid)
    assert bound_of(sample, F16, F32, "", "ieee").utilisation(arguments[2]) <= 1


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("most", [64, 512, 4096])
def test_any_conversion_may_go_in_pieces(most: int, num_warps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversions, "MOST_BYTES", most)
    for turned in ("", "a", "ab"):
        sample = product_sample(np.float16, np.float16, (64, 32, 64), 64, turned=turned)
        conversions.conversion.cache_clear()
        try:
            got = emulated(sample, "sm_90a", num_warps)
        finally:
            conversions.conversion.cache_clear()
        assert bound_of(sample, F16, F16, turned, "ieee").utilisation(got) <= 1


# Selection


def dot_kernel(elements: tuple[ScalarType, ...], shape: tuple[int, int, int], batch: int, precision: str) -> Module:
    kernel = Kernel()
    m, n, k = shape
    lead = (batch,) if batch else ()
    loaded: list[Any] = []
    for element, extents in zip(elements, ((m, k), (k, n), (m, n)), strict=True):
        count = m * k * (batch or 1) if extents == (m, k) else (batch or 1) * extents[0] * extents[1]
        offsets = kernel.make("arange", attributes={"start": 0, "end": count})
        offsets = kernel.make("reshape", [offsets], attributes={"shape": (*lead, *extents)})
        pointers = kernel.at(kernel.pointer(element), offsets)
        loaded.append((pointers, kernel.make("load", [pointers])))
    operands = [value for _, value in loaded]
    made = kernel.make("dot", operands, with_shape(elements[2], (*lead, m, n)), {"precision": precision})
    kernel.do("store", [loaded[2][0], made])
    return kernel.module()


def select_all(target: str, batch: int) -> None:
    for elements in DOT_ELEMENTS:
        if elements[0] in FP8 and elements[1] not in (elements[0], F8E4M3FN):
            continue  # each format with itself and with one other
        for shape in ((16, 16, 32), (4, 8, 8)):
            for precision in PRECISIONS if elements[0] == F32 else ("ieee",):
                compile_module(dot_kernel(elements, shape, batch, precision), target, 4, until="ptx")


@pytest.mark.parametrize("target", [pytest.param(t, marks=[] if t == "sm_89" else pytest.mark.slow) for t in TARGETS])
@pytest.mark.parametrize("batch", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_every_type_of_product_selects(target: str, batch: int) -> None:
    assert outcome(partial(select_all, target, batch)) == ""


# Refusals


def test_a_tile_far_too_large_for_registers_is_refused_with_figures() -> None:
    sample = product_sample(np.float16, np.float32, (256, 1024, 16), 16)
    with pytest.raises(RegistersExceeded) as raised:
        compile_module(sample.module(), "sm_90a", 4, until="ptx")
    text = str(raised.value)
    assert "a tile of shape (256, 1024) with 32 bits an element takes 2,048 registers in each of 128 threads" in text
    assert "a thread of sm_90a has 255" in text and "num_warps=16" in text and "test_dot.product" in text
