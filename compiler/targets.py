"""The GPU generations that kernels compile for, one row each.

Every row fixes the PTX version, since LLVM aborts the process on an instruction that the chosen generation and version
lack: a lowering states what it `needs`, and the check happens here, before LLVM sees anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import UnknownTarget


@dataclass(frozen=True, slots=True)
class Needs:
    """The least that a lowering asks for: the compute capability times ten, and the PTX version times ten."""

    sm: int = 80
    ptx: int = 70


@dataclass(frozen=True, slots=True)
class Target:
    """One generation: its name for LLVM and the assembler, its compute capability times ten, its PTX version times ten.

    `shared_bytes` is the shared memory that one block may use. A multiprocessor holds `resident_threads` threads and
    `resident_blocks` blocks at a time.
    """

    name: str
    sm: int
    ptx: int
    shared_bytes: int
    resident_threads: int
    resident_blocks: int

    def meets(self, needs: Needs) -> bool:
        """Whether everything that `needs` names is there."""
        return self.sm >= needs.sm and self.ptx >= needs.ptx

    @property
    def features(self) -> str:
        """The feature string for LLVM."""
        return f"+ptx{self.ptx}"


_ROWS = (
    Target("sm_80", 80, 88, 166_912, 2048, 32),
    Target("sm_86", 86, 88, 101_376, 1536, 16),
    Target("sm_89", 89, 88, 101_376, 1536, 24),
    Target("sm_90a", 90, 88, 232_448, 2048, 32),
    Target("sm_100a", 100, 88, 232_448, 2048, 32),
    Target("sm_103a", 103, 88, 232_448, 2048, 32),
    Target("sm_120a", 120, 88, 101_376, 1536, 24),
)

#: Every target by its name.
TARGETS: dict[str, Target] = {row.name: row for row in _ROWS}


def target_named(name: str) -> Target:
    """The row of a target. Raises UnknownTarget."""
    if name not in TARGETS:
        raise UnknownTarget(name=name, known=", ".join(TARGETS))
    return TARGETS[name]
