"""What a probe runs on: a GPU through the runtime's device, or the emulator."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler import assemble
from tilewright.interpreter import Buffer, Options, load_ptx, run_ptx
from tilewright.lang import Module
from tilewright.runtime import (
    ArgumentError,
    ArrayArgument,
    Artifact,
    CompileOptions,
    CudaDevice,
    CudaError,
    EmulatorDevice,
    Im2colMap,
    TensorMap,
    array_argument,
)
from tilewright.runtime.devices.cuda_tensor_map import driven_im2col_map, driven_tensor_map

Array = NDArray[Any]

_MAP = 128
"""Bytes of a tensor map, and of a parameter that holds one."""
_NAMES = "abcdefgh"
_PAGE = 1 << 16
"""Where an array may be that is never touched, and its size."""


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """A tensor map as an argument: of which array, and what else a `TensorMap` has, by its names there."""

    array: Array
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: str = "none"
    swizzle: str = "none"
    l2_promotion: str = "none"
    fill: str = "zero"

    def at(self, address: int) -> TensorMap:
        """The map of the array where it lies on a device."""
        return TensorMap(
            self.dtype, address, self.shape, self.strides, self.box, self.element_strides, self.interleave,
            self.swizzle, self.l2_promotion, self.fill,
        )  # fmt: skip

    def ours(self, address: int | None = None) -> bytes:
        """As the emulator has it. Raises ArgumentError."""
        return _EMULATOR.encode_tensor_map(self.at(self.array.ctypes.data if address is None else address))


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A tensor map of columns of pixels as an argument: of which array, and what it says whatever the address."""

    array: Array
    tensor: Im2colMap

    def at(self, address: int) -> Im2colMap:
        """The map of the array where it lies on a device."""
        return replace(self.tensor, address=address)

    def ours(self, address: int | None = None) -> bytes:
        """As the emulator has it. Raises ArgumentError."""
        return _EMULATOR.encode_im2col_map(self.at(self.array.ctypes.data if address is None else address))


_EMULATOR = EmulatorDevice()

Argument = Array | Map | Columns


class Machine(Protocol):
    """Runs the entry `k` of a PTX text on arrays and tensor maps, of which it writes the last."""

    target: str

    def run(self, ptx: str, blocks: int, threads: int, arguments: Sequence[Argument]) -> None: ...


class Emulator:
    """The emulator, with matrix products added as a target's hardware does."""

    def __init__(self, target: str, seed: int = 0, checks: bool = True) -> None:
        self.target, self.seed, self.checks = target, seed, checks
        self._loaded: dict[str, Any] = {}

    def run(self, ptx: str, blocks: int, threads: int, arguments: Sequence[Argument]) -> None:
        module = self._loaded.get(ptx)
        if module is None:
            self._loaded.clear()  # the last one is enough: what is run again is run at once
            module = self._loaded[ptx] = load_ptx(ptx)
        maps = [x for x in arguments if not isinstance(x, np.ndarray)]
        reachable = [x.array for x in maps if not _among(x.array, arguments)]
        given = [
            Buffer.of(name, x) if isinstance(x, np.ndarray) else x.ours()
            for name, x in zip(_NAMES, arguments, strict=False)
        ]
        run_ptx(
            module, "k", (blocks,), (threads,), given, Options(mma="hardware", seed=self.seed),
            checks=self.checks, reachable=[Buffer.of("array", array) for array in reachable],
        )  # fmt: skip

    def refusal(self, tensor: Map | Columns, offset: int) -> str:
        """Why a tensor map of an array so many bytes further on cannot be made, empty if it can."""
        try:
            tensor.ours(_PAGE + offset)
        except ArgumentError as error:
            return str(error).partition("tensor map: ")[2].partition("\n")[0]
        return ""


class Gpu:
    """A GPU; kernels are kept loaded."""

    def __init__(self, ordinal: int) -> None:
        self.device = CudaDevice(ordinal)
        self.target = self.device.target
        self._loaded: dict[str, Any] = {}

    @cached_property
    def description(self) -> str:
        """The GPU's name and capability."""
        return self.device.description

    def run(self, ptx: str, blocks: int, threads: int, arguments: Sequence[Argument]) -> None:
        handle = self._loaded.get(ptx)
        if handle is None:
            handle = self._loaded[ptx] = self.device.load(self._artifact(ptx, threads, len(arguments)))
        arrays = [x if isinstance(x, np.ndarray) else x.array for x in arguments]
        places = [_place(x, number == len(arrays) - 1) for number, x in enumerate(arrays)]
        with self.device.memory(places) as payload:
            if not all(isinstance(x, np.ndarray) for x in arguments):
                self._launch(handle.function, blocks, threads, arguments, [part.address for part in payload])
            else:
                self.device.launch(handle, (blocks, 1, 1), payload, CompileOptions())

    def refusal(self, tensor: Map | Columns, offset: int) -> str:
        """Why the driver makes no tensor map of an array so many bytes further on, empty if it does."""
        driver = self.device.driver
        with driver.current(self.device.context):
            place = driver.call("cuMemAlloc", _PAGE)
            try:
                self._driven(tensor, int(place) + offset)
            except CudaError as error:
                return error.code
            finally:
                driver.call("cuMemFree", place)
        return ""

    def _driven(self, tensor: Map | Columns, address: int) -> bytes:
        """What the driver makes of a map, whatever our own rules say. Raises CudaError."""
        driver = self.device.driver
        with driver.current(self.device.context):
            if isinstance(tensor, Map):
                return driven_tensor_map(driver, tensor.at(address))
            return driven_im2col_map(driver, tensor.at(address))

    def _launch(
        self, function: Any, blocks: int, threads: int, arguments: Sequence[Argument], addresses: Sequence[int]
    ) -> None:
        """A launch with tensor maps among the parameters, each of which gets as many bytes as a map."""
        driver = self.device.driver
        packed = b"".join(
            at.to_bytes(8, "little").ljust(_MAP, b"\0") if isinstance(x, np.ndarray) else self._driven(x, at)
            for x, at in zip(arguments, addresses, strict=True)
        )
        storage = ctypes.create_string_buffer(packed, len(packed))
        start = ctypes.addressof(storage)
        pointers = (ctypes.c_void_p * len(arguments))(*range(start, start + len(packed), _MAP))
        with driver.current(self.device.context):
            driver.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, 0, ctypes.addressof(pointers), 0)

    def _artifact(self, ptx: str, threads: int, parameters: int) -> Artifact:
        facts = {
            "threads": threads, "dynamic_shared": 0, "cooperative": False,
            "parameters": ["ptr<i8>"] * parameters, "parameter_names": list(_NAMES[:parameters]),
        }  # fmt: skip
        cubin = assemble("k", ptx, self.target).cubin
        return Artifact("probe", "k", self.target, {"ptx": ptx, "cubin": cubin}, facts, _no_module)


def _place(array: Array, written: bool) -> ArrayArgument:
    """An array as the runtime takes it; only what is written is copied back."""
    found = array_argument(array)
    assert found is not None
    return found._replace(readonly=not written)


def _among(array: Array, arguments: Sequence[Argument]) -> bool:
    return any(x is array for x in arguments)


def _no_module() -> Module:
    raise LookupError("a probe is made of PTX and has no tile IR")


def aligned(array: Array, to: int = 128) -> Array:
    """A copy at an address that a tensor map may have."""
    room = np.zeros(array.nbytes + to, np.uint8)
    copy = room[-room.ctypes.data % to :][: array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def machine_named(name: str) -> Machine:
    """`cuda`, `cuda:1`, or `emulator:sm_90a`."""
    kind, _, which = name.partition(":")
    return Emulator(which or "sm_90a") if kind == "emulator" else Gpu(int(which or 0))


kept_machine = cache(machine_named)
"""The machine of a name, one in a process."""
