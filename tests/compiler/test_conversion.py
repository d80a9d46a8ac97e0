"""Conversions between layouts: every copy of every element where it belongs, as cheap as planned, without conflicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from tilewright.compiler.analysis import conversion as conversions
from tilewright.compiler.analysis import dot_layouts
from tilewright.compiler.analysis.coalesce import blocked
from tilewright.compiler.analysis.conversion import Conversion, Exchange, Renaming, conversion, distinct
from tilewright.compiler.analysis.placement import slots
from tilewright.compiler.analysis.shared_accesses import Access, load_access, store_access, wavefronts
from tilewright.compiler.analysis.shuffles import Shuffles
from tilewright.compiler.lower import convert
from tilewright.compiler.lower.context import Lowering
from tilewright.difftest.conversions import ELEMENTS, copies, run_conversion, scrambled
from tilewright.difftest.generator.layouts import PlacedTile, layouts, triples
from tilewright.lang import (
    F16,
    I1,
    I8,
    I32,
    I64,
    LinearLayout,
    Operation,
    ScalarType,
    byte_width,
    f2,
    parse_layout,
)
from tilewright.lang import tile_layouts as tiles
from tools.conversions import examine


def placed(text: str) -> PlacedTile:
    layout = parse_layout(text)
    return PlacedTile(layout.shape, layout, dict(layout.ins)["warp"])


def plan_of(source: PlacedTile, target: PlacedTile, size: int = 4) -> Conversion:
    return conversion(source.layout, target.layout, size)


# The suite: triples (source, target, width)


@pytest.mark.parametrize("number", range(30))
def test_a_conversion_moves_every_copy_and_takes_as_many_wavefronts_as_predicted(number: int) -> None:
    found = examine(number, triples(30, seed=1)[number])
    assert found.wrong == 0 and found.predicted == found.counted


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_four_hundred_conversions(part: int) -> None:
    given = list(enumerate(triples(400)))[part * 20 : part * 20 + 20]
    found = [(number, examine(number, triple)) for number, triple in given]
    assert not [number for number, each in found if not each.right]


def test_the_triples_cover_every_plan_width_and_number_of_warps() -> None:
    drawn = triples(400)
    kinds = Counter(type(plan_of(source, target, bits // 8).move) for source, target, bits in drawn)
    assert set(kinds) == {Renaming, Shuffles, Exchange} and min(kinds.values()) >= 10
    assert {bits for *_, bits in drawn} == {8, 16, 32, 64}
    assert {source.num_warps for source, *_ in drawn} == {1, 2, 4, 8, 16}


# Each plan, with elements of every type

RENAMED = (
    "#linear<register=[[1], [2]], lane=[[4], [8], [16], [32], [64]], warp=[[128]] -> [dim0:256]>",
    "#linear<register=[[2], [0], [3], [1]], lane=[[4], [8], [16], [32], [64]], warp=[[128]] -> [dim0:256]>",
)
#: Two lane bits change places with two register bits, a third with another lane bit, and warps choose registers.
SHUFFLED = (
    "#linear<register=[[1], [2]], lane=[[4], [8], [16], [32], [64]], warp=[[128]] -> [dim0:256]>",
    "#linear<register=[[4], [8]], lane=[[1], [2], [32], [16], [64]], warp=[[129]] -> [dim0:256]>",
)
#: One bit of each.
SWAPPED = (SHUFFLED[0], "#linear<register=[[4], [2]], lane=[[1], [8], [16], [32], [64]], warp=[[128]] -> [dim0:256]>")
#: In a tile smaller than the block; the target's replicas lie elsewhere.
SPREAD = (
    "#linear<register=[[1]], lane=[[2], [4], [8], [0], [0]], warp=[[0]] -> [dim0:16]>",
    "#linear<register=[], lane=[[0], [8], [1], [4], [2]], warp=[[8]] -> [dim0:16]>",
)
EXCHANGED = (
    "#linear<register=[[1], [2]], lane=[[4], [8], [16], [32], [64]], warp=[[128]] -> [dim0:256]>",
    "#linear<register=[[64], [128]], lane=[[1], [5], [16], [32], [8]], warp=[[2]] -> [dim0:256]>",
)
PLANS = {"renamed": (RENAMED, Renaming), "swapped": (SWAPPED, Shuffles), "spread": (SPREAD, Shuffles),
         "exchanged": (EXCHANGED, Exchange)}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("element", [each for elements in ELEMENTS.values() for each in elements], ids=str)
def test_elements_of_every_type_move_by_every_plan(name: str, element: ScalarType) -> None:
    texts, kind = PLANS[name]
    source, target = placed(texts[0]), placed(texts[1])
    assert type(plan_of(source, target, byte_width(element)).move) is kind
    run = run_conversion(source, target, element, "sm_90a")
    assert run.wrong == 0
    ptx = str(run.compiled.stages["ptx"])
    assert ("shfl.sync" in ptx) == (kind is Shuffles)
    assert bool(run.compiled.metadata.shared) == ("st.shared" in ptx) == (kind is Exchange)


def test_what_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two registers of the result, taken for each other, are two wrong copies in each thread."""
    right = convert.MOVERS[Shuffles]
    monkeypatch.setitem(convert.MOVERS, Shuffles, lambda *given: right(*given)[::-1])
    run = run_conversion(placed(SHUFFLED[0]), placed(SHUFFLED[1]), I32, "sm_80")
    assert run.wrong == 256 == len(scrambled(256, 32))


def test_threads_that_hold_the_same_are_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """One bit of the lane makes replicas only: where it is set, threads have the wrong one of 16 elements."""
    source, target = placed(SPREAD[0]), placed(SPREAD[1])
    assert copies(target.layout) == 64 // 16
    right = convert.MOVERS[Shuffles]

    def wrong(to: Lowering, operation: Operation, move: Shuffles, registers: Sequence[str]) -> list[str]:
        """Right in the even lanes."""
        odd, (found,) = to.odd(1), right(to, operation, move, registers)
        return [to.text.value(f"select i1 {odd}, i32 0, i32 {found}")]

    monkeypatch.setitem(convert.MOVERS, Shuffles, wrong)
    assert run_conversion(source, target, I32, "sm_80").wrong == 32 - 2  # element 0 is 0, in two of them


# Plans


def test_a_thread_that_has_all_it_needs_only_renames() -> None:
    move = plan_of(placed(RENAMED[0]), placed(RENAMED[1])).move
    assert isinstance(move, Renaming) and move.registers == (0, 2, 3, 1, 1, 3, 2, 0)[: len(move.registers)]


def test_replicas_in_registers_are_moved_once() -> None:
    target = placed(RENAMED[1])
    left = distinct(target.layout)
    assert left.layout.bases["register"] == ((2,), (3,)) and left.kept == (0, 1, 4, 5)
    held = [f2.multiply([2, 0, 3, 1], register) for register in range(16)]
    assert [held[left.kept[number]] for number in left.number] == held


def test_lanes_select_among_their_own_registers_without_a_shuffle() -> None:
    source = placed("#linear<register=[[1], [2]], lane=[[0], [0], [0], [0], [0]], warp=[] -> [dim0:4]>")
    target = placed("#linear<register=[], lane=[[1], [2], [0], [0], [0]], warp=[] -> [dim0:4]>")
    move = plan_of(source, target).move
    assert isinstance(move, Shuffles) and move.keeps_lanes and move.rounds == ((0, 0),)
    assert "shfl" not in str(run_conversion(source, target, I32, "sm_80").compiled.stages["ptx"])


def test_a_word_of_narrow_elements_travels_as_one() -> None:
    """Four bytes side by side in both layouts: one shuffle for each four registers, none for those that stay."""
    source = placed("#linear<register=[[1], [2], [4]], lane=[[8], [16], [32], [64], [128]], warp=[] -> [dim0:256]>")
    target = placed("#linear<register=[[2], [1], [8]], lane=[[4], [16], [32], [64], [128]], warp=[] -> [dim0:256]>")
    for element, count in ((I8, 1), (F16, 2), (I32, 4), (I64, 8)):
        run = run_conversion(source, target, element, "sm_80")
        assert run.wrong == 0 and str(run.compiled.stages["ptx"]).count("shfl.sync.bfly") == count


def test_lanes_that_want_different_words_of_one_lane_take_turns_with_others() -> None:
    """Register and lane bits that change places: no more shuffles than registers, two selects for each and bit."""
    move = plan_of(placed(SHUFFLED[0]), placed(SHUFFLED[1])).move
    assert isinstance(move, Shuffles)
    assert len(move.rounds) == 4 and len(move.take) == 2 and len(move.give) == 2
    assert move.cost(4) == 4 * (2 + 2) + 2 * 4 and move.cost(8) == 2 * move.cost(4)


# Banks


def simulated(access: Access, size: int, silent: int = 0) -> int:
    """The wavefronts of a warp, by counting: the most different words of a bank, phase by phase."""
    total = 0
    for offset in access.offsets:
        own = {lane: offset ^ f2.multiply(access.thread, lane) for lane in range(32)}
        speaking = [lane for lane in range(32) if not lane & silent]
        if access.matrix:
            phases = [range(8 * matrix, 8 * matrix + 8) for matrix in range(access.matrix)]
            total += sum(_wavefronts([own[lane] for lane in lanes], 16) for lanes in phases)
            continue
        width = size * len(access.groups[0])
        lanes_at_once = 32 // max(1, width // 4)
        for first in range(0, 32, lanes_at_once):
            lanes = [lane for lane in speaking if first <= lane < first + lanes_at_once]
            total += _wavefronts([own[lane] for lane in lanes], width) if lanes else 0
    return total


def _wavefronts(addresses: Sequence[int], width: int) -> int:
    words = {address // 4 + more for address in addresses for more in range(max(1, width // 4))}
    return max(Counter(word % 32 for word in words).values())


def random_access(seed: int) -> tuple[Access, int, int]:
    """Any access whose lanes are aligned, and some lanes that stay away."""
    rng = np.random.default_rng(seed)
    size, matrix = int(rng.choice([1, 2, 4, 8])), int(rng.choice([0, 0, 1, 2, 4]))
    wide = 1 if matrix else int(rng.choice([n for n in (1, 2, 4, 8, 16) if n * size <= 16]))
    aligned = 16 if matrix else size * wide
    thread = tuple(int(image) * aligned for image in rng.integers(0, 1024 // aligned, 7))
    offsets = tuple(int(offset) * aligned for offset in rng.integers(0, 1024 // aligned, 3))
    silent = 0 if matrix else int(rng.integers(0, 32)) & int(rng.integers(0, 32))
    return Access(tuple((0,) * wide for _ in offsets), offsets, thread, matrix), size, silent


@pytest.mark.parametrize("part", range(4))
def test_the_formula_counts_as_a_simulation_of_the_banks_does(part: int) -> None:
    given = [random_access(seed) for seed in range(part * 100, part * 100 + 100)]
    predicted = [wavefronts(*each) for each in given]
    assert predicted == [simulated(*each) for each in given]
    assert max(predicted) > min(predicted)


def least(access: Access, size: int, silent: int) -> int:
    """The wavefronts without conflicts, such as those of lanes that all want the same: the phases."""
    together = (0,) * len(access.thread)
    return wavefronts(Access(access.groups, access.offsets, together, access.matrix), size, silent)


def test_neither_side_has_bank_conflicts() -> None:
    for number, (source, target, bits) in enumerate(triples(300, seed=7)):
        move, size = plan_of(source, target, bits // 8).move, bits // 8
        if isinstance(move, Exchange):
            silent = slots(move.pieces.src).replica_mask & 31
            store = store_access(move.memory, move.pieces.src, size, stmatrix=False)
            load = load_access(move.memory, move.pieces.dst, size)
            assert wavefronts(store, size, silent) == least(store, size, silent), number
            assert wavefronts(load, size) == least(load, size, 0), number


# Matrix instructions

F16_MMA, I8_MMA = dot_layouts.INSTRUCTIONS[F16], dot_layouts.INSTRUCTIONS[I8]
SHARE = dot_layouts.Share(2, 2)


def opcodes(source: LinearLayout, target: LinearLayout, element: ScalarType, machine: str) -> set[str]:
    """How the tile is written and read; it comes out right."""
    tile = PlacedTile(source.shape, source, 4)
    run = run_conversion(tile, PlacedTile(target.shape, target, 4), element, machine)
    assert run.wrong == 0 and run.counters.total.conflicts == 0
    return {each.opcode for each in run.counters.instructions if each.row.shared_requests}


@pytest.mark.parametrize(("index", "order", "form"), [(0, (1, 0), ""), (0, (0, 1), ".trans"), (1, (1, 0), ".trans"),
                                                      (1, (0, 1), "")])  # fmt: skip
def test_operands_of_two_bytes_come_by_ldmatrix(index: int, order: tuple[int, int], form: str) -> None:
    shape = (64, 32) if index == 0 else (32, 64)
    source = blocked(shape, 8, order, 4)
    found = opcodes(source, dot_layouts.operand_layout(shape, index, F16_MMA, SHARE), F16, "sm_80")
    assert found == {"st.shared.v4.b32", f"ldmatrix.sync.aligned.m8n8.x4{form}.shared.b16"}


@pytest.mark.parametrize(("machine", "writes"), [("sm_80", "st.shared.b32"), ("sm_90a", "stmatrix")])
@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_results_go_by_stmatrix_where_there_is_one(machine: str, writes: str, order: tuple[int, int]) -> None:
    source = dot_layouts.result_layout((64, 64), F16_MMA, SHARE)
    found = opcodes(source, blocked((64, 64), 8, order, 4), F16, machine)
    assert any(opcode.startswith("ld.shared.v4") for opcode in found)
    if order == (1, 0) or machine == "sm_90a":
        assert any(opcode.startswith(writes) for opcode in found)
    assert any(".trans" in opcode for opcode in found) == (order == (0, 1) and machine == "sm_90a")


def test_a_fragment_goes_to_another_one_by_rows_on_both_sides() -> None:
    """Warps change places: rows are written by stmatrix and read by ldmatrix."""
    shape = (64, 64)
    source = dot_layouts.result_layout(shape, F16_MMA, dot_layouts.Share(4, 1))
    target = dot_layouts.result_layout(shape, F16_MMA, dot_layouts.Share(1, 4))
    found = opcodes(source, target, F16, "sm_90a")
    assert {opcode.split(".")[0] for opcode in found} == {"stmatrix", "ldmatrix"}


def test_bytes_move_by_matrix_instructions_in_words_of_four() -> None:
    shape = (64, 64)
    target = dot_layouts.operand_layout(shape, 0, I8_MMA, SHARE)
    found = opcodes(blocked(shape, 16, (1, 0), 4), target, I8, "sm_80")
    assert found == {"st.shared.v4.b32", "ldmatrix.sync.aligned.m8n8.x4.shared.b16"}


# Pieces, and layouts of any kind


@pytest.mark.parametrize(("most", "count"), [(2048, 2), (8192, 1)])
def test_a_tile_may_go_piece_by_piece(most: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = placed(
        "#linear<register=[[1, 0], [0, 1], [8, 0], [0, 16]], lane=[[0, 2], [0, 4], [3, 8], [2, 0], [4, 0]], "
        "warp=[[0, 32]] -> [dim0:16, dim1:64]>"
    )
    target = placed(
        "#linear<register=[[0, 16], [0, 32], [8, 0], [4, 0]], lane=[[0, 1], [2, 2], [0, 4], [0, 8], [2, 0]], "
        "warp=[[1, 0]] -> [dim0:16, dim1:64]>"
    )
    monkeypatch.setattr(conversions, "MOST_BYTES", most)
    conversion.cache_clear()
    try:
        run = run_conversion(source, target, I64, "sm_80")
        plan = plan_of(source, target, 8)
    finally:
        conversion.cache_clear()
    assert isinstance(plan.move, Exchange) and len(plan.move.pieces.registers) == count
    assert run.wrong == 0 and plan.bytes == run.compiled.metadata.shared
    assert sum(plan.wavefronts(8, False)) == run.counters.total.wavefronts


def test_a_tile_of_one_element_in_every_register_of_every_thread() -> None:
    everywhere = placed("#linear<register=[[0], [0]], lane=[[0], [0], [0], [0], [0]], warp=[[0]] -> [dim0:1]>")
    once = placed("#linear<register=[], lane=[[0], [0], [0], [0], [0]], warp=[[0]] -> [dim0:1]>")
    for source, target in product((everywhere, once), repeat=2):
        assert isinstance(plan_of(source, target).move, Renaming)
        assert run_conversion(source, target, I1, "sm_80").wrong == 0


def test_slots_and_replicas_of_general_layouts() -> None:
    """A lane bit that is the sum of a register bit and another lane bit makes replicas; the first thread counts."""
    layout = parse_layout(
        "#linear<register=[[1, 1]], lane=[[0, 2], [1, 3], [2, 0], [0, 1], [0, 0]], warp=[] -> [dim0:4, dim1:4]>"
    )
    where = slots(layout)
    assert where.registers == ((0, 0), (1, 1)) and where.replica_mask == 0b10010
    assert where.moved_bits(0) == 3
    with pytest.raises(tiles.LayoutError, match="more than one bit"):
        _ = where.bits


@pytest.mark.parametrize("tile", layouts(60)[::4], ids=str)
def test_a_conversion_to_the_same_layout_is_a_renaming(tile: PlacedTile) -> None:
    move = plan_of(tile, tile).move
    assert isinstance(move, Renaming) and move.registers == tuple(range(len(move.registers)))
