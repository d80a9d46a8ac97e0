"""Compile small source functions, and look at the IR that comes of them."""

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from tilewright.lang import CompilationError, Module, print_module
from tilewright.lang.dtypes import parse_type
from tilewright.lang.frontend import DeviceFunction, generate


def compile_kernel(function: Callable[..., Any], constants: Mapping[str, Any] | None = None, **types: Any) -> Module:
    """The module of a kernel. `types` are signature strings or types; a parameter without either is an i32."""
    kernel = function if isinstance(function, DeviceFunction) else DeviceFunction(function)
    known = dict(constants or {})
    signature = {
        p.name: parse_type(t) if isinstance(t := types.get(p.name, "i32"), str) else t
        for p in kernel.parameters
        if p.name not in known
    }
    return generate(kernel, signature, known)


def text_of(function: Callable[..., Any], constants: Mapping[str, Any] | None = None, **types: Any) -> str:
    """The IR of a kernel, without locations."""
    return print_module(compile_kernel(function, constants, **types), locations=False)


def names_of(module: Module) -> list[str]:
    """The names of the kernel's operations, outermost first."""
    return [operation.name for operation in module.kernel.walk()]


def mistake(function: Callable[..., Any], constants: Mapping[str, Any] | None = None, **types: Any) -> CompilationError:
    """The error that a kernel is."""
    try:
        compile_kernel(function, constants, **types)
    except CompilationError as error:
        return error
    raise AssertionError(f"{function} has no mistake")


def shown(error: CompilationError, function: Any) -> str:
    """The text of an error with the file as FILE, and line numbers counted from the first line of `function`."""
    plain: FunctionType = getattr(function, "function", function)
    file, first = plain.__code__.co_filename, plain.__code__.co_firstlineno
    text = str(error).replace(file, "FILE")
    lines = sorted({span.line for span in error.spans}, key=lambda n: -len(str(n)))
    for line in lines:
        relative = line - first + 1
        text = text.replace(f"FILE:{line}:", f"FILE:{relative}:").replace(f"{line:>5} |", f"{relative:>5} |")
        text = text.replace(f"at line {line} ", f"at line {relative} ")
    return text
