"""What a machine's matrix products were found to be: equal to the models', or different and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.numerics import FORMATS
from tilewright.interpreter.ptx.types import TYPES

from .candidates import Model
from .inputs import Operands, Product

Array = NDArray[Any]


@dataclass(slots=True)
class Outcome:
    """How many results were compared and how many differ from each model, by class, with an example.

    `digest` is that of the results of the first task.
    """

    compared: int = 0
    differ: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    example: str = ""
    fitted: set[str] = field(default_factory=set[str])
    digest: str = ""

    def add(self, other: Outcome) -> None:
        """Take in what another task found."""
        self.compared += other.compared
        self.differ += other.differ
        self.example = self.example or other.example
        self.fitted |= other.fitted
        self.digest = self.digest or other.digest

    @property
    def kinds(self) -> dict[str, int]:
        """How many results differ from the emulator's own model, by kind."""
        return {kind: n for (name, kind), n in sorted(self.differ.items()) if name == "model"}

    def compare(
        self, product: Product, models: Mapping[str, Model], size: int, classes: Array, operands: Operands, found: Array
    ) -> None:
        """Compare with models, which work on `size` matrices at a time so that they stay in the cache."""
        for name, function in models.items():
            for first in range(0, len(found), size):
                part = slice(first, first + size)
                some = (operands[0][part], operands[1][part], operands[2][part])
                self._note(product, name, classes[part], some, found[part], function(*some))

    def _note(self, product: Product, name: str, classes: Array, operands: Operands, found: Array, want: Array) -> None:
        """Count what differs, by class; the sign of a zero and the bits of a NaN are classes of their own."""
        wrong = found != want
        if not wrong.any():
            return
        at = np.argwhere(wrong)
        kinds = _kinds(product, found[wrong], want[wrong], classes[at[:, 0]])
        for kind, n in zip(*np.unique(kinds, return_counts=True), strict=True):
            self.differ[name, str(kind)] += int(n)
        if name == "model" and not self.example:
            w, i, j = at[0].tolist()
            row, column = operands[0][w, i].tolist(), operands[1][w, :, j].tolist()
            self.example = (
                f"{kinds[0]}: a {' '.join(f'{x:x}' for x in row)} b {' '.join(f'{x:x}' for x in column)} "
                f"c {int(operands[2][w, i, j]):x}: {int(found[w, i, j]):x}, model {int(want[w, i, j]):x}"
            )

    def line(self, label: str) -> str:
        """What differs from the model, and which candidates agree where all were tried."""
        verdict = " ".join(f"{kind}:{n}" for kind, n in self.kinds.items()) or "equal"
        totals = Counter[str]()
        for (name, _), n in self.differ.items():
            totals[name] += n
        others = sorted(self.fitted - {"model"}, key=lambda name: (totals[name], name))
        agree = [name for name in others if not totals[name]]
        rest = [f"{name}:{totals[name]}" for name in others if totals[name]]
        tried = f" | also equal: {' '.join(agree) or 'none'} | not: {' '.join(rest) or 'none'}" if others else ""
        return f"{label:<34} {self.compared:>11,} {verdict}{tried}"


def _kinds(product: Product, found: Array, want: Array, classes: Array) -> Array:
    """The kind of each difference."""
    if product.c not in ("f16", "f32", "f64"):
        return classes
    row = FORMATS[TYPES[product.c].format]
    assert row.inf_code is not None
    magnitude = row.carrier.type(row.sign_bit - 1)
    nan = (found & magnitude > row.inf_code) & (want & magnitude > row.inf_code)
    zero = (found | want) & magnitude == 0
    return np.where(nan, "NaN bits", np.where(zero, "zero sign", classes))
