"""What each op means when threads hold its tiles: by register, by thread, or put together and given out again."""

from __future__ import annotations

from tilewright.lang import Operation

from ..batch import Batch
from ..meanings import MEANINGS, Prepare, Runner
from ..meanings.atomics import ATOMICS
from ..meanings.elementwise import ELEMENTWISE
from ..meanings.memory import MEMORY
from ..meanings.reduce import REDUCE
from ..values import Array
from .buffers import BUFFERS
from .dot import dot
from .moves import alike, gathered
from .shape import SHAPE
from .shared import BlockBatch, exchange


def exchanging(plain: Prepare) -> Prepare:
    """The meaning of an op that may exchange something through shared memory."""

    def prepare(operation: Operation) -> Runner:
        meaning = plain(operation)

        def run(batch: Batch, *held: Array) -> object:
            made = meaning(batch, *held)
            exchange(operation, batch)
            return made

        return run

    return prepare


def polled(operation: Operation) -> Runner:
    """`atomic_poll`: threads wait for one another once, after the last look; which that is only the executor knows."""
    look = alike(gathered(MEANINGS["atomic_poll"]))(operation)

    def run(batch: BlockBatch, *held: Array) -> object:
        batch.shared.barriers[batch.rows] += 1
        return look(batch, *held)

    return run


def accesses(name: str) -> Prepare:
    """An op on a tile of pointers: each element once."""
    return exchanging(alike(gathered(MEANINGS[name])))


#: `reduce` is the executor's. The other reductions have no order of their own before the compiler makes them into it.
DISTRIBUTED: dict[str, Prepare] = {
    **{name: alike(MEANINGS[name]) for name in (*ELEMENTWISE, "add_ptr", "hint")},
    **{name: MEANINGS[name] for name in ("program_id", "num_programs", "assume")},
    **{name: gathered(MEANINGS[name]) for name in ("constant", "poison", "arange", "splat", "print")},
    **{name: accesses(name) for name in (*MEMORY, *ATOMICS, "assert")},
    "atomic_poll": polled,
    **{name: gathered(MEANINGS[name]) for name in REDUCE},
    **SHAPE,
    **BUFFERS,
    "convert_layout": exchanging(SHAPE["convert_layout"]),
    "dot": exchanging(dot),
}
