"""The command line that all probes have in common."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from tilewright.runtime import CudaError, DeviceError

from ..options import device, pattern, positive
from .machines import kept_machine


def probe_parser(description: str | None, what: str) -> argparse.ArgumentParser:
    """With `--device`, `--jobs`, and `--rows`, which takes some of `what`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=device, default="cuda", help="cuda, cuda:1, emulator or emulator:sm_90a")
    parser.add_argument("--rows", type=pattern, default="", help=f"a regular expression of {what}")
    parser.add_argument("--jobs", type=positive, default=min(16, os.cpu_count() or 1), help="processes")
    return parser


def parsed(parser: argparse.ArgumentParser, words: Sequence[str] | None) -> argparse.Namespace:
    """The arguments, once the device is known to work; ends the process with a message otherwise."""
    arguments = parser.parse_args(words)
    try:
        kept_machine(arguments.device)
    except (DeviceError, CudaError) as error:
        parser.error(str(error))
    return arguments
