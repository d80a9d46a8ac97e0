"""A compiled kernel as its users see it: its stages, its key, and what it uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.lang import Module

from .artifact import RESOURCES, Artifact
from .grid import Grid
from .kernels import JITFunction, Launcher
from .options import CompileOptions

if TYPE_CHECKING:
    from .devices import Device


class CompiledKernel:
    """A kernel under one specialization: its code, its key, and the device that runs it.

    `assumptions` says for each parameter what it was compiled for: `*fp32:16`, `i32`, `constexpr 64`.
    """

    def __init__(
        self,
        kernel: JITFunction,
        key: str,
        artifact: Artifact,
        device: Device,
        options: CompileOptions,
        assumptions: Mapping[str, str],
    ) -> None:
        self.kernel = kernel
        self.name = kernel.name
        self.key = key
        self.artifact = artifact
        self.device = device
        self.options = options
        self.assumptions = assumptions

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {text}" for name, text in self.assumptions.items())
        return f"<CompiledKernel {self.name}({shown}) on {self.device.name}>"

    @cached_property
    def handle(self) -> Any:
        """The kernel as its device launches it; loaded when first needed. Raises DeviceError and CudaError."""
        return self.device.load(self.artifact)

    def __getitem__(self, grid: Grid) -> Callable[..., CompiledKernel]:
        """Launch it, as Triton has it: `kernel.warmup(...)[grid](every argument in order, constexprs too)`.

        The device and the options are those that it was compiled for; arguments of another kind go to another
        specialization, as in every launch.
        """
        given = {field.name: getattr(self.options, field.name) for field in fields(CompileOptions)}
        return partial(Launcher(self.kernel, grid, self.device.name), **given)

    def _init_handles(self) -> None:
        """Load it, by Triton's name for that."""
        _ = self.handle

    @property
    def asm(self) -> Mapping[str, str | bytes]:
        """The kernel at each level by the names that people know; what nobody needed yet is made when it is read."""
        return self.artifact.asm

    @property
    def module(self) -> Module:
        """The kernel as the frontend made it."""
        return self.artifact.module

    @property
    def hash(self) -> str:
        """The key, under Triton's name."""
        return self.key

    @property
    def metadata(self) -> KernelMetadata:
        """What the kernel was made for, and what it uses. Raises NoAssembler where no assembler can tell."""
        if "cubin" in self.asm:
            self.artifact.stage("cubin")
        facts = self.artifact.facts
        used = {name: int(facts.get(name, 0)) for name in RESOURCES} | {"shared": int(facts.get("dynamic_shared", 0))}
        trees = tuple((line, axis, tuple(bits)) for line, axis, bits in facts.get("trees", ()))
        options = {name: getattr(self.options, name) for name in ("num_warps", "num_stages", "num_ctas")}
        return KernelMetadata(self.name, self.key, self.artifact.target, **options, **used, trees=trees)

    @property
    def n_regs(self) -> int:
        """Registers of one thread; 0 where nothing was compiled."""
        return self.metadata.registers

    @property
    def n_spills(self) -> int:
        """Bytes that one thread stores and loads because registers ran out."""
        return self.metadata.spills


class KernelMetadata(NamedTuple):
    """Facts about a compiled kernel: registers, stack and spilled bytes of a thread, shared bytes of a block.

    `trees` has for each reduction its line, its axis and the bits of the index, in the order in which they are folded.
    """

    name: str
    hash: str
    target: str
    num_warps: int
    num_stages: int
    num_ctas: int
    registers: int
    stack: int
    spills: int
    shared: int
    trees: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
