"""For the sweeps: their table at the end of a run, and a new process where one has lost the GPU.

Under xdist the table is printed where this folder, or a file in it, is named on the command line.
"""

from __future__ import annotations

import os

import pytest

from tests.compiler.sweep_report import table
from tilewright.runtime import CudaError

#: The tests after which nothing can run on the GPU in this process any more.
_lost: list[str] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what the sweeps ran."""
    reports = [report for some in terminalreporter.stats.values() for report in some]
    calls = [report for report in reports if isinstance(report, pytest.TestReport) and report.when == "call"]
    if lines := list(table(each for report in calls for each in report.user_properties)):
        terminalreporter.section("sweeps")
        for line in lines:
            terminalreporter.write_line(line)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Notes a fault on the GPU, which ends every later use of it in a process."""
    if call.excinfo is not None and isinstance(call.excinfo.value, CudaError) and hasattr(item.config, "workerinput"):
        _lost.append(item.nodeid)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Ends a worker of xdist that has lost the GPU, once the test is reported: xdist starts another for the rest."""
    if _lost:
        os._exit(70)
