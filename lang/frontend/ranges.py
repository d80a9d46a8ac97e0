"""What a `for` can go over: ranges at run time, and what is unrolled."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import language
from ..errors.syntax import ConstexprNeeded, NotIterable, ZeroStep
from ..values import describe, tensor
from .walker import Walker, as_tuple

LOOP = "a loop over"
#: Attributes of `tl.range` that are on or off.
FLAGS = ("flatten", "warp_specialize", "disallow_acc_multi_buffer", "disable_licm")


@dataclass(frozen=True, slots=True)
class Range:
    """A loop at run time: bounds and step (numbers or integer scalars), and the attributes of its `for`."""

    start: Any
    stop: Any
    step: Any
    attributes: Mapping[str, Any]


def iterated(walker: Walker, node: ast.expr) -> Range | Sequence[Any]:
    """What a `for` goes over: a Range, or the items to unroll it for. Raises NotIterable, ConstexprNeeded."""
    value = walker.evaluate(node)
    with walker.at(node):
        if isinstance(value, language.range):
            return Range(value.start, value.stop, value.step, _attributes(value))
        return known_items(value)


def _attributes(loop: language.range) -> dict[str, Any]:
    """The advice of a `tl.range` as the row of `for` has it; 0 for no number."""
    numbers = {"num_stages": loop.num_stages, "unroll": loop.loop_unroll_factor}
    flags = {name: getattr(loop, name) for name in FLAGS}
    for name, value in (numbers | flags).items():
        _need_known(f"`{name}` of the loop", value)
    return {name: int(value or 0) for name, value in numbers.items()} | {
        name: bool(value) for name, value in flags.items()
    }


def _need_known(construct: str, value: Any, advice: str = "pass a literal or a constexpr") -> None:
    if isinstance(value, tensor):
        raise ConstexprNeeded(construct=construct, found=describe(value), advice=advice)


def known_items(value: Any, construct: str = LOOP) -> Sequence[Any]:
    """The items of a tuple, or of a range with compile-time bounds, for what `construct` says.

    Raises NotIterable, ConstexprNeeded, ZeroStep.
    """
    if isinstance(value, language.range | language.static_range):
        bounds = (value.start, value.stop, value.step)
        for bound in bounds:
            _need_known("the bound of an unrolled range", bound, "loop with `for ... in tl.range(...)` instead")
            if not isinstance(bound, int):
                found = f"a range with {describe(bound)} as a bound"
                raise NotIterable(construct=construct, found=found, expected="integers", hint="")
        if value.step == 0:
            raise ZeroStep()
        return builtins.range(*bounds)
    if isinstance(value, builtins.range):
        return value
    items = as_tuple(value)
    if items is not None:
        return items
    expected = "`range`, `tl.range`, `tl.static_range` or a tuple" if construct == LOOP else "a tuple"
    tiled = construct == LOOP and isinstance(value, tensor) and (value.shape or value.dtype.is_ptr())
    hint = "loop over indices, and load each element" if tiled else ""
    raise NotIterable(construct=construct, found=describe(value), expected=expected, hint=hint)
