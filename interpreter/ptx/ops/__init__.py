"""The rows of the instruction table, by family. Importing this package fills the table."""

from . import (
    atomic,
    barrier,
    bits,
    compare,
    control,
    convert,
    copy,
    floating,
    functions,
    integer,
    ldmatrix,
    memory,
    mma,
    move,
    warp,
)

__all__ = [
    "atomic",
    "barrier",
    "bits",
    "compare",
    "control",
    "convert",
    "copy",
    "floating",
    "functions",
    "integer",
    "ldmatrix",
    "memory",
    "mma",
    "move",
    "warp",
]
