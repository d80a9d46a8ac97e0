"""Run a kernel on enclosures: which results may an implementation that keeps the contracts leave in each buffer?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.lang import FloatType, Module, PointerType, element_of

from ..batch import Options
from ..control import CONTROL
from ..coroutines import RESUMABLE, make_look, run_tasks
from ..executor import DEFAULTS, Argument, BatchMaker, bind, check_grid
from ..memory import Memory
from ..numerics import FORMATS
from ..plan import Makers, ModulePlan
from ..values import BatchValue
from .arithmetic import wide
from .arrays import ANY, NEVER, Array, exact, keys_of, unpack
from .functions import ulps
from .meanings import ENCLOSED
from .memory import EnclosedMemory
from .reductions import bracketed

MAKERS = Makers(ENCLOSED, {**CONTROL, "reduce": bracketed}, RESUMABLE, make_look)


@dataclass(frozen=True, slots=True, eq=False)
class Enclosure:
    """What may be left in one buffer of floats: for each of its elements a set of results."""

    fmt: str
    elements: Array

    @property
    def reference(self) -> Array:
        """The reference's results, as storage."""
        return unpack(self.elements, self.fmt).value

    def outside(self, result: Array) -> NDArray[np.bool_]:
        """Where a result (a vector of storage) is none of the allowed ones.

        A NaN that was only moved must have the bits that it had; any NaN stands for one that arithmetic made.
        """
        span, carrier = unpack(self.elements, self.fmt), FORMATS[self.fmt].carrier
        with np.errstate(invalid="ignore"):  # signaling NaNs
            values = wide(result, self.fmt)
        missing = np.isnan(values)
        keys = keys_of(np.where(missing, 0.0, values))
        inside = np.where(missing, span.nan == ANY, (keys >= span.low) & (keys <= span.high))
        return ~(inside | (result.view(carrier) == span.value.view(carrier)))

    def shown(self, place: int) -> str:
        """What one element may be, for messages."""
        span = unpack(self.elements[place : place + 1], self.fmt)
        low, high = (float(end[0]) for end in span.numbers())
        numbers = "" if span.empty[0] else repr(low) if low == high else f"{low!r} to {high!r}"
        nan = {NEVER: "", ANY: "NaN"}.get(
            int(span.nan[0]), f"the NaN {span.value.view(FORMATS[self.fmt].carrier)[0]:#x}"
        )
        return " or ".join(filter(None, (numbers, nan)))

    def width(self) -> NDArray[np.float64]:
        """How far the ends lie apart, in units in the last place of the larger; infinite where a NaN may be made."""
        span = unpack(self.elements, self.fmt)
        low, high = (np.where(span.empty, 0.0, end) for end in span.numbers())
        with np.errstate(invalid="ignore"):
            apart = np.where(low == high, 0.0, high - low) / ulps(np.maximum(np.abs(low), np.abs(high)), self.fmt)
        return np.where((span.nan != NEVER) & ~span.empty, np.inf, apart)


def enclose(
    module: Module, arguments: Sequence[Argument], grid: tuple[int, int, int], options: Options = DEFAULTS
) -> dict[str, Enclosure]:
    """Run a kernel as `execute` does, and tell for each buffer of floats what else its contracts allow.

    The buffers hold the reference's results afterwards. The enclosures, by the names of the parameters, are those of
    the elements at aligned addresses; a buffer that is not accessed has none. All that is not a float is exact.
    Raises Undecided where the kernel's memory accesses, branches or integers depend on which of the allowed results a
    float has, and what `execute` raises.
    """
    plain, values = bind(module.kernel, arguments)
    check_grid(grid)
    memory = EnclosedMemory(plain.buffers, plain.kernel)
    if 0 in grid:
        return {}
    make = BatchMaker(grid, memory, options)
    with np.errstate(all="ignore"):
        (fold,) = BatchMaker((1, 1, 1), Memory(), options).batches(1)
        plan = ModulePlan(module, MAKERS, fold)
        kernel = plan.function(plan.kernel_name)
        given = [lift(value, parameter.type) for value, parameter in zip(values, module.kernel.arguments, strict=True)]
        if plan.needs_coroutines:
            run_tasks(kernel, given, make.batches(1), memory, options)
        else:
            for batch in make.batches(max(1, options.chunk_bytes // plan.widest)):
                kernel.run(batch, given)
    return {name: Enclosure(fmt, array) for name, (fmt, array) in memory.shadows.items()}


def lift(value: BatchValue, type_: Any) -> BatchValue:
    """An argument as the domain has it."""
    element = element_of(type_)
    if isinstance(element, PointerType) or not isinstance(element, FloatType):
        return value
    assert isinstance(value, np.ndarray)
    return exact(value, element.name)
