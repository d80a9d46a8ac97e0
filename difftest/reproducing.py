"""A finding as a Python file of its own: the kernel, its arguments as bits, and what to run them on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.runtime import JITFunction

from .cases import Grid
from .generator import GeneratedKernel, Parameter
from .generator.numbers import NUMBERS
from .kernels import examine_launch
from .launches import Launch

_TYPES = {number.name: number for number in NUMBERS}


def argument(
    name: str, type_: str, codes: str, is_array: bool = True, skipped: int = 0, within: str = "", start: int = 0
) -> Parameter:
    """An argument from text: its codes in hexadecimal, row-major, equal ones in a row as `code*count`."""
    parts = [part.partition("*") for part in codes.split()]
    values = tuple(int(code, 16) for code, _, count in parts for _ in range(int(count or 1)))
    return Parameter(name, _TYPES[type_], values, is_array, skipped, within=within, start=start)


def written(parameter: Parameter) -> str:
    """The call of `argument` that makes a parameter again."""
    runs: list[list[int]] = []
    for code in parameter.codes:
        if runs and runs[-1][0] == code:
            runs[-1][1] += 1
        else:
            runs.append([code, 1])
    codes = " ".join(f"{code:x}" if count == 1 else f"{code:x}*{count}" for code, count in runs)
    rest = "" if parameter.is_array else ", is_array=False"
    rest += f", skipped={parameter.skipped}" if parameter.skipped else ""
    rest += f', within="{parameter.within}", start={parameter.start}' if parameter.within else ""
    return f'argument("{parameter.name}", "{parameter.type.name}", "{codes}"{rest})'


def rerun(
    kernel: JITFunction,
    arguments: Sequence[Parameter],
    constants: Mapping[str, Any],
    grid: Grid,
    target: str,
    **options: int | bool,
) -> int:
    """Run a kernel at every level and on the device that the command line names, if any; print what is wrong.

    Returns the status to exit with: 1 if anything is.
    """
    launch = Launch(kernel, arguments, constants, grid, options)
    found = examine_launch(launch, target, *sys.argv[1:2])
    state = found.refused or (f"not compared by contract: {found.undecided}" if found.undecided else "no difference")
    print("\n".join([found.level, *found.problems]) if found.level else state)
    return bool(found.level)


_TEMPLATE = '''\
"""{title}

Found by seed {seed}: python -m tilewright.difftest --seeds {seed}:{after}{flags}
Run this file (with `cuda` for the GPU): it prints what is wrong and exits with 1, or with 0 when nothing is any more.
"""

import sys

from tilewright.difftest import argument, rerun

{source}

#: The decisions that made the kernel, for `RecordedChoices.replay` (of the generator as it was then).
CHOICES = {choices}

ARGUMENTS = [
{arguments}
]
sys.exit(rerun(kernel, ARGUMENTS, {constants}, {grid}, "{target}", {options}))
'''


def reproducer(
    kernel: GeneratedKernel, seed: int, choices: Sequence[int], target: str, title: str, device: str = ""
) -> str:
    """The text of a Python file that runs a kernel again and says whether it still goes wrong."""
    return _TEMPLATE.format(
        title=title.replace('"""', "'''").replace("\\", "/"),
        seed=seed,
        after=seed + 1,
        flags=f" --device {device}" if device else "",
        source=kernel.source.rstrip(),
        choices=list(choices),
        arguments="\n".join(f"    {written(parameter)}," for parameter in kernel.parameters),
        constants=dict(kernel.constants),
        grid=kernel.grid,
        options=", ".join(f"{name}={value}" for name, value in kernel.options.items()),
        target=target,
    )
