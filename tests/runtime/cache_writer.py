"""A child process of test_cache.py: writes and reads the same entries as its siblings until it is told how it went.

Prints one line for each entry that it read and that was not whole, and is killed at any moment.
"""

import sys
from pathlib import Path

from tilewright.runtime import BadEntry, Entry, Store


def entry(key: str, writer: int) -> Entry:
    """An entry whose parts all name its writer, so that a mixture of two shows."""
    return Entry(
        key, {"name": "k", "writer": writer}, {"ptx": f"// {writer}\n" * 2000, "cubin": bytes([writer]) * 20000}
    )


def main(folder: str, writer: int, rounds: int, keys: list[str]) -> None:
    store = Store(Path(folder), 1 << 30)
    for _ in range(rounds):
        for key in keys:
            store.write(entry(key, writer))
            try:
                found = store.read(key)
            except BadEntry as error:
                print(f"torn: {error}", flush=True)
                continue
            if found is None or found != entry(key, found.metadata["writer"]):
                print("mixed or missing", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
