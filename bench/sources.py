"""Kernel sources that run under any system which speaks the language.

A file in `kernels/` says `import triton`; which system answers to that name is decided when the file is loaded, so the
very same source is measured under each.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

KERNELS = Path(__file__).resolve().parent / "kernels"


@contextmanager
def _answering(system: ModuleType, language: ModuleType) -> Generator[None]:
    """While open, `import triton` finds `system`, and `triton.language` finds `language`."""
    names = {"triton": system, "triton.language": language}
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def load_kernels(family: str, system: ModuleType, language: ModuleType) -> ModuleType:
    """The module `kernels/<family>.py`, compiled by `system` (its `jit`) with `language` as `tl`.

    Every call loads afresh. Raises FileNotFoundError for a family that does not exist.
    """
    path = KERNELS / f"{family}.py"
    if not path.exists():
        raise FileNotFoundError(f"no kernels named {family}: {path} does not exist")
    spec = spec_from_file_location(f"kernels_{family}_{system.__name__}", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module
    with _answering(system, language):
        spec.loader.exec_module(module)
    return module
