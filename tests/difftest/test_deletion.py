"""What compiled kernels have in their PTX is needed: each barrier, wait, swizzle and mask is missed when it is gone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.compiler.kernels import Sample, f32
from tests.difftest import deletion_kernels
from tests.difftest.deletion_kernels import EXPLAINED, GENERATED, SAMPLE, SPECIMENS, specimen
from tilewright.difftest.mutants.deletion import APART, Placement, Report, examine, placed, touched
from tilewright.difftest.mutants.generated import main
from tilewright.difftest.mutants.reasons import IDLE, UNREACHED
from tilewright.difftest.mutants.sites import BARRIER, COMMIT, FENCE, MASK, ORDERING, SWIZZLE, WAIT, replaced, sites_of
from tilewright.lang import Effect

#: Kernels that are done in a second: one with atomics, one with a conversion, one with branches, random ones.
QUICK = ("add", "branching", "counted", "transposed f64", "seed 37", "seed 48", "seed 81")

PTX = """\
\t.loc\t1 7 5
\tmov.u32 \t%r1, %tid.x;
\tshl.b32 \t%r2, %r1, 2;
\tand.b32 \t%r3, %r1, 16;
\txor.b32 \t%r4, %r2, %r3;
\txor.b32 \t%r9, %r2, 5;
\tcvt.u64.u32 \t%rd1, %r4;
\tmov.b64 \t%rd2, shared;
\tadd.s64 \t%rd3, %rd2, %rd1;
\t// begin inline asm
\t@%p1 cp.async.ca.shared.global [%rd3], [%rd4], 8, %r7;
\t// end inline asm
\tcp.async.commit_group;
\t.loc\t1 8 9
\tcp.async.wait_group \t0;
\tbar.sync \t0;
\tfence.acq_rel.gpu;
\tld.shared.b32 \t%r5, [%rd3];
\t@!%p2 st.global.b32 [%rd5], %r9;
"""


def test_sites_are_found_with_their_lines() -> None:
    """An XOR counts where an address in shared memory is made of it, for each operand; a copy's mask has two forms."""
    found = [(site.kind, site.source, site.instead) for site in sites_of(PTX)]
    assert found == [
        (SWIZZLE, 7, "mov.b32 %r4, %r2;"),
        (SWIZZLE, 7, "mov.b32 %r4, %r3;"),
        (MASK, 7, "cp.async.ca.shared.global [%rd3], [%rd4], 8, %r7;"),
        (MASK, 7, "@%p1 cp.async.ca.shared.global [%rd3], [%rd4], 8;"),
        (COMMIT, 7, ""),
        (WAIT, 8, ""),
        (BARRIER, 8, ""),
        (FENCE, 8, ""),
        (MASK, 8, "st.global.b32 [%rd5], %r9;"),
    ]


def test_the_asynchronous_family_has_sites() -> None:
    found = [
        (site.kind, site.instead)
        for line in (
            "mbarrier.try_wait.parity.shared::cta.b64 %done, [%r1], %r2;", "mbarrier.arrive.shared::cta.b64 _, [%r1];",
            "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 1;",
            "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;", "fence.proxy.async;",
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile [%r1], [%rd1, {%r2, %r3}], [%r4];",
        )
        for site in sites_of(line)
    ]  # fmt: skip
    assert found == [
        (WAIT, "setp.eq.u32 %done, 0, 0;"), (BARRIER, ""), (FENCE, ""), (COMMIT, ""), (WAIT, ""), (COMMIT, ""),
        (WAIT, ""), (FENCE, ""),
    ]  # fmt: skip


def test_a_mutant_differs_in_one_line() -> None:
    for site in sites_of(PTX):
        pairs = zip(PTX.splitlines(), replaced(PTX, site).splitlines(), strict=True)
        assert [(old, new) for old, new in pairs if old != new] == [(PTX.splitlines()[site.line], site.instead)]


@pytest.mark.parametrize("skipped", [0, 1])
def test_arrays_lie_apart_or_overlap(skipped: int) -> None:
    """Behind another begins an array that is aligned to 16 bytes by so many of these, any other by elements."""
    first, second = np.arange(10, dtype=np.float32), np.arange(11 + skipped, dtype=np.float32)[skipped:]
    a, b, number = placed([first, second, 3], APART)
    assert number == 3 and (a == first).all() and (b == second).all()
    assert min(abs(b.ctypes.data - a.ctypes.data), 1 << 20) == 1 << 20 and a is not first
    a, b, _ = placed([first, second, 3], Placement(0, (0, 1), 1))
    assert b.ctypes.data - a.ctypes.data == (4 if skipped else 16)
    assert (b == second).all() and a[0] == 0 and a[4] == b[3 if skipped else 0]


def complaints(name: str, report: Report) -> list[str]:
    """What is not as it should be: survivors that nothing explains, explanations that nothing needs, and catches of the
    emulator's that do not say where. Of a random kernel it is enough that a run finds a reason."""
    explained = {kind: count for kind, (count, _) in EXPLAINED.get(name, {}).items()}
    survivors = Counter(each.site.kind for each in (report.survivors if name in SPECIMENS else report.unexplained))
    found = [] if survivors == explained else [f"{name}: {report}"]
    for verdict in report.verdicts:
        told = name in SPECIMENS and verdict.by.endswith("Error") and f":{verdict.line}:" not in verdict.told
        if told or (verdict.by and verdict.site.kind in ORDERING and not verdict.by.endswith("Error")):
            found.append(f"{name}: {verdict}")
    return found


@pytest.mark.parametrize("name", QUICK)
def test_all_that_is_there_is_needed(name: str) -> None:
    report = SAMPLE[name]()
    assert report.verdicts and complaints(name, report) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SAMPLE if name not in QUICK])
def test_all_that_is_there_is_needed_deep(name: str) -> None:
    report = SAMPLE[name]()
    assert report.verdicts and complaints(name, report) == []


def test_the_sample_has_60_kernels_and_every_explanation_is_for_one() -> None:
    assert len(SAMPLE) == 60 and len(set(GENERATED)) == 24 and EXPLAINED.keys() <= SAMPLE.keys()


def test_the_command_prints_the_score(capsys: pytest.CaptureFixture[str]) -> None:
    assert deletion_kernels.main(["add", "counted"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["sites", "emulator", "results", "counters", "explained", "unexplained"],
        ["barrier", "3", "3", "0", "0", "0", "0"], ["mask", "9", "8", "1", "0", "0", "0"],
    ]  # fmt: skip


@tilewright.jit
def masked(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, v)
    tl.store(out + (BLOCK - 1 - i), v, mask=i < n)


def test_a_reason_is_found_by_a_run() -> None:
    """The second store orders nothing if its mask never holds; and where it does, its barrier is missed."""
    for n, survivors in ((-1, [(BARRIER, IDLE)]), (9, [])):
        sample = Sample(masked, (f32(256), f32(256, 2), n), (1, 1, 1), {"BLOCK": 256})
        report = examine(specimen("masked", sample))
        assert [(each.site.kind, each.told) for each in report.survivors if each.site.kind == BARRIER] == survivors


@tilewright.jit
def doubled(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.debug_barrier()
    tl.debug_barrier()
    if n > 2:
        tl.debug_barrier()
    tl.store(out + i, v)


def test_what_is_not_needed_survives() -> None:
    report = examine(specimen("doubled", Sample(doubled, (f32(256), f32(256, 2), 2), (1, 1, 1), {"BLOCK": 256})))
    assert [(verdict.site.kind, verdict.told) for verdict in report.survivors] == [
        *((BARRIER, ""), (BARRIER, "")), (BARRIER, UNREACHED)
    ]  # fmt: skip
    assert report.survivors == report.verdicts
    assert "2 SURVIVED, 1 not reached" in report.row() and str(report).count("survives: barrier of line") == 2


def test_only_what_is_written_is_laid_over_others() -> None:
    module = SPECIMENS["counted"]().module
    assert touched(module, frozenset((Effect.WRITE,))) == {2}
    assert touched(module, frozenset((Effect.READ, Effect.READ_WRITE))) == {0, 1}


def test_the_command_prints_a_table_of_generated_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--seeds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert status == 0 and lines[0].split() == ["seed", "1", "2", "barrier", "2", "RaceError"]
    assert lines[1].startswith("all ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--seeds", "5:2"], "no seed lies in 5:2"), (["--seeds", "0", "--kinds", "foo"], "invalid choice: 'foo'")],
)
def test_what_selects_nothing_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and said in capsys.readouterr().err
