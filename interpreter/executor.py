"""Run kernels: check the arguments, plan the module once, and hand chunks of the grid to the plan.

Programs run in chunks of consecutive ones, x fastest, each chunk as one batch. A chunk is a box of the grid (a piece of
a row, some rows, or some planes), so that the index along an axis stays the same for all its programs if it can.
"""

from __future__ import annotations

import dataclasses
import sys
import weakref
from collections.abc import Iterator, Sequence
from functools import cache
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from tilewright.lang import FloatType, Function, IntType, Module, PointerType, Type, Value, shape_of

from .batch import Batch, Fuel, Grid, Options, Programs
from .control import CONTROL
from .coroutines import RESUMABLE, make_look, run_tasks
from .errors import LaunchError
from .meanings import MEANINGS
from .memory import Buffer, Memory
from .numerics import cast
from .plan import Makers, ModulePlan
from .values import Array, dense, storage, widened

#: What a kernel takes: a buffer for a pointer, a number for a scalar.
Argument: TypeAlias = Buffer | int | float | np.generic

MAKERS = Makers(MEANINGS, CONTROL, RESUMABLE, make_look)
DEFAULTS = Options()


def execute(module: Module, arguments: Sequence[Argument], grid: Grid, options: Options = DEFAULTS) -> None:
    """Run the kernel of a module on every program of the grid.

    arguments: one for each parameter of the kernel: a Buffer for a pointer, a number in range for a scalar. grid: the
    extents along x, y and z; nothing runs if one is 0. Raises LaunchError before anything runs, InterpreterErrors of
    other kinds when a program fails; what was stored until then stays stored.
    """
    memory, values = bind(module.kernel, arguments)
    check_grid(grid)
    if 0 in grid:
        return
    plan = plan_of(module)
    make = BatchMaker(grid, memory, options)
    kernel = plan.function(plan.kernel_name)
    keep_pages()
    with np.errstate(all="ignore"):
        if plan.needs_coroutines:
            run_tasks(kernel, values, make.batches(1), memory, options)
            return
        for batch in make.batches(max(1, options.chunk_bytes // plan.widest)):
            kernel.run(batch, values)


@cache
def keep_pages() -> None:
    """Make glibc keep freed memory for the next tile, instead of giving it back and faulting every page in again.

    It raises its thresholds for that to the size of the largest block (up to 32 MB) that was ever freed. This block is
    never touched, so it costs address space only; elsewhere it does nothing. It more than halves the time of an add.
    """
    np.empty(31 << 20, np.uint8)


def run_function(
    module: Module, name: str, operands: Sequence[Array], options: Options = DEFAULTS, buffers: Sequence[Buffer] = ()
) -> list[Array]:
    """Run one function of a module on given values, and return its results.

    operands: for a parameter of shape s an array of shape (n, *s) or (1, *s) in the storage dtype; the n programs form
    the grid (n, 1, 1) and run as one batch. The results have shape (n, *shape). Raises LaunchError when an operand
    does not fit its parameter.
    """
    function = module.functions[name]
    count = max((len(array) for array in operands), default=1)
    if len(operands) != len(function.arguments):
        raise refusal(function, f"takes {len(function.arguments)} operands, not {len(operands)}")
    for parameter, array in zip(function.arguments, operands, strict=True):
        shape, dtype = shape_of(parameter.type), storage_of(parameter.type)
        if array.dtype != dtype or array.shape[1:] != shape or len(array) not in (1, count):
            want = f"{dtype} of shape (1 or {count}, {', '.join(map(str, shape))})"
            raise refusal(function, f"{label(parameter)} must be {want}, not {array.dtype} of shape {array.shape}")
    make = BatchMaker((count, 1, 1), Memory(buffers), options)
    plan = plan_of(module).function(name)
    with np.errstate(all="ignore"):
        (batch,) = make.batches(count)
        return [np.array(widened(dense(value), count)) for value in plan.run(batch, list(operands))]


class BatchMaker:
    """Cuts the grid of one launch into batches."""

    def __init__(self, grid: Grid, memory: Memory, options: Options) -> None:
        self.grid = grid
        self.memory = memory
        self.options = options
        self.stdout = sys.stdout if options.stdout is None else options.stdout
        self.fuel = Fuel(options.fuel)

    def batches(self, size: int) -> Iterator[Batch]:
        """Batches of up to `size` programs each, in program order."""
        for low, high in boxes(self.grid, size):
            x, y, z = extents = tuple(b - a for a, b in zip(low, high, strict=True))
            index = np.indices((z, y, x), np.int32).reshape(3, -1)
            programs: Programs = (index[2] + np.int32(low[0]), index[1] + np.int32(low[1]), index[0] + np.int32(low[2]))
            one = (extents[0] == 1, extents[1] == 1, extents[2] == 1)
            yield Batch(x * y * z, programs, self.grid, self.memory, self.options, self.stdout, self.fuel, one)


def boxes(grid: Grid, size: int) -> Iterator[tuple[Grid, Grid]]:
    """Cut a grid into boxes [low, high) of about equal size and at most `size` programs, in program order."""
    x, y, z = grid
    for z0, z1 in pieces(z, size // (x * y)):
        for y0, y1 in pieces(y, size // x):
            for x0, x1 in pieces(x, size):
                yield (x0, y0, z0), (x1, y1, z1)


def pieces(extent: int, size: int) -> list[tuple[int, int]]:
    """Cut a range into the fewest pieces of at most `size` (at least 1), as even as can be."""
    count = -(-extent // max(1, size))
    return [(extent * i // count, extent * (i + 1) // count) for i in range(count)]


def check_grid(grid: Grid) -> None:
    """Raise LaunchError unless the grid is three extents that fit i32."""
    if len(grid) != 3 or not all(isinstance(extent, int) and 0 <= extent < 2**31 for extent in grid):
        raise LaunchError(f"a grid is three integers from 0 to 2147483647, not {grid!r}")


def bind(kernel: Function, arguments: Sequence[Argument]) -> tuple[Memory, list[Array]]:
    """The memory and the values that stand for a kernel's arguments. Raises LaunchError."""
    if len(arguments) != len(kernel.arguments):
        raise refusal(kernel, f"takes {len(kernel.arguments)} arguments, not {len(arguments)}")
    buffers: list[Buffer] = []
    values: list[Array] = []
    for parameter, argument in zip(kernel.arguments, arguments, strict=True):
        if isinstance(parameter.type, PointerType):
            if not isinstance(argument, Buffer):
                raise refusal(kernel, f"{label(parameter)} is a pointer and takes a Buffer, not {argument!r}")
            # Meanings find the buffer that a pointer must stay in by the name of the parameter it comes from.
            buffers.append(dataclasses.replace(argument, name=parameter.name or argument.name))
            pointer = argument.start if argument.origin is None else argument.origin
            values.append(np.array([pointer], np.int64))
        else:
            values.append(scalar(kernel, parameter, argument))
    return Memory(buffers, kernel.name), values


def scalar(kernel: Function, parameter: Value, argument: Any) -> Array:
    """A number as an array of shape (1,) of the parameter's type, rounded once. Raises LaunchError."""
    type_ = parameter.type
    number = argument.item() if isinstance(argument, np.generic) else argument
    if isinstance(type_, FloatType) and isinstance(number, Real):
        return cast(np.array([number], np.float64), "f64", type_.name)
    if isinstance(type_, IntType) and isinstance(number, int):
        if not -(1 << type_.width - 1) <= number < 1 << type_.width:
            raise refusal(kernel, f"{label(parameter)} is {number}, which does not fit {type_}")
        bits = number & (1 << type_.width) - 1
        wide = np.array([bits], np.uint64)
        return wide.astype(np.bool_) if type_.width == 1 else wide.astype(storage(type_))
    raise refusal(kernel, f"{label(parameter)} is {type_} and does not take {argument!r}")


def storage_of(type_: Type) -> np.dtype[Any]:
    """The dtype of arrays that hold values of a type."""
    return storage(type_.element if hasattr(type_, "element") else type_)  # type: ignore[arg-type]


def label(parameter: Value) -> str:
    """The name of a parameter for messages."""
    return f"argument {parameter.name or parameter.index}"


def refusal(function: Function, what: str) -> LaunchError:
    """The error for arguments that do not fit."""
    return LaunchError(f"{function.name}: {what}", function.location)


#: For each module that is alive (by identity), what it looked like when it was planned, and its plan.
_plans: dict[int, tuple[weakref.ref[Module], list[Any], ModulePlan]] = {}


def plan_of(module: Module) -> ModulePlan:
    """The plan of a module, made once unless the module has been rewritten since."""
    known, look = _plans.get(id(module)), appearance(module)
    if known is not None and known[0]() is module and known[1] == look:
        return known[2]
    (fold,) = BatchMaker((1, 1, 1), Memory(), DEFAULTS).batches(1)
    with np.errstate(all="ignore"):
        plan = ModulePlan(module, MAKERS, fold)
    key = id(module)
    _plans[key] = (weakref.ref(module, lambda _: _plans.pop(key, None)), look, plan)
    return plan


def appearance(module: Module) -> list[Any]:
    """All of a module that a plan depends on, to be compared: its functions, ops, operands, attributes and types."""
    look: list[Any] = []
    for name, function in module.functions.items():
        look.append(name)
        for operation in function.walk():
            # As text, since 1 == True == 1.0 and 0.0 == -0.0.
            look += (operation, operation.operands.copy(), str(operation.attributes))
            look += [result.type for result in operation.results]
    return look
