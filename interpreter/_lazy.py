"""The late imports of this room: mpmath, which few kernels need."""

from __future__ import annotations

from typing import Any


def multiprecision_context(precision: int) -> Any:
    """A new mpmath context of its own, working with `precision` bits."""
    import mpmath  # pyright: ignore[reportMissingTypeStubs]

    context: Any = mpmath.mp.clone()
    context.prec = precision
    return context
