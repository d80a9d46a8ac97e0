"""The tool that times the emulator: a right result is timed, a wrong one refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.bench import cases
from tools import emulator_speed


def test_the_command_prints_both_tables(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    small = lambda: cases.add(512, 128)  # noqa: E731
    monkeypatch.setattr(emulator_speed, "CASES", (small,))
    monkeypatch.setattr(emulator_speed, "GROWTH", {"vector add": (small, lambda: cases.add(512, 64))})
    assert emulator_speed.main(["--rounds", "1"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1][:4] == ["vector", "add", "512", "4"] and lines[-1][:3] == ["vector", "add", "4"]


def test_a_wrong_result_is_refused() -> None:
    case = cases.add(512, 128)
    wrong = replace(case, grid=(1,))
    with pytest.raises(ArithmeticError, match="wrong on the emulator"):
        emulator_speed.seconds(wrong, "sm_90a", 1)
