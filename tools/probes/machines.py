"""What a probe runs on: a GPU through the runtime's device, or the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

from numpy.typing import NDArray

from tilewright.compiler import assemble
from tilewright.interpreter import Buffer, Options, load_ptx, run_ptx
from tilewright.lang import Module
from tilewright.runtime import Artifact, CompileOptions, CudaDevice, array_argument

Array = NDArray[Any]


class Machine(Protocol):
    """Runs the entry `k` of a PTX text on arrays, of which it writes the last."""

    target: str

    def run(self, ptx: str, blocks: int, threads: int, arrays: Sequence[Array]) -> None: ...


class Emulator:
    """The emulator, with matrix products added as a target's hardware does."""

    def __init__(self, target: str) -> None:
        self.target = target

    def run(self, ptx: str, blocks: int, threads: int, arrays: Sequence[Array]) -> None:
        buffers = [Buffer.of(name, array) for name, array in zip("abcdefgh", arrays, strict=False)]
        run_ptx(load_ptx(ptx), "k", (blocks,), (threads,), buffers, Options(mma="hardware"))


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

    def run(self, ptx: str, blocks: int, threads: int, arrays: Sequence[Array]) -> None:
        for array in arrays[:-1]:
            array.flags.writeable = False  # so that it is not copied back
        handle = self._loaded.get(ptx)
        if handle is None:
            handle = self._loaded[ptx] = self.device.load(self._artifact(ptx, threads, len(arrays)))
        with self.device.memory([array_argument(array) for array in arrays]) as payload:
            self.device.launch(handle, (blocks, 1, 1), payload, CompileOptions())

    def _artifact(self, ptx: str, threads: int, parameters: int) -> Artifact:
        facts = {
            "threads": threads, "dynamic_shared": 0, "cooperative": False,
            "parameters": ["ptr<i8>"] * parameters, "parameter_names": list("abcdefgh"[:parameters]),
        }  # fmt: skip
        cubin = assemble("k", ptx, self.target).cubin
        return Artifact("probe", "k", self.target, {"ptx": ptx, "cubin": cubin}, facts, _no_module)


def _no_module() -> Module:
    raise LookupError("a probe is made of PTX and has no tile IR")


def machine_named(name: str) -> Machine:
    """`cuda`, `cuda:1`, or `emulator:sm_90a`."""
    kind, _, which = name.partition(":")
    return Emulator(which or "sm_90a") if kind == "emulator" else Gpu(int(which or 0))
