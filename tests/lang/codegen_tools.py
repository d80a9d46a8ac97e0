"""Compile small source functions, and look at the IR that comes of them."""

import linecache
import re
from collections.abc import Callable, Mapping
from itertools import count
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


def shown(error: CompilationError, *functions: Any) -> str:
    """The text of an error with the file as FILE, and line numbers counted from the `def` of the function they are in.

    `functions` are those that the error goes through, the kernel first.
    """
    captured = [each if isinstance(each, DeviceFunction) else DeviceFunction(each) for each in functions]
    sources = {each.qualified: each.source for each in captured}
    text = str(error)
    for span in error.spans:
        source = sources[span.source]
        line = span.line - source.line(source.tree) + 1
        text = text.replace(f"{span.file}:{span.line}:", f"FILE:{line}:").replace(f"{span.line:>5} |", f"{line:>5} |")
    kernel = captured[0].source
    return re.sub(r"line (\d+)", lambda found: f"line {int(found[1]) - kernel.line(kernel.tree) + 1}", text)


_numbers = count()


def from_text(text: str, **names: Any) -> Any:
    """The function `f` of a source text, which `inspect` can find."""
    file = f"<source {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "texts", **names}
    exec(compile(text, file, "exec"), space)
    return space["f"]
