"""Small arithmetic for host code and for constexprs in kernels."""

from __future__ import annotations

from tilewright.lang import constexpr_function


@constexpr_function
def cdiv(x: int, y: int) -> int:
    """x / y rounded up, for y > 0: how many tiles of y cover x. Python's floor division, so x may be negative."""
    return (x + y - 1) // y


@constexpr_function
def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least n; 0 for 0 and below, as Triton has it."""
    return 1 << (n - 1).bit_length() if n > 0 else 0
