"""The harness: cases for every op row, an exact oracle, the levels at which a case runs, and campaigns over them."""

from .campaign import Finding, Report, examine, run_campaign, write_reproducer
from .cases import Case, CaseText, Outcome
from .choices import Choices, HypothesisChoices, RecordedChoices, SplitMix64
from .levels import LEVELS, Level, RoundTripError
from .oracles import Mismatch, check, expected
from .strategies import STRATEGIES, Strategy

__all__ = [
    "Case",
    "CaseText",
    "Choices",
    "Finding",
    "HypothesisChoices",
    "LEVELS",
    "Level",
    "Mismatch",
    "Outcome",
    "RecordedChoices",
    "Report",
    "RoundTripError",
    "STRATEGIES",
    "SplitMix64",
    "Strategy",
    "check",
    "examine",
    "expected",
    "run_campaign",
    "write_reproducer",
]
