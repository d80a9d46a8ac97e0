"""Run the hand-written matrix product for Hopper on a GPU, and compare its bits with the emulator's.

    python -m tools.probes.gemm --device cuda --size 128x256x128 --size 512x1024x512

Each size is multiplied for every kind of operands (`KINDS`). On the GPU the driver encodes the tensor maps; the
emulator has its own and adds as the tensor cores do (`options.mma = "hardware"`). A line says how many elements of c
differ. Nothing is random but by the seed.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler import assemble
from tilewright.interpreter import Buffer, Options, load_ptx, run_ptx
from tilewright.runtime import CudaDevice, CudaError, DeviceError

from ..options import device, natural
from . import gemm_kernel as kernel
from .machines import Map, aligned

Array = NDArray[Any]
Size = tuple[int, int, int]

_MAP = 128
"""Bytes of a tensor map, and of a parameter that holds one."""


def integers(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Small ones, whose sums are exact: what differs is in the wrong place."""
    return rng.integers(-3, 4, shape).astype(np.float16)


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Numbers as kernels meet them."""
    return rng.standard_normal(shape).astype(np.float16)


def wide(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Of all magnitudes down to subnormals: what differs is in how the tensor cores cut off."""
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 4, shape)).astype(np.float16)


KINDS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "integers": integers, "normal": normal, "wide": wide,
}  # fmt: skip


def map_of(x: Array, operand: kernel.Operand) -> Map:
    """The tensor map of a row-major f16 matrix."""
    return Map(x, "float16", x.shape[::-1], x.strides[:1], operand.box, (1, 1), swizzle="128B")


def on_emulator(a: Array, b: Array, seed: int = 0) -> Array:
    """c on the emulator, which also checks how."""
    arrays = [aligned(x) for x in (a, b, np.full((len(a), len(b)), np.nan, np.float16))]
    maps = [map_of(x, operand).ours() for x, operand in zip(arrays, kernel.OPERANDS, strict=True)]
    buffers = [Buffer.of(operand.name, x) for operand, x in zip(kernel.OPERANDS, arrays, strict=True)]
    run_ptx(
        load_ptx(kernel.text()), kernel.ENTRY, kernel.grid(len(a), len(b)), (kernel.THREADS,),
        [*maps, a.shape[1] // kernel.DEPTH], Options(mma="hardware", fuel=None, seed=seed), kernel.SHARED_BYTES,
        reachable=buffers,
    )  # fmt: skip
    return arrays[2]


class Gpu:
    """The kernel, loaded on a GPU."""

    def __init__(self, ordinal: int) -> None:
        self.device = CudaDevice(ordinal)
        self._call = self.device.driver.call
        with self.device.driver.current(self.device.context):
            cubin = assemble(kernel.ENTRY, kernel.text(), kernel.TARGET).cubin
            self._module = self._call("cuModuleLoadData", cubin)
            self._function = self._call("cuModuleGetFunction", self._module, kernel.ENTRY.encode())
            attribute = self.device.driver.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", self._function, attribute, kernel.SHARED_BYTES)

    def multiply(self, a: Array, b: Array) -> Array:
        """c = a @ b.T."""
        c = np.full((len(a), len(b)), np.nan, np.float16)
        arrays = [np.ascontiguousarray(x) for x in (a, b, c)]
        with self.device.driver.current(self.device.context):
            places = [self._call("cuMemAlloc", x.nbytes) for x in arrays]
            try:
                for place, x in zip(places, arrays, strict=True):
                    self._call("cuMemcpyHtoD", place, x.ctypes.data, x.nbytes)
                self._launch(places, arrays)
                self._call("cuMemcpyDtoH", arrays[2].ctypes.data, places[2], c.nbytes)
            finally:
                for place in places:
                    self._call("cuMemFree", place)
        return arrays[2]

    def _launch(self, places: Sequence[Any], arrays: Sequence[Array]) -> None:
        operands = zip(places, arrays, kernel.OPERANDS, strict=True)
        maps = [self.device.encode_tensor_map(map_of(x, operand).at(int(place))) for place, x, operand in operands]
        packed = b"".join([*maps, (arrays[0].shape[1] // kernel.DEPTH).to_bytes(4, "little")])
        storage = ctypes.create_string_buffer(packed, len(packed))
        start = ctypes.addressof(storage)
        pointers = (ctypes.c_void_p * (len(maps) + 1))(*(start + _MAP * n for n in range(len(maps) + 1)))
        x, y = kernel.grid(len(arrays[0]), len(arrays[1]))
        shape = (x, y, 1, kernel.THREADS, 1, 1, kernel.SHARED_BYTES, 0)
        self._call("cuLaunchKernel", self._function, *shape, ctypes.addressof(pointers), 0)
        self._call("cuCtxSynchronize")


def multiplier(device: str) -> tuple[str, Callable[[Array, Array], Array]]:
    """A device's description and how it multiplies: `cuda`, `cuda:1`, or the emulator under another schedule."""
    kind, _, which = device.partition(":")
    if kind == "emulator":
        return device, lambda a, b: on_emulator(a, b, seed=1)
    gpu = Gpu(int(which or 0))
    return gpu.device.description, gpu.multiply


def compared(multiply: Callable[[Array, Array], Array], size: Size, kind: str, seed: int) -> str:
    """One product on both: how many bits differ, and the first element that does."""
    m, n, k = size
    rng = np.random.default_rng(seed)
    a, b = KINDS[kind](rng, (m, k)), KINDS[kind](rng, (n, k))
    found, want = multiply(a, b).view(np.uint16), on_emulator(a, b).view(np.uint16)
    different = np.argwhere(found != want)
    name = f"{m}x{n}x{k} {kind}"
    if not len(different):
        return f"{name:<28} {found.size:>9,} elements, equal"
    i, j = different[0].tolist()
    return f"{name:<28} {len(different):,} of {found.size:,} differ, first c[{i}, {j}]: " \
           f"{found[i, j]:#06x}, emulator {want[i, j]:#06x}"  # fmt: skip


def size_of(text: str) -> Size:
    """`128x256x64` as numbers, which the tiles must divide."""
    parts = [natural(part) for part in text.split("x")]
    if len(parts) != 3:
        raise argparse.ArgumentTypeError(f"a size is MxNxK, found {text!r}")
    m, n, k = parts
    try:
        kernel.grid(m, n)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if k % kernel.DEPTH or k == 0:
        raise argparse.ArgumentTypeError(f"K is a multiple of {kernel.DEPTH}, found {k}")
    return m, n, k


def main(words: Sequence[str] | None = None) -> int:
    """The number of products that differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=device, default="cuda", help="cuda, cuda:1, emulator or emulator:sm_90a")
    parser.add_argument("--size", type=size_of, action="append", help="MxNxK; may be repeated")
    parser.add_argument("--seed", type=natural, default=0)
    arguments = parser.parse_args(words)
    if arguments.device.startswith("emulator:") and not arguments.device.endswith(kernel.TARGET):
        parser.error(f"the kernel is for {kernel.TARGET}")
    started = time.perf_counter()
    try:
        description, multiply = multiplier(arguments.device)
    except (DeviceError, CudaError) as error:
        parser.error(str(error))
    print(description)
    lines = [
        compared(multiply, size, kind, arguments.seed)
        for size in arguments.size or [(128, 256, 128), (256, 512, 1024)]
        for kind in KINDS
    ]
    print("\n".join(lines))
    print(f"{time.perf_counter() - started:.0f} s")
    return sum("differ" in line for line in lines)


if __name__ == "__main__":
    sys.exit(main())
