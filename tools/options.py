"""Types of options for the tools' commands: what is wrong with an argument is told before anything runs."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from tilewright.compiler import TARGETS


def natural(text: str) -> int:
    """A whole number of at least 0."""
    return _at_least(0, text)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    return _at_least(1, text)


def _at_least(least: int, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise argparse.ArgumentTypeError(f"a whole number of at least {least}, found {text!r}")
    return int(text)


def pattern(text: str) -> str:
    """A regular expression, as text."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
    return text


def new_file(text: str) -> Path:
    """A file to write, in a folder that exists."""
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no file in a folder that exists")
    return path


def folder(text: str) -> Path:
    """A folder for files, which is made where there is none."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no folder, and can't be made one: {error.strerror}") from None
    return path


def target(text: str) -> str:
    """A target that kernels compile for."""
    if text not in TARGETS:
        raise argparse.ArgumentTypeError(f"there is no target {text!r}; the targets are {', '.join(TARGETS)}")
    return text


def device(text: str) -> str:
    """`emulator`, `emulator:TARGET`, `cuda` or `cuda:NUMBER`, as text."""
    kind, colon, which = text.partition(":")
    known = "a device is cuda, cuda:1, emulator or emulator:sm_90a"
    if kind not in ("cuda", "emulator") or (colon and not which):
        raise argparse.ArgumentTypeError(f"there is no device {text!r}; {known}")
    if kind == "emulator":
        target(which or "sm_90a")
    elif which and not (which.isascii() and which.isdigit()):
        raise argparse.ArgumentTypeError(f"there is no device {text!r}; GPUs are numbered: cuda:0, cuda:1")
    return text
