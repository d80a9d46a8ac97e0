"""`python -m tilewright.difftest --seeds 0:1000`: a campaign of random kernels. Status 1 when something was found."""

import argparse
import sys
from pathlib import Path

from .kernel_campaign import fuzz


def seed_range(text: str) -> range:
    """`a:b` as the seeds from a up to, but not including, b. Raises ArgumentTypeError where there is none."""
    first, _, last = text.partition(":")
    seeds = range(int(first), int(last or int(first) + 1))
    if not seeds:
        raise argparse.ArgumentTypeError(f"no seed lies in {text}: a must be less than b in a:b")
    return seeds


def main() -> int:
    """Parse the command line, run, print the summary."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.difftest", description=__doc__)
    parser.add_argument("--seeds", type=seed_range, required=True, help="a:b, or one seed")
    parser.add_argument("--out", type=Path, default=Path("fuzz"), help="the folder of results and reproducers")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--device", default="", help="a device of the runtime to run on too, such as cuda")
    parser.add_argument("--attempts", type=int, default=150, help="runs that the reduction of a finding may take")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds that one kernel may take")
    parser.add_argument("--operations", action="store_true", help="tell in how many kernels each operation occurred")
    given = parser.parse_args()
    summary = fuzz(given.seeds, given.out, given.jobs, given.device, given.attempts, given.patience)
    print(summary)
    if given.operations:
        print("\n".join(f"{count:6} {name}" for name, count in summary.operations().most_common()))
    return bool(summary.findings)


if __name__ == "__main__":
    sys.exit(main())
