"""All inputs of f32 functions on a machine: a kernel that makes its operands from the threads' numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler import assemble
from tilewright.interpreter.ptx.table import Kernel, find
from tilewright.runtime import CudaDevice, CudaError

U32 = NDArray[np.uint32]
THREADS = 256
SLICE = 1 << 14
"""Operands that are worked on at a time, so that they stay in the cache."""


def text(opcodes: Sequence[str], target: str, count: int) -> str:
    """A module with the entry `k(out, base)`: thread i applies each opcode to the bits `base + i`.

    `out` has the results of the first opcode, then those of the next, `count` each.
    """
    lines = [f"{opcode} %d, %x; st.global.b32 [%p+{4 * count * n}], %d;" for n, opcode in enumerate(opcodes)]
    return f""".version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 base)
.reqntid {THREADS}, 1, 1
{{
.reg .b32 %i, %t, %x, %d; .reg .b64 %p;
mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, {THREADS}, %t;
ld.param.u64 %p, [out]; mad.wide.u32 %p, %i, 4, %p; ld.param.u32 %x, [base]; add.u32 %x, %x, %i;
{chr(10).join(lines)}
ret;
}}
"""


class SweepMachine(Protocol):
    """Applies opcodes of one f32 operand to bits in a row."""

    @property
    def description(self) -> str:
        """What it is, for people."""
        ...

    def results(self, opcodes: Sequence[str], base: int, count: int) -> list[U32]:
        """The results of each opcode for the bits from `base` on; they are overwritten by the next call."""
        ...


def kernel_of(opcode: str) -> Kernel:
    """What the emulator's row of an opcode computes."""

    form, modifiers = find(opcode, missing)
    if form.kernel is None:
        missing(f"`{opcode}` does more than compute")
    return form.kernel(modifiers)


def missing(what: str) -> NoReturn:
    """An opcode that the emulator does not have, or not as one that computes from registers alone."""
    raise LookupError(what)


class EmulatedSweeps:
    """The rows of the emulator, without threads."""

    @property
    def description(self) -> str:
        return "emulator"

    @np.errstate(all="ignore")
    def results(self, opcodes: Sequence[str], base: int, count: int) -> list[U32]:
        found = [np.empty(count, np.uint32) for _ in opcodes]
        kernels = [kernel_of(opcode) for opcode in opcodes]
        for first in range(0, count, SLICE):
            x = np.arange(base + first, base + min(count, first + SLICE), dtype=np.uint32).view(np.float32)
            for kernel, out in zip(kernels, found, strict=True):
                out[first : first + len(x)] = np.asarray(kernel(x)).view(np.uint32)
        return found


class GpuSweeps:
    """A GPU; results come back through memory that its copies reach directly."""

    def __init__(self, ordinal: int) -> None:
        self.device = CudaDevice(ordinal)
        self._call = self.device.driver.call
        self._functions: dict[tuple[Any, ...], Any] = {}
        self._place, self._host = 0, np.empty(0, np.uint32)

    @property
    def description(self) -> str:
        """The GPU's name and capability."""
        return self.device.description

    def results(self, opcodes: Sequence[str], base: int, count: int) -> list[U32]:
        with self.device.driver.current(self.device.context):
            self._reserve(len(opcodes) * count)
            self._launch(self._function(tuple(opcodes), count), base, count)
            self._call("cuMemcpyDtoH", self._host.ctypes.data, self._place, 4 * len(opcodes) * count)
        return [self._host[n * count : (n + 1) * count] for n in range(len(opcodes))]

    def _function(self, opcodes: tuple[str, ...], count: int) -> Any:
        key = (opcodes, count)
        if key not in self._functions:
            cubin = assemble("k", text(opcodes, self.device.target, count), self.device.target).cubin
            module = self._call("cuModuleLoadData", cubin)
            self._functions[key] = self._call("cuModuleGetFunction", module, b"k")
        return self._functions[key]

    def _reserve(self, size: int) -> None:
        """Memory on both sides for so many results."""
        if size <= len(self._host):
            return
        if len(self._host):
            self._call("cuMemFree", self._place)
        self._place = int(self._call("cuMemAlloc", 4 * size))
        self._host = self._pinned(size)

    def _pinned(self, size: int) -> U32:
        """Host memory that the GPU copies to directly, or any where the driver gives none. (Kept until the end.)"""
        try:
            address = int(self._call("cuMemHostAlloc", 4 * size, 0))
        except CudaError:
            return np.empty(size, np.uint32)
        return np.ctypeslib.as_array((ctypes.c_uint32 * size).from_address(address))

    def _launch(self, function: Any, base: int, count: int) -> None:
        storage = ctypes.create_string_buffer(self._place.to_bytes(8, "little") + base.to_bytes(8, "little"), 16)
        start = ctypes.addressof(storage)
        pointers = (ctypes.c_void_p * 2)(start, start + 8)
        self._call(
            "cuLaunchKernel", function, count // THREADS, 1, 1, THREADS, 1, 1, 0, 0, ctypes.addressof(pointers), 0
        )
        self._call("cuCtxSynchronize")


def sweeps_on(device: str) -> SweepMachine:
    """`cuda`, `cuda:1`, or `emulator:sm_90a`."""
    kind, _, which = device.partition(":")
    return EmulatedSweeps() if kind == "emulator" else GpuSweeps(int(which or 0))
