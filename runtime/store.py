"""Kernels kept on disk: one file an entry, written whole or not at all, and believed only after its checksum.

    magic (8 bytes) | version, length of the header (two u32) | header (JSON) | blobs | SHA-256 of everything before

The header names the key, so that a file under another key's name is no entry, and the name, kind and length of each
blob. A writer fills a file of its own beside the entry and renames it over the place, which is atomic: readers see an
entry or none, whoever else writes and whenever a writer is killed. What is left of killed writers is removed by age.

A cached kernel is code that will run, so that only the user's own files count (and root's): nothing is read through a
link, or from a file of somebody else.

A note is an entry under a name of its own instead of its key's, so that there is one of it: a new one takes its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, cast

MAGIC = b"TLWRIGHT"
VERSION = 1
SUFFIX = ".kernel"
NOTE = ".note"
#: No kernel is this large; a file that is was not written here, and is not read into memory.
LARGEST_ENTRY = 1 << 28
#: Seconds after which a half-written file cannot belong to a writer that is alive.
STALE = 3600.0
#: Seconds by which the time of the last use may lag behind, so that most hits write nothing.
USE_GRAIN = 600.0

_PREFIX = struct.Struct("<8sII")
_DIGEST = 32
_KEY = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[0-9a-z-]+")
_TEMPORARY = re.compile(r"\.writing-\d+-[0-9a-f]+")
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class BadEntry(ValueError):
    """Bytes that are no entry of this version under this key."""


class UnsafeFolder(OSError):
    """A folder in which somebody else could put kernels for us to run."""


class Entry(NamedTuple):
    """One kept kernel: facts about it, which JSON can hold, and its stages, text or bytes."""

    key: str
    metadata: Mapping[str, Any]
    stages: Mapping[str, str | bytes]

    def size(self) -> int:
        """About how many bytes it takes."""
        return sum(map(len, self.stages.values()))


class Kept(NamedTuple):
    """One file in the folder: its bytes, when it was last used (seconds since 1970), and what is wrong with it."""

    path: Path
    size: int
    used: float
    problem: str = ""
    entry: Entry | None = None


# --- the container ---


def pack(entry: Entry) -> bytes:
    """The bytes of an entry."""
    blobs = {name: blob.encode() if isinstance(blob, str) else blob for name, blob in entry.stages.items()}
    listed = [[name, "text" if isinstance(entry.stages[name], str) else "bytes", len(blobs[name])] for name in blobs]
    header = json.dumps({"key": entry.key, "metadata": dict(entry.metadata), "blobs": listed}, sort_keys=True).encode()
    body = b"".join((_PREFIX.pack(MAGIC, VERSION, len(header)), header, *blobs.values()))
    return body + sha256(body).digest()


def unpack(data: bytes, key: str) -> Entry:
    """The entry that was packed under this key. Raises BadEntry for any other bytes."""
    if len(data) < _PREFIX.size + _DIGEST:
        raise BadEntry(f"{len(data)} bytes are too few")
    magic, version, length = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise BadEntry("not an entry")
    if version != VERSION:
        raise BadEntry(f"format {version}; this is format {VERSION}")
    if sha256(memoryview(data)[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise BadEntry("the checksum does not match")
    start = _PREFIX.size + length
    try:
        header = json.loads(data[_PREFIX.size : start])
        if header["key"] != key:
            raise BadEntry(f"written under the key {header['key']}")
        return Entry(key, cast("dict[str, Any]", header["metadata"]), _stages(data, start, header["blobs"]))
    except BadEntry:
        raise
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadEntry(f"an unknown header: {error!r}") from None


def _stages(data: bytes, start: int, listed: list[tuple[str, str, int]]) -> dict[str, str | bytes]:
    stages: dict[str, str | bytes] = {}
    for name, kind, length in listed:
        blob = data[start : start + length]
        stages[name] = blob.decode() if kind == "text" else blob
        start += length
    if start != len(data) - _DIGEST:
        raise BadEntry("lengths that do not add up")
    return stages


# --- whose files they are ---


def _ours(found: os.stat_result) -> bool:
    """Whether a file is the user's own or root's; where the system has no owners, every file is."""
    return not hasattr(os, "geteuid") or found.st_uid in (os.geteuid(), 0)


def check_folder(folder: Path) -> None:
    """Raises UnsafeFolder where somebody else owns the folder or the link to it, and OSError where it is no folder."""
    link, found = os.lstat(folder), os.stat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is no folder")
    if not _ours(link):
        raise UnsafeFolder(f"{folder} is a link of somebody else (user {link.st_uid})")
    if not _ours(found):
        everybody = ", and everybody may write to it" if found.st_mode & stat.S_IWOTH else ""
        raise UnsafeFolder(f"{folder} belongs to somebody else (user {found.st_uid}){everybody}")


# --- the folder ---


class Store:
    """The folder of kept kernels, at most `max_bytes` of them; what was used longest ago goes first.

    `durable` waits until an entry is on the medium. Without it, a power cut may leave an entry that is a miss.
    """

    def __init__(self, folder: Path, max_bytes: int, *, durable: bool = False) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.durable = durable
        self._total = 0  # bytes in the folder when it was last looked through, and what was written here since
        self._written = max_bytes  # since then; so much that the first write looks

    def path(self, key: str, note: str = "") -> Path:
        """Where the entry of a key, or a note, lies. Raises ValueError for what is no key or no name."""
        if not _KEY.fullmatch(key):
            raise ValueError(f"no key: {key!r}")
        if note and not _NAME.fullmatch(note):
            raise ValueError(f"no name of a note: {note!r}")
        return self.folder / (f"{note}{NOTE}" if note else f"{key}{SUFFIX}")

    def read(self, key: str, note: str = "") -> Entry | None:
        """The entry of a key, or None. Raises BadEntry for a file that is none, after removing it if it is ours.

        Raises OSError for a folder or a file that is there and can't be read. `note` names one to read instead; it is
        as good as none under another key.
        """
        path = self.path(key, note)
        try:
            check_folder(self.folder)
            descriptor = os.open(path, _READ)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            try:
                entry = _read_entry(file, found, key)
            except BadEntry:
                self._discard(path, found)
                raise
            _touch(descriptor, path, found)
        return entry

    def _discard(self, path: Path, found: os.stat_result) -> None:
        """Remove a bad file, unless somebody else owns it or a good one has taken its place."""
        with contextlib.suppress(OSError):  # in a read-only folder it stays, and stays a miss
            if _ours(found) and os.path.samestat(found, os.lstat(path)):
                os.unlink(path)

    def write(self, entry: Entry, note: str = "") -> bool:
        """Keep an entry, as a note if that has a name; False if it is larger than all may be together.

        Raises OSError, and then leaves nothing.
        """
        data = pack(entry)
        if len(data) > min(self.max_bytes, LARGEST_ENTRY):
            return False
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        check_folder(self.folder)
        self._make_room(len(data))
        temporary = self._temporary()
        try:
            self._fill(temporary, data)
            os.replace(temporary, self.path(entry.key, note))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        return True

    def _temporary(self) -> Path:
        return self.folder / f".writing-{os.getpid()}-{os.urandom(8).hex()}"

    def _fill(self, temporary: Path, data: bytes) -> None:
        with os.fdopen(os.open(temporary, _WRITE, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            if self.durable:
                os.fsync(file.fileno())

    def _make_room(self, size: int) -> None:
        """Keep within the bound after `size` more bytes.

        The folder is looked through when it may be full, and now and then, for others write to it as well.
        """
        if self._total + size > self.max_bytes or self._written > self.max_bytes // 16:
            self.clean()
            self._evict(size)
        self._total += size
        self._written += size

    def _evict(self, size: int) -> None:
        kept = sorted(self._files(), key=lambda file: file.used)
        self._total, self._written = sum(file.size for file in kept), 0
        for file in kept:
            if self._total + size <= self.max_bytes:
                return
            file.path.unlink(missing_ok=True)
            self._total -= file.size

    def clean(self, age: float = STALE) -> int:
        """Remove what killed writers left longer than `age` seconds ago; returns how many files."""
        limit = time.time() - age
        removed = 0
        for item in self._scan():
            with contextlib.suppress(OSError):  # another process cleans too, or the folder is read-only
                if _TEMPORARY.fullmatch(item.name) and item.stat(follow_symlinks=False).st_mtime <= limit:
                    os.unlink(item.path)
                    removed += 1
        return removed

    def _scan(self) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self.folder) as items:
                yield from items
        except FileNotFoundError:
            return

    def _files(self) -> Iterator[Kept]:
        for item in self._scan():
            stem, dot, suffix = item.name.partition(".")
            if dot + suffix == SUFFIX and _KEY.fullmatch(stem):
                with contextlib.suppress(FileNotFoundError):
                    found = item.stat(follow_symlinks=False)
                    yield Kept(Path(item.path), found.st_size, found.st_mtime)

    def survey(self) -> list[Kept]:
        """Every entry, read and checked, the last used first; nothing is removed. Raises OSError."""
        return sorted(map(_checked, self._files()), key=lambda kept: -kept.used)

    def check_writable(self) -> None:
        """Raises OSError where no entry could be written; FileNotFoundError where there is no folder yet."""
        check_folder(self.folder)
        temporary = self._temporary()
        self._fill(temporary, b"")
        os.unlink(temporary)

    def clear(self) -> int:
        """Remove entries, notes and half-written files, and nothing else; returns how many entries. Raises OSError."""
        if not os.path.lexists(self.folder):
            return 0
        check_folder(self.folder)
        files = list(self._files())
        notes = [Path(item.path) for item in self._scan() if item.name.endswith(NOTE)]
        for path in (*(file.path for file in files), *notes):
            path.unlink(missing_ok=True)
        self.clean(age=0.0)
        self._total = 0
        return len(files)


def _read_entry(file: Any, found: os.stat_result, key: str) -> Entry:
    if not stat.S_ISREG(found.st_mode):
        raise BadEntry("not a regular file")
    if not _ours(found):
        raise BadEntry(f"a file of user {found.st_uid}, who is somebody else")
    if found.st_size > LARGEST_ENTRY:
        raise BadEntry(f"{found.st_size} bytes are too many")
    return unpack(file.read(), key)


def _touch(descriptor: int, path: Path, found: os.stat_result) -> None:
    """Remember the use of an entry. Access times proper are off on most systems, so it is the time of change."""
    if time.time() - found.st_mtime > USE_GRAIN:
        with contextlib.suppress(OSError):  # a read-only folder remembers nothing
            os.utime(descriptor if os.utime in os.supports_fd else path)


def _checked(kept: Kept) -> Kept:
    try:
        with os.fdopen(os.open(kept.path, _READ), "rb") as file:
            entry = _read_entry(file, os.fstat(file.fileno()), kept.path.name.removesuffix(SUFFIX))
        return Kept(kept.path, kept.size, kept.used, "", entry)
    except (OSError, BadEntry) as error:
        return Kept(kept.path, kept.size, kept.used, str(error))
