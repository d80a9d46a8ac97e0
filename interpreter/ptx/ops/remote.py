"""Stores and reductions into shared memory of the cluster that signal an mbarrier there: `st.async`, `red.async`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..frame import Frame, Index, spread
from ..hopper.checks import Place
from ..hopper.transfers import Target, Transfer
from ..site import Site, bits_type
from ..table import Step, step
from ..types import TYPES
from .bulk import Operands, accesses, combination, key_of, lanes, shared_place
from .memory import elements

_COUNT = {"": 1, "v2": 2, "v4": 4}
_SIGNAL = "mbarrier::complete_tx::bytes"


def _sent(what: str) -> Callable[[Site], Step]:
    def build(site: Site) -> Step:
        m, operands = site.modifiers, Operands(site)
        type_, count = TYPES[m["type"]], _COUNT[m.get("vec", "")]
        to = operands.address("shared")[0]
        reads = [site.read_bits(part, bits_type(type_.bits)) for part in elements(site, operands.take(), count)]
        barrier = operands.address("shared")[0]
        operands.end()
        uses, combine = accesses(site, "shared", "shared", what, type_.bits // 8), combination(site, type_)
        nbytes = count * type_.bits // 8

        def run(frame: Frame, index: Index) -> None:
            values = np.stack([spread(read(frame, index), frame.size(index)) for read in reads], axis=1)
            nothing = Place(frame.shared, frame.shared.typed(type_.carrier), np.empty(0, np.intp))
            for lane, own in zip(lanes(frame, index), values, strict=True):
                place, _ = shared_place(uses.write, lane, lane.value(to), nbytes, nbytes, str(type_.carrier))
                target = Target(place, None, key_of(uses.signal, lane, lane.value(barrier)))
                transfer = Transfer(
                    site, lane.thread, uses.read, uses.write, nothing, (target,), count, nbytes, combine=combine,
                    values=own,
                )  # fmt: skip
                frame.engines.transfers.issue(transfer, grouped=False)

        return run

    return build


step(
    f"st.async[.weak][.<to:shared::cluster|shared::cta>].{_SIGNAL}[.<vec:v2|v4>].<type:b32|b64|u32|u64|s32|s64|f32|f64>",
    "async",
)(_sent("remote store"))
for _reduction in (
    "<red:inc|dec|min|max|add>.<type:u32>",
    "<red:min|max|add>.<type:s32>",
    "<red:and|or|xor>.<type:b32>",
    "<red:add>.<type:u64|s64>",
):
    step(f"red.async.relaxed.cluster[.shared::cluster].{_SIGNAL}.{_reduction}", "async")(_sent("remote reduction"))
