"""The late imports of this room: mpmath, which few kernels need, and threadpoolctl, which products do."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
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


def one_blas_thread() -> AbstractContextManager[Any]:
    """While open, the BLAS works in the calling thread alone.

    Products of tiles are too small to gain from more threads, and on a busy machine threads that wait for each other
    made them ten times slower.
    """
    return _thread_pools().limit(limits=1, user_api="blas")
