"""The ops that no pass expands and no file of `lower/` lowers yet: none. A test keeps it so."""

from __future__ import annotations

NOT_LOWERED: frozenset[str] = frozenset()
