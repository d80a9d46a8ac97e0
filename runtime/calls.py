"""What a kernel does when it is called: bind, specialize, compile once, launch.

A call like an earlier one takes the short way of `warm.py`, past all but the launch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

# What `lang` imports late is reached through it: `lang.generate`.
from tilewright import lang
from tilewright.lang import (
    CompilationError,
    DeviceFunction,
    FrontendOptions,
    Module,
    Parameter,
    TilewrightError,
    constexpr,
    knobs,
    plain,
    unwrap,
)

from ._lazy import explain, profile_of, profiled_device
from .annotations import annotated_types
from .arguments import stand_in
from .artifact import Request
from .compiled import CompiledKernel
from .devices import Device, choose_device
from .encoding import encode
from .errors import ArgumentError, did_you_mean
from .grid import Extents, Grid, resolve_grid
from .key import kernel_key
from .options import OPTION_NAMES, CompileOptions, split_options
from .recent import Recent
from .specialization import Bound, Rules, Specialization, describe, specialize
from .warm import Call, Plans

if TYPE_CHECKING:
    from tilewright.interpreter import Counters

    from .kernels import JITFunction
    from .profile import Profile

#: Specializations that one kernel holds: more than an autotuner tries for one shape, and no burden at 30 kB each (a
#: small kernel; 90 kB in the emulator). What falls out is read from the disk when it is called again.
HELD = 128
#: What is told of each launch on a device that counts: the kernel, the grid's extents, and what was executed.
LISTENERS: list[Callable[[CompiledKernel, Extents, Counters], None]] = []


class Calls:
    """One kernel's calls: the rules for its arguments, and the specializations that it holds, those used last."""

    def __init__(self, kernel: JITFunction) -> None:
        self.kernel = kernel
        self.rules = {
            p.name: Rules(p.name not in kernel.unspecialized, p.name not in kernel.unaligned, p.is_const)
            for p in kernel.parameters
        }
        self.annotated = annotated_types(kernel)
        self.compiled: Recent[tuple[str, str], CompiledKernel] = Recent(HELD)
        self.plans = Plans(kernel, self.annotated)

    # --- the two kinds of call ---

    def run(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any], grid: Grid, device: str, stream: Any
    ) -> CompiledKernel:
        """Launch; see JITFunction.run."""
        call = self.plans.call(arguments, keywords, device)
        plan = call and self.plans.find(call)
        kernel = plan and self.compiled.get(plan.place)
        if call is None or plan is None or kernel is None:
            return self._run_anew(call, arguments, keywords, grid, device, stream)
        extents = resolve_grid(grid, self._seen(call.values) if callable(grid) else {})
        if 0 not in extents:
            self._launch(kernel, extents, plan.payload(call.values), stream, plan.is_direct)
        return kernel

    def _run_anew(
        self,
        call: Call | None,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        grid: Grid,
        device: str,
        stream: Any,
    ) -> CompiledKernel:
        """Launch the full way, and remember the call."""
        kernel, extents, specialization = self._prepare(arguments, keywords, grid, device)
        payload = specialization.payload
        is_direct = kernel.device.takes(payload)
        if call is not None:
            self.plans.remember(call, kernel, specialization, is_direct)
        if 0 not in extents:
            self._launch(kernel, extents, payload, stream, is_direct)
        return kernel

    def warmup(self, arguments: Sequence[Any], keywords: Mapping[str, Any], grid: Grid, device: str) -> CompiledKernel:
        """Compile and load; see JITFunction.warmup."""
        parameters = self.kernel.parameters
        constants = {parameter.name for parameter in parameters if parameter.is_constexpr}
        constant = [parameter.is_constexpr for parameter in parameters] + [False] * len(arguments)
        given = [v if fixed else stand_in(v) for v, fixed in zip(arguments, constant, strict=False)]
        named = {name: v if name in constants else stand_in(v) for name, v in keywords.items()}
        kernel, _, _ = self._prepare(given, named, grid, device)
        _ = kernel.handle
        return kernel

    def profile(self, arguments: Sequence[Any], keywords: Mapping[str, Any], grid: Grid, device: str) -> Profile:
        """Launch and count; see JITFunction.profile."""
        kernel, extents, specialization = self._prepare(arguments, keywords, grid, profiled_device(device))
        ran = None if 0 in extents else self._launch(kernel, extents, specialization.payload, None, False)
        return profile_of(kernel, extents, ran)

    def _prepare(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any], grid: Grid, device: str
    ) -> tuple[CompiledKernel, Extents, Specialization]:
        """The kernel for a call, the grid's extents, and the assumptions with what is passed to the kernel."""
        given, keywords = split_options(keywords, self.plans.names[len(arguments) :])
        options = CompileOptions(**given)
        if self.kernel.debug:
            options = replace(options, debug=True)
        bound = self.bind(arguments, keywords)
        extents = resolve_grid(grid, self._seen(bound.values()))
        specialization = self.specialize(bound)
        chosen = choose_device(device, specialization.payload)
        return self.compile(specialization, options, chosen), extents, specialization

    def _seen(self, values: Iterable[Any]) -> dict[str, Any]:
        """The arguments by name, as a grid sees them."""
        return {name: _plain(value) for name, value in zip(self.plans.names, values, strict=True)}

    # --- the full way, step by step ---

    def bind(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The value of each parameter, in order. Raises ArgumentError."""
        kernel = self.kernel
        for name in keywords:
            if name not in kernel.signature.parameters:
                hint = did_you_mean(name, [*kernel.signature.parameters, *OPTION_NAMES])
                raise ArgumentError(f"{kernel.name} has no parameter or option {name!r}", hint)
        try:
            bound = kernel.signature.bind(*arguments, **keywords)
        except TypeError as error:
            shown = f"it is declared as {kernel.name}{kernel.show_signature()}"
            raise ArgumentError(f"{kernel.name}: {error}", shown) from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def specialize(self, bound: Mapping[str, Any]) -> Specialization:
        """The assumptions that these arguments lead to. Raises ArgumentError naming the parameter."""
        specialized: dict[str, Bound] = {}
        for parameter in self.kernel.parameters:
            try:
                specialized[parameter.name] = self._specialize_one(parameter, bound[parameter.name])
            except ArgumentError as error:
                raise ArgumentError(f"{self.kernel.name}: argument {parameter.name}: {error}") from None
        return Specialization(specialized)

    def _specialize_one(self, parameter: Parameter, value: Any) -> Bound:
        if parameter.is_constexpr:
            return Bound(constexpr(_plain(value)))
        return specialize(value, self.annotated.get(parameter.name), self.rules[parameter.name])

    def compile(self, specialization: Specialization, options: CompileOptions, device: Device) -> CompiledKernel:
        """The kernel under these assumptions, held from before or compiled now. Raises CompilationError."""
        key = self._key(specialization, options, device.target)
        kernel = self.compiled.get((key, device.name))
        if kernel is None:
            try:
                artifact = device.compile(Request(key, options, self._maker(specialization, options)))
            except CompilationError as error:
                self._explain(error)
                raise
            if knobs.print_ir:
                print(artifact.stage("ttir"), file=sys.stderr)
            assumptions = {name: describe(bound) for name, bound in specialization.bound.items()}
            kernel = CompiledKernel(self.kernel, key, artifact, device, options, assumptions)
            self.compiled.put((key, device.name), kernel)
        return kernel

    def _maker(self, specialization: Specialization, options: CompileOptions) -> Callable[[], Module]:
        """What makes the IR. It holds the assumptions and not the arguments, which may be large."""
        kernel = self.kernel
        signature, constants, attributes = (
            specialization.signature,
            specialization.constants,
            specialization.attributes,
        )
        frontend = FrontendOptions(options.debug or knobs.debug, options.sanitize_overflow)
        return lambda: lang.generate(kernel, signature, constants, attributes, frontend)

    def _key(self, specialization: Specialization, options: CompileOptions, target: str) -> str:
        try:
            return kernel_key(self.kernel, specialization, options, target)
        except ArgumentError as error:
            names = [name for name, value in specialization.constants.items() if not is_encodable(value)]
            blame = f"argument {names[0]}" if names else "a captured value"
            raise ArgumentError(f"{self.kernel.name}: {blame}: {error}") from None

    def _launch(
        self, kernel: CompiledKernel, extents: Extents, payload: Sequence[Any], stream: Any, is_direct: bool
    ) -> Counters | None:
        handle, device = kernel.handle, kernel.device
        try:
            if is_direct:
                counters = device.launch(handle, extents, payload, kernel.options, stream)
            else:
                with device.memory(payload) as reachable:
                    counters = device.launch(handle, extents, reachable, kernel.options, stream)
        except TilewrightError as error:
            self._explain(error)
            raise
        if counters is not None:
            for listener in tuple(LISTENERS):  # another thread may end its recording
                listener(kernel, extents, counters)
        return counters

    def _explain(self, error: TilewrightError) -> None:
        """Show an error with the source of the kernel, and of the functions that it reaches."""
        explain(error, self.functions())

    def functions(self) -> list[DeviceFunction]:
        """The kernel, and the functions that it reaches."""
        reached = (d.value for d in lang.dependencies(self.kernel) if isinstance(d.value, DeviceFunction))
        return [self.kernel, *reached]


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
