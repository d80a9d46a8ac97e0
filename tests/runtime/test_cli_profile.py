"""`tilewright profile script.py`: what it prints, and that the script is run as Python would run it."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

typer_testing = pytest.importorskip("typer.testing", reason="needs typer, which is not installed")
ROOT = Path(__file__).parent.parent.parent
SCRIPT = """\
import sys
import numpy as np
import tilewright
import tilewright.language as tl
from beside import SIZE


@tilewright.jit
def add(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + 1)


x, out = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
print(__name__, sys.argv)
add[(3,)](x, out, BLOCK=128)
add[(1,)](x[384:], out[384:], BLOCK=128)
assert (out == 1).all()
if "wide" in sys.argv:
    add[(1,)](x, out, BLOCK=512)
if "far" in sys.argv:
    add[(5,)](x, out, BLOCK=128)
if "oh" in sys.argv:
    raise ValueError("oh")
sys.exit({"7": 7, "text": "no more"}.get(sys.argv[-1]))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("SIZE = 512\n")
    path = tmp_path / "work.py"
    path.write_text(SCRIPT)
    return path


def profile(*arguments: str) -> tuple[int, str, str]:
    """The status of the command, and what it wrote to its two outputs."""
    command = [sys.executable, "-m", "tilewright", "profile", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def test_it_prints_a_profile_of_each_kernel_after_the_output(script: Path) -> None:
    status, out, told = profile("--target", "sm_80", "--sort", "loads", "--top", "1", str(script), "--top", "wide")
    assert (status, told) == (0, "")
    first, blank, *tables = out.splitlines()
    assert (first, blank) == (f"__main__ {[str(script), '--top', 'wide']}", "")
    assert tables[0] == "add(x: *fp32:16, out: *fp32:16, BLOCK: constexpr 128)"
    assert tables[1].startswith("on emulator:sm_80: 2 launches, 4 programs; 4 warps, ")
    line, total = tables[4], tables[5]
    assert line.startswith("work.py:11 ") and line.endswith("tl.store(out + i, tl.load(x + i) + 1)")
    assert total.startswith("all lines ") and " 16 " in total  # 4 warps of 4 programs load
    assert tables[6:8] == ["", "add(x: *fp32:16, out: *fp32:16, BLOCK: constexpr 512)"]
    assert "1 launch, 1 program;" in tables[8] and len(tables) == 13


@pytest.mark.parametrize(("argument", "status", "told"), [("7", 7, ""), ("text", 1, "no more\n")])
def test_the_exit_status_is_the_scripts(argument: str, status: int, told: str, script: Path) -> None:
    found, out, errors = profile(str(script), argument)
    assert (found, errors) == (status, told) and "2 launches, 4 programs" in out


def test_an_error_of_the_script_is_shown_as_python_shows_it(script: Path) -> None:
    status, out, told = profile(str(script), "oh")
    assert status == 1 and "2 launches, 4 programs" in out
    python = subprocess.run([sys.executable, str(script), "oh"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert told == python.stderr and told.startswith("Traceback") and told.endswith("ValueError: oh\n")


def test_a_fault_of_a_kernel_shows_its_line_and_what_ran_before(script: Path) -> None:
    status, out, told = profile(str(script), "far")
    assert status == 1 and "2 launches, 4 programs" in out
    assert "tl.store(out + i, tl.load(x + i) + 1)\n" in told and "program (4, 0, 0)" in told


def test_a_script_that_launches_nothing_and_one_that_is_no_python(tmp_path: Path) -> None:
    path = tmp_path / "idle.py"
    path.write_text("print('idle')\n")
    assert profile(str(path)) == (0, "idle\n", "no kernel ran on the emulator\n")
    path.write_text("def f(:\n")
    status, out, told = profile(str(path))
    assert (status, out) == (1, "") and told.startswith(f'  File "{path}", line 1\n')
    assert "SyntaxError: invalid syntax" in told


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["/no/such/file.py"], 2, "error: there is no Python file '/no/such/file.py'"),
        (
            ["--target", "sm_90", "{}"],
            1,
            "error: there is no target 'sm_90' to compile for\nhint: did you mean sm_90a?",
        ),
        (["--sort", "load", "{}"], 2, "error: --sort takes line, instructions, memory, arithmetic, tensor, exchange, "),
        (["--top", "0", "{}"], 2, "Usage: "),
        ([], 2, "Usage: "),
    ],
)
def test_mistakes(arguments: list[str], status: int, message: str, script: Path) -> None:
    app = importlib.import_module("tilewright.cli").app
    done = typer_testing.CliRunner().invoke(app, ["profile", *(each.format(script) for each in arguments)])
    assert done.exit_code == status and done.stdout == "" and done.stderr.startswith(message)
