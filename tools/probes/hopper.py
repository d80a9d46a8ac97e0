"""All probes of Hopper's asynchronous family, one after the other: copies, litmus tests, and `wgmma`.

    python -m tools.probes.hopper --device cuda --out reports/probes --jobs 16

Prints what they print and keeps it in `hopper.txt`, beside a file of each with all that differs and the ones that the
tests replay, which belong into `tests/runtime/data`. None stops the others.
"""

from __future__ import annotations

import contextlib
import io
import sys
import traceback
from collections.abc import Callable, Sequence

from ..options import folder, natural
from . import mbarrier, tensor_copies, wgmma
from .command import parsed, probe_parser

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
    parser = probe_parser(__doc__, "what to take of each probe")
    parser.add_argument("--out", type=folder, required=True, help="a folder for what is found")
    parser.add_argument("--tiles", type=natural, default=1_000_000, help="of each of the foremost types of wgmma")
    parser.add_argument("--fit", type=natural, default=wgmma.CHUNK, help="on so many of them other models are tried")
    arguments = parsed(parser, words)
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
