"""Profiles: counts that can be worked out by hand, sums, tables, frames, and what cannot be profiled."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.interpreter.ptx.programs import aligned
from tilewright.compiler import AssemblerError, NoAssembler
from tilewright.interpreter.ptx.table import FORMS
from tilewright.lang import knobs
from tilewright.runtime import (
    PROFILE_COLUMNS,
    CompiledKernel,
    DeviceError,
    MissingPackage,
    OptionError,
    Profile,
    ProfileRow,
    kernel_cache,
    record_launches,
)
from tilewright.runtime.profile import GROUPS

WARPS = 4
ONE = tl.constexpr(1)


@pytest.fixture(autouse=True)
def no_cache() -> Iterator[None]:
    with knobs.scope(cache_max_bytes=0):
        yield
    kernel_cache.forget()


@tilewright.jit
def add(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr, STRIDE: tl.constexpr = ONE):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * STRIDE)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, x + y)


def arrays(count: int, stride: int = 1) -> list[np.ndarray[Any, Any]]:
    sizes = (count * stride, count, count)
    return [aligned(np.arange(size, dtype=np.float32), 128) for size in sizes]


def row_of(profile: Profile, start: str) -> ProfileRow:
    """The row of the line that begins like this."""
    (found,) = (row for row in profile.rows if row.text.startswith(start))
    return found


def traffic(row: ProfileRow) -> tuple[int, int, int, int]:
    return row.loads, row.load_sectors, row.stores, row.store_sectors


# --- counts ---


@pytest.mark.parametrize("block", [128, 512])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_a_vector_addition_moves_each_sector_once(block: int, target: str) -> None:
    x, y, out = arrays(4 * block)
    profile = add.on(f"emulator:{target}").profile(x, y, out, BLOCK=block, grid=(4,))
    assert (out == x + y).all()
    requests, each = 4 * WARPS, 4 * block // 128  # 128 threads: 4 bytes each, or 16
    assert traffic(row_of(profile, "x = ")) == (requests, requests * each, 0, 0)
    assert traffic(row_of(profile, "y = ")) == (requests, requests * each, 0, 0)
    assert traffic(row_of(profile, "tl.store")) == (0, 0, requests, requests * each)
    total = profile.total
    assert traffic(total) == (2 * requests, 2 * requests * each, requests, requests * each)
    assert (total.sectors_per_load, total.sectors_per_store) == (each, each)
    assert total.load_sectors * 32 == x.nbytes + y.nbytes
    assert (profile.target, profile.launches, profile.programs) == (target, 1, 4)
    assert (total.shared, total.conflicts, total.tensor) == (0, 0, 0)


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (4, 16), (8, 32), (16, 32)])
def test_a_strided_load_touches_more_sectors(stride: int, sectors: int) -> None:
    x, y, out = arrays(256, stride)
    profile = add.profile(x, y, out, BLOCK=128, STRIDE=stride, grid=(2,))
    assert (out == x[::stride] + y).all()
    assert row_of(profile, "x = ").sectors_per_load == sectors
    assert row_of(profile, "y = ").sectors_per_load == 4
    assert math.isnan(row_of(profile, "i = ").sectors_per_load)


@tilewright.jit
def product(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    n = tl.arange(0, N)
    i = n[:, None] * N + n[None, :]
    tl.store(out_ptr + i, tl.dot(tl.load(x_ptr + i), tl.load(y_ptr + i)))


@pytest.mark.parametrize(("size", "warps"), [(16, 1), (64, 4)])
def test_a_matrix_product_is_counted_by_matrix_instructions(size: int, warps: int) -> None:
    x = aligned(np.eye(size, dtype=np.float16), 128)
    out = aligned(np.zeros((size, size), np.float32), 128)
    profile = product.profile(x, x, out, size, grid=(3,), num_warps=warps)
    assert (out == np.eye(size)).all()
    total = profile.total
    assert total.tensor == row_of(profile, "tl.store").tensor == 3 * size**3 // (16 * 8 * 16)
    assert total.conflicts == 0 and total.wavefronts >= total.shared > 0
    assert profile.resources.shared > 0 and profile.resources.num_warps == warps


@tilewright.jit
def count(out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, i)


def test_conflicts_are_the_wavefronts_beyond_one_a_phase() -> None:
    """A store of a word by each lane, `stride` bytes apart, put into the code of a kernel that has none."""
    out = aligned(np.zeros(128, np.int32))
    for stride, wavefronts in ((4, 1), (8, 2), (128, 32), (132, 1)):
        kernel = tilewright.jit(count.function)
        kernel_cache.forget()  # which keeps what was assembled with the code that it was assembled from
        compiled = kernel.warmup(out, 128, device="emulator", num_warps=WARPS)
        head, brace, body = compiled.artifact.ptx.partition("{\n")
        extra = (
            ".reg .b32 %zero, %room, %at; .shared .align 4 .b8 room[16896]; mov.u32 %zero, 0; mov.u32 %room, room;"
            f"mov.u32 %at, %tid.x; mad.lo.u32 %at, %at, {stride}, %room; st.shared.u32 [%at], %zero;\n"
        )
        compiled.artifact.made["ptx"] = head + brace + extra + body
        del compiled.handle  # it was made of the code as it was
        profile = kernel.profile(out, 128, grid=(2,), num_warps=WARPS)
        total, warps = profile.total, 2 * WARPS
        assert (total.shared, total.wavefronts, total.conflicts) == (
            warps,
            warps * wavefronts,
            warps * (wavefronts - 1),
        )
        assert [row.conflicts for row in profile.rows if row.file == ""] == [warps * (wavefronts - 1)]


@tilewright.jit
def total_of(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    s = tl.sum(x, 0)
    tl.atomic_add(out_ptr, s)


def test_waits_exchanges_and_atomics() -> None:
    out = np.zeros(1, np.float32)
    profile = total_of.profile(aligned(np.ones(128, np.float32)), out, 128, grid=(2,))
    assert out == 256
    summed = row_of(profile, "s = ")
    assert summed.exchange == 2 * WARPS * 5  # halves, quarters, ... of a warp
    assert summed.waits == 2 * WARPS and summed.barrier == summed.waits
    added = row_of(profile, "tl.atomic_add")
    assert added.classes["atomic"] > 0 and added.loads == 0
    assert (added.stores, added.store_sectors) == (2, 2)  # by one thread of a block


def test_instructions_are_those_of_the_classes() -> None:
    families = {form.family for forms in FORMS.values() for form in forms}
    assert sorted(families) == sorted(family for group in GROUPS.values() for family in group)
    x, y, out = arrays(128)
    profile = add.profile(x, y, out, BLOCK=128, grid=(1,))
    for row in (*profile.rows, profile.total):
        groups = row.memory, row.arithmetic, row.tensor, row.exchange, row.barrier, row.control
        assert sum(groups) == row.instructions == sum(row.classes.values())
    assert row_of(profile, "tl.store").classes["float"] == WARPS
    assert profile.total.classes["store"] == WARPS and profile.total.control == WARPS  # ret


@tilewright.jit
def twice(x):
    return tl.sigmoid(x) * 2.0


@tilewright.jit
def calling(x_ptr):
    i = tl.arange(0, 128)
    tl.store(x_ptr + i, twice(tl.load(x_ptr + i)))


def test_lines_of_called_functions_have_rows_of_their_own() -> None:
    profile = calling.profile(np.zeros(128, np.float32), grid=(1,))
    files = {row.text: Path(row.file).name for row in profile.rows}
    assert files["return tl.sigmoid(x) * 2.0"] == Path(__file__).name
    assert files["return 1 / (1 + exp(-x))"] == "library.py"
    assert [(row.file, row.line) for row in profile.rows] == sorted((row.file, row.line) for row in profile.rows)
    assert row_of(profile, "tl.store").line == calling.function.__code__.co_firstlineno + 3


# --- launches ---


def test_launches_of_one_specialization_have_a_sum_and_others_have_none() -> None:
    x, y, out = arrays(512)
    one, two = (add.profile(x, y, out, BLOCK=128, grid=(size,)) for size in (1, 3))
    both = one + two
    assert (both.launches, both.programs) == (2, 4)
    assert both.rows == add.profile(x, y, out, BLOCK=128, grid=(4,)).rows
    assert both.total == one.total + two.total
    with pytest.raises(ValueError, match="add and add that were compiled apart have no sum"):
        _ = one + add.profile(x, y, out, BLOCK=64, grid=(1,))


def test_an_empty_grid_runs_nothing() -> None:
    x, y, out = arrays(128)
    out[:] = -1
    profile = add.profile(x, y, out, BLOCK=128, grid=(0, 5))
    assert (profile.rows, profile.launches, profile.programs) == ((), 0, 0)
    assert profile.total.instructions == 0 and (out == -1).all()
    assert "0 launches, 0 programs" in str(profile)


@pytest.mark.parametrize("device", ["interpreter", "cuda", "cuda:3"])
def test_other_devices_cannot_profile(device: str) -> None:
    x, y, out = arrays(128)
    out[:] = -1
    message = f'{device} can\'t profile: it does not count\nhint: the emulator does: device="emulator:sm_90a"'
    with pytest.raises(DeviceError) as caught:
        add.profile(x, y, out, BLOCK=128, grid=(1,), device=device)
    assert str(caught.value) == message and (out == -1).all()
    with pytest.raises(DeviceError, match="there is no target 'sm_1' to compile for"):
        add.on("emulator:sm_1").profile(x, y, out, BLOCK=128, grid=(1,))
    with pytest.raises(DeviceError, match="there is no device 'abacus'"):
        add.on("abacus").profile(x, y, out, BLOCK=128, grid=(1,))


def test_the_knob_chooses_the_target_but_no_device_that_does_not_count() -> None:
    x, y, out = arrays(128)
    for device, used in (("emulator:sm_86", "emulator:sm_86"), ("interpreter", "emulator:sm_90a")):
        with knobs.scope(device=device):
            assert add.profile(x, y, out, BLOCK=128, grid=(1,)).device == used


def test_faults_of_the_kernel_are_those_of_a_launch() -> None:
    with pytest.raises(tilewright.TilewrightError) as caught:
        add.profile(*arrays(100), BLOCK=128, grid=(1,))
    assert "x = tl.load(x_ptr + i * STRIDE)" in str(caught.value)


def test_every_launch_is_recorded_by_kernel_specialization_and_device() -> None:
    x, y, out = arrays(512)
    add.on("emulator")[(1,)](x, y, out, BLOCK=128)
    with record_launches() as recorder:
        add.on("emulator")[(1,)](x, y, out, BLOCK=128)
        twin = Thread(target=lambda: add.on("emulator")[(3,)](x, y, out, BLOCK=128))
        twin.start()
        twin.join()
        add.on("interpreter")[(4,)](x, y, out, BLOCK=128)
        add.on("emulator:sm_80")[(2,)](x, y, out, BLOCK=128)
        add.on("emulator")[(0,)](x, y, out, BLOCK=32)
        calling.on("emulator")[(1,)](x)
    add.on("emulator")[(1,)](x, y, out, BLOCK=128)
    found = [(each.kernel, each.device, each.launches, each.programs) for each in recorder.profiles]
    assert found == [
        ("add", "emulator:sm_90a", 2, 4),
        ("add", "emulator:sm_80", 1, 2),
        ("calling", "emulator:sm_90a", 1, 1),
    ]
    assert recorder.profiles[0].rows == add.profile(x, y, out, BLOCK=128, grid=(4,)).rows


# --- what is shown ---


def small() -> Profile:
    """A profile with a row of each kind."""
    x, y, out = arrays(128)
    profile = add.profile(x, y, out, BLOCK=128, grid=(1,))
    rows = (
        ProfileRow("", 0, "no line", {"move": 2}),
        ProfileRow("/a/k.py", 3, "x = tl.load(p)", {"load": 4, "integer": 1196}, loads=4, load_sectors=17),
        ProfileRow("/a/k.py", 12, "y = x + 1", {"float": 7, "warp": 3, "mma": 1}),
    )
    return replace(profile, rows=rows, assumptions={"p": "*fp32:16"})


def test_the_table() -> None:
    profile = small()
    used = replace(profile, resources=profile.resources._replace(registers=14, spills=8, shared=96))
    assert str(used) == (
        "add(p: *fp32:16)\n"
        "on emulator:sm_90a: 1 launch, 1 program; 4 warps, 14 registers, 8 bytes spilled, 96 bytes of shared memory\n"
        "                                                                         load  sectors per\n"
        "line       instructions  memory  arithmetic  tensor  exchange  loads  sectors         load  source\n"
        "no line               2                   2\n"
        "k.py:3            1,200       4       1,196                        4       17         4.25  x = tl.load(p)\n"
        "k.py:12              11                   7       1         3                               y = x + 1\n"
        "all lines         1,213       4       1,205       1         3      4       17         4.25"
    )


def test_rows_by_a_column_and_the_first_of_them() -> None:
    profile = small()
    lines = [line.split()[0] for line in profile.table("arithmetic", 2).splitlines()[4:]]
    assert lines == ["k.py:3", "k.py:12", "all"]
    assert [row.line for row in profile.sorted("sectors_per_load")] == [3, 0, 12]
    with pytest.raises(OptionError, match="profiles have no column 'load_sector'\nhint: did you mean load_sectors?"):
        profile.table("load_sector")


def test_a_frame_has_a_row_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))  # type: ignore[arg-type]
    frame = small().to_pandas()
    assert list(frame) == ["file", "line", "text", *PROFILE_COLUMNS]
    assert frame["line"] == [0, 3, 12] and frame["loads"] == [0, 4, 0] and frame["sectors_per_load"][1] == 4.25
    monkeypatch.setitem(sys.modules, "pandas", None)  # type: ignore[arg-type]
    with pytest.raises(MissingPackage) as caught:
        small().to_pandas()
    assert str(caught.value) == "Profile.to_pandas needs pandas, which is not installed\nhint: pip install pandas"
    assert isinstance(caught.value, ImportError)


@pytest.mark.optional("pandas")
def test_a_frame_of_pandas() -> None:
    frame = small().to_pandas()
    assert frame["instructions"].sum() == 1213 and list(frame.columns) == ["file", "line", "text", *PROFILE_COLUMNS]


@pytest.mark.parametrize("error", [NoAssembler(problem="none"), AssemblerError(name="k", target="sm_90a", log="no")])
def test_without_a_cubin_registers_are_unknown(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: CompiledKernel) -> None:
        raise error

    monkeypatch.setattr(CompiledKernel, "metadata", property(missing))
    x, y, out = arrays(128)
    profile = tilewright.jit(add.function).profile(x, y, out, BLOCK=128, grid=(1,))
    assert profile.resources == (4, None, None, 0) and profile.total.loads == 2 * WARPS
    assert "4 warps, registers unknown, 0 bytes of shared memory" in str(profile)
