"""The cache: an entry is there whole or not at all, whatever happens to writers, disks and files."""

import gc
import json
import os
import subprocess
import sys
import warnings
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.lang import knobs
from tilewright.runtime import BadEntry, CacheWarning, Entry, KernelCache, Store, store
from tilewright.runtime.artifact import Artifact, Request
from tilewright.runtime.options import CompileOptions

ROOT = Path(__file__).parent.parent.parent
KEY = "ab" * 32
OTHER = "cd" * 32
SMALL = Entry(KEY, {"name": "k", "target": "sm_90a"}, {"ptx": "// ö\n", "cubin": b"\x7fELF\x00\xff"})
BIG = 1 << 30
STRESS = Path(__file__).with_name("cache_stress.py")


def key(number: int) -> str:
    return f"{number:064x}"


def sized(number: int, size: int = 10_000) -> Entry:
    return Entry(key(number), {"name": f"k{number}"}, {"cubin": bytes(size)})


# --- the container ---


def test_an_entry_survives_the_container_bit_for_bit() -> None:
    assert store.unpack(store.pack(SMALL), KEY) == SMALL
    empty = Entry(KEY, {}, {})
    assert store.unpack(store.pack(empty), KEY) == empty


def test_the_same_entry_has_the_same_bytes_whatever_the_order_of_its_facts() -> None:
    turned = Entry(KEY, dict(reversed(SMALL.metadata.items())), SMALL.stages)
    assert store.pack(turned) == store.pack(SMALL)


def test_each_flipped_byte_and_each_lost_tail_is_noticed() -> None:
    data = store.pack(SMALL)
    for at in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            bad = data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
            with pytest.raises(BadEntry):
                store.unpack(bad, KEY)
        with pytest.raises(BadEntry):
            store.unpack(data[:at], KEY)
    with pytest.raises(BadEntry):
        store.unpack(data + b"\0", KEY)


def resealed(data: bytes, **changes: Any) -> bytes:
    """The entry with another prefix or header, under a checksum that is right."""
    magic, version, length = store._PREFIX.unpack_from(data)
    header = data[store._PREFIX.size : store._PREFIX.size + length]
    blobs = data[store._PREFIX.size + length : -32]
    header = changes.get("header", header)
    prefix = store._PREFIX.pack(changes.get("magic", magic), changes.get("version", version), len(header))
    body = prefix + header + blobs
    return body + store.sha256(body).digest()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"magic": b"SOMEBODY"}, "not an entry"),
        ({"version": 2}, "format 2; this is format 1"),
        ({"header": b"{}"}, "an unknown header: KeyError('key')"),
        ({"header": b"[1, 2]"}, "an unknown header"),
        ({"header": b"\xff"}, "an unknown header"),
        ({"header": b"[" * 100_000}, "an unknown header"),
        ({"header": b'{"key": "%s", "metadata": {}, "blobs": [["ptx", "text", 3]]}' % KEY.encode()}, "do not add up"),
        ({"header": b'{"key": "%s", "metadata": {}, "blobs": [["ptx", "text"]]}' % KEY.encode()}, "an unknown header"),
    ],
)
def test_foreign_versions_and_headers_are_no_entries(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(BadEntry) as caught:
        store.unpack(resealed(store.pack(SMALL), **changes), KEY)
    assert why in str(caught.value)


# --- the folder ---


def test_entries_are_private_and_under_their_own_key_alone(tmp_path: Path) -> None:
    kept = Store(tmp_path / "a" / "cache", BIG)
    assert kept.read(KEY) is None and kept.survey() == []
    assert kept.write(SMALL)
    assert kept.read(KEY) == SMALL and kept.read(OTHER) is None
    assert (tmp_path / "a" / "cache").stat().st_mode & 0o777 == 0o700
    assert kept.path(KEY).stat().st_mode & 0o777 == 0o600
    kept.path(KEY).rename(kept.path(OTHER))
    with pytest.raises(BadEntry, match="written under the key abab"):
        kept.read(OTHER)
    with pytest.raises(ValueError, match="no key"):
        kept.path("../../etc/passwd")


def test_a_damaged_file_is_a_miss_once_and_then_gone(tmp_path: Path) -> None:
    kept = Store(tmp_path, BIG)
    kept.write(SMALL)
    data = kept.path(KEY).read_bytes()
    for bad in (b"", data[:-1], data[:40], b"#!/bin/sh\n" * 50, data[:-40] + bytes(40)):
        kept.path(KEY).write_bytes(bad)
        with pytest.raises(BadEntry):
            kept.read(KEY)
        assert kept.read(KEY) is None and not kept.path(KEY).exists()


@pytest.mark.parametrize("plant", ["link", "folder", "pipe", "huge"])
def test_what_is_no_plain_file_is_never_read(plant: str, tmp_path: Path) -> None:
    kept = Store(tmp_path / "cache", BIG)
    kept.write(SMALL)
    path = kept.path(KEY)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    if plant == "link":
        path.symlink_to(elsewhere)
    elif plant == "folder":
        path.mkdir()
    elif plant == "pipe":
        os.mkfifo(path)  # opening one to read waits for a writer, unless asked not to
    else:
        with path.open("wb") as file:
            file.truncate(store.LARGEST_ENTRY + 1)
    with pytest.raises((BadEntry, OSError)):
        kept.read(KEY)
    assert elsewhere.exists()


def test_files_and_folders_of_somebody_else_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Store(tmp_path / "cache", BIG)
    kept.write(SMALL)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    mine = os.stat(tmp_path).st_uid == 0  # root's files are everybody's: then change what the file says
    if mine:
        real = os.fstat
        monkeypatch.setattr(os, "fstat", lambda d: os.stat_result((*real(d)[:4], 777, *real(d)[5:])))
        with pytest.raises(BadEntry, match="a file of user 777, who is somebody else"):
            kept.read(KEY)
        monkeypatch.setattr(os, "stat", lambda p, **_: os.stat_result((*os.lstat(p)[:4], 777, *os.lstat(p)[5:])))
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(store.UnsafeFolder, match="belongs to somebody else .*, and everybody may write to it"):
        kept.write(SMALL)
    with pytest.raises(store.UnsafeFolder):
        kept.read(KEY)


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    kept = Store(tmp_path, 45_000)
    for number in range(4):
        kept.write(sized(number))
        os.utime(kept.path(key(number)), (1000 + number, 1000 + number))
    assert kept.read(key(0)) is not None  # a hit counts as a use
    kept.write(sized(4))
    left = {file.path for file in kept.survey()}
    assert left == {kept.path(key(number)) for number in (0, 2, 3, 4)}
    assert sum(file.size for file in kept.survey()) <= 45_000
    assert not kept.write(sized(5, 50_000)) and kept.read(key(4)) is not None


def test_two_writers_together_stay_near_the_bound(tmp_path: Path) -> None:
    first, second = Store(tmp_path, 200_000), Store(tmp_path, 200_000)
    for number in range(60):
        (first, second)[number % 2].write(sized(number))
    assert sum(file.size for file in Store(tmp_path, BIG).survey()) <= 200_000 + 2 * 22_000


def test_what_killed_writers_left_goes_by_age_and_nothing_else_does(tmp_path: Path) -> None:
    old, new, foreign = tmp_path / ".writing-1-ab", tmp_path / ".writing-2-cd", tmp_path / "notes.txt"
    for path in (old, new, foreign):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    os.utime(foreign, (1, 1))
    kept = Store(tmp_path, BIG)
    kept.write(SMALL)
    assert not old.exists() and new.exists() and foreign.exists()
    assert kept.clear() == 1
    assert not new.exists() and foreign.exists() and kept.survey() == []


def test_the_survey_names_what_is_wrong(tmp_path: Path) -> None:
    kept = Store(tmp_path, BIG)
    kept.write(SMALL)
    kept.write(sized(1))
    kept.path(KEY).write_bytes(kept.path(KEY).read_bytes()[:-1])
    problems = {file.path.name[:4]: file.problem for file in kept.survey()}
    assert problems == {"abab": "the checksum does not match", "0000": ""}
    assert kept.path(KEY).exists()


# --- many writers, and kill -9 ---


def hammer(folder: Path, writers: int, rounds: int, *more: str, through: Sequence[str] = ()) -> dict[str, int]:
    """What was seen by writers that each write and read `rounds` times, a third of them killed, and by a reader."""
    command = [*through, sys.executable, str(STRESS), "hammer", str(folder), str(writers), str(rounds), "1", *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert child.returncode == 0, child.stderr
    seen: dict[str, int] = json.loads(child.stdout)
    assert not [name for name in seen if name.startswith("problem")], seen
    assert seen["killed"] > 0, seen
    return seen


@pytest.mark.skipif(sys.platform == "win32", reason="needs kill -9")
def test_readers_see_all_or_nothing(tmp_path: Path) -> None:
    seen = hammer(tmp_path, 4, 25)
    assert seen["whole"] > 100 and seen["left whole"] == 4 and "refused" not in seen


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs kill -9")
def test_readers_see_all_or_nothing_among_16_writers_of_50_rounds(tmp_path: Path) -> None:
    seen = hammer(tmp_path, 16, 50)
    assert seen["whole"] > 2000 and seen["left whole"] == 4 and "refused" not in seen
    leftovers = list(tmp_path.glob(".writing-*"))
    assert Store(tmp_path, BIG).clean(age=0.0) == len(leftovers)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs kill -9")
def test_readers_see_all_or_nothing_while_files_are_cut_and_changed(tmp_path: Path) -> None:
    seen = hammer(tmp_path, 16, 50, "vandal")
    assert seen["whole"] > 1000 and seen["bad"] > 10


#: Makes a file system of 200 kB, which 16 writers of 36 kB fill, and runs a command on it: `... FOLDER COMMAND`.
SMALL_DISK = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=200k none "$0" && exec "$@"')


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system of its own")
def test_readers_see_all_or_nothing_on_a_full_disk(tmp_path: Path) -> None:
    through = (*SMALL_DISK, str(tmp_path))
    try:
        subprocess.run([*through, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this user may mount nothing: {error}")
    seen = hammer(tmp_path, 16, 50, through=through)
    assert seen["whole"] > 1000 and seen["refused"] > 100


# --- the cache above it: nothing that happens to the disk stops a kernel ---


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A compiler that notes what it was asked for in place of compiling."""
    asked: list[str] = []

    def compile_to_ptx(module: Any, target: str, options: CompileOptions) -> tuple[dict[str, str], dict[str, Any]]:
        asked.append("ptx")
        return {"ttir": "tt", "ptx": f"// {module}"}, {
            "name": "k",
            "target": target,
            "dynamic_shared": 0,
            "waits": False,
        }

    def assemble_ptx(
        name: str, ptx: str, target: str, dynamic_shared: int, waits: bool
    ) -> tuple[bytes, dict[str, int]]:
        asked.append("cubin")
        return b"cubin of " + ptx.encode(), {"registers": 7}

    monkeypatch.setattr(f"{KernelCache.__module__}.compile_to_ptx", compile_to_ptx)
    monkeypatch.setattr(f"{KernelCache.__module__}.assemble_ptx", assemble_ptx)
    yield asked


def ask(cache: KernelCache, name: str = KEY) -> Artifact:
    return cache.compiled(Request(name, CompileOptions(), lambda: "module"), "sm_90a")  # type: ignore[arg-type, return-value]


def test_memory_then_disk_then_the_compiler(compiler: list[str], tmp_path: Path) -> None:
    with knobs.scope(cache_dir=tmp_path / "cache"):
        cache = KernelCache()
        first = ask(cache)
        assert (first.ptx, compiler) == ("// module", ["ptx"])
        assert ask(cache).ptx == first.ptx and cache.counters.memory_hits == 1
        assert first.stage("cubin") == b"cubin of // module" and first.facts["registers"] == 7
        again = KernelCache()  # as a new process
        second = ask(again)
        assert second.stage("cubin") == first.stage("cubin") and second.facts == first.facts
    assert compiler == ["ptx", "cubin"]
    counted = again.counters
    assert (counted.disk_hits, counted.misses, counted.llvm_calls, counted.assembler_calls) == (1, 0, 0, 0)


def test_a_damaged_entry_is_compiled_again_and_replaced(compiler: list[str], tmp_path: Path) -> None:
    with knobs.scope(cache_dir=tmp_path):
        ask(KernelCache())
        (file,) = tmp_path.glob("*.kernel")
        good = file.read_bytes()
        file.write_bytes(good[: len(good) // 2])
        cache = KernelCache()
        assert ask(cache).ptx == "// module"
        assert (cache.counters.rejected, cache.counters.misses) == (1, 1)
        assert file.read_bytes() == good


def test_a_full_disk_costs_one_warning(compiler: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Store, temporary: Path, data: bytes) -> None:
        temporary.write_bytes(data[:10])
        raise OSError(28, "No space left on device", str(temporary))

    monkeypatch.setattr(Store, "_fill", full)
    cache = KernelCache()
    with knobs.scope(cache_dir=tmp_path):
        with pytest.warns(CacheWarning, match="compiled kernels are not kept: .*No space left on device"):
            assert ask(cache).ptx == "// module"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ask(cache, OTHER).ptx == "// module"
    assert list(tmp_path.iterdir()) == []


LIMITED = """
import resource, sys, warnings
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
from tilewright.runtime import Entry, Store
store = Store(Path(sys.argv[1]), 1 << 30)
try:
    store.write(Entry("ab" * 32, {}, {"cubin": bytes(20000)}))
except OSError as error:
    print(type(error).__name__, error.errno)
print(store.read("ab" * 32), sorted(Path(sys.argv[1]).iterdir()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on file sizes")
def test_a_write_that_the_system_cuts_short_leaves_nothing(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-B", "-c", LIMITED, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert child.stdout == "OSError 27\nNone []\n", child.stderr


def test_a_folder_that_cannot_be_made_or_is_a_file_costs_one_warning(compiler: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "cache"):
        with knobs.scope(cache_dir=folder), pytest.warns(CacheWarning, match="compiled kernels are not kept"):
            assert ask(KernelCache()).ptx == "// module"
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_read(compiler: list[str], tmp_path: Path) -> None:
    with knobs.scope(cache_dir=tmp_path):
        ask(KernelCache())
        tmp_path.chmod(0o500)
        try:
            cache = KernelCache()
            assert ask(cache).ptx == "// module" and cache.counters.disk_hits == 1
            with pytest.warns(CacheWarning):
                ask(cache, OTHER)
        finally:
            tmp_path.chmod(0o700)


def test_a_bound_of_nothing_keeps_nothing(compiler: list[str], tmp_path: Path) -> None:
    with knobs.scope(cache_dir=tmp_path / "cache", cache_max_bytes=0):
        ask(KernelCache())
        ask(KernelCache())
    assert compiler == ["ptx", "ptx"] and not (tmp_path / "cache").exists()


def test_a_missing_home_folder_costs_one_warning(
    compiler: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home(path: object) -> Path:
        raise RuntimeError("no home folder")

    monkeypatch.setattr(sys.modules["tilewright.lang.knobs"], "home_path", no_home)
    monkeypatch.delenv("TILEWRIGHT_CACHE_DIR", raising=False)
    with pytest.warns(CacheWarning, match="no home folder"):
        assert ask(KernelCache()).ptx == "// module"


def test_memory_is_bounded(compiler: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{KernelCache.__module__}.REMEMBERED", 3)
    cache = KernelCache()
    with knobs.scope(cache_max_bytes=0):
        for number in range(5):
            ask(cache, key(number))
        ask(cache, key(4))
        ask(cache, key(0))
    assert (cache.counters.misses, cache.counters.memory_hits) == (6, 1)


# --- with the real compiler ---

TWICE = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from kernels_kept import scale
from tilewright.runtime import CompileOptions, find_device, kernel_cache
x = np.arange(64, dtype=np.float32)
kernel = scale.calls.compile(
    scale.specialize(scale.bind_launch((x, 64), {})), CompileOptions(), find_device("emulator:sm_80")
)
early = set(sys.modules)  # before the emulator is loaded, which has needs of its own
kernel = scale.on("emulator:sm_80")[(1,)](x, 64)
assert (x == 2 * np.arange(64)).all()
kernel.asm["cubin"] if "cubin" in sys.argv else None
count = kernel_cache.counters
heavy = {"llvmlite", "tilewright.compiler.compile", "tilewright.compiler.nvjitlink", "importlib.metadata", "ml_dtypes"}
print(count.llvm_calls, count.assembler_calls, count.disk_hits, count.misses, *sorted(heavy & early))
"""
KERNEL = """
import tilewright
import tilewright.language as tl

@tilewright.jit
def scale(x_ptr, n):
    offsets = tl.arange(0, 64)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)
"""


@pytest.mark.optional("nvidia.cu13")
def test_a_second_process_calls_neither_llvm_nor_the_assembler(tmp_path: Path) -> None:
    """Nor imports it what compiles; the kernel and its cubin are found as they are on the disk."""
    (tmp_path / "kernels_kept.py").write_text(KERNEL)
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    said = []
    for _ in range(2):
        command = [sys.executable, "-c", TWICE, str(tmp_path), "cubin"]
        child = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
        assert child.returncode == 0, child.stderr
        said.append(child.stdout.strip())
    assert said == ["1 1 0 1 llvmlite tilewright.compiler.compile tilewright.compiler.nvjitlink", "0 0 1 0"]


@tilewright.jit
def fill(x_ptr, value, N: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, N), value)


def test_compiled_kernels_keep_no_arguments_alive(tmp_path: Path) -> None:
    with knobs.scope(cache_dir=tmp_path):
        x = np.zeros(64, np.float32)
        watched = weakref.ref(x)
        fill.on("emulator")[(1,)](x, 2.5, N=64)
        assert (x == 2.5).all()
        del x
        gc.collect()
        assert watched() is None
