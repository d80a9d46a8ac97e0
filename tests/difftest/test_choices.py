"""Both back ends of `Choices`: a seed is the same case everywhere, a recorded list replays, hypothesis shrinks."""

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from tilewright.difftest import STRATEGIES, CaseText, Choices, HypothesisChoices, RecordedChoices, SplitMix64
from tilewright.difftest.recipes import special_codes
from tilewright.lang import FLOATS, I1, I8, NUMBERS

ROWS = ("add_i", "cast_f", "dot", "for", "atomic_rmw", "print")


def draw_some(choices: Choices) -> list[object]:
    """One of each kind of decision."""
    return [
        choices.integer(-5, 5),
        choices.integer(3, 3),
        choices.integer(0, 2**64 - 1),
        choices.boolean(),
        choices.boolean(5),
        choices.sample("abc"),
        choices.weighted((("x", 1), ("y", 98), ("z", 1))),
        choices.permutation(4),
        choices.stream().next(),
    ]


def test_splitmix_gives_the_published_stream() -> None:
    """The outputs for the seed 1234567, as Vigna's reference code prints them."""
    stream = SplitMix64(1234567)
    assert [stream.next() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_a_seed_means_the_same_everywhere() -> None:
    """A golden: if it changes, every stored seed means another case."""
    assert draw_some(RecordedChoices(42)) == GOLDEN


GOLDEN = [1, 3, 4028864712777624925, False, False, "a", "y", (1, 0, 2, 3), 1321281332321315269]


@given(st.integers(0, 2**64 - 1))
def test_below_stays_in_range(seed: int) -> None:
    stream = SplitMix64(seed)
    for bound in (1, 2, 3, 10**9, 2**64, 2**70 + 1):
        assert 0 <= stream.below(bound) < bound


def test_the_bounds_are_reached() -> None:
    choices = RecordedChoices(1)
    assert {choices.integer(-2, 2) for _ in range(200)} == {-2, -1, 0, 1, 2}
    assert {choices.sample("ab") for _ in range(50)} == {"a", "b"}
    assert {choices.permutation(3) for _ in range(100)} == {
        (0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0),
    }  # fmt: skip


def test_probabilities_are_about_right() -> None:
    choices = RecordedChoices(7)
    assert 150 < sum(choices.boolean(20) for _ in range(1000)) < 250
    assert not any(choices.boolean(0) for _ in range(100))
    assert all(choices.boolean(100) for _ in range(100))
    assert 700 < sum(choices.weighted(((0, 1), (1, 3))) for _ in range(1000)) < 800


@pytest.mark.parametrize("row", ROWS)
def test_a_recorded_list_replays_to_the_same_case(row: str) -> None:
    for seed in range(5):
        recorded = RecordedChoices(seed)
        case = STRATEGIES[row](recorded)
        again = RecordedChoices.replay(recorded.drawn)
        assert CaseText.of(STRATEGIES[row](again)) == CaseText.of(case)
        assert again.drawn == recorded.drawn


@given(st.lists(st.integers(-(2**65), 2**65), max_size=30), st.sampled_from(ROWS))
def test_any_list_is_a_case(drawn: list[int], row: str) -> None:
    case = STRATEGIES[row](RecordedChoices.replay(drawn))
    assert case.row == row


def test_an_empty_list_is_the_simplest_case() -> None:
    assert draw_some(RecordedChoices.replay([]))[:7] == [-5, 3, 0, False, False, "a", "x"]


@given(st.data())
def test_hypothesis_draws_in_range(data: st.DataObject) -> None:
    first, fixed, word, *_ = draw_some(HypothesisChoices(data))
    assert -5 <= first <= 5 and fixed == 3 and 0 <= word < 2**64  # type: ignore[operator]


def test_hypothesis_shrinks_to_the_low_end() -> None:
    """A condition on one decision shrinks to the smallest value that meets it, and the other to its low end."""

    @st.composite
    def pairs(draw: object) -> tuple[int, bool]:
        class Data:
            @staticmethod
            def draw(strategy: object) -> int:
                return draw(strategy)  # type: ignore[operator]

        choices = HypothesisChoices(Data())
        return choices.integer(0, 1000), choices.boolean()

    assert find(pairs(), lambda pair: pair[0] >= 17, settings=settings(derandomize=True, database=None)) == (17, False)


@pytest.mark.parametrize("element", NUMBERS, ids=str)
def test_special_codes_fit_and_hold_the_ends(element: object) -> None:
    codes = special_codes(element)  # type: ignore[arg-type]
    width = element.width  # type: ignore[attr-defined]
    assert len(set(codes)) == len(codes) and all(0 <= code < 1 << width for code in codes)
    assert codes[0] == 0
    wanted = {1 << width - 1, (1 << width - 1) - 1}
    assert element in (I1, *FLOATS) or wanted <= set(codes)
    assert element == I8 or len(codes) >= 2
