"""The launch options that a kernel call takes beside its arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tilewright.lang import shown

from .errors import OptionError


def _power_of_two(value: object) -> bool:
    return _whole(value, 1) and not value & (value - 1)  # type: ignore[operator]


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How a kernel is compiled: each field is a keyword of the launch. Names and defaults are Triton's for CUDA.

    The reference ignores all but `debug`: none changes what a kernel means. Raises OptionError for bad values.
    """

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    debug: bool = False
    sanitize_overflow: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            accepts, test = _ACCEPTS.get(field.name, ("True or False", lambda v: isinstance(v, bool)))
            if not test(value):
                raise OptionError(f"option {field.name}={shown(value)!r}: it takes {accepts}")


_ACCEPTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "num_warps": ("a power of two from 1 to 32", lambda v: _power_of_two(v) and v <= 32),
    "num_stages": ("a whole number from 1 up", lambda v: _whole(v, 1)),
    "num_ctas": ("a power of two from 1 to 16", lambda v: _power_of_two(v) and v <= 16),
    "maxnreg": ("None or a whole number from 8 to 255", lambda v: v is None or (_whole(v, 8) and v <= 255)),
}

OPTION_NAMES: frozenset[str] = frozenset(field.name for field in fields(CompileOptions))


def split_options(
    keywords: Mapping[str, Any], parameters: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keywords that are options, and those for `parameters`: what is the name of both is for both, as in Triton."""
    options = {name: value for name, value in keywords.items() if name in OPTION_NAMES}
    return options, {n: value for n, value in keywords.items() if n not in OPTION_NAMES or n in parameters}
