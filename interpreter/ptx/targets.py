"""Which generation of GPUs a module is for, and which one an instruction needs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .site import Site


def generation(target: str) -> int:
    """The compute capability times ten of a target such as `sm_90a`; 0 for a name that has none."""
    found = re.search(r"\d+", target)
    return int(found[0]) if found else 0


def needs(site: Site, least: int) -> None:
    """Raise PtxError where the module's target is older than an instruction."""
    target = site.program.module.target
    if generation(target) < least:
        site.fail(f"`{site.instruction.opcode}` needs sm_{least}, the module is for {target}")


def needs_one_of(site: Site, *targets: str) -> None:
    """Raise PtxError where the module's target is none of those that have an instruction."""
    target = site.program.module.target
    if target not in targets:
        site.fail(f"`{site.instruction.opcode}` is an instruction of {', '.join(targets)}, the module is for {target}")
