"""The normative page has one entry for each op, and what an entry shows of the op's row is what the row says."""

import re

import pytest

from tilewright.lang import OPS
from tools import semantics

PAGE = semantics.PAGE.read_text()
NOT_ENTRIES = ("Float formats", "In memory")


def entries() -> dict[str, str]:
    """The prose of each entry: what follows its block, up to the next heading."""
    parts = re.split(r"^##+ (.*)\n", PAGE, flags=re.MULTILINE)
    found = zip(parts[1::2], parts[2::2], strict=True)
    return {title.strip("`"): body.split("```\n", 1)[-1].strip() for title, body in found if title.startswith("`")}


def test_the_headings_are_the_ops_in_their_order() -> None:
    assert semantics.headings(PAGE) == list(OPS)


def test_every_other_heading_is_known() -> None:
    third = [line.removeprefix("### ") for line in PAGE.splitlines() if line.startswith("### ")]
    assert [title for title in third if not title.startswith("`")] == list(NOT_ENTRIES)


@pytest.mark.parametrize("name", OPS)
def test_an_entry_shows_what_the_row_says(name: str) -> None:
    assert semantics.blocks(PAGE).get(name) == semantics.facts(OPS[name]), "run python -m tools.semantics --write"


@pytest.mark.parametrize("name", OPS)
def test_an_entry_says_something(name: str) -> None:
    prose = entries()[name]
    assert len(prose) >= 10 and prose.endswith((".", "|"))


def test_a_stale_block_is_found_and_refreshed() -> None:
    block = semantics.facts(OPS["add_f"])
    assert "contract: exact; contractable" in block
    stale = PAGE.replace(block, block.replace("exact", "ulp(1)"))
    assert semantics.stale(stale) == ["add_f"]
    assert semantics.refreshed(stale) == PAGE


def test_a_missing_entry_is_found() -> None:
    assert semantics.stale(PAGE.replace("### `fma`\n", "### `fmb`\n")) == ["fma"]


def test_links_inside_the_page_lead_somewhere() -> None:
    titles = re.findall(r"^#+ (.*)$", PAGE, flags=re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-") for title in titles}
    assert {anchor for anchor in re.findall(r"\]\(#([^)]+)\)", PAGE)} <= anchors


def test_pieces_of_the_blocks() -> None:
    row = OPS["bitcast"]
    assert semantics.conversions(row)[1:4] == [
        "i16, f16, bf16 -> another of these",
        "i32, f32 -> the other",
        "i64, f64 -> the other",
    ]
    assert semantics.pattern(OPS["select"]) == "(i1, T, T) -> T, T of numbers, pointers"
    assert semantics.pattern(OPS["cmp_eq_i"]) == "(T, T) -> i1, T of ints"
    assert semantics.number(2**-21.41) == "2^-21.41" and semantics.number(1.173) == "1.173"
