"""What is known about the elements of a value along each dimension, and how such facts combine.

Along dimension d the elements form aligned runs of `contiguity[d]` that increase by one (for pointers: by one element),
aligned runs of `constancy[d]` that are equal, and the element at the start of each run of contiguity is a multiple of
`divisibility[d]` (for pointers: in bytes). All are powers of two. Integers count modulo 2^width; a run whose start is a
multiple of its length cannot wrap inside, which is what rules that leave the width (extension, addresses) use.
A scalar counts as one dimension of extent 1. Sound, not complete: 1 is always right.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Divisibility is never claimed beyond this: 2^20 elements are the most that a tile has.
MOST = 1 << 30


def power_of_two(number: int) -> int:
    """The largest power of two (at most MOST) that divides a number; MOST for 0."""
    return min(number & -number, MOST) if number else MOST


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """The facts; `value` is the one integer that all elements are, if it is known; `unit` what one step adds."""

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    value: int | None = None
    unit: int = 1

    def at(self, axis: int, run: int) -> int:
        """What divides the elements at positions that are multiples of `run` along an axis."""
        length, divisor = self.contiguity[axis], self.divisibility[axis]
        return divisor if run % length == 0 else min(divisor, power_of_two(run * self.unit))

    def aligned(self, axis: int) -> int:
        """How long contiguous runs are that cannot wrap around inside."""
        return min(self.contiguity[axis], max(1, self.divisibility[axis] // self.unit))

    def same_runs(self, axis: int, run: int) -> bool:
        """Whether each aligned run of this length is constant along an axis."""
        return self.constancy[axis] >= run


def extents(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions that facts are kept for."""
    return shape or (1,)


def unknown(shape: tuple[int, ...], unit: int = 1) -> AxisInfo:
    """No fact at all (a scalar, or a dimension of one element, is trivially constant)."""
    ones = (1,) * len(extents(shape))
    return AxisInfo(ones, ones, ones, None, unit)


def uniform(shape: tuple[int, ...], divisor: int, value: int | None = None, unit: int = 1) -> AxisInfo:
    """Every element the same, and a multiple of `divisor`."""
    dims = extents(shape)
    return AxisInfo((1,) * len(dims), (divisor,) * len(dims), dims, value, unit)


def meet(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """What holds of a value that is either."""
    contiguity = tuple(map(min, a.contiguity, b.contiguity))
    divisibility = tuple(min(a.at(d, run), b.at(d, run)) for d, run in enumerate(contiguity))
    same = a.value if a.value == b.value else None
    return AxisInfo(contiguity, divisibility, tuple(map(min, a.constancy, b.constancy)), same, a.unit)
