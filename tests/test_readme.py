"""The pages' code blocks run, and print or raise what the pages say; tables on the pages are those of the code.

A block whose first line is a comment with a file name is a program of its own, run as that file. Other blocks of a
page are one session: each sees what those before it defined. A `text` block right after a Python block is what that
block prints and, if it fails, the error's message; paths are shown without folders and addresses as they come.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tilewright import language
from tilewright.lang.knobs import table
from tools import figures

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]


@dataclass(frozen=True, slots=True)
class Block:
    """A Python block of a page: its file's name or "", its text, and the output that the page shows or None."""

    name: str
    text: str
    output: str | None


def blocks(page: str) -> list[Block]:
    """The Python blocks of a page that are no doctests."""
    fences = FENCE.findall((ROOT / page).read_text())
    found: list[Block] = []
    for index, (kind, text) in enumerate(fences):
        if kind != "python" or text.startswith(">>> "):
            continue
        following = fences[index + 1] if index + 1 < len(fences) else ("", "")
        name = re.match(r"# (\w+\.py)\n", text)
        found.append(Block("" if name is None else name[1], text, following[1] if following[0] == "text" else None))
    return found


def prose(page: str) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", (ROOT / page).read_text())


def run(block: Block, path: Path, namespace: dict[str, Any]) -> str:
    """What a block prints and the message of the error that ends it, if any; the block is written to `path`."""
    path.write_text(block.text)
    code = compile(block.text, str(path), "exec")
    try:
        exec(code, namespace)
    except Exception as error:
        if block.output is None:
            raise
        return f"{error}\n"
    return ""


def neutral(text: str, folder: Path | None = None) -> str:
    """Output without what differs from run to run: the folder, and addresses."""
    return re.sub(r"0x[0-9a-f]{6,}", "0x...", text if folder is None else text.replace(f"{folder}/", ""))


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page)):
        namespace = {"__name__": "__main__"} if block.name else session
        message = run(block, tmp_path / (block.name or f"session_{number}.py"), namespace)
        if block.output is not None:
            assert neutral(capsys.readouterr().out + message, tmp_path) == neutral(block.output)


def test_the_readme_has_its_examples() -> None:
    names = [block.name for block in blocks("README.md")]
    assert names == ["first_kernel.py", "row_sums.py", "shift.py"]
    assert all(block.output for block in blocks("README.md"))


def test_the_first_kernel_is_the_example_file() -> None:
    first = blocks("README.md")[0]
    assert (ROOT / "examples" / first.name).read_text() == first.text


def test_the_table_of_knobs_is_that_of_the_code() -> None:
    text = (ROOT / "README.md").read_text()
    rows = [
        f"| `{row.variable}` | {f'`{row.default}`' if row.default else 'empty'} | {row.accepts} | {row.doc} |"
        for row in table()
    ]
    shown = [line for line in text.splitlines() if line.startswith("| `TILEWRIGHT_")]
    assert shown == rows


def test_the_language_page_names_every_function() -> None:
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose("docs/language.md")))))
    assert [name for name in language.__all__ if name not in words] == []


def test_what_is_said_to_be_missing_is_missing() -> None:
    missing = re.findall(r"`@?(\w+)`", prose("docs/language.md").split("Not there yet:")[1])
    assert "sort" in missing
    assert [name for name in missing if hasattr(language, name) or hasattr(tilewright, name)] == []


def test_links_lead_to_files() -> None:
    for page in [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md"]:
        folder = (ROOT / page).parent
        text = re.sub(r"`[^`]*`", "", prose(page))
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (folder / target).exists(), f"{page} links to {target}"


def test_a_wrong_output_would_be_noticed(tmp_path: Path) -> None:
    block = Block("wrong.py", "# wrong.py\nraise ValueError('0x123456789')\n", "")
    assert neutral(run(block, tmp_path / block.name, {})) == "0x...\n"
    with pytest.raises(ValueError):
        run(Block("wrong.py", block.text, None), tmp_path / block.name, {})


def test_the_figures_are_those_of_the_stored_rows() -> None:
    text = (ROOT / "README.md").read_text()
    names = [found[2] for found in figures.BLOCK.finditer(text)]
    assert {"interpreters", "compile_time"} <= set(names) <= set(figures.TABLES)
    assert text.count("<!-- figures: ") == 2 * len(names) and text == figures.page(text)
    assert {path.stem for path in figures.DATA.glob("*.jsonl")} <= set(names), "rows that the page does not show"


def test_a_table_shows_the_last_rows_and_says_what_is_wrong() -> None:
    kernel = {"status": "ok", "case": "add", "what": "kernel", "bytes": 1e9, "seconds": 1e-3}
    rows = [
        {**kernel, "contender": "tilewright", "seconds": 9.0, "over": {"triton": 0.1}},
        {**kernel, "contender": "tilewright", "over": {"triton": 1.25, "copy": 0.5}},
        {**kernel, "contender": "triton", "over": {"tilewright": 0.8}},
        {**kernel, "contender": "torch", "status": "wrong", "seconds": None, "over": {}},
        {**kernel, "contender": "tilewright", "what": "launch", "over": {}},
    ]
    page = figures.page("<!-- figures: gpu -->\nold\n<!-- figures: gpu -->\n", lambda name: rows)
    assert page.splitlines()[3:-1] == [
        "| add | 1000 GB/s | 1000 GB/s | wrong |  | 1.250x | 0.500x |",
        "| add, host time of a launch | 1000.0 us |  |  |  |  |  |",
    ]
    stages = {"frontend": 0.001, "ptx": 0.002, "cubin": 0.003}
    compiled = [
        {"case": "add", "contender": name, "seconds": seconds, "total": sum(seconds.values()), "instructions": count}
        for name, seconds, count in (("tilewright", stages, 51), ("triton", {**stages, "ptx": 0.004}, 52))
    ]
    assert figures.compile_time(compiled).splitlines() == [
        "| kernel | ms | frontend | ptx | cubin | to ptx | total | instructions |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| add | Triton | 1.0 | 4.0 | 3.0 | 5.0 | 8.0 | 52 |",
        "| add | Tilewright | 1.0 | 2.0 | 3.0 | 3.0 (0.60x) | 6.0 (0.75x) | 51 |",
    ]
