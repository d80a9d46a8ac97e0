"""Writes the table of figures in README.md from the stored rows: `python -m tools.figures [--write]`.

Without --write it only says whether the table is what the rows give (exit status 1 if not).
"""

import json
import sys
from math import exp, log
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROWS = ROOT / "reports" / "data" / "interpreters.jsonl"
MARK = "<!-- figures -->"


def table(rows: list[dict[str, object]]) -> str:
    """The last measured row of each case as a Markdown table, with the geometric mean."""
    latest = {str(row["case"]): row for row in rows}
    lines = ["| kernel | programs | Triton's interpreter | Tilewright | ratio |", "|---|---|---|---|---|"]
    ratios: list[float] = []
    for case, row in latest.items():
        ratios.append(float(str(row["ratio"])))
        theirs, ours = (float(str(row[f"{name}_seconds"])) for name in ("triton", "tilewright"))
        lines.append(f"| {case} | {row['programs']} | {theirs:.2f} s | {ours * 1e3:.0f} ms | {ratios[-1]:.0f}x |")
    mean = exp(sum(map(log, ratios)) / len(ratios))
    return "\n".join([*lines, f"| geometric mean | | | | {mean:.0f}x |"])


def page(text: str, rows: list[dict[str, object]]) -> str:
    """The page with the table between its two marks replaced."""
    before, _, after = text.split(MARK)
    return f"{before}{MARK}\n{table(rows)}\n{MARK}{after}"


def main(arguments: list[str]) -> int:
    """Check the README, or write it."""
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    readme = ROOT / "README.md"
    text = readme.read_text()
    wanted = page(text, rows)
    if "--write" in arguments:
        readme.write_text(wanted)
        return 0
    print(
        "README.md shows the stored rows"
        if text == wanted
        else "README.md is stale: run python -m tools.figures --write"
    )
    return int(text != wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
