"""What every op means, by its name: `MEANINGS[op.name](op)` does the static work and returns what runs on a batch.

Control flow, calls and `reduce` are the executor's; every other row of the op tables is here.
"""

from __future__ import annotations

from .atomics import ATOMICS
from .buffers import BUFFERS
from .debug import DEBUG
from .elementwise import ELEMENTWISE
from .memory import MEMORY
from .reduce import REDUCE
from .shape import SHAPE
from .tables import Prepare, Runner

MEANINGS: dict[str, Prepare] = ELEMENTWISE | SHAPE | REDUCE | MEMORY | ATOMICS | BUFFERS | DEBUG

__all__ = ["MEANINGS", "Prepare", "Runner"]
