"""`wgmma`: every type, shape, layout and flag against NumPy, and what must not be done while products are in flight."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.groups import DTYPES, WIDTH, Array, Group, Layout, descriptor, kernel, run_group
from tilewright.compiler import assemble
from tilewright.interpreter import MemoryAccessError, Options, UninitializedError
from tilewright.interpreter.ptx import BarrierError, PtxError, RaceError, load_ptx

TYPES = (
    ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
    ("f32", "e4m3", "e5m2"), ("f16", "e5m2", "e4m3"), ("s32", "s8", "u8"), ("s32", "u8", "s8"),
)  # fmt: skip


def a_group(
    d: str, a: str, b: str, columns: int, swizzle: str, turned: tuple[bool, bool] = (False, False),
    registers: bool = False, negative: tuple[bool, bool] = (False, False),
) -> Group:  # fmt: skip
    """A product whose operands lie in one way."""
    itemsize = np.dtype(DTYPES[a]).itemsize
    left = None if registers else Layout(64, 32 // itemsize, itemsize, swizzle, turned[0])
    return Group(columns, d, a, b, left, Layout(columns, 32 // itemsize, itemsize, swizzle, turned[1]), negative)


def operands(group: Group, seed: int = 0) -> tuple[Array, Array, Array]:
    """Small integers, so that every sum is exact in every format."""
    rng = np.random.default_rng(seed)
    low = {"u8": 0}
    a = rng.integers(low.get(group.a, -3), 4, (64, group.depth)).astype(DTYPES[group.a])
    b = rng.integers(low.get(group.b, -3), 4, (group.columns, group.depth)).astype(DTYPES[group.b])
    c = rng.integers(-5, 6, (64, group.columns)).astype(DTYPES[group.d])
    return a, b, c


def product(group: Group, a: Array, b: Array, c: Array) -> Array:
    sign = (-1) ** sum(group.negative)
    return (sign * (a.astype(np.float64) @ b.astype(np.float64).T) + c.astype(np.float64)).astype(DTYPES[group.d])


@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize(("columns", "mma"), [(96, "exact"), (8, "hardware")])
@pytest.mark.parametrize("types", TYPES, ids=".".join)
def test_every_type_is_right_on_integers(types: tuple[str, str, str], columns: int, registers: bool, mma: str) -> None:
    group = a_group(*types, columns, "128B", registers=registers)
    a, b, c = operands(group, columns)
    options = Options(mma="hardware" if mma == "hardware" else "exact")
    assert np.array_equal(run_group(group, a, b, c, options=options), product(group, a, b, c))


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("swizzle", WIDTH)
@pytest.mark.parametrize("columns", [64, 128])
def test_every_layout(columns: int, swizzle: str, turned: tuple[bool, bool]) -> None:
    group = a_group("f32", "bf16", "bf16", columns, swizzle, turned)
    a, b, c = operands(group, 7)
    assert np.array_equal(run_group(group, a, b, c), product(group, a, b, c))


@pytest.mark.parametrize("swizzle", WIDTH)
@pytest.mark.parametrize("types", [("f32", "tf32", "tf32"), ("s32", "s8", "s8")], ids=".".join)
def test_layouts_of_other_widths(types: tuple[str, str, str], swizzle: str) -> None:
    group = a_group(*types, 24, swizzle)
    a, b, c = operands(group, 3)
    assert np.array_equal(run_group(group, a, b, c), product(group, a, b, c))


@pytest.mark.parametrize("columns", [*range(8, 129, 24), 256])
def test_every_width_is_right(columns: int) -> None:
    group = a_group("f32", "f16", "f16", columns, "none")
    a, b, c = operands(group, columns)
    assert np.array_equal(run_group(group, a, b, c), product(group, a, b, c))


@pytest.mark.parametrize("types", TYPES, ids=".".join)
@pytest.mark.parametrize("registers", [False, True])
def test_the_assembler_takes_them(types: tuple[str, str, str], registers: bool) -> None:
    group = a_group(*types, 32, "64B", registers=registers)
    assert assemble("k", kernel(group), "sm_90a").cubin


@pytest.mark.parametrize("negative", [(True, False), (False, True), (True, True)])
def test_negated_operands(negative: tuple[bool, bool]) -> None:
    group = a_group("f32", "f16", "f16", 16, "32B", negative=negative)
    a, b, c = operands(group)
    assert np.array_equal(run_group(group, a, b, c), product(group, a, b, c))


def test_without_the_accumulators() -> None:
    group = a_group("f32", "f16", "f16", 16, "32B")
    a, b, c = operands(group)
    assert np.array_equal(run_group(group, a, b, np.full_like(c, np.nan), adds=False), product(group, a, b, c * 0))


def test_integers_wrap_or_saturate() -> None:
    for satfinite, want in ((False, -(2**31) + 1), (True, 2**31 - 1)):
        layout = Layout(8, 32, 1, "none", False)
        group = Group(8, "s32", "u8", "u8", None, layout, satfinite=satfinite)
        a, b = np.zeros((64, 32), np.uint8), np.zeros((8, 32), np.uint8)
        a[:, 0] = b[:, 0] = 2
        c = np.full((64, 8), 2**31 - 3, np.int32)
        assert (run_group(group, a, b, c) == want).all()


def test_hardware_cuts_off_as_the_models_say() -> None:
    """e4m3: 13 fraction bits below the largest product; f16: 25 bits, so that 2**-24 beside 1 is not lost."""
    group = a_group("f32", "e4m3", "e4m3", 8, "none")
    a, b, c = (np.zeros_like(x) for x in operands(group))
    a[:, :2], b[:, :2] = [[256, 2.0**-6]], [[256, 1]]
    assert (run_group(group, a, b, c, options=Options(mma="hardware")) == 65536).all()
    a[:, 1] = 8
    assert (run_group(group, a, b, c, options=Options(mma="hardware")) == 65536 + 8).all()
    group = a_group("f32", "f16", "f16", 8, "none")
    a, b, c = (np.zeros_like(x) for x in operands(group))
    a[:, :3], b[:, :3] = [[1, 2.0**-12, 2.0**-12]], [[1, 2.0**-12, 2.0**-12]]
    assert (run_group(group, a, b, c, options=Options(mma="hardware")) == 1 + 2.0**-23).all()


@pytest.mark.parametrize("seed", range(5))
def test_products_follow_each_other_under_every_schedule(seed: int) -> None:
    """The same accumulators of one shape may be in flight twice."""
    group = a_group("f32", "f16", "f16", 16, "64B")
    a, b, c = operands(group)
    again = kernel(group).split("wgmma.fence.sync.aligned;")[1].split(";")[0] + ";"
    twice = run_group(group, a, b, c, before=again, options=Options(seed=seed))
    assert np.array_equal(twice, product(group, a, b, product(group, a, b, c)))


GOOD = a_group("f32", "f16", "f16", 16, "64B", registers=True)


def failing(before: str = "", after: str = "", change: tuple[str, str] = ("", ""), group: Group = GOOD) -> str:
    """What is told about a product with something added or replaced."""

    def changed(text: str) -> str:
        assert change[0] in text
        return text.replace(*change) if change[0] else text

    with pytest.raises((BarrierError, RaceError, MemoryAccessError, UninitializedError)) as caught:
        run_group(group, *operands(group), before=before, after=after, change=changed)
    return str(caught.value)


@pytest.mark.parametrize(
    ("mistake", "what"),
    [
        ({"after": "mov.b32 %x, %d3;"}, "`mov.b32` touches `%d3`, which a `wgmma.mma_async` in flight uses"),
        ({"after": "mov.b32 %d3, 0;"}, "`mov.b32` touches `%d3`"),
        ({"after": "setp.eq.u32 %q, %t, 77; @%q mov.b32 %x, %d3;"}, "thread (77, 0, 0)"),
        ({"change": ("wgmma.wait_group.sync.aligned 0;", "")}, "`st.global.u32` touches `%d0`"),
        ({"change": ("wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;")}, "`st.global.u32` touches `%d0`"),
        ({"change": ("wgmma.commit_group.sync.aligned;", "")}, "`st.global.u32` touches `%d0`"),
        ({"change": ("wgmma.fence.sync.aligned;", "")}, "no `wgmma.fence` before the first product"),
        ({"before": "add.u32 %d3, %d3, 1;"}, "`%d3` was written after the last `wgmma.fence`"),
        ({"before": "add.u32 %a1, %a1, 1;"}, "`%a1` was written after the last `wgmma.fence`"),
        ({"change": ("fence.proxy.async.shared::cta;", "")}, "with no `fence.proxy.async` behind the store of 4 bytes"),
        ({"change": ("bar.sync 0;", "")}, "not ordered with the store of 4 bytes"),
        ({"after": "st.shared.u32 [%s0], %t;"}, "without a wait for the read of `wgmma.mma_async`"),
        ({"before": "add.u64 %db, %db, 4090;"}, "out of bounds: there are 65536 bytes"),
        ({"before": "cvt.u64.u32 %o, %t; add.u64 %db, %db, %o;"}, "have different descriptors"),
        ({"before": "or.b64 %db, %db, 16384;"}, "bits 0x4000 of a descriptor must be zeros"),
        ({"before": "add.u64 %db, %db, 64;"}, "which nobody wrote"),
        ({"before": "setp.lt.u32 %q, %t, 32; @%q exit;"}, "needs all 128 threads of a warp group, there are 96"),
        ({"before": "setp.lt.u32 %q, %t, 32; @%q bra O; bar.sync 1; O:"}, "every thread that has not exited waits"),
    ],
)  # fmt: skip
def test_mistakes(mistake: dict[str, str | tuple[str, str]], what: str) -> None:
    assert what in failing(**mistake)  # type: ignore[arg-type]


def test_changing_the_left_operand_and_other_registers_is_no_mistake() -> None:
    a, b, c = operands(GOOD)
    harmless = "mov.b32 %a2, 0; mov.b32 %x, 7; setp.eq.u32 %q, %t, 999; @%q mov.b32 %x, %d3;"
    assert np.array_equal(run_group(GOOD, a, b, c, after=harmless), product(GOOD, a, b, c))


def test_what_products_have_read_may_be_written_by_those_that_know() -> None:
    """Whoever learns of the wait of any thread of the warp group may write."""
    free = "wgmma.wait_group.sync.aligned 0; {} st.shared.u32 [%s0], %t;"
    other = "setp.eq.u32 %q, %t, 0; @%q st.shared.u32 [%s0], %t; bar.sync 0;"
    a, b, c = operands(GOOD)
    after = f"wgmma.wait_group.sync.aligned 0; bar.sync 0; {other}"
    assert np.array_equal(run_group(GOOD, a, b, c, after=after), product(GOOD, a, b, c))
    assert "not ordered with the store" in failing(after=free.format(""))


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("m64n16k16", "m64n20k16", "there is no shape of 20 columns"),
        ("m64n16k16", "m64n264k16", "there is no shape of 264 columns"),
        ("m64n16k16", "m64n24k16", "is a vector of 12 32-bit registers"),
        (", 1, 1, 0;", ", 2, 1, 0;", "imm-scale of"),
        (", 1, 1, 0;", ", 1, 1, 3;", "imm-trans of"),
        (", 1, 1, 0;", ", 1, 1, 0, 0;", "takes 7 operands, found 8"),
        ("f32.f16.f16", "f32.f16.bf16", "is not a form of `wgmma`"),
        ("wait_group.sync.aligned 0", "wait_group.sync.aligned -1", "leaves 0 to 2\\*\\*32 - 1 groups, found -1"),
        (".target sm_90a", ".target sm_90", "is an instruction of sm_90a"),
    ],
)
def test_what_is_not_ptx_is_refused(old: str, new: str, what: str) -> None:
    text = kernel(GOOD)
    assert old in text
    with pytest.raises(PtxError, match=what):
        load_ptx(text.replace(old, new))


def test_tcgen05_is_refused_by_name() -> None:
    with pytest.raises(PtxError, match="`tcgen05` .*is not supported"):
        load_ptx(kernel(GOOD, after="tcgen05.wait::ld.sync.aligned;"))


def test_descriptors_hold_16_byte_units() -> None:
    assert descriptor(1024, 16, 1024, "128B") == 64 | 1 << 16 | 64 << 32 | 1 << 62
