"""One strategy an op row: from decisions to a case that exercises it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tilewright.lang import OPS

from ..cases import Case
from ..choices import Choices
from .buffers import BUFFER_STRATEGIES
from .control import CONTROL_STRATEGIES
from .debug import DEBUG_STRATEGIES
from .elementwise import elementwise
from .memory import MEMORY_STRATEGIES
from .reductions import REDUCE_STRATEGIES
from .shapes import SHAPE_STRATEGIES

Strategy: TypeAlias = Callable[[Choices], Case]

STRATEGIES: dict[str, Strategy] = {
    **{name: elementwise(row) for name, row in OPS.items() if row.is_elementwise},
    **SHAPE_STRATEGIES,
    **REDUCE_STRATEGIES,
    **CONTROL_STRATEGIES,
    **MEMORY_STRATEGIES,
    **DEBUG_STRATEGIES,
    **BUFFER_STRATEGIES,
}

__all__ = ["STRATEGIES", "Strategy"]
