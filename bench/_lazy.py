"""The peers, imported when a measurement asks for them."""

from __future__ import annotations

import importlib
from types import ModuleType, SimpleNamespace
from typing import Any

#: The modules that answer to `triton` and `triton.language`.
System = tuple[ModuleType, ModuleType]


def _peer(name: str) -> ModuleType:
    """A module of a peer's. Raises ImportError where it is missing, with what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{error}; measuring beside peers needs them: pip install torch triton==3.6.0") from None


def torch_module() -> ModuleType:
    """torch. Raises ImportError where it is missing."""
    return _peer("torch")


def systems(*, interpret: bool) -> dict[str, System]:
    """Tilewright and Triton by their names; Triton must interpret kernels, or must not.

    Raises ImportError where Triton is missing, and RuntimeError where TRITON_INTERPRET, which it reads when it is
    imported, says otherwise.
    """
    names = {name: (_peer(name), f"{name}.language") for name in ("tilewright", "triton")}
    if names["triton"][0].knobs.runtime.interpret != interpret:
        raise RuntimeError(
            f"Triton's interpreter is {'off' if interpret else 'on'}; set TRITON_INTERPRET={interpret:d}"
        )
    return {name: (system, importlib.import_module(language)) for name, (system, language) in names.items()}


def triton_compiler() -> Any:
    """What Triton 3.6 compiles with, stage by stage: `ASTSource`, `GPUTarget`, `ir`, `make_backend`.

    Raises ImportError where Triton is missing, and AttributeError where another version has it elsewhere.
    """
    places = {
        "ASTSource": "triton.compiler",
        "GPUTarget": "triton.backends.compiler",
        "ir": "triton._C.libtriton",
        "make_backend": "triton.compiler.compiler",
    }
    return SimpleNamespace(**{name: getattr(_peer(at), name) for name, at in places.items()})
