"""The peers, imported when a measurement asks for them."""

from __future__ import annotations

import importlib
from types import ModuleType


def torch_module() -> ModuleType:
    """torch. Raises ImportError where it is missing."""
    return importlib.import_module("torch")


def triton_modules() -> tuple[tuple[ModuleType, ModuleType], tuple[ModuleType, ModuleType]]:
    """(system, language) of Tilewright and of Triton, whose interpreter must be on (TRITON_INTERPRET=1).

    Raises ImportError where Triton is missing, and RuntimeError where its interpreter is off: Triton decides when it is
    imported.
    """
    ours = importlib.import_module("tilewright")
    theirs = importlib.import_module("triton")
    if not theirs.knobs.runtime.interpret:
        raise RuntimeError("Triton's interpreter is off; set TRITON_INTERPRET=1")
    return (ours, importlib.import_module("tilewright.language")), (theirs, importlib.import_module("triton.language"))
