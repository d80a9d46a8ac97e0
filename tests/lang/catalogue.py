"""Kernels with one mistake each, and the full text of the error that it gives: read from a file, and run.

A case is `=== NameOfTheErrorClass`, the body of a kernel, `---`, and the report. The body stands in a file kernel.py
below `PARAMETERS`, so that its first line is line 2.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.lang import language
from tilewright.lang.dtypes import parse_type
from tilewright.lang.errors import CompilationError
from tilewright.lang.frontend import device_function, generate

#: The parameters of every kernel, by type.
PARAMETERS = {"p": "*fp32", "c": "*kfp32", "h": "*fp16", "i": "*i32", "n": "i32", "u": "u32", "f": "fp32"}


@dataclass(frozen=True, slots=True)
class Case:
    """One mistake: the class of its error, the kernel's body and the report."""

    kind: str
    body: str
    report: str


def read_cases(path: Path) -> list[Case]:
    """The cases of a file."""
    found: list[Case] = []
    for text in path.read_text().split("=== ")[1:]:
        head, report = text.split("\n---\n")
        kind, body = head.split("\n", 1)
        found.append(Case(kind, body, report.strip("\n")))
    return found


def error_of(body: str, folder: Path) -> CompilationError:
    """The error that a kernel of this body gives, with the folder taken out of the file's name."""
    path = folder / "kernel.py"
    lines = [f"def kernel({', '.join(PARAMETERS)}):", *(f"    {line}" for line in body.splitlines())]
    path.write_text("\n".join(lines) + "\n")
    names: dict[str, Any] = {"__name__": "module", "tl": language, "helper": device_function}
    names |= {"np": np, "math": math, "functools": functools}
    exec(compile(path.read_text(), str(path), "exec"), names)
    kernel: Callable[..., None] = names["kernel"]
    signature = {name: parse_type(text) for name, text in PARAMETERS.items()}
    with pytest.raises(CompilationError) as caught:
        generate(device_function(kernel), signature, {})
    return caught.value


def report_of(error: CompilationError, folder: Path) -> str:
    """The text of an error, independent of the folder."""
    return str(error).replace(f"{folder}/", "")
