"""Each mistake in what operations are given: a real kernel that makes it, and the full text of the error."""

import re
from pathlib import Path

import pytest

from tests.lang.catalogue import Case, error_of, read_cases, report_of
from tilewright.lang.errors import CompilationError, memory, operations

CASES = read_cases(Path(__file__).parent / "error_texts" / "operations.txt")
CLASSES = {
    name
    for module in (operations, memory)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, CompilationError) and value is not CompilationError
}


def test_every_class_has_a_case_and_every_case_a_class() -> None:
    assert sorted({case.kind for case in CASES}) == sorted(CLASSES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}: {case.body}")
def test_the_report(case: Case, tmp_path: Path) -> None:
    error = error_of(case.body, tmp_path)
    assert report_of(error, tmp_path) == case.report
    assert type(error).__name__ == case.kind


def test_no_report_has_an_empty_line() -> None:
    assert [case.report for case in CASES if re.search(r"^\w+: *$", case.report, re.MULTILINE)] == []
