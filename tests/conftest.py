"""What every test needs: hypothesis profiles, clean skips, and the table of tests and seconds by room."""

import importlib.util
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

# Deterministic, so that a red run is red again, and without clocks or a database, so that a slow or read-only machine
# changes nothing. `--hypothesis-profile=deep` (as in `make deep`) draws many more examples.
for profile, examples in (("suite", 50), ("deep", 1000)):
    settings.register_profile(
        profile,
        derandomize=True,
        deadline=None,
        database=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("suite")

# In a child process: once a process has initialised the driver, its forks cannot use the GPU.
PROBE = """
import ctypes, sys
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit("no NVIDIA driver on this machine (libcuda.so.1)")
count = ctypes.c_int()
if status := driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
    sys.exit(f"the NVIDIA driver does not start: error {status}")
if not count.value:
    sys.exit("the NVIDIA driver sees no GPU")
"""


@cache
def why_no_gpu() -> str:
    """Why tests marked `gpu` cannot run here; empty if they can."""
    return subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True).stderr.strip()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--block`: which part of the sweeps over all f32 operands is replayed; without it another one each day."""
    parser.addoption("--block", type=int, choices=range(256), metavar="K", help="replay block K of each sweep")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test whose GPU or optional package is not here, and says which."""
    for marker in item.iter_markers("optional"):
        for module in marker.args:
            if importlib.util.find_spec(module) is None:
                pytest.skip(f"needs {module}, which is not installed")
    if item.get_closest_marker("gpu") and (reason := why_no_gpu()):
        pytest.skip(f"needs a GPU: {reason}")


def room_of(nodeid: str) -> str:
    """The folder under tests/ that a test lies in; `house` for those directly in it."""
    parts = nodeid.split("::")[0].split("/")
    return parts[1] if len(parts) > 2 else "house"


def table_by_room(reports: Sequence[pytest.TestReport]) -> list[str]:
    """The lines of the table: tests by outcome, and seconds in setup, call and teardown, for each room and in all."""
    counts: Counter[tuple[str, str]] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        for room in (room_of(report.nodeid), "all"):
            seconds[room] += report.duration
            if report.when == "call" or report.outcome != "passed":
                counts[room, report.outcome] += 1
    lines = [f"{'room':<12} {'passed':>7} {'failed':>7} {'skipped':>7} {'seconds':>9}"]
    for room in (*sorted(seconds.keys() - {"all"}), "all"):
        tests = " ".join(f"{counts[room, outcome]:>7}" for outcome in ("passed", "failed", "skipped"))
        lines.append(f"{room:<12} {tests} {seconds[room]:>9.1f}")
    return lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the table; under xdist this runs in the controller, which gets every worker's reports."""
    lists = terminalreporter.stats.values()
    reports = [report for some in lists for report in some if isinstance(report, pytest.TestReport)]
    if not reports:
        return
    terminalreporter.section("tests and seconds by room")
    for line in table_by_room(reports):
        terminalreporter.write_line(line)
