"""A whole kernel: source that a person can run, its arguments, and how it is launched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..choices import Choices
from .accesses import Kernel as Body
from .accesses import load, load_direct, store_tile
from .arrays import Parameter
from .maker import NUMERIC, Shared
from .numbers import FLOAT16, FLOAT32, INT32, INT64, UINT8
from .skeleton import draw_frame, index_variables, open_kernel
from .statements import statements

HEAD = "import tilewright\nimport tilewright.language as tl\n"
NAME = "kernel"


@dataclass(frozen=True, slots=True, eq=False)
class GeneratedKernel:
    """A kernel as text, and a launch of it.

    parameters: in order, with their arguments, of which each launch gets new copies. constants: the constexprs after
    them. options: those of the launch, by their names there.
    """

    source: str
    parameters: tuple[Parameter, ...]
    constants: Mapping[str, int]
    grid: tuple[int, int, int]
    options: Mapping[str, int | bool]


def generate_kernel(choices: Choices) -> GeneratedKernel:
    """A kernel from decisions: well typed, and without undefined behaviour."""
    frame = draw_frame(choices)
    opening = open_kernel(choices, frame)
    body = Body(choices, opening, Shared(programs=frame.programs))
    body.scope += index_variables(opening)
    _scalars(body)
    body.let(load_direct(body))
    load(body)
    statements(body, 14)
    _keep(body)
    parameters = (*body.parameters, *_numbers(opening.numbers))
    return GeneratedKernel(_source(body), parameters, dict(opening.constants), frame.grid, _options(choices))


def _options(choices: Choices) -> dict[str, int | bool]:
    """The options of a launch; those that are left out have their defaults."""
    options: dict[str, int | bool] = {"num_warps": choices.weighted(((4, 4), (1, 3), (2, 2), (8, 2), (16, 1)))}
    if choices.boolean(50):
        options["num_stages"] = choices.sample((2, 1, 3, 4, 5))
    if choices.boolean(25):
        options["enable_fp_fusion"] = False
    return options


def _scalars(body: Body) -> None:
    """Numbers as parameters, whose types are written down."""
    for type_ in (INT32, FLOAT32, INT64, FLOAT16, UINT8):
        with body.choices.span():
            if body.choices.boolean(25):
                body.scope.append(body.number(type_))


def _keep(body: Body) -> None:
    """Store some of what nothing uses yet, so that little of a kernel is for nothing."""
    text = "\n".join(body.text.lines)
    mine = [v for v in reversed(body.scope) if v.text.startswith("v") and v.type.kind in NUMERIC]
    unused = [v for v in mine if len(re.findall(rf"\b{v.text}\b", text)) == 1]
    kept = (unused or mine)[1:]
    store_tile(body, (unused or mine)[0].along(len(body.shape)) if mine else body.pick(body.tile))
    for number in body.choices.repeat(min(3, len(kept)), 65):
        store_tile(body, kept[number].along(len(body.shape)))


def _numbers(numbers: Mapping[str, int]) -> list[Parameter]:
    return [Parameter(name, INT32, (value,), is_array=False) for name, value in numbers.items()]


def _source(body: Body) -> str:
    """The text of the module."""
    names = [p.declared for p in body.parameters]
    names += list(body.opening.numbers)
    names += [f"{name}: tl.constexpr" for name in body.opening.constants]
    lines = list(body.text.lines)
    if body.uses_lane:
        lines.insert(body.opened, "    " + body.lane_line())
    kernel = "\n".join(["@tilewright.jit", f"def {NAME}({', '.join(names)}):", *lines])
    return "\n\n".join([HEAD, *(f"{text}\n" for text in body.shared.functions), kernel]) + "\n"
