"""What a `for` or `while` of a kernel may iterate over. The frontend reads these objects and lowers the loop."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from ..constants import unwrap
from .arguments import flag, integer


class _bounds:
    """Bounds and step as `range` takes them: (stop), (start, stop) or (start, stop, step)."""

    __slots__ = ("start", "stop", "step")

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None:
        first, second, stride = unwrap(arg1), unwrap(arg2), unwrap(step)
        self.start: Any = 0 if second is None else first
        self.stop: Any = first if second is None else second
        self.step: Any = 1 if stride is None else stride

    def __iter__(self) -> Iterator[Any]:
        """What a loop over this means to Python. Kernels never get here: their loops are compiled."""
        return iter(builtins.range(self.start, self.stop, self.step))


class range(_bounds):
    """A loop over `start, start + step, ...` below `stop` (above it for a negative compile-time step).

    Bounds and step are scalar integers. The rest is advice to the compiler: `num_stages` of software pipelining,
    `loop_unroll_factor`, `flatten` a nest into one loop, `warp_specialize`, `disallow_acc_multi_buffer`,
    `disable_licm` (no hoisting of loop-invariant code).
    """

    __slots__ = (
        "num_stages",
        "loop_unroll_factor",
        "disallow_acc_multi_buffer",
        "flatten",
        "warp_specialize",
        "disable_licm",
    )

    def __init__(
        self,
        arg1: Any,
        arg2: Any = None,
        step: Any = None,
        num_stages: Any = None,
        loop_unroll_factor: Any = None,
        disallow_acc_multi_buffer: Any = False,
        flatten: Any = False,
        warp_specialize: Any = False,
        disable_licm: Any = False,
    ) -> None:
        super().__init__(arg1, arg2, step)
        self.num_stages = _count("num_stages", num_stages)
        self.loop_unroll_factor = _count("loop_unroll_factor", loop_unroll_factor)
        self.disallow_acc_multi_buffer = flag("range", "disallow_acc_multi_buffer", unwrap(disallow_acc_multi_buffer))
        self.flatten = flag("range", "flatten", unwrap(flatten))
        self.warp_specialize = flag("range", "warp_specialize", unwrap(warp_specialize))
        self.disable_licm = flag("range", "disable_licm", unwrap(disable_licm))


def _count(argument: str, value: Any) -> int | None:
    """A number of stages or copies: None for no advice. Raises NeedsConstexpr, BadArgumentKind."""
    plain = unwrap(value)
    return None if plain is None else integer("range", argument, plain, "an integer known at compile time, or None")


class static_range(_bounds):
    """A loop that is unrolled at compile time: bounds, step and the induction variable are compile-time integers."""

    __slots__ = ()


class condition:
    """The condition of a `while` with advice: `while tl.condition(x > 0, disable_licm=True)`."""

    __slots__ = ("condition", "disable_licm")

    def __init__(self, condition: Any, disable_licm: Any = False) -> None:
        self.condition = unwrap(condition)
        self.disable_licm = unwrap(disable_licm)
