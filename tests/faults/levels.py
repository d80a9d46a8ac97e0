"""A place to run a kernel at, and how many warps it gets there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tilewright.runtime import CompiledKernel, JITFunction


@dataclass(frozen=True, slots=True)
class Level:
    """A device and a number of warps. Host arrays are copied where the device needs it, and back."""

    device: str
    num_warps: int = 4

    @property
    def name(self) -> str:
        """What a test is called that runs here."""
        place = self.device.removeprefix("emulator:")
        return place if self.device == "interpreter" else f"{place}-{self.num_warps}warps"

    def run(self, kernel: JITFunction, grid: tuple[int, ...], *arguments: Any, **keywords: Any) -> CompiledKernel:
        """Launch on these arguments, constants and options; arrays are written in place. Raises what launches raise."""
        return kernel.on(self.device)[grid](*arguments, num_warps=self.num_warps, **keywords)


INTERPRETER = Level("interpreter")
#: One warp, for which tiles are large, and eight, for which most are smaller than the block.
COMPILED = (Level("emulator:sm_80", 1), Level("emulator:sm_90a", 8))
DEEP = (Level("emulator:sm_120a", 2), Level("emulator:sm_90a", 16))
GPU = tuple(Level("cuda:0", warps) for warps in (1, 4, 8))


def deep(*values: Any) -> list[Any]:
    """Values of a parameter for deep runs and GPUs."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]
