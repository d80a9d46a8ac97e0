"""Kernels that ask for more than a target has: the full text of what a launch, and the command line, say."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.compiler import BadOption, RegistersExceeded, SharedMemoryExceeded
from tilewright.lang import knobs

SOURCE = """
import tilewright
import tilewright.language as tl


@tilewright.jit
def turned(tile):
    return tl.trans(tile)


@tilewright.jit
def transpose(x, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(out + j[:, None] * M + i[None, :], turned(tile))


@tilewright.jit
def product(a, b, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, K, BK):
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        y = tl.load(b + (at + k)[:, None] * N + j[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(out + i[:, None] * N + j[None, :], acc)


@tilewright.jit
def normalized(x, out, M: tl.constexpr, N: tl.constexpr):
    place = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + place, tl.softmax(tl.load(x + place), 1))
"""

TILE = """\
FILE:14:20: in kernels.transpose
   14 |     tile = tl.load(x + i[:, None] * N + j[None, :])
      |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
error: a tile of shape (512, 256) with 32 bits an element takes 1,024 registers in each of 128 threads; a thread of \
sm_90a has 255
expected: at most 1,020 for one tile: what a thread has no register for is kept in its local memory
hint: take smaller tiles, or more warps: num_warps=8"""

STAGES = """\
FILE:24:13: in kernels.product
   24 |         y = tl.load(b + (at + k)[:, None] * N + j[None, :])
      |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
error: shared memory for 4 rounds of a loop's loads ends at byte 131,072, and a block of sm_120a has 101,376:
  from byte     bytes  for
          0    65,536  4 rounds of a loop's loads, line 23: x = tl.load(a + i[:, None] * K + (at + k)[None, :])
     65,536    65,536  4 rounds of a loop's loads, line 24: y = tl.load(b + (at + k)[:, None] * N + j[None, :])
hint: take smaller tiles, or lower num_stages: so many rounds of a loop are loaded at a time"""

MOVED = """\
FILE:8:12: in kernels.turned
    8 |     return tl.trans(tile)
      |            ^^^^^^^^^^^^^^
error: shared memory for moving a tile between threads ends at byte 131,072, and a block of sm_89 has 101,376:
  from byte     bytes  for
          0   131,072  moving a tile between threads, line 15: tl.store(out + j[:, None] * M + i[None, :], \
turned(tile))
hint: take smaller tiles
called from FILE:15:49: in kernels.transpose
   15 |     tl.store(out + j[:, None] * M + i[None, :], turned(tile))
      |                                                 ^^^^^^^^^^^^"""


@pytest.fixture
def kernels(tmp_path: Path) -> Any:
    """The kernels above, read from a file."""
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with knobs.scope(cache_max_bytes=0):
        yield module


def report(error: tilewright.TilewrightError, folder: Path) -> str:
    """The text of an error, which it keeps on its way to another process, independent of the folder."""
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    return str(error).replace(str(folder / "kernels.py"), "FILE")


def arrays(dtype: Any, count: int) -> list[Any]:
    return [np.zeros(1, dtype)] * count


def test_a_tile_that_is_too_large_for_registers(kernels: Any, tmp_path: Path) -> None:
    with pytest.raises(RegistersExceeded) as caught:
        kernels.transpose.on("emulator:sm_90a")[(1,)](*arrays(np.float32, 2), M=512, N=256)
    assert report(caught.value, tmp_path) == TILE


def test_the_number_of_warps_that_is_advised_is_enough(kernels: Any) -> None:
    kernel = kernels.normalized.on("emulator:sm_90a")
    with pytest.raises(RegistersExceeded, match="hint: take smaller tiles, or more warps: num_warps=8") as caught:
        kernel.warmup(np.float32, np.float32, M=512, N=256)
    assert "in kernels.normalized" in str(caught.value) and "tilewright/lang" not in str(caught.value)
    kernel.warmup(np.float32, np.float32, M=512, N=256, num_warps=8)
    with pytest.raises(RegistersExceeded, match="hint: take smaller tiles$"):
        kernel.warmup(np.float32, np.float32, M=1024, N=1024, num_warps=32).asm["ptx"]


def test_loads_ahead_that_are_too_large_for_shared_memory(kernels: Any, tmp_path: Path) -> None:
    given = (*arrays(np.float16, 2), *arrays(np.float32, 1), 64)
    with pytest.raises(SharedMemoryExceeded) as caught:
        kernels.product.on("emulator:sm_120a")[(1,)](*given, M=128, N=128, BK=64, num_stages=5)
    assert report(caught.value, tmp_path) == STAGES


def test_a_tile_that_is_too_large_to_move_through_shared_memory(kernels: Any, tmp_path: Path) -> None:
    with pytest.raises(SharedMemoryExceeded) as caught:
        kernels.transpose.on("emulator:sm_89")[(1,)](*arrays(np.float64, 2), M=128, N=128, num_warps=8)
    assert report(caught.value, tmp_path) == MOVED


def test_registers_that_a_block_of_so_many_warps_has_not(kernels: Any) -> None:
    kernel = kernels.transpose.on("emulator:sm_90a")
    with pytest.raises(BadOption) as caught:
        kernel.warmup(np.float32, np.float32, M=16, N=16, num_warps=32, maxnreg=255)
    expected = "at most 64 with num_warps=32: 1024 threads share 65,536 registers"
    assert str(caught.value) == f"error: maxnreg=255 is not possible\nexpected: {expected}"
    kernel.warmup(np.float32, np.float32, M=16, N=16, num_warps=32, maxnreg=64)


def test_each_number_of_warps_that_does_not_exist_is_refused(kernels: Any) -> None:
    for bad in (0, 3, 64, "4", 2.0, True):
        with pytest.raises(tilewright.TilewrightError, match="num_warps=.*it takes a power of two from 1 to 32"):
            kernels.transpose.on("emulator")[(1,)](*arrays(np.float32, 2), M=16, N=16, num_warps=bad)
