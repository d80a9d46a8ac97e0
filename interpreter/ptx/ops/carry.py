"""Integer arithmetic over several words: additions, subtractions and products that give and take a carry.

A difference is the sum with the complement of what is taken, as hardware forms it: its carry is 1 where nothing was
borrowed. `subc` takes that; `madc` behind a `sub.cc` adds it as it is.

The carry is a register of its own, which the parser puts beside the result of what writes it and behind the operands
of what reads it (`body.carried`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ... import numerics
from ..frame import Frame, Index
from ..site import Site
from ..syntax import Pair
from ..table import Step, step
from ..types import TYPES, Array, PtxType, resized

_WORD = "<type:u32|s32|u64|s64>"
_HALF = "<half:lo|hi>"


def _sum(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    total = a + b + carry
    return total, (total < a) | ((total == a) & carry.astype(np.bool_))


@step(f"add.cc.{_WORD}", "integer")
@step(f"addc[.cc].{_WORD}", "integer")
def add(site: Site) -> Step:
    return _step(site, 2)


@step(f"sub.cc.{_WORD}", "integer")
@step(f"subc[.cc].{_WORD}", "integer")
def sub(site: Site) -> Step:
    return _step(site, 2, complement=True)


@step(f"mad.{_HALF}.cc.{_WORD}", "integer")
@step(f"madc.{_HALF}[.cc].{_WORD}", "integer")
def mad(site: Site) -> Step:
    return _step(site, 3)


def _product(site: Site, type_: PtxType) -> Callable[[Array, Array], Array]:
    """The half of a product that a `mad` adds to, as unsigned words."""
    if site.modifiers["half"] == "lo":
        return np.multiply
    high = numerics.mulhi_s if type_.signed else numerics.mulhi_u
    signless, word = f"i{type_.bits // 8}", f"u{type_.bits // 8}"
    return lambda a, b: high(a.view(signless), b.view(signless)).view(word)


def _step(site: Site, count: int, complement: bool = False) -> Step:
    """Operands are a result (with the carry), `count` words, and the carry if it is read."""
    type_, pred = TYPES[site.modifiers["type"]], TYPES["pred"]
    word = TYPES[f"u{type_.bits}"]
    takes = site.instruction.opcode.partition(".")[0].endswith("c")
    site.arity(1 + count + takes)
    target = site.operands[0]
    pair = target if isinstance(target, Pair) else None
    write = site.write(pair.first if pair else target, word)
    keep = site.write(pair.second, pred) if pair else None
    reads = [site.read(operand, word) for operand in site.operands[1 : count + 1]]
    carry = site.read(site.operands[-1], pred) if takes else None
    product = _product(site, type_) if count == 3 else None

    def run(frame: Frame, index: Index) -> None:
        *factors, b = (read(frame, index) for read in reads)
        a = product(*factors) if product else factors[0]
        before = carry(frame, index) if carry else np.full(1, complement)
        result, after = _sum(a, ~b if complement else b, resized(before, type_.bits))
        write(frame, index, result)
        if keep:
            keep(frame, index, after)

    return run
