"""What the key says of the rooms and the toolchain: found the quick way, and the same as the slow one."""

import os
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tilewright.lang import knobs
from tilewright.runtime import digests

ROOMS = ("lang", "compiler")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small house of two rooms, old enough that its files' times can be trusted."""
    root = tmp_path / "house"
    for name in ("lang/a.py", "lang/deep/b.py", "compiler/c.py", "lang/__pycache__/a.py", "lang/notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    monkeypatch.setattr(digests, "_ROOT", str(root))
    monkeypatch.setattr(digests, "FRESH", 0)
    return root


@pytest.fixture
def cache(tmp_path: Path) -> Any:
    """A folder in which kernels are kept."""
    (tmp_path / "cache").mkdir(mode=0o700)
    with knobs.scope(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


def fresh(rooms: tuple[str, ...] = ROOMS) -> bytes:
    """The digest as a new process finds it."""
    return digests.room_digest.__wrapped__(rooms)


def uncached(rooms: tuple[str, ...] = ROOMS) -> bytes:
    with knobs.scope(cache_max_bytes=0):
        return fresh(rooms)


def read_nothing(*arguments: Any, **keywords: Any) -> Any:
    raise AssertionError("a source was read")


def test_the_note_stands_for_the_files(house: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fresh()
    assert first == uncached() and len(list(cache.glob("sources-*.note"))) == 1
    monkeypatch.setattr("builtins.open", read_nothing)
    assert fresh() == first
    with pytest.raises(AssertionError, match="a source was read"):
        fresh(("lang",))


CHANGES = {
    "another text of the same length": lambda house: (house / "lang/deep/b.py").write_text("lang/deep/B.py"),
    "the time put back": lambda house: (
        (house / "lang/deep/b.py").write_text("lang/deep/B.py"),
        os.utime(house / "lang/deep/b.py", (1, 1)),
    ),
    "a new file": lambda house: (house / "compiler/d.py").write_text("new"),
    "a file that is gone": lambda house: (house / "lang/a.py").unlink(),
    "a new name": lambda house: (house / "lang/a.py").rename(house / "lang/z.py"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_every_change_of_a_source_is_seen(what: str, house: Path, cache: Path) -> None:
    first = fresh()
    CHANGES[what](house)
    assert fresh() == uncached() != first
    assert fresh() == uncached()


def test_what_is_no_source_does_not_matter(house: Path, cache: Path) -> None:
    first = fresh()
    (house / "lang/notes.txt").write_text("other")
    (house / "lang/__pycache__/a.py").write_text("other")
    assert fresh() == first


def test_times_that_are_too_young_are_not_trusted(house: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "FRESH", 1 << 62)
    assert fresh() == uncached()
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("bad", [b"", b"digest", b"\0" * 400])
def test_a_damaged_note_is_none(bad: bytes, house: Path, cache: Path) -> None:
    first = fresh()
    (note,) = cache.glob("*.note")
    note.write_bytes(bad)
    assert fresh() == first and note.read_bytes() != bad


def test_two_houses_share_a_cache(house: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fresh()
    other = house.with_name("other")
    house.rename(other)
    monkeypatch.setattr(digests, "_ROOT", str(other))
    assert fresh() == first and len(list(cache.glob("*.note"))) == 2  # a path is no part of the digest


@pytest.mark.parametrize("cache_max_bytes", [0, 1 << 20])
def test_no_folder_is_made_for_it(house: Path, tmp_path: Path, cache_max_bytes: int) -> None:
    with knobs.scope(cache_dir=tmp_path / "none", cache_max_bytes=cache_max_bytes):
        fresh()
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("package", ["llvmlite", "numpy", "ml_dtypes", "nvidia-nvjitlink"])
def test_versions_are_those_that_the_installer_wrote(package: str) -> None:
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        version = ""
    assert digests.toolchain_versions((package,)) == ((package, version),)


def test_a_package_that_is_missing_has_no_version() -> None:
    assert digests.toolchain_versions(("no-such-package",)) == (("no-such-package", ""),)
    assert digests.installed()["pytest"] == pytest.__version__
