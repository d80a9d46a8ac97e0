"""The late imports of this room: the passes and lowerings, llvmlite, and where the assembler library lies."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

#: The modules of this room that are imported when one of these names is first asked of the face.
MODULES: dict[str, tuple[str, ...]] = {
    "compile": ("STAGES", "Compiled", "Metadata", "compile_module"),
    "cubin": ("resources",),
    "not_lowered": ("NOT_LOWERED",),
    "nvjitlink": ("assemble",),
    "occupancy": ("assemble_kernel",),
    "pipeline": ("ROUNDING_PASSES",),
}


def late(face: str, name: str) -> Any:
    """The value of a name that the face does not hold yet; for `__getattr__`. Raises AttributeError."""
    for module, names in MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __package__), name)
    raise AttributeError(f"module {face!r} has no attribute {name!r}")


def llvm() -> tuple[Any, Any]:
    """llvmlite's binding module, and its `ffi`."""
    import llvmlite.binding as binding  # pyright: ignore[reportMissingTypeStubs]
    from llvmlite.binding import ffi  # pyright: ignore[reportMissingTypeStubs]

    return binding, ffi


def llvm_version() -> str:
    """The versions of llvmlite and of the LLVM inside, for keys."""
    import llvmlite  # pyright: ignore[reportMissingTypeStubs]

    binding: ModuleType | Any = llvm()[0]
    return f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, binding.llvm_version_info))}"


def nvjitlink_candidates() -> list[Path]:
    """The library files of installed nvidia-nvjitlink wheels, the newest interface first."""
    found: list[Path] = []
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        for pattern in ("cu*/lib/libnvJitLink.so.*", "nvjitlink/lib/libnvJitLink.so.*", "cu*/bin/**/nvJitLink*.dll"):
            found += Path(root).glob(pattern)
    return sorted(found, reverse=True)
