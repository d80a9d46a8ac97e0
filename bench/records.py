"""Rows of measurements: what surrounds their figures, and how they are stored."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: The packages that figures depend on.
PACKAGES = ("numpy", "torch", "triton", "llvmlite", "nvidia-nvjitlink", "cuda-bindings")


def surroundings(commit: str = "") -> dict[str, Any]:
    """What figures are measured with: the commit (asked of git unless given), versions, processor."""
    cpus = Path("/proc/cpuinfo")
    models = [line.partition(":")[2].strip() for line in cpus.read_text().splitlines() if "model name" in line]
    return {
        "commit": commit or current_commit(),
        "python": platform.python_version(),
        "versions": {package: version for package in PACKAGES if (version := _version(package))},
        "processor": models[0] if models else platform.machine(),
        "cores": len(models),
    }


def current_commit() -> str:
    """The commit that is checked out, with `-dirty` if files differ from it; "" where git doesn't know."""
    asked = ["git", "--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    return answer(asked).strip()


def answer(command: list[str]) -> str:
    """What a command prints; "" where it is missing or fails."""
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def store(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows to a file, one a line. Raises ValueError for a row with a NaN or an infinity, which JSON lacks."""
    lines = [json.dumps(row, allow_nan=False) + "\n" for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as sink:
        sink.writelines(lines)
