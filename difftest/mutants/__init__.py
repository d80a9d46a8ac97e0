"""Seeded faults of the compiler, and the hunt for them."""

from .catalogue import MUTANTS, Mutant
from .hunt import hunt

__all__ = ["MUTANTS", "Mutant", "hunt"]
