"""Compiled kernels on any device of the runtime, by the runtime's own road: PTX in the emulator, a cubin on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from tests.compiler.emulated import Grid, run_case
from tilewright.difftest import Case, Outcome
from tilewright.lang import Module, knobs
from tilewright.runtime import CompileOptions, Device, array_argument
from tilewright.runtime.artifact import Request

#: Names for kernels that have no key; nothing is kept.
_NAMES = count()


def run_on(device: Device, module: Module, num_warps: int, arguments: Sequence[Any], grid: Grid) -> None:
    """Run a kernel on arrays, which it changes, and numbers. Raises what compiling raises, and what the device does."""
    options = CompileOptions(num_warps=num_warps)
    with knobs.scope(cache_max_bytes=0):
        handle = device.load(device.compile(Request(f"test {next(_NAMES)}", options, lambda: module)))
    payload = [array_argument(each) if isinstance(each, np.ndarray) else each for each in arguments]
    with device.memory(payload) as there:
        device.launch(handle, grid, there, options)


def run_case_on(device: Device, case: Case, num_warps: int) -> Outcome:
    """A case of the harness, on a device; what it prints is not caught."""

    def execute(module: Module, arrays: Sequence[Any], grid: Grid) -> str:
        run_on(device, module, num_warps, [each if each.ndim else each.item() for each in arrays], grid)
        return ""

    return run_case(case, execute)
