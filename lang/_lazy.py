"""The late imports of this room: what compiles, checks, prints and parses kernels; declaring one needs none of it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

#: The modules of this room that are imported when one of these names is first asked of a face.
MODULES: dict[str, tuple[str, ...]] = {
    "equality": ("fingerprint", "structurally_equal"),
    "f2": ("f2",),  # the module itself
    "frontend.generator": ("generate",),
    "frontend.names": ("Dependency", "dependencies", "reads", "used_globals"),
    "frontend.operators": ("TileLogicWarning",),
    "layout": ("LinearLayout",),
    "layout_dims": ("LayoutError",),
    "layout_text": ("parse_layout",),
    "parser": ("ParseError", "parse_module"),
    "printer": ("print_function", "print_module", "print_operation"),
    "tile_layouts": ("tile_layouts",),  # the module itself
    "verifier": ("VerifyError", "verify"),
}
_MODULE_OF = {name: module for module, names in MODULES.items() for name in names}


def late(face: str, listed: list[str], name: str) -> Any:
    """The value of a listed name that a face does not hold yet; for `__getattr__`. Raises AttributeError."""
    if name not in _MODULE_OF or name not in listed:
        raise AttributeError(f"module {face!r} has no attribute {name!r}")
    module = import_module(f".{_MODULE_OF[name]}", __package__)
    return module if name == _MODULE_OF[name] else getattr(module, name)


def close_names(name: str, names: Sequence[str]) -> list[str]:
    """The best of `names` that looks like a misspelt `name`, if any does."""
    from difflib import get_close_matches

    return get_close_matches(name, names, n=1)


def home_path(path: str | PathLike[str]) -> Path:
    """The path, with `~` replaced. Raises RuntimeError where there is no such home folder."""
    from pathlib import Path

    return Path(path).expanduser()
