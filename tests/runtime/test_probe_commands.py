"""The command lines of the probes and other tools: what is wrong with an argument is told before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools import conversions, emulator_speed, options
from tools.probes import gemm, hopper, instructions, mbarrier, mma, moves, tensor_copies, wgmma

PROBES: list[Any] = [gemm, hopper, instructions, mbarrier, mma, moves, tensor_copies, wgmma]
DEVICES = {
    "sm_90a": "there is no device 'sm_90a'; a device is cuda, cuda:1, emulator or emulator:sm_90a",
    "": "there is no device ''",
    "emulator:": "there is no device 'emulator:'",
    "emulator:3": "there is no target '3'; the targets are sm_80",
    "emulator:sm_9": "there is no target 'sm_9'",
    "cuda:": "there is no device 'cuda:'",
    "cuda:one": "there is no device 'cuda:one'; GPUs are numbered: cuda:0, cuda:1",
    "cuda:-1": "there is no device 'cuda:-1'",
    "cuda:Ⅷ": "there is no device",
    "cuda:9999": "",  # no driver, or no such GPU
}


def refusal(main: Any, words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says as it ends."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__.rpartition(".")[2])
def test_a_device_that_does_not_exist(probe: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    more = ["--out", str(tmp_path)] if probe is hopper else []
    for name, what in DEVICES.items():
        said = refusal(probe.main, ["--device", name, *more], capsys)
        assert "error: " in said and what in said, name


@pytest.mark.parametrize(
    ("main", "words", "what"),
    [
        (tensor_copies.main, ["--rows", "("], "'(' is no regular expression: missing )"),
        (tensor_copies.main, ["--jobs", "0"], "a whole number of at least 1, found '0'"),
        (mbarrier.main, ["--jobs", "two"], "a whole number of at least 1, found 'two'"),
        (wgmma.main, ["--tiles", "-1"], "a whole number of at least 0, found '-1'"),
        (mma.main, ["--freeze", "/nowhere/at/all"], "'/nowhere/at/all' is no file in a folder that exists"),
        (
            moves.main,
            ["--out", "/dev/null/new"],
            "'/dev/null/new' is no folder, and can't be made one: Not a directory",
        ),
        (moves.main, ["--device", "emulator:sm_90a", "--rows", "^nothing"], "no case has a name like '^nothing'"),
        (mma.main, ["--freeze", "."], "'.' is no file in a folder that exists"),
        (instructions.main, ["--block", "256"], "invalid choice: 256"),
        (gemm.main, ["--size", "128x256"], "a size is MxNxK, found '128x256'"),
        (gemm.main, ["--size", "100x256x64"], "M is a multiple of 128 and N of 256, found 100 and 256"),
        (gemm.main, ["--size", "128x256x65"], "K is a multiple of 64, found 65"),
        (gemm.main, ["--size", "axbxc"], "a whole number of at least 0, found 'a'"),
        (gemm.main, ["--device", "emulator:sm_80"], "the kernel is for sm_90a"),
        (lambda words: emulator_speed.main(words), ["--target", "sm_1"], "there is no target 'sm_1'"),
        (lambda words: conversions.main(*words), ["--workers", "0"], "a whole number of at least 1, found '0'"),
    ],
)
def test_an_argument_that_makes_no_sense(
    main: Any, words: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert what in refusal(main, words, capsys)


@pytest.mark.parametrize("name", ["emulator", "emulator:sm_90a"])
def test_the_product_runs_on_the_emulator_under_its_names(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gemm.main(["--device", name, "--size", "128x256x64"]) == 0
    first, *rows = capsys.readouterr().out.splitlines()[:-1]
    assert first == name and len(rows) == 3 and all(row.endswith("equal") for row in rows)


def test_devices_that_exist_are_taken_as_they_are() -> None:
    for name in ("cuda", "cuda:0", "cuda:12", "emulator", "emulator:sm_80"):
        assert options.device(name) == name
