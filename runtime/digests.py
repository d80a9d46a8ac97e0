"""What makes code beside a kernel's own text: the rooms that compile it, and the packages that they use."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256

from ._lazy import package_version
from .cache import kernel_cache
from .encoding import tagged
from .store import BadEntry, Entry, Store

#: The rooms whose sources decide what code a kernel becomes.
CODE_ROOMS = ("lang", "compiler")
#: The packages that make PTX and cubins.
TOOLCHAIN = ("llvmlite", "nvidia-nvjitlink")
#: Nanoseconds: a file younger than this may change once more without a change of its times, which can be that coarse.
FRESH = 2_000_000_000

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@cache
def room_digest(rooms: tuple[str, ...] = CODE_ROOMS) -> bytes:
    """A digest of the Python sources of the rooms, by path inside the room.

    Where kernels are kept, it is noted beside them, under the names, sizes and times of the files: to ask for these
    takes a fifth of the time that reading the files does.
    """
    facts = sorted(fact for room in rooms for fact in _facts(room))
    state = sha256(repr((_ROOT, facts)).encode()).hexdigest()
    note = f"sources-{sha256(repr((_ROOT, rooms)).encode()).hexdigest()[:16]}"
    store = kernel_cache.store(quiet=True)
    noted = store and _noted(store, state, note)
    if noted:
        return noted
    started = time.time_ns()
    digest = sha256()
    for name, *_ in facts:
        with open(os.path.join(_ROOT, name), "rb") as file:
            digest.update(tagged("file", name.encode(), file.read()))
    is_old = all(max(times) < started - FRESH for *_, times in facts)
    if store is not None and store.folder.is_dir() and is_old:
        with suppress(OSError):  # without the note, the next process reads the files again
            store.write(Entry(state, {"digest": digest.hexdigest()}, {}), note)
    return digest.digest()


def _facts(folder: str) -> Iterator[tuple[str, int, int, tuple[int, int]]]:
    """For each source below a folder: its path inside the house, size, number in the file system, and times."""
    with os.scandir(os.path.join(_ROOT, folder)) as items:
        for item in items:
            name = f"{folder}/{item.name}"
            if item.is_dir() and item.name != "__pycache__":
                yield from _facts(name)
            elif item.name.endswith(".py"):
                found = item.stat()
                yield name, found.st_size, found.st_ino, (found.st_mtime_ns, found.st_ctime_ns)


def _noted(store: Store, state: str, note: str) -> bytes:
    try:
        found = store.read(state, note)
        return bytes.fromhex(found.metadata["digest"]) if found is not None else b""
    except (BadEntry, OSError, KeyError):  # another state of the sources, most likely
        return b""


@cache
def toolchain_versions(packages: tuple[str, ...] = TOOLCHAIN) -> tuple[tuple[str, str], ...]:
    """The installed version of each package, "" where it is missing."""
    found = installed()
    return tuple((package, found.get(_canonical(package)) or package_version(package)) for package in packages)


@cache
def installed() -> dict[str, str]:
    """The version of each package that an installer unpacked on the path, as its folder of metadata is named.

    (Binary distribution format, "The .dist-info directory": `{name}-{version}.dist-info`.) importlib.metadata, which
    knows every other way to be installed too, takes longer to import than a kept kernel to load.
    """
    found: dict[str, str] = {}
    for place in sys.path:
        with suppress(OSError):  # not a folder: a zip file, or nothing at all
            for name in os.listdir(place or "."):
                if name.endswith(".dist-info"):
                    package, _, version = name.removesuffix(".dist-info").rpartition("-")
                    found.setdefault(_canonical(package), version)
    return found


def _canonical(package: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", package).lower()
