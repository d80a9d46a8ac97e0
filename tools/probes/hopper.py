"""All probes of Hopper's asynchronous family, one after the other: copies, litmus tests, and `wgmma`.

    python -m tools.probes.hopper --device cuda --out reports/probes --jobs 16

Prints what they print and keeps it in `hopper.txt`, beside a file of each with all that differs and the ones that the
tests replay, which belong into `tests/runtime/data`. None stops the others.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from . import mbarrier, tensor_copies, wgmma

Main = Callable[[Sequence[str]], int]

FILES = {"copies": "copies-sm_90a.json", "litmus": "litmus-sm_90a.json", "wgmma": "wgmma-sm_90a.json"}
"""What each probe freezes, by name."""
_MAINS: dict[str, Main] = {"copies": tensor_copies.main, "litmus": mbarrier.main, "wgmma": wgmma.main}


class _Both(io.TextIOBase):
    """Writes to the screen and keeps a copy."""

    def __init__(self, file: io.TextIOBase) -> None:
        self._screen, self._file = sys.stdout, file

    def write(self, text: str) -> int:
        self._file.write(text)
        return self._screen.write(text)

    def flush(self) -> None:
        self._file.flush()
        self._screen.flush()


def _attempt(main: Main, words: Sequence[str]) -> int:
    """How much went wrong with a probe; one more than nothing if it broke off."""
    try:
        return main(words)
    except Exception:  # told in full, and the others are run all the same
        print(traceback.format_exc())
        return 1


def main(words: Sequence[str] | None = None) -> int:
    """How much went wrong with all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or emulator:sm_90a")
    parser.add_argument("--out", type=Path, required=True, help="a folder for what is found")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--tiles", type=int, default=1_000_000, help="of each of the foremost types of wgmma")
    parser.add_argument("--fit", type=int, default=wgmma.CHUNK, help="on so many of them other models are tried")
    parser.add_argument("--rows", default="", help="a regular expression of what to take of each probe")
    arguments = parser.parse_args(words)
    arguments.out.mkdir(parents=True, exist_ok=True)
    wrong = 0
    with (arguments.out / "hopper.txt").open("w") as file, contextlib.redirect_stdout(_Both(file)):
        for name, probe in _MAINS.items():
            given = ["--device", arguments.device, "--jobs", str(arguments.jobs), "--rows", arguments.rows]
            given += ["--freeze", str(arguments.out / FILES[name]), "--details", str(arguments.out / f"{name}.txt")]
            if name == "wgmma":
                given += ["--tiles", str(arguments.tiles), "--fit", str(arguments.fit)]
            wrong += _attempt(probe, given)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
