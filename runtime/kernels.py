"""`@tilewright.jit`: kernels as they are declared. What happens when one is called is in `calls.py`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from tilewright.lang import CompilerBug, DeviceFunction, TilewrightError

from ._lazy import calls_of
from .errors import OptionError

if TYPE_CHECKING:
    from .calls import Calls
    from .compiled import CompiledKernel
    from .devices import Device
    from .grid import Grid
    from .options import CompileOptions
    from .profile import Profile
    from .specialization import Specialization


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
        self.unspecialized = self._resolve(do_not_specialize)
        self.unaligned = self.unspecialized | self._resolve(do_not_specialize_on_alignment)
        self._calls_made: Calls | None = None

    def _resolve(self, chosen: Iterable[int | str]) -> frozenset[str]:
        names = self.arg_names
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
        return frozenset(resolved)

    @property
    def fn(self) -> Callable[..., Any]:
        """The Python function, by Triton's name for it."""
        return self.function

    @property
    def arg_names(self) -> list[str]:
        """The names of the parameters, in order."""
        return [parameter.name for parameter in self.parameters]

    @property
    def calls(self) -> Calls:
        """What has been learnt from calls of this kernel; made, and what it needs imported, when first asked for."""
        if self._calls_made is None:
            self._calls_made = calls_of(self)
        return self._calls_made

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
        return self.calls.run(arguments, keywords, grid, device, stream)

    def warmup(self, *arguments: Any, grid: Grid = (1,), device: str = "", **keywords: Any) -> CompiledKernel:
        """Compile and load the kernel that these arguments would launch, and launch nothing.

        A dtype (torch's, NumPy's or `tl`'s) in place of an array stands for an aligned array of it, a pointer type for
        itself. Raises what `run` raises before it launches.
        """
        return self.calls.warmup(arguments, keywords, grid, device)

    def profile(self, *arguments: Any, grid: Grid, device: str = "", **keywords: Any) -> Profile:
        """Launch on the emulator, and tell line by line what was executed and what it asked of memory.

        `device` may name the target: "emulator:sm_80". The arguments hold the results as after `run`, wherever they
        lie. Raises DeviceError for a device that does not count, and what `run` raises.
        """
        return self.calls.profile(arguments, keywords, grid, device)

    def bind_launch(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The value of each parameter, in order. Raises ArgumentError."""
        return self.calls.bind(arguments, keywords)

    def specialize(self, bound: Mapping[str, Any]) -> Specialization:
        """The assumptions that these arguments lead to. Raises ArgumentError naming the parameter."""
        return self.calls.specialize(bound)

    def compile(self, specialization: Specialization, options: CompileOptions, device: Device) -> CompiledKernel:
        """The kernel under these assumptions, kept from before or compiled now. Raises CompilationError."""
        return self.calls.compile(specialization, options, device)


class Placed:
    """A kernel with a device to run on."""

    __slots__ = ("device", "kernel")

    def __init__(self, kernel: JITFunction, device: str) -> None:
        self.kernel = kernel
        self.device = device

    def __getitem__(self, grid: Grid) -> Launcher:
        return Launcher(self.kernel, grid, self.device)

    def warmup(self, *arguments: Any, grid: Grid = (1,), **keywords: Any) -> CompiledKernel:
        """`JITFunction.warmup` for this device."""
        return self.kernel.warmup(*arguments, grid=grid, device=self.device, **keywords)

    def profile(self, *arguments: Any, grid: Grid, **keywords: Any) -> Profile:
        """`JITFunction.profile` on this device."""
        return self.kernel.profile(*arguments, grid=grid, device=self.device, **keywords)


class Launcher:
    """A kernel with a grid: call it with the arguments."""

    __slots__ = ("device", "grid", "kernel")

    def __init__(self, kernel: JITFunction, grid: Grid, device: str) -> None:
        self.kernel = kernel
        self.grid: Grid = grid
        self.device = device

    def __call__(self, *arguments: Any, **keywords: Any) -> CompiledKernel:
        try:
            return self.kernel.run(*arguments, grid=self.grid, device=self.device, **keywords)
        except CompilerBug:
            raise  # here our own frames are what matters
        except TilewrightError as error:
            # A mistake in the kernel or the call: the frames in between are ours and would only hide it.
            raise error.with_traceback(None) from error.__cause__


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
