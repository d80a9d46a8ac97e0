"""The peers, imported when a measurement asks for them."""

from __future__ import annotations

import importlib
import os
from types import ModuleType


def torch_module() -> ModuleType:
    """torch. Raises ImportError where it is missing."""
    return importlib.import_module("torch")


def triton_modules() -> tuple[tuple[ModuleType, ModuleType], tuple[ModuleType, ModuleType]]:
    """(system, language) of Tilewright and of Triton with its interpreter on. Raises ImportError where it is missing."""
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when a kernel is decorated
    ours = importlib.import_module("tilewright")
    theirs = importlib.import_module("triton")
    return (ours, importlib.import_module("tilewright.language")), (theirs, importlib.import_module("triton.language"))
