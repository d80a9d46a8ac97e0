"""Conversions in the distributed executor: every slot of the result has its element, between layouts of all kinds."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.difftest.generator.layouts import Triple, layouts, triples
from tilewright.interpreter.distributed.meanings import DISTRIBUTED
from tilewright.interpreter.distributed.shared import BlockBatch
from tilewright.interpreter.executor import DEFAULTS, BatchMaker
from tilewright.interpreter.memory import Memory
from tilewright.lang import OPS, Block, Builder, IntType, LinearLayout, TileType

PROGRAMS = 2


@cache
def held(layout: LinearLayout) -> NDArray[np.intp]:
    """The element in each slot [warp, lane, register], by adding up the images of the bits that are set."""
    flat = np.zeros((1, 1, 1), np.intp)
    for axis, name in enumerate(("warp", "lane", "register")):
        for vector in layout.bases[name]:
            image = 0
            for component, extent in zip(vector, layout.shape, strict=True):
                image = image * extent + component
            flat = np.concatenate([flat, flat ^ image], axis=axis)
    return flat


def check(cases: Iterable[Triple]) -> int:
    """Convert tiles of random bits, and see that each slot has its element; how many layouts took part."""
    (batch,) = BatchMaker((PROGRAMS, 1, 1), Memory(), DEFAULTS).batches(PROGRAMS)
    blocks, rng = BlockBatch.of(batch, 0), np.random.default_rng(7)
    seen: set[LinearLayout] = set()
    for source, target, bits in cases:
        have, want = (TileType(tile.shape, IntType(bits), tile.layout) for tile in (source, target))
        block = Block([have])
        value = Builder(block).value(OPS["convert_layout"], block.arguments, {}, want)
        assert value.producer is not None
        size = PROGRAMS, have.numel
        tiles = np.frombuffer(rng.bytes(size[0] * size[1] * bits // 8), f"i{bits // 8}").reshape(size)
        got = DISTRIBUTED["convert_layout"](value.producer)(blocks, tiles[:, held(source.layout)])
        assert got.dtype == tiles.dtype
        assert (got == tiles[:, held(target.layout)]).all(), (source, target, bits)
        seen |= {source.layout, target.layout}
    return len(seen)


def test_conversions_are_exact() -> None:
    assert check(triples(300, seed=1)) > 200


@pytest.mark.slow
def test_many_conversions_are_exact() -> None:
    assert check(triples(20_000)) == len(layouts(500))
