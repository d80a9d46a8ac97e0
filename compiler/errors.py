"""Mistakes that show only when a kernel is compiled. One class a mistake, as in the catalogue of `lang/errors/`."""

from __future__ import annotations

from tilewright.lang import CompilationError, Location, Operation


class UnknownTarget(CompilationError):
    """A target that no row describes."""

    message = "there is no target {name!r}"
    expected = "one of {known}"


class BadOption(CompilationError):
    """A compile option has a value that it does not take."""

    message = "{option}={value!r} is not possible"
    expected = "{expected}"


class LoweringError(CompilationError):
    """A kernel is well formed, but compiled code for it cannot be made. `location` is the place in its source."""

    def __init__(self, operation: Operation, **facts: object) -> None:
        self.location: Location = operation.location
        self.operation = operation.name
        super().__init__(op=operation.name, where=str(operation.location), **facts)


class NotCompiledYet(LoweringError):
    """An operation, or a form of it, has no lowering."""

    message = "{where}: {op}{form} is not compiled yet"
    hint = "the interpreter runs it: launch with device 'interpreter'"


class NotOnTarget(LoweringError):
    """The target lacks an instruction that the operation is lowered to."""

    message = "{where}: {op}{form} needs sm_{sm} and PTX {ptx}; {target} has less"


class RegistersExceeded(LoweringError):
    """A tile asks for so many registers of each thread that keeping the rest in memory does not help."""

    message = "{where}: {op} makes {type}: {words} registers in each of {threads} threads, which have {available}"
    hint = "take smaller tiles, or more warps; up to {most} are tried, those that are too many in local memory"


class SharedMemoryExceeded(LoweringError):
    """A kernel needs more shared memory than a block of the target has."""

    message = "{where}: {op} needs shared memory up to byte {bytes}; {target} has {limit}:\n{table}"
    hint = "lower num_stages, or take smaller tiles"


class NoAssembler(CompilationError):
    """The assembler library is not installed, or too old to load."""

    message = "no assembler: {problem}"
    hint = "install nvidia-nvjitlink, or ask for PTX only"


class AssemblerError(CompilationError):
    """The assembler refused the PTX for a reason that is the kernel's: it needs too much of something."""

    message = "the assembler refused {name} for {target}: {log}"
