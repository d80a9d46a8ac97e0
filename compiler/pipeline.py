"""The passes in the order in which they run, and the run: timed, checked between passes when asked, and dumped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeAlias

# What `lang` imports late is reached through it.
from tilewright import lang
from tilewright.lang import Module, knobs

from .passes.allocate import allocate
from .passes.barriers import barriers
from .passes.carried import drop_carried
from .passes.contract import contract
from .passes.cse import cse
from .passes.dce import dce
from .passes.dots import choose_dots
from .passes.fold import fold
from .passes.inline import inline
from .passes.large_tiles import refuse_large_tiles
from .passes.layouts import assign_layouts
from .passes.licm import licm
from .passes.pipelining import pipeline
from .passes.prefetch import prefetch
from .passes.reductions import expand_reductions
from .passes.trees import record_trees

Pass: TypeAlias = Callable[[Module], bool]
#: Called after each pass with its name and the module.
Hook: TypeAlias = Callable[[str, Module], None]

#: Values in no place yet. The result is the stage `ttir`.
TILE_PASSES: tuple[Pass, ...] = (
    inline,  # everything after looks at one function
    fold,  # specialised arguments and tile shapes are constants by now
    cse,  # address arithmetic is written out again at each use
    licm,  # what a loop does not change is computed once
    cse,  # what came out of two loops may be the same
    contract,  # once equal products are one, which has then more than one use
    dce,  # so that no layout is chosen for what nobody wants
)
#: Values in threads and registers. The result is the stage `ttgir`.
GPU_PASSES: tuple[Pass, ...] = (
    expand_reductions,  # one kind of reduction for all that follows
    choose_dots,  # the instruction of a dot decides where its tiles live
    assign_layouts,  # by accesses, dots and reductions; conversions where two of them meet
    cse,  # which makes some values twice in one layout
    dce,  # and leaves others without users
    refuse_large_tiles,  # before work that grows with them begins
    pipeline,  # the layouts say what a copy can take at once
    drop_carried,  # pointers that are now only ahead
    fold,  # the first rounds are those of known numbers
    cse,  # and have much in common
    dce,
    prefetch,  # once the loop is what it will be; only shared memory is left to be given out
    record_trees,  # layouts are final, and with them the order in which reductions add up
    allocate,  # shared memory for what needs some
    barriers,  # the order of a program's accesses, across its threads
)
#: The passes that may change how results round: after them a module is compared with the one before by the contracts
#: of its operations, after all others bit for bit. Sums are the real ones, rounded once, until they are reductions of
#: additions, which add up by pairs until it is recorded in which order. A dot rounds once for each step that it is made
#: in.
ROUNDING_PASSES: frozenset[str] = frozenset(
    each.__name__ for each in (contract, expand_reductions, prefetch, record_trees)
)


@dataclass(slots=True)
class Timing:
    """Seconds of each stage and pass, in the order of their first run; a pass that runs twice adds up."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, name: str, start: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start


def run_passes(module: Module, passes: tuple[Pass, ...], timing: Timing, hook: Hook | None = None) -> None:
    """Run passes over a module, in place. Verifies after each under the knob `verify`."""
    for each in passes:
        start = perf_counter()
        each(module)
        timing.add(each.__name__, start)
        if knobs.verify:
            lang.verify(module)
        if hook is not None:
            hook(each.__name__, module)
