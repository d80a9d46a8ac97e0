"""The command line that all probes have in common."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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


def added(file: Path, asked: Iterable[str], found: Mapping[str, Any]) -> dict[str, Any]:
    """What a file of data has of other cases, and behind it what was found of those that were asked now.

    found: parts of the data, each a dictionary by the cases' names, or a list of such.
    """
    before: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    now, merged = set(asked), dict[str, Any]()
    for part, own in found.items():
        old = before.get(part, type(own)())
        others = [name for name in old if name not in now]
        merged[part] = {name: old[name] for name in others} | own if isinstance(own, dict) else others + own
    return merged
