"""The late imports of this room: mpmath, which few kernels need; threadpoolctl, which products do; other executors."""

from __future__ import annotations

from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any


def multiprecision_context(precision: int) -> Any:
    """A new mpmath context of its own, working with `precision` bits."""
    import mpmath  # pyright: ignore[reportMissingTypeStubs]

    context: Any = mpmath.mp.clone()
    context.prec = precision
    return context


@cache
def _thread_pools() -> Any:
    from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs]

    return ThreadpoolController()


class _OneBlasThread:
    """Holds the BLAS to one thread while anybody is inside; the last to leave gives it back what it had.

    The limit belongs to the process, so entries from several threads are counted: if each saved and restored it for
    itself, one could save the other's limit and restore that.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limiter = _thread_pools().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limiter.restore_original_limits()


#: `with one_blas_thread:` around products of tiles, which are too small to gain from more threads; on a busy machine
#: threads that wait for each other made them ten times slower.
one_blas_thread = _OneBlasThread()

#: What the room's face takes from the emulator, the domain of intervals and the distributed executor when it is first
#: asked for it.
EMULATOR = frozenset(
    "BarrierError Counters PtxError PtxModule RaceError TrapError UninitializedError check_im2col_map "
    "check_tensor_map encode_im2col_map encode_tensor_map load_ptx run_ptx".split()
)
INTERVALS = frozenset("Enclosure Undecided enclose".split())
DISTRIBUTED = frozenset(("execute_distributed",))
LATE = EMULATOR | INTERVALS | DISTRIBUTED


def late(name: str) -> Any:
    """One of the names in LATE."""
    homes = {EMULATOR: _emulator, INTERVALS: _intervals, DISTRIBUTED: _distributed}
    (home,) = (load for names, load in homes.items() if name in names)
    return getattr(home(), name)


def _emulator() -> ModuleType:
    from . import ptx

    return ptx


def _intervals() -> ModuleType:
    from . import interval

    return interval


def _distributed() -> ModuleType:
    from . import distributed

    return distributed
