"""The harness: cases for every op row, random kernels, oracles, the levels at which they run, and campaigns."""

from .campaign import Finding, Report, examine, run_campaign, write_reproducer
from .cases import Case, CaseText, Outcome
from .choices import Choices, HypothesisChoices, RecordedChoices, SplitMix64
from .generator import GeneratedKernel, Parameter, generate_kernel
from .kernel_campaign import Row, Summary, Task, examine_task, fuzz
from .kernels import TARGETS, Examination, examine_launch
from .launches import Launch, launched
from .levels import LEVELS, Level, RoundTripError
from .oracles import Mismatch, check, expected
from .reduce import reduce_decisions
from .reproducing import argument, reproducer, rerun
from .strategies import STRATEGIES, Strategy

__all__ = [
    "Case",
    "CaseText",
    "Choices",
    "Examination",
    "Finding",
    "GeneratedKernel",
    "HypothesisChoices",
    "LEVELS",
    "Launch",
    "Level",
    "Mismatch",
    "Outcome",
    "Parameter",
    "RecordedChoices",
    "Report",
    "RoundTripError",
    "Row",
    "STRATEGIES",
    "SplitMix64",
    "Strategy",
    "Summary",
    "TARGETS",
    "Task",
    "argument",
    "check",
    "examine",
    "examine_launch",
    "examine_task",
    "expected",
    "fuzz",
    "generate_kernel",
    "launched",
    "reduce_decisions",
    "reproducer",
    "rerun",
    "run_campaign",
    "write_reproducer",
]
