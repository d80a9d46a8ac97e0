"""`@tilewright.jit`, and what a kernel does when it is called: bind, specialize, compile once, launch."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

# What `lang` imports late is reached through it: `lang.generate`.
from tilewright import lang
from tilewright.lang import (
    CompilerBug,
    DeviceFunction,
    FrontendOptions,
    Module,
    Parameter,
    TilewrightError,
    UnknownTypeName,
    constexpr,
    dtype,
    knobs,
    language,
    parse_type,
    plain,
    unwrap,
)

from ._lazy import encode, explain, kernel_key
from .arguments import stand_in
from .artifact import RESOURCES, Artifact, Request
from .devices import Device, choose_device
from .errors import ArgumentError, OptionError, did_you_mean
from .grid import Extents, Grid, resolve_grid
from .options import OPTION_NAMES, CompileOptions, split_options
from .specialization import Bound, Rules, Specialization, describe, specialize

NAMED_TYPES: dict[str, dtype] = {
    name: getattr(language, name) for name in language.__all__ if isinstance(getattr(language, name), dtype)
}


@dataclass(eq=False)
class CompiledKernel:
    """A kernel under one specialization: its code, its key, and the device that runs it.

    `assumptions` says for each parameter what it was compiled for: `*fp32:16`, `i32`, `constexpr 64`.
    """

    name: str
    key: str
    artifact: Artifact
    device: Device
    options: CompileOptions
    assumptions: Mapping[str, str]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {text}" for name, text in self.assumptions.items())
        return f"<CompiledKernel {self.name}({shown}) on {self.device.name}>"

    @cached_property
    def handle(self) -> Any:
        """The kernel as its device launches it; loaded when first needed. Raises DeviceError and CudaError."""
        return self.device.load(self.artifact)

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
        used = {name: int(self.artifact.facts.get(name, 0)) for name in RESOURCES}
        options = {name: getattr(self.options, name) for name in ("num_warps", "num_stages", "num_ctas")}
        trees = tuple((line, axis, tuple(bits)) for line, axis, bits in self.artifact.facts.get("trees", ()))
        return KernelMetadata(self.name, self.key, self.artifact.target, **options, **used, trees=trees)

    @property
    def n_regs(self) -> int:
        """Registers of one thread; 0 where nothing was compiled."""
        return self.metadata.registers

    @property
    def n_spills(self) -> int:
        """Bytes that one thread stores and loads because registers ran out."""
        return self.metadata.spills


@dataclass(frozen=True, slots=True)
class KernelMetadata:
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


class JITFunction(DeviceFunction):
    """A kernel (or a device function called by kernels): `kernel[grid](*arguments, **options)` launches it.

    Nothing is compiled before the first launch. `do_not_specialize` names parameters (or gives their indices) whose
    values and alignments must not become assumptions; `do_not_specialize_on_alignment` only their alignments.
    `debug` keeps device asserts in every launch of this kernel.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        do_not_specialize: Iterable[int | str] = (),
        do_not_specialize_on_alignment: Iterable[int | str] = (),
        debug: bool = False,
        noinline: bool = False,
        repr: Callable[[Any], str] | None = None,
        launch_metadata: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(function)
        self.debug = debug
        self.noinline = noinline
        self.name_kernel = repr
        self.launch_metadata = launch_metadata
        names = [parameter.name for parameter in self.parameters]
        plain = self._resolve(names, do_not_specialize)
        unaligned = plain | self._resolve(names, do_not_specialize_on_alignment)
        self.rules = {p.name: Rules(p.name not in plain, p.name not in unaligned, p.is_const) for p in self.parameters}
        self._compiled: dict[tuple[str, str], CompiledKernel] = {}

    def _resolve(self, names: Sequence[str], chosen: Iterable[int | str]) -> set[str]:
        resolved: set[str] = set()
        for item in chosen:
            if isinstance(item, int) and -len(names) <= item < len(names):
                resolved.add(names[item])
            elif isinstance(item, str) and item in names:
                resolved.add(item)
            else:
                raise OptionError(f"{self.name} has no parameter {item!r} to leave unspecialized")
        constexprs = {parameter.name for parameter in self.parameters if parameter.is_constexpr}
        if resolved & constexprs:
            raise OptionError(f"{self.name}: {min(resolved & constexprs)} is a constexpr, which is always specialized")
        return resolved

    @property
    def fn(self) -> Callable[..., Any]:
        """The Python function, by Triton's name for it."""
        return self.function

    @property
    def arg_names(self) -> list[str]:
        """The names of the parameters, in order."""
        return [parameter.name for parameter in self.parameters]

    def __getitem__(self, grid: Grid) -> Launcher:
        return Launcher(self, grid, "")

    def on(self, device: str) -> Placed:
        """This kernel, to be launched on that device wherever the data is: `kernel.on("interpreter")[grid](...)`."""
        return Placed(self, device)

    def run(self, *arguments: Any, grid: Grid, device: str = "", stream: Any = None, **keywords: Any) -> CompiledKernel:
        """Launch on the grid; what `kernel[grid](*arguments, **keywords)` does.

        `stream` is where a GPU queues the kernel: a number or an object that has one (by default torch's current
        stream, or the default stream where torch is not in use). Returns the compiled kernel. Raises LaunchError (grid,
        arguments, options, device), CompilationError (a mistake in the kernel), CudaError, and InterpreterError (a
        fault while it ran on the host).
        """
        if stream is not None and "stream" in self.signature.parameters:
            keywords, stream = {**keywords, "stream": stream}, None
        kernel, extents, payload = self._prepare(arguments, grid, device, keywords)
        if 0 not in extents:
            self._launch(kernel, extents, payload, stream)
        return kernel

    def warmup(self, *arguments: Any, grid: Grid = (1,), device: str = "", **keywords: Any) -> CompiledKernel:
        """Compile and load the kernel that these arguments would launch, and launch nothing.

        A dtype (torch's, NumPy's or `tl`'s) in place of an array stands for an aligned array of it, a pointer type for
        itself. Raises what `run` raises before it launches.
        """
        constants = {parameter.name for parameter in self.parameters if parameter.is_constexpr}
        constant = [parameter.is_constexpr for parameter in self.parameters] + [False] * len(arguments)
        given = [v if fixed else stand_in(v) for v, fixed in zip(arguments, constant, strict=False)]
        named = {name: v if name in constants else stand_in(v) for name, v in keywords.items()}
        kernel, _, _ = self._prepare(given, grid, device, named)
        _ = kernel.handle
        return kernel

    def _prepare(
        self, arguments: Sequence[Any], grid: Grid, device: str, keywords: Mapping[str, Any]
    ) -> tuple[CompiledKernel, Extents, list[Any]]:
        """The kernel for a call, the grid's extents, and what is passed to the kernel."""
        given, keywords = split_options(keywords)
        options = CompileOptions(**given)
        if self.debug:
            options = replace(options, debug=True)
        bound = self.bind_launch(arguments, keywords)
        extents = resolve_grid(grid, {name: _plain(value) for name, value in bound.items()})
        specialization = self.specialize(bound)
        chosen = choose_device(device, specialization.payload)
        return self.compile(specialization, options, chosen), extents, specialization.payload

    def bind_launch(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The value of each parameter, in order. Raises ArgumentError."""
        for name in keywords:
            if name not in self.signature.parameters:
                hint = did_you_mean(name, [*self.signature.parameters, *OPTION_NAMES])
                raise ArgumentError(f"{self.name} has no parameter or option {name!r}", hint)
        try:
            bound = self.signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise ArgumentError(
                f"{self.name}: {error}", f"it is declared as {self.name}{self.show_signature()}"
            ) from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def specialize(self, bound: Mapping[str, Any]) -> Specialization:
        """The assumptions that these arguments lead to. Raises ArgumentError naming the parameter."""
        specialized: dict[str, Bound] = {}
        for parameter in self.parameters:
            value = bound[parameter.name]
            try:
                specialized[parameter.name] = self._specialize_one(parameter, value)
            except ArgumentError as error:
                raise ArgumentError(f"{self.name}: argument {parameter.name}: {error}") from None
        return Specialization(specialized)

    def _specialize_one(self, parameter: Parameter, value: Any) -> Bound:
        if parameter.is_constexpr:
            return Bound(constexpr(_plain(value)))
        return specialize(value, self.annotated.get(parameter.name), self.rules[parameter.name])

    @cached_property
    def annotated(self) -> dict[str, dtype]:
        """The type that each parameter's annotation forces, where it names one."""
        found = {parameter.name: annotated_type(parameter.annotation) for parameter in self.parameters}
        return {name: type_ for name, type_ in found.items() if type_ is not None}

    def compile(self, specialization: Specialization, options: CompileOptions, device: Device) -> CompiledKernel:
        """The kernel under these assumptions, compiled at most once. Raises CompilationError."""
        key = self._key(specialization, options, device.target)
        kernel = self._compiled.get((key, device.name))
        if kernel is None:
            artifact = device.compile(Request(key, options, self._maker(specialization, options)))
            if knobs.print_ir:
                print(artifact.stage("ttir"), file=sys.stderr)
            assumptions = {name: describe(bound) for name, bound in specialization.bound.items()}
            kernel = CompiledKernel(self.name, key, artifact, device, options, assumptions)
            self._compiled[key, device.name] = kernel
        return kernel

    def _maker(self, specialization: Specialization, options: CompileOptions) -> Callable[[], Module]:
        """What makes the IR. It holds the assumptions and not the arguments, which may be large."""
        signature, constants, attributes = (
            specialization.signature,
            specialization.constants,
            specialization.attributes,
        )
        frontend = FrontendOptions(options.debug or knobs.debug, options.sanitize_overflow)
        return lambda: lang.generate(self, signature, constants, attributes, frontend)

    def _key(self, specialization: Specialization, options: CompileOptions, target: str) -> str:
        try:
            return kernel_key(self, specialization, options, target)
        except ArgumentError as error:
            names = [name for name, value in specialization.constants.items() if not is_encodable(value)]
            blame = f"argument {names[0]}" if names else "a captured value"
            raise ArgumentError(f"{self.name}: {blame}: {error}") from None

    def _launch(self, kernel: CompiledKernel, extents: Extents, payload: Sequence[Any], stream: Any) -> None:
        handle = kernel.handle
        try:
            with kernel.device.memory(payload) as reachable:
                kernel.device.launch(handle, extents, reachable, kernel.options, stream)
        except TilewrightError as error:
            explain(error, [self, *(d.value for d in lang.dependencies(self) if isinstance(d.value, DeviceFunction))])
            raise


@dataclass(frozen=True, slots=True)
class Placed:
    """A kernel with a device to run on."""

    kernel: JITFunction
    device: str

    def __getitem__(self, grid: Grid) -> Launcher:
        return Launcher(self.kernel, grid, self.device)


@dataclass(frozen=True, slots=True)
class Launcher:
    """A kernel with a grid: call it with the arguments."""

    kernel: JITFunction
    grid: Grid
    device: str

    def __call__(self, *arguments: Any, **keywords: Any) -> CompiledKernel:
        try:
            return self.kernel.run(*arguments, grid=self.grid, device=self.device, **keywords)
        except CompilerBug:
            raise  # here our own frames are what matters
        except TilewrightError as error:
            # A mistake in the kernel or the call: the frames in between are ours and would only hide it.
            raise error.with_traceback(None) from error.__cause__


def _plain(value: Any) -> Any:
    """A compile-time value as the kernel will see it."""
    return plain(unwrap(value))


def is_encodable(value: Any) -> bool:
    """Whether a compile-time value can go into a key."""
    try:
        encode(value)
    except ArgumentError:
        return False
    return True


def _last_name(annotation: str) -> str:
    return annotation.strip("'\" ").rpartition(".")[2]


def annotated_type(annotation: Any) -> dtype | None:
    """The type that an annotation (a dtype, or its name as text) forces on a parameter; None for any other."""
    if isinstance(annotation, dtype):
        return annotation
    if not isinstance(annotation, str):
        return None
    text = _last_name(annotation)
    if text in NAMED_TYPES:
        return NAMED_TYPES[text]
    try:
        return parse_type(text)
    except UnknownTypeName:
        return None


@overload
def jit(function: Callable[..., Any], /) -> JITFunction: ...
@overload
def jit(function: None = None, /, **options: Any) -> Callable[[Callable[..., Any]], JITFunction]: ...
def jit(
    function: Callable[..., Any] | None = None, /, **options: Any
) -> JITFunction | Callable[[Callable[..., Any]], JITFunction]:
    """Turn a Python function into a kernel. For use as a decorator, with or without arguments (see JITFunction).

    Raises CompilationError for functions that can't be kernels, and OptionError for unknown options.
    """
    unknown = set(options) - set(inspect.signature(JITFunction.__init__).parameters) | {"function", "self"} & set(
        options
    )
    if unknown:
        raise OptionError(f"@jit has no option {min(unknown)!r}")
    if function is not None:
        return JITFunction(function, **options)

    def decorate(inner: Callable[..., Any]) -> JITFunction:
        return JITFunction(inner, **options)

    return decorate
