"""Writes the tables of figures in README.md from the stored rows: `python -m tools.figures [--write]`.

A table stands between two marks, `<!-- figures: NAME -->`, where NAME is a file of rows under reports/data. Without
--write it only says whether the tables are what the rows give (exit status 1 if not).
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DATA = ROOT / "reports" / "data"
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- figures: \2 -->)", re.DOTALL)

Row = dict[str, Any]


def latest(rows: Sequence[Row], *keys: str) -> dict[tuple[str, ...], Row]:
    """The last stored row of each combination of keys, in the order in which the first ones were stored."""
    return {tuple(str(row[key]) for key in keys): row for row in rows}


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    shown = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in shown)


def interpreters(rows: Sequence[Row]) -> str:
    """Each kernel in the reference and in Triton's interpreter, with the geometric mean of the ratios."""
    lines: list[list[str]] = []
    ratios: list[float] = []
    for row in latest(rows, "case").values():
        ratios.append(row["ratio"])
        theirs, ours = f"{row['triton_seconds']:.2f} s", f"{row['tilewright_seconds'] * 1e3:.0f} ms"
        lines.append([row["case"], str(row["programs"]), theirs, ours, f"{row['ratio']:.0f}x"])
    mean = exp(sum(map(log, ratios)) / len(ratios))
    lines.append(["geometric mean", "", "", "", f"{mean:.0f}x"])
    return markdown(["kernel", "programs", "Triton's interpreter", "Tilewright", "ratio"], lines)


def compile_time(rows: Sequence[Row]) -> str:
    """Milliseconds of each stage of each kernel under both compilers, with those to PTX and all of them together, which
    are compared, and the instructions of the PTX."""
    known = latest(rows, "case", "contender")
    stages = list(rows[-1]["seconds"])
    lines: list[list[str]] = []
    for case in dict.fromkeys(case for case, _ in known):
        pair = known[case, "triton"], known[case, "tilewright"]
        for name, row in zip(("Triton", "Tilewright"), pair, strict=True):
            cells = [f"{row['seconds'][stage] * 1e3:.1f}" for stage in stages]
            sums = [(sum(each["seconds"][stage] for stage in stages[:-1]), each["total"]) for each in (row, pair[0])]
            compared = [f"{took * 1e3:.1f}{beside(took, theirs)}" for took, theirs in zip(*sums, strict=True)]
            lines.append([case, name, *cells, *compared, str(row["instructions"])])
    return markdown(["kernel", "ms", *stages, f"to {stages[-2]}", "total", "instructions"], lines)


def beside(seconds: float, theirs: float) -> str:
    """The ratio to Triton's time, in brackets; nothing for that time itself."""
    return "" if seconds == theirs else f" ({seconds / theirs:.2f}x)"


def gpu(rows: Sequence[Row]) -> str:
    """Each case on the GPU: rates of every contender, and how fast Tilewright is beside Triton and a copy.

    A row that is not ok shows its status in place of a figure. Host times of launches are rows of their own.
    """
    known = latest(rows, "what", "case", "contender")
    contenders = ("tilewright", "triton", "torch", "copy")
    lines: list[list[str]] = []
    for what, case in dict.fromkeys((what, case) for what, case, _ in known):
        computes = bool(known.get((what, case, "tilewright"), {}).get("flops"))
        cells = [figure(known.get((what, case, name))) for name in contenders]
        if computes:  # a copy of the operands says nothing about a product
            cells[-1] = ""
        over = known.get((what, case, "tilewright"), {}).get("over", {})
        beside = ("triton",) if computes else ("triton", "copy")
        ratios = [f"{over[name]:.3f}x" if name in over and name in beside else "" for name in ("triton", "copy")]
        lines.append([f"{case}{', host time of a launch' if what == 'launch' else ''}", *cells, *ratios])
    return markdown(["case", "Tilewright", "Triton", "torch", "copy", "of Triton", "of copy"], lines)


def figure(row: Row | None) -> str:
    """The rate of a kernel in operations or in bytes, the time of a launch, or why there is neither."""
    if row is None:
        return ""
    if row["status"] != "ok":
        return str(row["status"])
    if row["what"] == "launch":
        return f"{row['seconds'] * 1e6:.1f} us"
    if row.get("flops"):
        return f"{row['flops'] / row['seconds'] / 1e12:.0f} TFLOP/s"
    return f"{row['bytes'] / row['seconds'] / 1e9:.0f} GB/s"


TABLES: dict[str, Callable[[Sequence[Row]], str]] = {
    "interpreters": interpreters,
    "compile_time": compile_time,
    "gpu": gpu,
}


def stored(name: str) -> list[Row]:
    """The rows of a file."""
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]


def page(text: str, rows: Callable[[str], Sequence[Row]] = stored) -> str:
    """The page with every table between its two marks replaced."""
    return BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]](rows(found[2]))}\n{found[3]}", text)


def main(arguments: list[str]) -> int:
    """Check the README, or write it."""
    parser = argparse.ArgumentParser(prog="tools.figures", description="compare README.md with the stored rows")
    parser.add_argument("--write", action="store_true", help="put the right tables into the page")
    options = parser.parse_args(arguments)
    readme = ROOT / "README.md"
    text = readme.read_text()
    wanted = page(text)
    if options.write:
        readme.write_text(wanted)
        return 0
    stale = "README.md is stale: run python -m tools.figures --write"
    print("README.md shows the stored rows" if text == wanted else stale)
    return int(text != wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
