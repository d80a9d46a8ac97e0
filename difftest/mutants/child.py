"""What the child of a hunt does: examine kernels until one shows a fault."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from ..kernel_campaign import first_finding


def main() -> None:
    """Print how many kernels it took, and the row of the last if that is a finding."""
    first, last = map(int, sys.argv[1:])
    rows = list(first_finding(range(first, last)))
    shown = json.dumps(asdict(rows[-1])) if rows and rows[-1].state == "finding" else ""
    print(len(rows), shown)


if __name__ == "__main__":
    main()
