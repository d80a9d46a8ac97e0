"""The rows of the instruction table, by family. Importing this package fills the table."""

from . import atomic, barrier, bits, compare, control, convert, floating, functions, integer, memory, move, warp

__all__ = [
    "atomic",
    "barrier",
    "bits",
    "compare",
    "control",
    "convert",
    "floating",
    "functions",
    "integer",
    "memory",
    "move",
    "warp",
]
