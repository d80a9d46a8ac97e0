"""Right kernels under several schedules: the emulator complains about none, and what it says is counted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import islice

import pytest

from tests.compiler.kernels import SAMPLES
from tests.compiler.pipelined import sample as pipelined
from tilewright.compiler import compile_module
from tilewright.interpreter import load_ptx
from tools import false_alarms
from tools.false_alarms import PARTS, Code, Row, Subject, of_sample, ours, theirs
from tools.peers import Peer, Refused

SCHEDULES = 5


def without_barriers(subject: Subject) -> Code:
    """Compiled, but threads wait nowhere."""
    made = compile_module(subject.module, subject.target, until="ptx")
    return replace(ours(subject), module=load_ptx(re.sub(r"\bbar\.sync\b[^;]*;", "", str(made.stages["ptx"]))))


def complaints(subjects: Iterable[Subject]) -> list[str]:
    """What is said of kernels, each of which is run before the next is made."""
    row = Row("some")
    for subject in subjects:
        row.add(subject, ours, SCHEDULES)
    assert row.runs >= SCHEDULES * row.kernels > 0
    return [str(each) for each in row.reports]


def test_no_report_on_some_kernels() -> None:
    """One with atomics, one with a conversion, a pipelined one, random ones."""
    some = [of_sample(name, SAMPLES[name]()) for name in ("counted", "transposed")]
    assert complaints([*some, of_sample("plain", pipelined("plain", 4))]) == []
    assert complaints(PARTS["random"](3)) == []


def test_what_is_reported_is_counted() -> None:
    row = Row("pairs")
    row.add(of_sample("shifted_in_place", SAMPLES["shifted_in_place"]()), without_barriers, 2)
    assert row.kernels == 1 and row.runs == 2 and [each.kind for each in row.alarms] == []
    assert str(row).split() == ["pairs", "1", "0", "2", "0", "0", "0", "2"]
    assert all(each.genuine and each.kind == "RaceError" for each in row.reports)


def test_a_race_in_shared_memory_is_never_excused() -> None:
    row = Row("transposed")
    row.add(of_sample("transposed", SAMPLES["transposed"]()), without_barriers, 2)
    assert [each.kind for each in row.alarms] == ["RaceError"] * 2


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(false_alarms, "systems", lambda: {"ours": ours})
    assert false_alarms.main("--parts", "ours/random", "--random", "2", "--schedules", "2") == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["corpus", "kernels", "refused", "runs"]
    assert [row.split() for row in rows] == [
        ["ours/random", "2", "0", "4", "0", "0", "0", "0"],
    ]  # fmt: skip
    monkeypatch.setattr(false_alarms, "systems", lambda: {"ours": without_barriers})
    monkeypatch.setitem(PARTS, "example", lambda _: iter([of_sample("x", SAMPLES["transposed"]())]))
    assert false_alarms.main("--parts", "ours/example", "--schedules", "1") == 1
    assert "ours/example    x, schedule 0: RaceError" in capsys.readouterr().out


@pytest.mark.optional("triton")
def test_triton_compiles_our_functions() -> None:
    """A kernel, and one that calls another function."""
    row, peer = Row("Triton"), Peer()
    for name in ("counted", "gelu"):
        row.add(of_sample(name, SAMPLES[name]()), partial(theirs, peer), 2)
    assert (row.kernels, row.runs, row.reports) == (2, 4, [])
    with pytest.raises(Refused):
        peer.compile(
            SAMPLES["add"]().kernel, of_sample("add", SAMPLES["add, f16"]()).chosen, "sm_90a", {"num_warps": 3}
        )


@pytest.mark.slow
@pytest.mark.parametrize("part", ["benchmarks", "tests", "deletion"])
def test_no_report_on_kernels_in_source(part: str) -> None:
    """Every third; the command takes all."""
    assert complaints(islice(PARTS[part](0), 0, None, 3)) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 20))
def test_no_report_on_random_kernels(first: int) -> None:
    assert complaints(islice(PARTS["random"](first + 20), first, None)) == []
