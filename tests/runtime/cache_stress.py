"""The store under stress, run by test_cache.py: writers that are killed, a vandal, and a reader that believes nothing.

`cache_stress.py hammer FOLDER WRITERS ROUNDS SEED [vandal]` prints one JSON object: what was seen, and every problem.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tilewright.runtime import BadEntry, Entry, Store

KEYS = [f"{number:064x}" for number in range(4)]
#: Larger than a page and than a pipe, so that a write is not atomic by chance.
PTX, CUBIN = 16_000, 20_000


def entry(key: str, writer: int) -> Entry:
    """An entry whose parts all name its writer, so that a mixture of two shows."""
    stages = {"ptx": f"{writer:08}" * (PTX // 8), "cubin": writer.to_bytes(4, "little") * (CUBIN // 4)}
    return Entry(key, {"name": "k", "writer": writer}, stages)


def look(store: Store, key: str, seen: Counter[str], *, may_be_bad: bool) -> None:
    """Read an entry and count what it was: whole, missing, bad, or a problem."""
    try:
        found = store.read(key)
    except BadEntry as error:
        seen["bad" if may_be_bad else f"problem: {error}"] += 1
        return
    if found is None:
        seen["missing"] += 1
    else:
        seen["whole" if found == entry(key, found.metadata["writer"]) else "problem: mixed"] += 1


def writer(folder: str, number: int, rounds: int, may_be_bad: bool) -> None:
    """Write and read every entry many times; a full disk is counted and leaves nothing behind."""
    store, seen = Store(Path(folder), 1 << 30), Counter[str]()
    for _ in range(rounds):
        for key in KEYS:
            try:
                store.write(entry(key, number))
            except OSError:
                seen["refused"] += 1
                if list(Path(folder).glob(f".writing-{os.getpid()}-*")):
                    seen["problem: a write that failed left something"] += 1
            look(store, key, seen, may_be_bad=may_be_bad)
    print(json.dumps(seen))


def vandal(folder: str, seed: int) -> None:
    """Cut and change files in place, until killed."""
    chance = random.Random(seed)
    while True:
        time.sleep(0.001)
        path = Store(Path(folder), 0).path(chance.choice(KEYS))
        try:
            with path.open("r+b") as file:
                size = file.seek(0, os.SEEK_END)
                at = chance.randrange(max(1, size))
                if chance.random() < 0.5:
                    file.truncate(at)
                else:
                    file.seek(at)
                    file.write(b"\xa5")
        except OSError:  # replaced or removed meanwhile
            continue


def hammer(folder: str, writers: int, rounds: int, seed: int, with_vandal: bool) -> None:
    """Start the writers, kill every third of them at some moment, and read all the while."""
    chance = random.Random(seed)
    command = [sys.executable, __file__]
    flag = ["vandal"] if with_vandal else []
    children = [
        subprocess.Popen(
            [*command, "writer", folder, str(number), str(rounds), *flag], stdout=subprocess.PIPE, text=True
        )
        for number in range(1, writers + 1)
    ]
    breaker = subprocess.Popen([*command, "vandal", folder, str(seed)]) if with_vandal else None
    doomed, seen, store = list(children[::3]), Counter[str](), Store(Path(folder), 1 << 30)
    while any(child.poll() is None for child in children):
        for key in KEYS:
            look(store, key, seen, may_be_bad=with_vandal)
        if doomed and seen["whole"] and chance.random() < 0.05:
            doomed.pop(chance.randrange(len(doomed))).send_signal(signal.SIGKILL)
    for child in children:
        said, _ = child.communicate()
        seen["killed"] += child.returncode == -signal.SIGKILL
        seen["problem: a writer failed"] += child.returncode not in (0, -signal.SIGKILL)
        seen.update(json.loads(said) if said else {})
    if breaker is not None:
        breaker.kill()
        breaker.wait()
    seen["left whole"] = sum(_is_whole(store, key) for key in KEYS)
    print(json.dumps({name: count for name, count in seen.items() if count}))


def _is_whole(store: Store, key: str) -> bool:
    try:
        return store.read(key) is not None
    except BadEntry:
        return False


if __name__ == "__main__":
    role, place, *numbers = sys.argv[1:]
    bad = "vandal" in numbers
    given = [int(number) for number in numbers if number != "vandal"]
    {"writer": lambda: writer(place, *given, bad), "vandal": lambda: vandal(place, *given)}.get(
        role, lambda: hammer(place, *given, bad)
    )()
