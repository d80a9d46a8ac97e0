"""Measuring: kernels, the work they are measured on, peers, timing and suites."""

from . import cases
from .cases import Case
from .sources import load_kernels

__all__ = ["Case", "cases", "load_kernels"]
