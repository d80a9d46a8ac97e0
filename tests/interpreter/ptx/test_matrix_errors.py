"""What is wrong with matrix instructions, in their text and when they run; and redux of floats."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.interpreter.ptx.programs import module_text, run
from tilewright.interpreter import Buffer, MemoryAccessError, Options
from tilewright.interpreter.ptx import BarrierError, PtxError, load_ptx, run_ptx
from tools.probes.products import PRODUCTS, kernel_text

DECLARED = ".reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %d<20>; .reg .b16 %h<4>; .shared .align 16 .b8 tile[512];\n"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
GOOD = "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3}"


def load(text: str, target: str = "sm_90a") -> None:
    load_ptx(module_text(DECLARED + text).replace("sm_90a", target))


MALFORMED = {
    f"{MMA} {GOOD.replace(', %r3', '')};": (f"the left operand of `{MMA}` is a vector of 4 32-bit registers, found 3"),
    f"{MMA} {GOOD.replace('%r4, %r5', '%r4')};": f"right operand of `{MMA}` is a vector of 2 32-bit registers, found 1",
    f"{MMA} {GOOD.replace('{%r4, %r5}', '%r4')};": "is a vector of 2 32-bit registers, found no vector",
    f"{MMA} {GOOD[2:].partition(', ')[2].replace('%f1, ', '{%f1, ', 1)};": f"the result of `{MMA}` is a vector of 4",
    f"{MMA} {GOOD.replace('%r0', '%d0')};": f"`%d0` has 64 bits, `{MMA}` needs 32",
    f"{MMA} {GOOD.replace('%r5', '%h1')};": f"`%h1` has 16 bits, `{MMA}` needs 32",
    f"{MMA} {GOOD}, %r1;": f"`{MMA}` takes 4 operands, found 5",
    MMA.replace("f16.f32", "f16.f16") + f" {GOOD};": "accumulator and result must be of one type",
    MMA.replace("k16", "k32") + f" {GOOD};": "is not a form of `mma`; the forms:",
    MMA.replace("f16.f16", "f16.bf16") + f" {GOOD};": "is not a form of `mma`; the forms:",
    MMA.replace(".row.col", ".row.row") + f" {GOOD};": "is not a form of `mma`; the forms:",
    MMA.replace(".aligned", "") + f" {GOOD};": "is not a form of `mma`; the forms:",
    MMA.replace("mma", "mma.sp") + f" {GOOD};": "unknown modifier `.sp` of `mma`",
    "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0}, {%r0}, {%r1}, {%f0};": (
        "m8n8k4.row.col.f32.f16.f16.f32` of f16 is the product of sm_70 and is not supported; use m16n8k8 or m16n8k16"
    ),
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d0, %d1}, {%d2}, {%d3}, {%r0, %r1};": (
        "`%r0` has 32 bits, `mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64` needs 64"
    ),
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0, %r1, %r2}, [tile];": (
        "the result of `ldmatrix.sync.aligned.m8n8.x2.shared.b16` is a vector of 2 32-bit registers, found 3"
    ),
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r0, [tile];": "a vector of 1 32-bit register, found no vector",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%d0}, [tile];": "`%d0` has 64 bits",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, %r1;": "needs an address in brackets",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [tile];": "unknown modifier `.m16n16` of `ldmatrix`",
    "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r0, %r1, %r2}, [tile];": "unknown modifier `.x3` of `ldmatrix`",
    "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r0}, [%d0];": "unknown modifier `.global` of `ldmatrix`",
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [tile], {%r0};": "the source of `stmatrix.sync.aligned.m8n8.x2",
    "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %h0;": "`%h0` has 16 bits, `movmatrix.sync.aligned.m8n8.trans.b16`",
    "movmatrix.sync.aligned.m8n8.b16 %r0, %r1;": "is not a form of `movmatrix`",
    "redux.sync.add.f32 %f0, %f1, -1;": "is not a form of `redux`",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_instructions(text: str) -> None:
    load(f"{MMA} {GOOD};")
    with pytest.raises(PtxError) as caught:
        load(f"\n{text}")
    assert MALFORMED[text] in caught.value.what
    assert (caught.value.line, caught.value.text) == (9, text)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [tile], {%r0};", "sm_89", "sm_90"),
        ("redux.sync.max.NaN.f32 %f0, %f1, -1;", "sm_120a", "sm_100a"),
        ("mma.sync.aligned.m16n8k16.row.col.f16.e5m2.e4m3.f16 {%r0, %r1}, {%r2, %r3}, {%r6}, {%r8, %r9};",
         "sm_86", "sm_89"),
        ("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%d0, %d1, %d2, %d3}, {%d4, %d5}, {%d6}, "
         "{%d0, %d1, %d2, %d3};", "sm_89", "sm_90"),
        (f"{MMA} {GOOD};", "sm_75", "sm_80"),
    ],
)  # fmt: skip
def test_targets_that_lack_an_instruction(text: str, old: str, new: str) -> None:
    load(text, new)
    with pytest.raises(PtxError, match=f"the module is for {old}") as caught:
        load(text, old)
    assert new in str(caught.value) and f"`{text.partition(' ')[0]}`" in str(caught.value)


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"])
def test_each_target_has_the_products_that_it_needs(target: str) -> None:
    for mma in PRODUCTS[::3]:
        if mma.least <= int(target[3:].rstrip("a")):
            load_ptx(kernel_text(mma, target))
        else:
            with pytest.raises(PtxError, match=f"needs sm_{mma.least}, the module is for {target}"):
                load_ptx(kernel_text(mma, target))


def test_arithmetics_have_names() -> None:
    with pytest.raises(ValueError, match="mma is 'exact' or 'hardware', found 'fast'"):
        Options(mma="fast")  # type: ignore[arg-type]


# --- running ---

START = (
    DECLARED
    + """
.reg .pred %p; .reg .b32 %t, %l, %s; mov.u32 %t, %tid.x; and.b32 %l, %t, 31; mov.u32 %s, tile; mov.b32 %r0, 0;
shl.b32 %r1, %t, 2; and.b32 %r1, %r1, 508; add.u32 %r1, %r1, %s; st.shared.b32 [%r1], %t; bar.sync 0;
.loc 1 7 3
"""
)
X4 = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];"
MOVE = "movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r0;"


def test_rows_must_be_aligned_and_inside() -> None:
    row = "shl.b32 %r3, %l, 4; add.u32 %r3, %r3, %s; "
    run(START + row + X4, block=64)
    odd = "setp.eq.u32 %p, %t, 43; @%p add.u32 %r3, %r3, 8; "
    with pytest.raises(MemoryAccessError) as caught:
        run(START + row + odd + X4, block=64)
    assert "?:7:3: load of 16 bytes at shared address 0xb8" in str(caught.value)
    assert "misaligned, it needs a multiple of 16; thread (43, 0, 0)" in str(caught.value)
    with pytest.raises(MemoryAccessError, match=r"0x200, out of bounds: there are 512 bytes; thread \(31, 0, 0\)"):
        run(START + row + "add.u32 %r3, %r3, 16; " + X4, block=64)
    store = "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r3], {%r0, %r0};"
    with pytest.raises(MemoryAccessError, match=r"store of 16 bytes at shared address 0x1.*\(43, 0, 0\)"):
        run(START + row + "bar.sync 0; setp.eq.u32 %p, %t, 43; @%p mov.u32 %r3, 24; " + store, block=64)
    # Lanes from 16 on give no address to an x2.
    run(START + row + "bar.sync 0; setp.lt.u32 %p, %t, 32; @%p bra.uni E; setp.ge.u32 %p, %l, 16; @%p mov.u32 %r3, 7; "
        + store + " E: ret;", block=64)  # fmt: skip


def test_generic_addresses_must_lie_in_shared_memory() -> None:
    generic = X4.replace(".shared", "").replace("%r3", "%d1")
    run(START + "cvta.shared.u64 %d1, 0; " + generic, block=32)
    with pytest.raises(MemoryAccessError) as caught:
        run(START + "ld.param.u64 %d1, [a]; " + generic, np.zeros(64), block=32)
    assert "`ldmatrix.sync.aligned.m8n8.x4.b16` at byte address 0x" in str(caught.value)
    assert "which is not in shared memory; thread (0, 0, 0)" in str(caught.value)


def test_warps_must_be_whole() -> None:
    run(START + MOVE, block=96)
    with pytest.raises(BarrierError) as caught:
        run(START + MOVE, block=48)
    assert str(caught.value) == (
        "?:7:3: `movmatrix.sync.aligned.m8n8.trans.b16` needs all 32 threads of a warp, there are 16: a block has 48; "
        "thread (32, 0, 0) (program (0, 0, 0))"
    )
    with pytest.raises(BarrierError, match=r"there are 31: the others have exited; thread \(32, 0, 0\)"):
        run(START + "setp.eq.u32 %p, %t, 40; @%p exit; " + MOVE, block=64)


WAITS = "every thread that has not exited waits for others"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (f"setp.lt.u32 %p, %l, 5; @%p bra A; {MOVE} bra E; A: {MOVE} E: ret;", "27 threads wait in `movmatrix"),
        (f"setp.lt.u32 %p, %l, 5; @%p {MOVE} bar.sync 0;", "27 threads wait in `bar.sync`"),
        (f"setp.ge.u32 %p, %l, 5; @%p bra A; {MOVE} A: ret;", "5 threads wait in `movmatrix"),
    ],
)
def test_divergent_warps(body: str, line: str) -> None:
    """Some lanes stand at another place, or never come: all places where threads wait are told."""
    with pytest.raises(BarrierError) as caught:
        run(START + body, block=32)
    assert WAITS in str(caught.value) and f"?:7:3: {line}" in str(caught.value)


# --- redux of floats ---


def plain(nan: str, best: Callable[..., float]) -> Callable[[list[float]], float]:
    def rule(values: list[float]) -> float:
        numbers = [x for x in values if not math.isnan(x)]
        return math.nan if not numbers or (nan and len(numbers) < len(values)) else best(numbers)

    return rule


@pytest.mark.parametrize("nan", ["", ".NaN"])
@pytest.mark.parametrize("magnitude", ["", ".abs"])
@pytest.mark.parametrize("op", ["min", "max"])
def test_redux_of_floats(op: str, magnitude: str, nan: str) -> None:
    values = np.random.default_rng(0).standard_normal(104).astype(np.float32)
    values[39] = math.nan
    values[64:96] = math.nan
    warps = np.split(values, [32, 64, 96])  # the last one has only 8 lanes
    text = module_text(
        ".reg .b64 %a, %o; .reg .b32 %t; .reg .f32 %x; ld.param.u64 %a, [a]; mov.u32 %t, %tid.x;"
        "mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; ld.global.f32 %x, [%a];"
        f"redux.sync.{op}{magnitude}{nan}.f32 %x, %x, -1;"
        "st.global.f32 [%a], %x;",
        ("a",),
    ).replace("sm_90a", "sm_100a")
    best = plain(nan, min if op == "min" else max)
    want = [best([abs(x) if magnitude else x for x in warp.tolist()]) for warp in warps]
    out = values.copy()
    run_ptx(load_ptx(text), "k", (1,), (out.size,), [Buffer.of("a", out)])
    assert np.array_equal(out, np.array(want, np.float32).repeat([32, 32, 32, 8]), equal_nan=True)
    assert (out.view(np.uint32)[64:96] == 0x7FFF_FFFF).all()
