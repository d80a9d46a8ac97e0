"""The levels at which a case can run. Any two of them can be compared."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from tilewright.interpreter import (
    Argument,
    Buffer,
    DeadlockError,
    DeviceAssertError,
    InterpreterError,
    MemoryAccessError,
    Options,
    ZeroStepError,
    execute,
    run_function,
)
from tilewright.lang import parse_module, print_module, structurally_equal, verify

from .cases import Case, Outcome

Level: TypeAlias = Callable[[Case], Outcome]

#: How the interpreter's errors are called in an outcome.
_KINDS: dict[type[InterpreterError], str] = {
    MemoryAccessError: "memory",
    DeviceAssertError: "assert",
    ZeroStepError: "step",
    DeadlockError: "deadlock",
}


class RoundTripError(AssertionError):
    """A module that does not come back from its text as it was."""


def run_ttir(case: Case) -> Outcome:
    """The case in the interpreter's batched executor (or its coroutines)."""
    printed = io.StringIO()
    options = Options(stdout=printed)
    try:
        results = _run_function(case, options) if case.function else _run_kernel(case, options)
    except InterpreterError as error:
        if type(error) not in _KINDS:
            raise
        return Outcome(stopped=_KINDS[type(error)])
    return Outcome(results, output=printed.getvalue())


def _run_function(case: Case, options: Options) -> tuple[Any, ...]:
    return tuple(run_function(case.module, case.function, case.arguments, options))


def _run_kernel(case: Case, options: Options) -> tuple[Any, ...]:
    """Run on copies of the buffers, which are the results."""
    copies = [np.array(array) for array in case.arguments]
    parameters = case.entry.arguments
    given: list[Argument] = [
        Buffer.of(parameter.name, copy) if copy.ndim else copy.item()
        for parameter, copy in zip(parameters, copies, strict=True)
    ]
    execute(case.module, given, case.grid, options)
    return tuple(copy for copy in copies if copy.ndim)


def run_text(case: Case) -> Outcome:
    """The same from the module's text: printed, parsed back, verified. Raises RoundTripError if that changes it."""
    text = print_module(case.module)
    module = parse_module(text)
    verify(module)
    if not structurally_equal(case.module, module) or print_module(module) != text:
        raise RoundTripError(f"this module does not come back from its text:\n{text}")
    return run_ttir(replace(case, module=module))


LEVELS: dict[str, Level] = {"ttir": run_ttir, "text": run_text}
