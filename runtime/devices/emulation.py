"""A launch in the terms of the PTX emulator. Imported at its first launch, for the interpreter is large."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.interpreter import Counters, encode_im2col_map, encode_tensor_map, load_ptx, run_ptx

from ..arguments import ArrayArgument
from ..artifact import Artifact
from ..grid import Extents
from ..options import CompileOptions
from ..packing import packer
from ..tensor_map import Im2colMap, SomeMap, TensorMap
from .execution import host_buffer, run_options
from .tensor_map_rules import checked_tensor_map, told_as_arguments, values


@dataclass(frozen=True, slots=True)
class EmulatedKernel:
    """Parsed PTX, and how its entry is launched."""

    module: Any
    entry: str
    threads: int
    dynamic_shared: int
    names: tuple[str, ...]
    packers: tuple[Callable[[Any], bytes], ...]


def parsed_ptx(artifact: Artifact) -> EmulatedKernel:
    """A kernel's PTX, ready for `emulate`. Raises PtxError."""
    facts = artifact.facts
    packers = tuple(packer(type_) for type_ in facts["parameters"])
    names = tuple(facts["parameter_names"])
    module = load_ptx(artifact.ptx)
    return EmulatedKernel(module, artifact.name, facts["threads"], facts["dynamic_shared"], names, packers)


def emulate(kernel: EmulatedKernel, grid: Extents, payload: Sequence[Any], options: CompileOptions) -> Counters:
    """Run the kernel on arguments in host memory: what it executed. Raises InterpreterError when a thread fails."""
    arguments = [
        host_buffer(name, part) if isinstance(part, ArrayArgument) else pack(part)
        for name, pack, part in zip(kernel.names, kernel.packers, payload, strict=True)
    ]
    block = (kernel.threads, 1, 1)
    return run_ptx(kernel.module, kernel.entry, grid, block, arguments, run_options(options), kernel.dynamic_shared)


_ENCODERS: dict[type, Callable[..., bytes]] = {TensorMap: encode_tensor_map, Im2colMap: encode_im2col_map}


def emulated_tensor_map(tensor: SomeMap, kind: type[SomeMap]) -> bytes:
    """A tensor map of a kind for the emulator. Raises ArgumentError."""
    checked = checked_tensor_map(tensor, kind)
    with told_as_arguments():
        return _ENCODERS[kind](**values(checked))
