"""Sizes: a file stays within 400 lines and a function within 40, docstring aside, or is named here with its reason."""

from pathlib import Path

from tools import house

ROOT = Path(__file__).parent.parent
LIMITS = (400, 40)
HARD = (600, 90)
# What may pass LIMITS (never HARD), each with its reason. An entry that is no longer needed fails the test.
EXCEPTIONS: dict[str, str] = {}


def test_sizes_stay_within_the_budgets() -> None:
    assert house.size_violations(ROOT, LIMITS, HARD, EXCEPTIONS) == []


def body(lines: int) -> str:
    return "".join(f"    x{i} = {i}\n" for i in range(lines))


def test_each_violation_is_caught(tmp_path: Path) -> None:
    (tmp_path / "lang").mkdir()
    method = "class C:\n    def long(self):\n" + body(6).replace("    x", "        x")
    (tmp_path / "lang" / "big.py").write_text("def fits():\n" + body(4) + method)
    (tmp_path / "lang" / "huge.py").write_text("x = 1\n" * 21)
    limits, hard = (10, 5), (20, 6)
    assert house.size_violations(tmp_path, limits, hard, ["lang/gone.py"]) == [
        "lang/big.py: 13 lines and not a named exception",
        "lang/huge.py: 21 lines and not a named exception",
        "lang/big.py:C.long: 7 lines and not a named exception",
        "lang/huge.py: 21 lines, past the hard limit",
        "lang/big.py:C.long: 7 lines, past the hard limit",
        "lang/gone.py: named as an exception but within the limits",
    ]
    named = ["lang/big.py", "lang/big.py:C.long", "lang/huge.py"]
    assert house.size_violations(tmp_path, limits, (30, 10), named) == []


def test_a_docstring_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "lang").mkdir()
    (tmp_path / "lang" / "doc.py").write_text('def f():\n    """A.\n\n    B.\n    """\n' + body(3))
    assert house.oversized(tmp_path, 100, 3) == {"lang/doc.py:f": 4}
