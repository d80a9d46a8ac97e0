"""The emulator has a row for every instruction that kernels use, and what has none is named."""

from __future__ import annotations

import pytest

from tools import ptx_coverage

TEXT = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry f()
{
    .reg .b32 %r<3>;
    add.u32 %r1, %r2, %r2;
    add.u32 %r1, %r1, %r2;
    vadd.s32.s32.s32 %r1, %r2, %r2;
    ret;
}
"""


def test_instructions_are_counted_and_those_without_a_row_named() -> None:
    use = ptx_coverage.Use()
    use.add(TEXT)
    assert use.texts == 1 and use.opcodes["add.u32"] == 2 and use.opcodes.total() == 4
    (unlisted,) = use.unlisted()
    assert unlisted.startswith("vadd.") and ptx_coverage.is_listed("wgmma.fence.sync.aligned")


def test_the_exit_status_says_whether_a_row_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ["--targets", "sm_80", "--sources", "tests", "--opcodes"]
    assert ptx_coverage.main(*chosen) == 0
    said = capsys.readouterr().out
    assert "mma.sync.aligned.m16n8k16" in said and said.endswith("without a row: none\n")
    monkeypatch.setitem(ptx_coverage.SOURCES, "tests", lambda *_: iter([TEXT]))
    assert ptx_coverage.main(*chosen) == 1 and "vadd.s32" in capsys.readouterr().out


@pytest.mark.slow
def test_every_instruction_of_the_corpus_has_a_row() -> None:
    assert ptx_coverage.main("--kernels", "70") == 0
