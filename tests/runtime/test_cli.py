"""The command line: `compile`, `doctor` and `cache`, each with its output, its mistakes and its exit status."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.lang import knobs
from tilewright.runtime import ArgumentError, Entry, Finding, Store, kernel_cache, specialize_text

typer_testing = pytest.importorskip("typer.testing", reason="needs typer, which is not installed")
ROOT = Path(__file__).parent.parent.parent
SOURCE = """
import tilewright
import tilewright.language as tl

VALUE = 3


@tilewright.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=inside), mask=inside)


@tilewright.jit
def wrong(x_ptr):
    tl.store(x_ptr, nothing)
"""
SIGNATURE = "*fp32:16, *fp32:16, *fp32:16, i32, 1024"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[None]:
    kernel_cache.forget()
    with knobs.scope(cache_dir=tmp_path / "cache"):
        yield


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "kernels_for_cli.py"
    path.write_text(SOURCE)
    sys.modules.pop("kernels_for_cli", None)
    return path


def cli(*arguments: str) -> Any:
    """What the command prints (`stdout`, `stderr`) and its `exit_code`."""
    app = importlib.import_module("tilewright.cli").app
    return typer_testing.CliRunner().invoke(app, list(arguments), catch_exceptions=False)


# --- signatures ---

NAMES = ("x", "n", "BLOCK")
CONSTEXPRS = frozenset({"BLOCK"})


@pytest.mark.parametrize(
    ("text", "signature", "constants", "divisible"),
    [
        ("*fp32:16, i32, 1024", {"x": "pointer<fp32>", "n": "int32"}, {"BLOCK": 1024}, {"x"}),
        ("*bf16,i64:16,'a, b'", {"x": "pointer<bf16>", "n": "int64"}, {"BLOCK": "a, b"}, {"n"}),
        ("*i8, i32:1, True", {"x": "pointer<int8>"}, {"n": 1, "BLOCK": True}, set()),
        ("*u8 : 16, -5, None", {"x": "pointer<uint8>"}, {"n": -5, "BLOCK": None}, {"x"}),
        ("fp32, fp16, 0.5", {"x": "fp32", "n": "fp16"}, {"BLOCK": 0.5}, set()),
    ],
)
def test_signatures(text: str, signature: dict[str, str], constants: dict[str, Any], divisible: set[str]) -> None:
    found = specialize_text(text, NAMES, CONSTEXPRS)
    assert {name: str(type_) for name, type_ in found.signature.items()} == signature
    assert found.constants == constants and set(found.attributes) == divisible
    assert list(found.bound) == list(NAMES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the signature has 0 entries, and the kernel 3 parameters\nhint: one for each of x, n, BLOCK"),
        ("*fp32, i32", "the signature has 2 entries, and the kernel 3 parameters\nhint: one for each of x, n, BLOCK"),
        ("*fp32, i32, i32", "parameter BLOCK: 'i32' is a type, and a constexpr takes a value"),
        ("*fp32:8, i32, 1", "parameter x: '*fp32:8' ends in no promise\nhint: it may be :16, or :1 for integers"),
        ("*fp32:1, i32, 1", "parameter x: '*fp32:1': only an integer can be 1"),
        ("*fp32, fp32:16, 1", "parameter n: 'fp32:16': only integers and pointers are multiples of 16"),
        (
            "*fp33, i32, 1",
            "parameter x: '*fp33' is neither a type nor a value\n"
            "hint: types are written like *fp32:16, i32, fp16; values like 1024, True, None",
        ),
    ],
)
def test_mistakes_in_signatures(text: str, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        specialize_text(text, NAMES, CONSTEXPRS)
    assert str(caught.value) == message


# --- compile ---


def test_compile_prints_a_stage_alone_and_several_under_headings(source: Path) -> None:
    one = cli("compile", f"{source}:add", "--signature", SIGNATURE, "--target", "sm_80", "--num-warps", "8")
    assert one.exit_code == 0, one.output
    assert ".target sm_80" in one.stdout and ".reqntid 256" in one.stdout and "// add" not in one.stdout
    several = cli("compile", f"{source}:add", "--signature", SIGNATURE, "--emit", "ttir, ttgir,llir")
    assert several.exit_code == 0 and "ptx" not in several.stdout.splitlines()[0]
    assert [line for line in several.stdout.splitlines() if line.startswith("// add: ")] == [
        "// add: ttir",
        "// add: ttgir",
        "// add: llir",
    ]


def test_compile_takes_the_options_that_change_code(source: Path) -> None:
    command = ("compile", f"{source}:add", "--signature", SIGNATURE)
    held = cli(*command, "--maxnreg", "40", "--no-fp-fusion")
    assert held.exit_code == 0 and ".maxnreg 40" in held.stdout
    refused = cli(*command, "--maxnreg", "4")
    assert refused.exit_code == 1 and "option maxnreg=4: it takes None or a whole number from 8" in refused.output


@pytest.mark.optional("nvidia.cu13")
def test_compile_writes_each_stage_to_a_file(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "deep"
    stages = ("ttir", "ttgir", "llir", "ptx", "cubin")
    done = cli("compile", f"{source}:add", "--signature", SIGNATURE, "--emit", ",".join(stages), "-o", str(out))
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[:5] == [str(out / f"add.{stage}") for stage in stages]
    assert lines[5].endswith(" registers, 0 bytes of stack, 0 bytes spilled, 0 bytes of shared memory")
    assert (out / "add.cubin").read_bytes()[:4] == b"\x7fELF" and ".target sm_90a" in (out / "add.ptx").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["{}", "--signature", "i32"], 1, "error: '{}' names no kernel\nhint: write path/to/file.py:kernel"),
        (["{}:ad", "--signature", "i32"], 1, "error: {} has no kernel 'ad'\nhint: did you mean add?"),
        (
            ["{}:VALUE", "--signature", "i32"],
            1,
            "error: VALUE in {} is no kernel\nhint: it must be a function under @tilewright.jit",
        ),
        (["/no/such/file.py:k", "--signature", "i32"], 1, "error: there is no Python file '/no/such/file.py'"),
        (
            ["{}:add", "--signature", SIGNATURE, "--target", "sm_90"],
            1,
            "error: there is no target 'sm_90' to compile for\nhint: did you mean sm_90a?",
        ),
        (
            ["{}:add", "--signature", SIGNATURE, "--num-warps", "3"],
            1,
            "error: option num_warps=3: it takes a power of two from 1 to 32",
        ),
        (
            ["{}:add", "--signature", SIGNATURE, "--emit", "ptx,sass"],
            2,
            "error: there is no stage 'sass'; the stages: ttir, ttgir, llir, ptx, cubin",
        ),
        (
            ["{}:add", "--signature", SIGNATURE, "--emit", " ,"],
            2,
            "error: --emit names no stage; the stages: ttir, ttgir, llir, ptx, cubin",
        ),
        (
            ["{}:add", "--signature", SIGNATURE, "--emit", "cubin"],
            2,
            "error: a cubin is no text: name a folder for it with -o",
        ),
    ],
)
def test_mistakes_in_compile(arguments: list[str], status: int, message: str, source: Path) -> None:
    done = cli("compile", *(argument.format(source) for argument in arguments))
    assert (done.exit_code, done.stderr.strip()) == (status, message.format(source))
    assert done.stdout == ""


def test_a_mistake_in_the_kernel_shows_its_line_and_no_traceback(source: Path) -> None:
    done = cli("compile", f"{source}:wrong", "--signature", "*fp32")
    assert done.exit_code == 1 and "tl.store(x_ptr, nothing)" in done.stderr and "Traceback" not in done.stderr


def test_a_kernel_that_is_too_large_shows_its_line_and_no_traceback(source: Path) -> None:
    done = cli("compile", f"{source}:add", "--signature", "*fp32:16, *fp32:16, *fp32:16, i32, 1048576")
    assert done.exit_code == 1 and done.stdout == "" and "Traceback" not in done.output
    assert f"{source}:10:" in done.stderr and "offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)" in done.stderr
    assert "takes 8,192 registers in each of 128 threads; a thread of sm_90a has 255" in done.stderr


@pytest.mark.parametrize(
    ("text", "line", "what", "shown"),
    [
        ("def f(:\n", 1, "SyntaxError: invalid syntax", "    1 | def f(:\n      |       ^"),
        ("if True:\nx = 1\n", 2, "IndentationError: expected an indented block", "    2 | x = 1\n"),
        ("import math\nfrom math import nothing\n", 2, "ImportError: cannot import name 'nothing'", "2 | from math "),
        ("def f():\n    g()\n\n\nf()\n", 2, "NameError: name 'g' is not defined", "    2 |     g()\n      |     ^^^"),
        ("1 / 0\n", 1, "ZeroDivisionError: division by zero", "    1 | 1 / 0\n      | ^^^^^"),
        ("x = '\0'\n", 1, "SyntaxError: |ValueError: ", ""),  # the first since Python 3.11.4
    ],
)
def test_a_file_that_cannot_be_run_shows_its_line_and_no_traceback(
    text: str, line: int, what: str, shown: str, tmp_path: Path
) -> None:
    path = tmp_path / "broken_for_cli.py"
    path.write_text(text)
    done = cli("compile", f"{path}:k", "--signature", "i32")
    assert done.exit_code == 1 and done.stdout == "" and "Traceback" not in done.output
    assert done.stderr.startswith(tuple(f"error: {path} cannot be run: {each}" for each in what.split("|")))
    assert f"{path}:{line}:" in done.stderr and shown in done.stderr


def test_an_output_folder_that_cannot_be_made_is_told(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = cli("compile", f"{source}:add", "--signature", SIGNATURE, "-o", str(tmp_path / "file" / "x"))
    assert done.exit_code == 1 and done.stderr.startswith("error: ") and "file" in done.stderr


# --- cache ---


def test_a_cache_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    with knobs.scope(cache_dir=file):
        for action in ("ls", "verify", "clear"):
            told = cli("cache", action)
            assert told.exit_code == 1 and told.stderr.strip() == f"error: {file} is no folder"
    assert file.read_text() == "precious"


def test_cache_ls_verify_and_clear(tmp_path: Path) -> None:
    kept = Store(tmp_path / "cache", 1 << 30)
    kept.write(Entry("ab" * 32, {"name": "add[x]", "target": "sm_80"}, {"ttir": "t", "ptx": "p"}))
    kept.write(Entry("cd" * 32, {"name": "mul", "target": "sm_90a"}, {"ptx": "p"}))
    listed = cli("cache", "ls")
    assert listed.exit_code == 0
    for text in ("abababababab", "add[x]", "sm_80", "ttir, ptx", "mul", "2 kernels"):
        assert text in listed.stdout
    fine = cli("cache", "verify")
    assert (fine.exit_code, fine.stdout) == (0, "2 kernels, 0 damaged\n")
    bad = kept.path("cd" * 32)
    bad.write_bytes(bad.read_bytes()[:-1])
    broken = cli("cache", "verify")
    assert (broken.exit_code, broken.stdout) == (1, f"{bad}: the checksum does not match\n2 kernels, 1 damaged\n")
    assert "the checksum does not match" in cli("cache", "ls").stdout
    cleared = cli("cache", "clear")
    assert (cleared.exit_code, cleared.stdout) == (0, f"removed 2 kernels from {tmp_path / 'cache'}\n")
    assert cli("cache", "verify").stdout == "0 kernels, 0 damaged\n"


def test_cache_commands_without_a_folder_or_with_none_wanted(tmp_path: Path) -> None:
    assert "0 kernels" in cli("cache", "ls").stdout and cli("cache", "clear").exit_code == 0
    with knobs.scope(cache_max_bytes=0):
        done = cli("cache", "ls")
    assert done.exit_code == 1 and "no kernels are kept: TILEWRIGHT_CACHE_MAX_BYTES is 0" in done.stderr


# --- doctor ---


def test_doctor_tries_everything_and_says_what_is_missing() -> None:
    done = cli("doctor")
    assert done.exit_code == 0, done.stdout
    for text in ("Python", "reference", "ran a kernel", "compiler to PTX", "for sm_80, sm_86", "emulator", "cache"):
        assert text in done.stdout
    assert "needs CUDA 12.9, driver 575" in done.stdout


def test_doctor_ends_with_1_when_something_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [Finding("Python", "works", "3.14"), Finding("driver", "fault", "too old [red]")]
    monkeypatch.setattr("tilewright.cli.diagnose", lambda: iter(findings))
    done = cli("doctor")
    assert done.exit_code == 1 and "too old [red]" in done.stdout
    monkeypatch.setattr("tilewright.cli.diagnose", lambda: iter([Finding("driver", "absent", "none")]))
    assert cli("doctor").exit_code == 0


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "tilewright", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "doctor" in done.stdout
