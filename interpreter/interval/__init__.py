"""The domain of intervals: kernels run on enclosures of all results that the accuracy contracts allow."""

from .execute import Enclosure, enclose
from .memory import Undecided

__all__ = ["Enclosure", "Undecided", "enclose"]
