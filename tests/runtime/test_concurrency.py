"""Programs that wait for each other: spin locks, a higher program id, and a real deadlock."""

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright import bench, language
from tilewright.interpreter import Bounded, DeadlockError
from tilewright.lang import F32, knobs


def layernorm_backward(dy: Bounded, x: Bounded, w: Bounded, mean: Bounded, rstd: Bounded) -> tuple[Bounded, Bounded]:
    """The gradient of the input, and what each row adds to that of the weights, in the kernel's own operations."""
    count = Bounded.exact(x.value.shape[1], F32)
    xhat = (x - mean[:, None]) * rstd[:, None]
    wdy = w[None, :] * dy
    c1, c2 = (xhat * wdy).sum(1) / count, wdy.sum(1) / count
    return (wdy - (xhat * c1[:, None] + c2[:, None])) * rstd[:, None], dy * xhat


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_layernorm_backward_under_spin_locks(seed: int) -> None:
    rows, cols, groups = 37, 96, 4
    rng = np.random.default_rng(3)
    x, dy = rng.standard_normal((2, rows, cols)).astype(np.float32)
    w = rng.standard_normal(cols).astype(np.float32)
    mean = x.mean(1, dtype=np.float64).astype(np.float32)
    rstd = (1 / np.sqrt(x.var(1, dtype=np.float64) + 1e-5)).astype(np.float32)
    dx, dw, db = np.zeros_like(x), np.zeros((groups, cols), np.float32), np.zeros((groups, cols), np.float32)
    locks = np.zeros(2 * groups, np.int32)
    kernel = bench.load_kernels("norms", tilewright, language).layernorm_backward_kernel
    with knobs.scope(seed=seed):
        kernel[(rows,)](dx, dy, dw, db, x, w, mean, rstd, locks, cols, cols, GROUPS=groups, BLOCK=128)
    wanted, added = layernorm_backward(*(Bounded.exact(array, F32) for array in (dy, x, w, mean, rstd)))
    assert wanted.utilisation(dx) <= 1
    for group in range(groups):
        mine = np.arange(rows) % groups == group
        assert added[mine].sum(0).utilisation(dw[group]) <= 1
        assert Bounded.exact(dy[mine], F32).sum(0).utilisation(db[group]) <= 1
    assert (locks[:groups] == 0).all() and (locks[groups:] == 1).all()


@tilewright.jit
def wait_for_the_next(flag_ptr, out_ptr, n):
    pid = tl.program_id(0)
    if pid + 1 < n:
        while tl.atomic_load(flag_ptr + pid + 1) == 0:
            pass
        tl.store(out_ptr + pid, tl.load(out_ptr + pid + 1) + 1)
    tl.atomic_xchg(flag_ptr + pid, 1)


@pytest.mark.parametrize("seed", [0, 3])
def test_a_program_waits_for_a_higher_one(seed: int) -> None:
    flags, out = np.zeros(40, np.int32), np.zeros(40, np.int32)
    with knobs.scope(seed=seed):
        wait_for_the_next[(40,)](flags, out, 40)
    assert (out == np.arange(39, -1, -1)).all()


@tilewright.jit
def two_locks_in_both_orders(lock_ptr):
    pid = tl.program_id(0)
    while tl.atomic_cas(lock_ptr + pid, 0, 1) == 1:
        pass
    tl.atomic_add(lock_ptr + 2, 1)
    while tl.atomic_load(lock_ptr + 2) < 2:
        pass
    while tl.atomic_cas(lock_ptr + 1 - pid, 0, 1) == 1:
        pass


def test_a_deadlock_names_the_lines_waited_on() -> None:
    with pytest.raises(DeadlockError) as caught:
        two_locks_in_both_orders[(2,)](np.zeros(3, np.int32))
    text = str(caught.value)
    line = two_locks_in_both_orders.source.first + 8
    assert "two_locks_in_both_orders" in text and str(line) in text and "lock_ptr" in text
