"""Host arrays for a GPU: copied there before a launch, and back after it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from ..arguments import ArrayArgument
from .cuda_driver import Driver

#: The driver aligns allocations to this much; copies keep their addresses modulo it, and so what kernels assume.
ALIGNMENT = 256


def groups(arrays: Sequence[ArrayArgument]) -> list[tuple[int, int]]:
    """The byte ranges that the arrays span, those that overlap as one, so that aliases stay aliases."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted((array.lowest, array.lowest + array.nbytes) for array in arrays):
        if merged and low < merged[-1][1]:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return merged


@contextmanager
def on_gpu(driver: Driver, context: Any, payload: Sequence[Any]) -> Generator[list[Any]]:
    """The payload with every array in GPU memory; what was copied is written back on leaving, unless by an exception.

    Does nothing at all when every array is there already. Raises CudaError, also for a kernel that failed meanwhile.
    """
    host = [part for part in payload if isinstance(part, ArrayArgument) and part.device == "cpu"]
    if not host:
        yield list(payload)
        return
    shifts: list[tuple[int, int, int]] = []
    allocations: list[Any] = []
    with driver.current(context):
        try:
            for low, high in groups(host):
                base = driver.call("cuMemAlloc", high - low + ALIGNMENT)
                allocations.append(base)
                start = int(base) + low % ALIGNMENT
                shifts.append((low, high, start - low))
                if high > low:
                    driver.call("cuMemcpyHtoD", start, low, high - low)
            yield [_moved(part, shifts) for part in payload]
            for array in host:
                if array.nbytes and not array.readonly:
                    driver.call("cuMemcpyDtoH", array.lowest, _moved(array, shifts).lowest, array.nbytes)
        finally:
            for base in allocations:
                driver.api.cuMemFree(base)  # after a fault nothing can be freed, and the fault is what matters


def _moved(part: Any, shifts: Sequence[tuple[int, int, int]]) -> Any:
    if not isinstance(part, ArrayArgument) or part.device != "cpu":
        return part
    shift = next(s for low, high, s in shifts if low <= part.lowest and part.lowest + part.nbytes <= high)
    return part._replace(address=part.address + shift, lowest=part.lowest + shift)
