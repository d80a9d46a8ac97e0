"""The cache of compiled kernels: in memory, then on disk, then the compiler.

A kept kernel that can't be believed, and a disk that can't be read or written, cost a compilation and never a launch:
the folder's first failure is told in one warning.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Lock

from tilewright.lang import KnobError, knobs

from ._lazy import assemble_ptx, compile_to_ptx
from .artifact import Artifact, Request
from .errors import CacheWarning
from .recent import Recent
from .store import BadEntry, Entry, Store

#: Bytes of kernels that stay in memory beside those that their functions hold: 300 small ones, or a few large ones.
REMEMBERED = 1 << 22


@dataclass(slots=True)
class Counters:
    """What the cache did in this process: where kernels came from, and how often the heavy tools ran."""

    memory_hits: int = 0
    disk_hits: int = 0
    misses: int = 0
    rejected: int = 0
    written: int = 0
    llvm_calls: int = 0
    assembler_calls: int = 0

    def reset(self) -> None:
        """All to zero."""
        for field in fields(self):
            setattr(self, field.name, 0)


class KernelCache:
    """Compiled kernels by key. One a process: `kernel_cache`."""

    def __init__(self) -> None:
        self.counters = Counters()
        self._memory: Recent[str, Entry] = Recent(REMEMBERED, Entry.size)
        self._stores: dict[tuple[Path, int], Store] = {}
        self._warned: set[Path] = set()
        self._lock = Lock()

    def count(self, what: str) -> None:
        """One more of a counter; `+=` alone loses counts between threads."""
        with self._lock:
            setattr(self.counters, what, getattr(self.counters, what) + 1)

    def forget(self) -> None:
        """Drop what is in memory, as a new process would find it."""
        self._memory.clear()
        with self._lock:
            self._stores.clear()
            self._warned.clear()

    def store(self, *, quiet: bool = False) -> Store | None:
        """The folder that the knobs name now; None where nothing is to be kept, or there is no home folder.

        `quiet` says nothing about the latter.
        """
        size = knobs.cache_max_bytes
        if size == 0:
            return None
        try:
            folder = knobs.cache_dir
        except KnobError:
            raise
        except ValueError as error:  # the default needs a home folder
            if not quiet:
                self._warn(Path(), str(error))
            return None
        with self._lock:
            return self._stores.setdefault((folder, size), Store(folder, size))

    def compiled(self, request: Request, target: str) -> Artifact:
        """The kernel of a request for a target: kept, or compiled now and kept. Raises CompilationError."""
        entry = self._memory.get(request.key)
        if entry is not None:
            self.count("memory_hits")
        else:
            entry = self._kept(request.key)
        if entry is None:
            self.count("misses")
            self.count("llvm_calls")
            stages, facts = compile_to_ptx(request.make(), target, request.options)
            entry = Entry(request.key, facts, stages)
            self._keep(entry)
        self._memory.put(entry.key, entry)
        made, facts = dict(entry.stages), dict(entry.metadata)
        return Artifact(request.key, facts["name"], target, made, facts, request.make, {"cubin": self._assembled})

    def _assembled(self, artifact: Artifact) -> bytes:
        """The cubin of a kernel; it is kept with the rest from now on. Raises CompilationError."""
        self.count("assembler_calls")
        shared, waits = artifact.facts["dynamic_shared"], artifact.facts["waits"]
        cubin, resources = assemble_ptx(artifact.name, artifact.ptx, artifact.target, shared, waits)
        artifact.facts |= resources
        entry = Entry(artifact.key, dict(artifact.facts), {**artifact.made, "cubin": cubin})
        self._memory.put(entry.key, entry)
        self._keep(entry)
        return cubin

    def _kept(self, key: str) -> Entry | None:
        store = self.store()
        if store is None:
            return None
        try:
            found = store.read(key)
        except BadEntry:
            self.count("rejected")
            return None
        except OSError:
            return None  # the attempt to keep the kernel will say why
        if found is not None:
            self.count("disk_hits")
        return found

    def _keep(self, entry: Entry) -> None:
        store = self.store()
        if store is None:
            return
        try:
            if store.write(entry):
                self.count("written")
        except OSError as error:
            self._warn(store.folder, str(error))

    def _warn(self, folder: Path, why: str) -> None:
        with self._lock:
            if folder in self._warned:
                return
            self._warned.add(folder)
        warnings.warn(CacheWarning(f"compiled kernels are not kept: {why}"), stacklevel=2)


kernel_cache = KernelCache()
