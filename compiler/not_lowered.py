"""The ops that no pass expands and no file of `lower/` lowers yet. The list only shrinks; a test holds its length."""

from __future__ import annotations

from tilewright.lang import OPS

NOT_LOWERED: frozenset[str] = frozenset(
    name for name in OPS if name.startswith(("reduce", "argmin", "argmax")) or name == "dot"
)
