"""A bug of ours comes with a file that shows it again."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import tilewright.language as tl
from tilewright.lang import CompilerBug, device_function, float32, generate, int32, pointer_type
from tilewright.lang.frontend import generator
from tilewright.lang.frontend.reproducer import reproducer, written

SCALE = tl.constexpr(3)
KIND = tl.float16
ROOT = Path(__file__).parent.parent.parent


@device_function
def scaled(x, by: tl.constexpr):
    return x * by


@device_function
def kernel(x_ptr, n, BLOCK: tl.constexpr, pair):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, scaled(x.to(KIND), SCALE) + pair[0], mask=i < n)


SIGNATURE: dict[str, Any] = {"x_ptr": pointer_type(float32), "n": int32, "pair": (int32, tl.constexpr(1))}
CALL: tuple[Any, ...] = (kernel, SIGNATURE, {"BLOCK": 16}, {"x_ptr": {"divisibility": 16}})


def run(text: str, folder: Path) -> str:
    path = folder / "shown.py"
    path.write_text(text)
    child = subprocess.run(
        [sys.executable, str(path)], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    return child.stdout + child.stderr


def test_the_file_stands_alone_and_makes_the_same_module(tmp_path: Path) -> None:
    shown = run(reproducer(*CALL, "what went wrong"), tmp_path)
    assert "kernel @kernel(%x_ptr: ptr<f32> {divisibility = 16}, %n: i32, %pair_0: i32)" in shown
    assert "call" in shown and "f16" in shown and "Error" not in shown


def broken(*_: Any) -> None:
    raise ZeroDivisionError("inside of ours")


@pytest.mark.parametrize("name", ["tidy", "_generate_kernel"])
def test_a_bug_names_its_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(generator, name, broken)
    with pytest.raises(CompilerBug) as caught:
        generate(*CALL)
    path = Path(caught.value.reproducer)
    assert path.is_relative_to(tmp_path) and "ZeroDivisionError: inside of ours" in path.read_text()
    assert str(caught.value).startswith("this is a bug in Tilewright, not in your kernel: ZeroDivisionError")
    assert str(caught.value).endswith(f"reproducer: {path}")


def test_a_bug_is_told_where_no_file_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    monkeypatch.setattr(generator, "_generate_kernel", broken)
    with pytest.raises(CompilerBug) as caught:
        generate(*CALL)
    assert caught.value.reproducer == "" and "reproducer" not in str(caught.value)


@pytest.mark.parametrize(
    "value, text",
    [
        (1, "1"), (True, "True"), (None, "None"), (1.5, "1.5"), (float("inf"), 'float("inf")'), ("a'b", '"a\'b"'),
        (tl.float16, "lang.parse_type('fp16')"), ((1,), "(1,)"), ((), "()"), ([1, 2], "(1, 2)"), ({"a": 1}, "{'a': 1}"),
        (tl.constexpr(2), "tl.constexpr(2)"), (tl.PropagateNan.ALL, "tl.PropagateNan.ALL"), (object(), ""),
    ],
)  # fmt: skip
def test_values_are_written_down(value: Any, text: str) -> None:
    assert written(value) == text
