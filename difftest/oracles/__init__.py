"""What each row means, told a second time in exact arithmetic, and verdicts by the rows' contracts."""

from .evaluator import expected
from .verdict import Mismatch, check

__all__ = ["Mismatch", "check", "expected"]
