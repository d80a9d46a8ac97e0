"""The parameters of a kernel: arrays and numbers, with the codes that they are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..choices import Choices
from ..recipes import draw_codes, edge, moderate, raw, short
from ..storage import Codes, carrier_of
from .numbers import Number

#: Data for arrays: mostly numbers of moderate size, on which enclosures stay tight.
DATA = ((moderate, 6), (short, 3), (edge, 3), (raw, 1))


#: After so many elements data is repeated; a prime, so that no two rows of a tile are alike.
PERIOD = 509


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel, and its argument.

    codes: of an array, row-major; else of the number. skipped: by how many elements the array begins after an
    aligned address. annotation: as it stands in the source, without its colon. within: the parameter of whose array
    this one is the end, from element `start` on; "" for an array of its own.
    """

    name: str
    type: Number
    codes: Codes
    is_array: bool = True
    skipped: int = 0
    annotation: str = ""
    within: str = ""
    start: int = 0

    @property
    def declared(self) -> str:
        return f"{self.name}: {self.annotation}" if self.annotation else self.name

    def array(self) -> np.ndarray[Any, Any]:
        """A new array of its own with these codes, at an aligned address plus what is skipped."""
        itemsize = self.type.array.itemsize
        room = np.zeros((len(self.codes) + self.skipped) * itemsize + 64, np.uint8)
        start = -room.ctypes.data % 64 + self.skipped * itemsize
        view = room[start : start + len(self.codes) * itemsize]
        view.view(carrier_of(self.type.element))[...] = self.codes
        return view.view(self.type.array)

    def value(self) -> Any:
        """What is passed: a new array, or a Python number."""
        array = self.array()
        return array if self.is_array else array[0].item()


def arguments(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """What is passed, by name: new arrays, of which some share memory, and Python numbers."""
    own = {parameter.name: parameter.value() for parameter in parameters if not parameter.within}
    return {p.name: own[p.within][p.start :] if p.within else own[p.name] for p in parameters}


def draw_array(choices: Choices, name: str, type_: Number, size: int) -> Parameter:
    """An array with drawn data, which a large one repeats."""
    drawn = draw_codes(choices, type_.element, min(size, PERIOD), DATA)
    codes = tuple(drawn[place % PERIOD] for place in range(size)) if size > PERIOD else drawn
    return Parameter(name, type_, codes, skipped=drawn_skip(choices))


def drawn_skip(choices: Choices) -> int:
    """Mostly aligned."""
    return choices.weighted(((0, 8), (1, 1), (3, 1)))


def empty_array(choices: Choices, name: str, type_: Number, size: int) -> Parameter:
    """An array of zeros, to be stored to."""
    return Parameter(name, type_, (0,) * size, skipped=drawn_skip(choices))
