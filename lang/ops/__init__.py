"""The op tables: one row an op, one file a family."""

from . import arith, cast, compare, control, debug, gpu, math, memory, reduce, shape

__all__ = ["arith", "cast", "compare", "control", "debug", "gpu", "math", "memory", "reduce", "shape"]
