"""Compiling ahead of time: kernels found in files, and signatures written as Triton's AOT compiler has them.

A signature lists every parameter in order: a type with an optional promise (`*fp32:16`, `i32`, `i32:16`), or a value
known when compiling (`1024`, `0.5`, `True`, `None`, `"tf32"`).

>>> specialize_text("*fp32:16, i32, 1024", ("x", "n", "BLOCK"), frozenset({"BLOCK"})).constants
{'BLOCK': 1024}
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
import traceback
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright.lang import Span, UnknownTypeName, constexpr, dtype, parse_type, pointer_type

from .compiled import CompiledKernel
from .errors import ArgumentError, LaunchError, did_you_mean
from .kernels import JITFunction
from .options import CompileOptions
from .specialization import Bound, Specialization

_PARTS = re.compile(r"""(?:[^,"']|"[^"]*"|'[^']*')+""")


def split_signature(text: str) -> list[str]:
    """The entries of a signature; a comma between quotes separates nothing."""
    return [part.strip() for part in _PARTS.findall(text)] if text.strip() else []


def specialize_text(text: str, parameters: Sequence[str], constexprs: AbstractSet[str]) -> Specialization:
    """The assumptions that a signature writes down. Raises ArgumentError naming the parameter."""
    entries = split_signature(text)
    if len(entries) != len(parameters):
        raise ArgumentError(
            f"the signature has {len(entries)} entries, and the kernel {len(parameters)} parameters",
            f"one for each of {', '.join(parameters)}",
        )
    bound: dict[str, Bound] = {}
    for name, entry in zip(parameters, entries, strict=True):
        bound[name] = _entry(name, entry)
        if name in constexprs and not isinstance(bound[name].type, constexpr):
            raise ArgumentError(f"parameter {name}: {entry!r} is a type, and a constexpr takes a value")
    return Specialization(bound)


def _entry(name: str, entry: str) -> Bound:
    try:
        return Bound(constexpr(ast.literal_eval(entry)))
    except (ValueError, SyntaxError):
        pass  # so it must be a type
    written, _, promise = entry.partition(":")
    type_ = _type(name, entry, written.strip())
    if promise.strip() not in ("", "1", "16"):
        raise ArgumentError(f"parameter {name}: {entry!r} ends in no promise", "it may be :16, or :1 for integers")
    integer = not isinstance(type_, pointer_type) and type_.is_int()
    if promise.strip() == "1" and not integer:
        raise ArgumentError(f"parameter {name}: {entry!r}: only an integer can be 1")
    if promise.strip() == "16" and not (integer or isinstance(type_, pointer_type)):
        raise ArgumentError(f"parameter {name}: {entry!r}: only integers and pointers are multiples of 16")
    if promise.strip() == "1":
        return Bound(constexpr(1))
    return Bound(type_, promise.strip() == "16")


def _type(name: str, entry: str, written: str) -> dtype:
    try:
        return parse_type(written)
    except UnknownTypeName as error:
        raise ArgumentError(
            f"parameter {name}: {entry!r} is neither a type nor a value",
            "types are written like *fp32:16, i32, fp16; values like 1024, True, None",
        ) from error


def load_kernel(place: str) -> JITFunction:
    """The kernel that `path/to/file.py:name` names. The file is run, as an import would.

    Raises LaunchError, also for what is wrong with the file: its cause is the exception that running it raised.
    """
    file, _, name = place.rpartition(":")
    if not file or not name:
        raise LaunchError(f"{place!r} names no kernel", "write path/to/file.py:kernel")
    module = _run(Path(file))
    found = getattr(module, name, None)
    if isinstance(found, JITFunction):
        return found
    if found is not None:
        raise LaunchError(f"{name} in {file} is no kernel", "it must be a function under @tilewright.jit")
    kernels = [n for n, value in vars(module).items() if isinstance(value, JITFunction)]
    raise LaunchError(f"{file} has no kernel {name!r}", did_you_mean(name, kernels) if kernels else "it has none")


def _run(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise LaunchError(f"there is no Python file {str(path)!r}")
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # where dataclasses and pickle look for it
    sys.path.insert(0, str(path.parent.resolve()))  # its neighbours can be imported, as when it is run
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise LaunchError(_told(path, error)) from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module


def _told(path: Path, error: Exception) -> str:
    """What went wrong when a file was run: the last line of the file that it got to, and the exception."""
    what = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    if isinstance(error, SyntaxError) and error.filename is not None and error.lineno is not None:
        file, line, column = error.filename, error.lineno, error.offset or 1
    else:
        passed = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        file, line, column = str(path), passed[-1].lineno or 1 if passed else 1, 1
    text = linecache.getline(file, line).rstrip()
    column = min(max(column, len(text) - len(text.lstrip()) + 1), len(text) + 1)
    span = Span(file, path.stem, line, column, line, len(text) + 1, text)
    return f"{path} cannot be run: {what}\n{span}\n{span.render()}"


def compile_ahead(kernel: JITFunction, signature: str, device: Any, options: CompileOptions) -> CompiledKernel:
    """A kernel compiled for a device's target from a written signature. Raises LaunchError and CompilationError."""
    names = [parameter.name for parameter in kernel.parameters]
    constexprs = frozenset(parameter.name for parameter in kernel.parameters if parameter.is_constexpr)
    return kernel.compile(specialize_text(signature, names, constexprs), options, device)
