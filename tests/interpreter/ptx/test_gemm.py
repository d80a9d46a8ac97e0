"""The hand-written matrix product for Hopper: right under every schedule, and each fault planted in it is caught."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.interpreter.ptx.programs import aligned
from tilewright.compiler import assemble
from tilewright.interpreter import Buffer, Options, load_ptx, run_ptx
from tilewright.interpreter.ptx import encode_tensor_map
from tilewright.lang import TilewrightError
from tools.probes import gemm_kernel as gemm

Array = NDArray[Any]

M, N, K = 128, 256, 256
"""More steps than buffers, so that buffers are used again."""
TEXT = gemm.text()


def product(
    text: str = TEXT, m: int = M, n: int = N, k: int = K, swizzles: Sequence[str] = ("128B",) * 3,
    options: Options | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """What the kernel makes of small integers, and what it should."""
    rng = np.random.default_rng(0)
    a, b = (aligned(rng.integers(-3, 4, (rows, k)).astype(np.float16), 128) for rows in (m, n))
    c = aligned(np.full((m, n), np.nan, np.float16), 128)
    maps = [
        encode_tensor_map("float16", x.ctypes.data, x.shape[::-1], x.strides[:1], operand.box, swizzle=swizzle)
        for x, operand, swizzle in zip((a, b, c), gemm.OPERANDS, swizzles, strict=True)
    ]
    buffers = [Buffer.of(operand.name, x) for operand, x in zip(gemm.OPERANDS, (a, b, c), strict=True)]
    run_ptx(
        load_ptx(text), gemm.ENTRY, gemm.grid(m, n), (gemm.THREADS,), [*maps, k // gemm.DEPTH], options,
        gemm.SHARED_BYTES, reachable=buffers,
    )  # fmt: skip
    return c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_right_under_every_schedule(seed: int) -> None:
    got, want = product(options=Options(seed=seed, mma="hardware" if seed else "exact"))
    assert np.array_equal(got, want)


def test_blocks_and_short_products() -> None:
    got, want = product(m=256, n=512, k=64)
    assert np.array_equal(got, want)


def test_the_assembler_takes_it() -> None:
    assert assemble(gemm.ENTRY, TEXT, "sm_90a").cubin


FULL_WAIT = "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %done, [%full], %phase;\n@!%done bra LOADED;"
EMPTY_WAIT = "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %done, [%empty], %y;\n@!%done bra FREE;"
ARRIVE = "mbarrier.arrive.release.cta.shared::cta.b64 _, [%last];"
LATE = f"setp.ne.u32 %p, %i, 0;\nand.pred %p, %p, %one;\n@%p {ARRIVE}"
A_DESCRIPTOR = f"or.b64 %a0, %a0, {gemm.DESCRIPTOR};"
STUCK, RESULT = "every thread that has not exited waits", "wrong result"
FLYING = "which a `wgmma.mma_async` in flight uses"

FAULTS: dict[str, tuple[str, str, str]] = {
    "consumers begin with the wrong phase": ("[%full], %phase;", "[%full], 1;", "without a wait for"),
    "the producer begins with the wrong phase": ("xor.b32 %y, %phase, 1;", "mov.b32 %y, %phase;", STUCK),
    "the phase never changes": ("@%p xor.b32 %phase, %phase, 1;", "", "underflow"),
    "too few bytes expected": ("_, [%full], 49152;", "_, [%full], 49136;", "-16 bytes short"),
    "too many bytes expected": ("_, [%full], 49152;", "_, [%full], 49168;", "and 16 bytes short"),
    "no bytes expected": (
        "arrive.expect_tx.shared::cta.b64 _, [%full], 49152;", "arrive.shared::cta.b64 _, [%full];", "tensor copy"),
    "two arrivals expected where one comes": (f"+{gemm.FULL}], 1;", f"+{gemm.FULL}], 2;", "1 of 2 arrivals"),
    "one consumer is enough to free a buffer": ("], 2;", "], 1;", STUCK),
    "every thread frees a buffer": ("and.pred %p, %p, %one;", "", STUCK),
    "a buffer is freed while products read it": (
        LATE, f"@%one {ARRIVE}".replace("%last", "%empty"), "read of `wgmma.mma_async`"),
    "products are not waited for before that": (
        "wait_group.sync.aligned 1;", "wait_group.sync.aligned 2;", "read of `wgmma.mma_async`"),
    "consumers do not wait for loads": (FULL_WAIT, "", "without a wait for the write of a tensor copy"),
    "the producer does not wait for free buffers": (EMPTY_WAIT, "", "underflow"),
    "a buffer is freed by a relaxed arrival": ("arrive.release.cta", "arrive.relaxed.cta", "write of a tensor copy"),
    "consumers wait relaxed": (
        FULL_WAIT, FULL_WAIT.replace("acquire", "relaxed"), "not ordered with the write of a tensor copy"),
    "all lanes load": ("@!%one bra DONE;\nLOAD:", "LOAD:", "underflow"),
    "mbarriers are used before they are made": ("READY:\nbar.sync 0;", "READY:", "not ordered with the `mbarrier.init"),
    "no fence before the first product": ("wgmma.fence.sync.aligned;", "", "no `wgmma.fence` before"),
    "products are not committed": ("wgmma.commit_group.sync.aligned;", "", "read of `wgmma.mma_async`"),
    "results are read before the wait": ("wgmma.wait_group.sync.aligned 0;", "", FLYING),
    "results are changed in flight": ("mov.u32 %last, %empty;", "mov.u32 %last, %empty; mov.b32 %d9, 0;", FLYING),
    "the stride of a descriptor": (
        A_DESCRIPTOR, A_DESCRIPTOR.replace(str(gemm.DESCRIPTOR), str(gemm.DESCRIPTOR ^ 96 << 32)), RESULT),
    "the swizzle of a descriptor": (
        A_DESCRIPTOR, A_DESCRIPTOR.replace(str(gemm.DESCRIPTOR), str(gemm.DESCRIPTOR ^ 3 << 62)), RESULT),
    "descriptors go on too far": ("add.u64 %da, %da, 2;", "add.u64 %da, %da, 4;", "write of a tensor copy"),
    "coordinates in the wrong order": ("{%k, %m}", "{%m, %k}", RESULT),
    "accumulators are never added to": ("setp.eq.u32 %adds, %steps, %steps;", "", RESULT),
    "no proxy fence before the stores": ("fence.proxy.async.shared::cta;", "", "with no `fence.proxy.async` behind"),
    "no barrier before the stores": ("bar.sync %y, 128;", "", "not ordered with the store of 4 bytes"),
    "stores are not waited for": ("cp.async.bulk.wait_group 0;", "", "still in flight when its block ends"),
    "stores are not committed": ("cp.async.bulk.commit_group;", "", "still in flight when its block ends"),
    "more registers than there are": ("inc.sync.aligned.u32 232", "inc.sync.aligned.u32 240", "`setmaxnreg.inc"),
}  # fmt: skip
"""By what is wrong: what stands in the text, what is put in its place, and what is told."""


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str) -> None:
    old, new, told = FAULTS[fault]
    assert old in TEXT
    if told == RESULT:
        got, want = product(TEXT.replace(old, new))
        assert not np.array_equal(got, want)
        return
    with pytest.raises(TilewrightError) as caught:
        product(TEXT.replace(old, new))
    assert told in str(caught.value)


@pytest.mark.parametrize("wrong", [("none", "128B", "128B"), ("128B", "128B", "none")])
def test_swizzles_of_tensor_maps_must_fit(wrong: tuple[str, str, str]) -> None:
    got, want = product(swizzles=wrong)
    assert not np.array_equal(got, want)
