"""Run the harness's cases as compiled code: wrapped into kernels, compiled, and executed; by the PTX emulator here."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tests.compiler.building import Kernel
from tilewright.compiler import Compiled, compile_module
from tilewright.compiler.clone import clone_module
from tilewright.difftest import Case, Outcome
from tilewright.difftest.storage import dtype_of
from tilewright.interpreter import Buffer, Options
from tilewright.interpreter.ptx import load_ptx, run_ptx
from tilewright.lang import I64, OPS, Module, PointerType, TileType, Type, Value, element_of, shape_of, with_shape

Array = np.ndarray[Any, Any]
Grid = tuple[int, int, int]


def launch(
    compiled: Compiled, arguments: Sequence[Any], grid: tuple[int, int, int], options: Options | None = None
) -> str:
    """Run a compiled kernel on buffers and numbers, in the emulator; what it printed."""
    printed = io.StringIO()
    threads = 32 * compiled.metadata.num_warps
    module = load_ptx(str(compiled.stages["ptx"]))
    shared = compiled.metadata.shared
    run_ptx(module, compiled.metadata.name, grid, (threads, 1, 1), arguments, options, shared, stdout=printed)
    return printed.getvalue()


#: Compiles a kernel and runs it on a grid, with arrays, which it changes, and numbers of shape (); what it printed.
Execute: TypeAlias = Callable[[Module, Sequence[Array], Grid], str]


def run_emulated(case: Case, target: str, num_warps: int) -> Outcome:
    """A case as PTX. Raises what compiling raises."""

    def execute(module: Module, arrays: Sequence[Array], grid: Grid) -> str:
        compiled = compile_module(module, target, num_warps, until="ptx")
        given = [Buffer.of(f"b{i}", each) if each.ndim else each.tobytes() for i, each in enumerate(arrays)]
        return launch(compiled, given, grid)

    return run_case(case, execute)


def run_case(case: Case, execute: Execute) -> Outcome:
    """A case as compiled code, wherever `execute` runs it."""
    copies = [np.array(array, order="C") for array in case.arguments]
    if not case.function:
        output = execute(case.module, copies, case.grid)
        return Outcome(tuple(copy for copy in copies if copy.ndim), output=output)
    types, programs = case.entry.result_types, case.programs
    results = [np.zeros((programs, *shape_of(type_)), dtype_of(element_of(type_))) for type_ in types]
    output = execute(wrapped(case), [array.reshape(-1) for array in (*copies, *results)], (programs, 1, 1))
    return Outcome(tuple(results), output=output)


def wrapped(case: Case) -> Module:
    """A kernel that loads a program's row of each argument, calls the case's function, and stores its results."""
    kernel = Kernel("wrapped")
    entry = case.entry
    sources = [kernel.pointer(in_memory(p.type), divisibility=1) for p in entry.arguments]
    sinks = [kernel.pointer(in_memory(type_), divisibility=1) for type_ in entry.result_types]
    program = kernel.make("program_id", attributes={"axis": 0})
    first = kernel.constant(0)
    values: list[Value] = []
    for pointer, parameter, array in zip(sources, entry.arguments, case.arguments, strict=True):
        row = program if len(array) > 1 else first
        loaded = kernel.make("load", [kernel.at(pointer, places(kernel, row, parameter.type))])
        values.append(as_value(kernel, loaded, parameter.type))
    call = kernel.builder.create(OPS["call"], values, {"callee": entry.name}, entry.result_types)
    for pointer, result in zip(sinks, call.results, strict=True):
        kernel.do("store", [kernel.at(pointer, places(kernel, program, result.type)), as_memory(kernel, result)])
    module = kernel.module()
    for function in list(clone_module(case.module).functions.values())[1:]:
        module.add(function)
    return module


def in_memory(type_: Type) -> Any:
    """What stands in a buffer for an element."""
    return I64 if isinstance(element_of(type_), PointerType) else element_of(type_)


def as_value(kernel: Kernel, loaded: Value, type_: Type) -> Value:
    return kernel.make("int_to_ptr", [loaded], type_) if isinstance(element_of(type_), PointerType) else loaded


def as_memory(kernel: Kernel, value: Value) -> Value:
    if not isinstance(element_of(value.type), PointerType):
        return value
    return kernel.make("ptr_to_int", [value], with_shape(I64, shape_of(value.type)))


def places(kernel: Kernel, row: Value, type_: Type) -> Value:
    """The index in a buffer of each element of a program's row."""
    if not isinstance(type_, TileType):
        return row
    start = kernel.make("mul_i", [row, kernel.constant(type_.numel)])
    flat = kernel.make("arange", attributes={"start": 0, "end": type_.numel})
    shaped = kernel.make("reshape", [flat], attributes={"shape": type_.shape}) if len(type_.shape) > 1 else flat
    return kernel.make("add_i", [kernel.splat(start, type_.shape), shaped])
