"""The grid of a launch: how many programs along each of three axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any, TypeAlias, cast

from tilewright.lang import shown

from .errors import GridError, did_you_mean

Extents: TypeAlias = tuple[int, int, int]
Grid: TypeAlias = "int | Sequence[int] | Callable[[Mapping[str, Any]], int | Sequence[int]]"

#: CUDA's limits, which every device keeps so that a launch that works on a CPU works on a GPU.
LIMITS: Extents = (2**31 - 1, 65535, 65535)


def resolve_grid(grid: Grid, arguments: Mapping[str, Any]) -> Extents:
    """The three extents of `grid`, missing ones being 1.

    `grid` is a whole number, a tuple or list of one to three of them, or a function of the bound arguments
    (constexprs and defaults included) that returns one of these. Raises GridError for anything else.
    """
    extents: Any = _call(grid, arguments) if callable(grid) else grid
    listed = _listed(extents)
    if not 1 <= len(listed) <= 3:
        raise GridError(f"a grid has one to three extents, not {len(listed)}: {shown(extents)!r}")
    whole = [_extent(axis, extent) for axis, extent in enumerate(listed)]
    x, y, z = (*whole, 1, 1)[:3]
    return (x, y, z)


def _listed(extents: Any) -> Sequence[Any]:
    if isinstance(extents, tuple | int):  # as nearly all are
        return (extents,) if isinstance(extents, int) else cast("tuple[Any, ...]", extents)
    if isinstance(extents, str | bytes | Mapping):
        text = repr(cast("Any", extents))
        raise GridError(f"a grid is one to three whole numbers, not {text}")
    return cast("Sequence[Any]", extents) if isinstance(extents, Sequence) else (extents,)


class _Arguments(dict[str, Any]):
    """The bound arguments; asking for one that does not exist is a mistake of the grid."""

    def __missing__(self, name: str) -> Any:
        raise GridError(f"the grid asks for {name!r}, which is no argument", did_you_mean(str(name), self))


def _call(grid: Callable[[Mapping[str, Any]], Any], arguments: Mapping[str, Any]) -> Any:
    try:
        return grid(_Arguments(arguments))
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise  # from inside of it
        what = f"the grid could not be called: {error}"
        raise GridError(what, "a grid takes one mapping: name -> argument") from None


def _extent(axis: int, extent: object) -> int:
    try:
        count = index(extent)  # type: ignore[arg-type]
    except TypeError:
        hint = "divide with tilewright.cdiv or //, which give whole numbers" if isinstance(extent, float) else ""
        raise GridError(f"extent {axis} of the grid is {extent!r}, which is no whole number", hint) from None
    if not 0 <= count <= LIMITS[axis]:
        raise GridError(f"extent {axis} of the grid is {shown(count)!r}; it must lie in 0 to {LIMITS[axis]}")
    return count
