"""The generated layouts: different, of every kind, and what they say they are; fragments are the compiler's."""

from __future__ import annotations

from collections import Counter
from math import prod

import pytest

from tilewright.compiler.analysis import dot_layouts
from tilewright.difftest.choices import RecordedChoices
from tilewright.difftest.conversions import SCRAMBLE, copies, replicas, scrambled, stretched
from tilewright.difftest.generator.layouts import FRAGMENTS, MAKERS, Maker, fragment, layouts, triples
from tilewright.lang import F16, F32, F64, I8, f2, tile_layouts

ALL = layouts(500)


def test_five_hundred_layouts_reach_their_tiles_and_differ() -> None:
    assert len(set(ALL)) == len(ALL) == 500
    for shape, layout, num_warps in ALL:
        assert layout.shape == shape and layout.is_surjective and layout.offset == 0
        assert layout.in_names == ("register", "lane", "warp")
        assert dict(layout.ins)["lane"] == 32 and dict(layout.ins)["warp"] == num_warps
    assert layouts(100) == ALL[:100]


def test_there_are_all_sizes_and_all_sorts_of_columns() -> None:
    assert {len(shape) for shape, *_ in ALL} == {1, 2, 3, 4} and {w for *_, w in ALL} == {1, 2, 4, 8, 16}
    oblique = [layout for _, layout, _ in ALL if any(column & column - 1 for column in layout.columns)]
    spare = Counter(name for _, layout, _ in ALL for name, mask in layout.free_variables().items() if mask)
    sums = [layout for layout in oblique if not all(layout.columns[at] == 0 for at in _dependent(layout.columns))]
    assert 100 <= len(oblique) <= 400 and len(sums) >= 30
    assert min(spare[name] for name in ("register", "lane", "warp")) >= 30


def _dependent(columns: tuple[int, ...]) -> list[int]:
    pivots = f2.eliminate(columns).pivots
    return [at for at in range(len(columns)) if not pivots >> at & 1]


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_each_kind_reaches_the_whole_tile(maker: Maker) -> None:
    for seed in range(20):
        made = maker(RecordedChoices(seed), (16, 32), 4)
        assert made is not None and made.is_surjective and made.shape == (16, 32)


def test_small_tiles_have_no_fragments() -> None:
    assert fragment(RecordedChoices(0), (4, 4), 1) is None and fragment(RecordedChoices(0), (64,), 1) is None


def test_fragments_are_those_of_the_compiler() -> None:
    """Written down twice, from the same manual."""
    elements, one = (I8, F16, F32, F64), dot_layouts.Share()
    made = [dot_layouts.result_layout((16, 8), dot_layouts.INSTRUCTIONS[F16], one)]
    made += [dot_layouts.result_layout((8, 8), dot_layouts.INSTRUCTIONS[F64], one)]
    for index in (0, 1):
        for each in (dot_layouts.INSTRUCTIONS[element] for element in elements):
            shape = (each.m, each.k) if index == 0 else (each.k, each.n)
            made.append(dot_layouts.operand_layout(shape, index, each, one))
    assert [(layout.bases["register"], layout.bases["lane"]) for layout in made] == [
        (each.registers, each.lanes) for each in FRAGMENTS
    ]


def test_triples_stay_within_a_tile_and_repeat() -> None:
    drawn = triples(200, seed=3)
    assert drawn == triples(200, seed=3) != triples(200, seed=4)
    assert all(s.shape == t.shape and s.num_warps == t.num_warps for s, t, _ in drawn)
    assert Counter(bits for *_, bits in drawn) == dict.fromkeys((8, 16, 32, 64), 50)


def test_every_thread_has_a_place_in_the_stretched_tile() -> None:
    """Each copy of each element, one: registers that repeat their thread's own aside."""
    for tile in ALL[::7]:
        tall = stretched(tile.layout)
        assert tall.shape == (prod(tile.shape), copies(tile.layout)) and tall.is_surjective
        threads = [name for name, _ in replicas(tile.layout)]
        assert "register" not in threads and copies(tile.layout) == 1 << len(threads)
        assert (
            tile_layouts.sliced(tall, 1).columns[-5:]
            == tile_layouts.reshape(tile.layout, (prod(tile.shape),)).columns[-5:]
        )


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_elements_are_scrambled_numbers(bits: int) -> None:
    for number, found in enumerate(scrambled(300, bits).tolist()):
        mixed = number * SCRAMBLE % 2**32
        mixed ^= mixed >> 18
        wide = mixed * SCRAMBLE if mixed < 2**31 else (mixed - 2**32) * SCRAMBLE
        assert (found - (wide if bits == 64 else mixed)) % 2**bits == 0
    assert len(set(scrambled(64, bits).tolist())) > 50 and set(scrambled(64, 1).tolist()) == {0, 1}
