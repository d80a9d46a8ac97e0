"""From IR to something quick to run: each function becomes lists of closures over numbered slots, once.

A *frame* is a list with one slot for each SSA value of a function, nested regions included, so that a region reads what
it captures without any copying. A *step* runs one op: it reads its operands' slots and fills its results'. Values are
dropped after their last use, and pure ops on constants are evaluated here, once, into the frame's template.

Leaf ops come from a table of meanings; ops with regions, and calls, come from two tables of *makers*: the batched one,
and for ops in which a program may have to wait for another the one that makes generators (`coroutines.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tilewright.lang import Block, Function, Module, Operation, PointerType, TileType, Trait, Value, byte_width

from .batch import Batch
from .errors import InterpreterError, place
from .values import BatchValue, nbytes

Frame: TypeAlias = list[Any]
Run: TypeAlias = Callable[[Batch, Frame], None]
#: The same for an op at which a program may have to wait: (batch, frame, task) -> a generator that yields requests.
Resume: TypeAlias = Callable[[Batch, Frame, Any], Generator[Any, None, None]]
#: What an op means: (batch, *operands) -> a value, a tuple of them, or None.
Runner: TypeAlias = Callable[..., Any]
Prepare: TypeAlias = Callable[[Operation], Runner]

#: A constant that would take more bytes than this as stored is computed anew by each batch.
FOLD_LIMIT = 1 << 16


class Step(NamedTuple):
    """One op: how to run it, the slots to empty afterwards, where it comes from, and how to run it as a coroutine."""

    run: Run
    dead: tuple[int, ...]
    operation: Operation
    resume: Resume | None


@dataclass(slots=True, eq=False)
class BlockPlan:
    """A block: its steps, the slots of its arguments and of its terminator's operands, and what it takes from outside.

    `captured` are the slots of values from outside that are used anywhere inside; constants are not among them.
    `leftover` are the slots to empty when the results have been read.
    """

    template: Frame
    arguments: tuple[int, ...]
    steps: list[Step] = field(default_factory=list[Step])
    results: tuple[int, ...] = ()
    captured: tuple[int, ...] = ()
    leftover: tuple[int, ...] = ()

    def run(self, batch: Batch, frame: Frame, arguments: Sequence[BatchValue]) -> list[BatchValue]:
        """Run the block with these arguments; the values that its terminator names."""
        self.enter(frame, arguments)
        operation: Operation | None = None
        try:
            for run, dead, operation, _ in self.steps:  # noqa: B007 (used where an error is located)
                run(batch, frame)
                for slot in dead:
                    frame[slot] = None
        except Exception as error:
            locate(error, operation)
            raise
        return self.leave(frame)

    def enter(self, frame: Frame, arguments: Sequence[BatchValue]) -> None:
        """Put the arguments into their slots."""
        for slot, value in zip(self.arguments, arguments, strict=True):
            frame[slot] = value

    def leave(self, frame: Frame) -> list[BatchValue]:
        """Take the results out, and empty the slots that are still filled."""
        results = [frame[slot] for slot in self.results]
        for slot in self.leftover:
            frame[slot] = None
        return results


def locate(error: Exception, operation: Operation | None) -> None:
    """Say in an error that came out of an op where that was, unless it says so already."""
    if operation is None:
        return
    if isinstance(error, InterpreterError):
        error.locate(operation.location)
    elif not getattr(error, "__notes__", None):
        error.add_note(f"while interpreting {operation.name} at {place(operation.location)}")


@dataclass(slots=True, eq=False)
class FunctionPlan:
    """A function, ready to run on any batch."""

    name: str
    body: BlockPlan

    def run(self, batch: Batch, arguments: Sequence[BatchValue]) -> list[BatchValue]:
        """The function's results for a batch."""
        return self.body.run(batch, self.body.template.copy(), arguments)


@dataclass(frozen=True, slots=True, eq=False)
class Makers:
    """The tables that give ops their steps.

    meanings: leaf ops. control: `for`, `while`, `if`, `call`, `reduce`, in the batched executor. resumable: the ops
    that wait, or that hold ops that wait, as coroutines; leaf ops that wait without an entry get `wait`.
    """

    meanings: Mapping[str, Prepare]
    control: Mapping[str, Callable[[Planner, Operation], Run]]
    resumable: Mapping[str, Callable[[Planner, Operation, Run], Resume]]
    wait: Callable[[Planner, Operation, Run], Resume]


class ModulePlan:
    """The functions of a module, each planned when it is first needed."""

    def __init__(self, module: Module, makers: Makers, fold: Batch) -> None:
        self.functions = dict(module.functions)
        self.kernel_name = module.kernel.name
        self.makers = makers
        self.fold = fold
        self.plans: dict[str, FunctionPlan] = {}
        self.waiting = waiting_ops(self.functions)
        #: Whether a program of the kernel may have to wait for another one: it looks at memory in a loop, or polls.
        self.needs_coroutines = waits_in_loop(self.functions, self.kernel_name, self.waiting)
        #: The size in bytes of the largest tile of any function, per program.
        self.widest = max(largest_tile(function) for function in self.functions.values())

    def function(self, name: str) -> FunctionPlan:
        """The plan of a function."""
        plan = self.plans.get(name)
        if plan is None:
            plan = self.plans[name] = Planner(self, self.functions[name]).plan()
        return plan


class Planner:
    """Plans one function: numbers its values and makes its steps."""

    def __init__(self, module: ModulePlan, function: Function) -> None:
        self.module = module
        self.function = function
        self.slots: dict[Value, int] = {}
        self.template: Frame = []
        self.constants: set[Value] = set()
        self.blocks: dict[Block, BlockPlan] = {}

    def plan(self) -> FunctionPlan:
        """The plan of the whole function."""
        body, _ = self.block(self.function.body)
        return FunctionPlan(self.function.name, body)

    def slot(self, value: Value) -> int:
        """The slot of a value; a new one when the value is new."""
        slot = self.slots.get(value)
        if slot is None:
            slot = self.slots[value] = len(self.template)
            self.template.append(None)
        return slot

    def slots_of(self, values: Sequence[Value]) -> tuple[int, ...]:
        """The slots of some values, in order."""
        return tuple(self.slot(value) for value in values)

    def region(self, operation: Operation, index: int) -> BlockPlan:
        """The plan of a region of an op that is being planned."""
        return self.blocks[operation.regions[index]]

    def block(self, block: Block) -> tuple[BlockPlan, set[Value]]:
        """Plan a block; also the values from outside that it uses."""
        plan = BlockPlan(self.template, self.slots_of(block.arguments))
        self.blocks[block] = plan
        own: set[Value] = set(block.arguments)
        outer: set[Value] = set()
        last: dict[Value, int] = {}
        kept: list[tuple[int, Operation]] = []
        for index, operation in enumerate(block.operations):
            used = set(operation.operands)
            for region in operation.regions:
                used |= self.block(region)[1]
            own.update(operation.results)
            last.update(dict.fromkeys(operation.results, index))
            last.update(dict.fromkeys(used & own, index))
            outer |= used - own
            if operation is not block.terminator and not self.folds(operation):
                kept.append((index, operation))
        end = len(block.operations) - 1
        dying: dict[int, list[int]] = {}
        for value, index in last.items():
            if value not in self.constants:
                dying.setdefault(index, []).append(self.slot(value))
        for index, operation in kept:
            plan.steps.append(self.step(operation, tuple(dying.get(index, ()))))
        unused = [self.slot(argument) for argument in block.arguments if argument not in last]
        plan.results = self.slots_of(block.terminator.operands)
        plan.leftover = (*dying.get(end, ()), *unused)
        plan.captured = self.slots_of([value for value in outer if value not in self.constants])
        return plan, outer

    def step(self, operation: Operation, dead: tuple[int, ...]) -> Step:
        """The step of one op."""
        makers, name = self.module.makers, operation.name
        run = makers.control[name](self, operation) if name in makers.control else self.leaf(operation)
        resume = None
        if operation in self.module.waiting:
            resume = makers.resumable.get(name, makers.wait)(self, operation, run)
        return Step(run, dead, operation, resume)

    def leaf(self, operation: Operation) -> Run:
        """The step of an op from the table of meanings."""
        runner = self.module.makers.meanings[operation.name](operation)
        operands, results = self.slots_of(operation.operands), self.slots_of(operation.results)
        if len(results) == 1:
            return BY_ARITY.get(len(operands), many)(runner, *operands, *results)
        return general(runner, operands, results)

    def folds(self, operation: Operation) -> bool:
        """Evaluate a pure op of constants into the template, if that pays. Whether it was done.

        An op with a place in shared memory is left alone: when threads run it, they wait for one another there.
        """
        if not operation.definition.is_pure or operation.regions or operation.name in ("program_id", "num_programs"):
            return False
        if operation.attributes.get("scratch", -1) != -1:
            return False
        if not all(operand in self.constants for operand in operation.operands):
            return False
        results = self.slots_of(operation.results)
        frame = self.template.copy()
        self.leaf(operation)(self.module.fold, frame)
        if any(nbytes(frame[slot]) > FOLD_LIMIT for slot in results):
            return False
        for slot in results:
            self.template[slot] = frame[slot]
        self.constants.update(operation.results)
        return True


def nullary(runner: Runner, out: int) -> Run:
    def step(batch: Batch, frame: Frame) -> None:
        frame[out] = runner(batch)

    return step


def unary(runner: Runner, a: int, out: int) -> Run:
    def step(batch: Batch, frame: Frame) -> None:
        frame[out] = runner(batch, frame[a])

    return step


def binary(runner: Runner, a: int, b: int, out: int) -> Run:
    def step(batch: Batch, frame: Frame) -> None:
        frame[out] = runner(batch, frame[a], frame[b])

    return step


def ternary(runner: Runner, a: int, b: int, c: int, out: int) -> Run:
    def step(batch: Batch, frame: Frame) -> None:
        frame[out] = runner(batch, frame[a], frame[b], frame[c])

    return step


def many(runner: Runner, *slots: int) -> Run:
    *operands, out = slots

    def step(batch: Batch, frame: Frame) -> None:
        frame[out] = runner(batch, *[frame[slot] for slot in operands])

    return step


#: Steps with one result, by the number of operands, where there are few.
BY_ARITY: dict[int, Callable[..., Run]] = {0: nullary, 1: unary, 2: binary, 3: ternary}


def general(runner: Runner, operands: tuple[int, ...], results: tuple[int, ...]) -> Run:
    """A step with any number of operands, and no result or several."""

    def step(batch: Batch, frame: Frame) -> None:
        values = runner(batch, *[frame[slot] for slot in operands])
        if results:
            for slot, value in zip(results, values, strict=True):
                frame[slot] = value

    return step


def largest_tile(function: Function) -> int:
    """The size in bytes of the largest tile of a function, per program; at least 8, the largest scalar.

    Tiles of pointers do not count: nearly all of them stay affine and take no room.
    """
    types = [argument.type for argument in function.arguments]
    for operation in function.walk():
        types += [result.type for result in operation.results]
        types += [argument.type for region in operation.regions for argument in region.arguments]
    tiles = [t for t in types if isinstance(t, TileType) and not isinstance(t.element, PointerType)]
    return max((t.numel * byte_width(t.element) for t in tiles), default=8)


def is_look(operation: Operation) -> bool:
    """Whether an op is itself a scheduling point: an atomic or a volatile load."""
    return Trait.YIELDS in operation.definition.traits or operation.attributes.get("volatile") is True


def waiting_ops(functions: Mapping[str, Function]) -> set[Operation]:
    """The ops that are scheduling points, or that hold or call some, in all functions."""
    waiting: set[Operation] = set()
    callees: set[str] = set()
    grown = True
    while grown:  # a fixed point, because functions may call one another in any order
        before = len(waiting)
        for name, function in functions.items():
            for operation in function.walk():
                if is_look(operation) or operation.attributes.get("callee") in callees:
                    waiting.update(ancestors(operation))
                    callees.add(name)
        grown = len(waiting) > before
    return waiting


def ancestors(operation: Operation) -> Iterator[Operation]:
    """The op and all ops that it is nested in."""
    at: Any = operation
    while isinstance(at, Operation):
        yield at
        at = None if at.block is None else at.block.parent


def waits_in_loop(functions: Mapping[str, Function], name: str, waiting: set[Operation]) -> bool:
    """Whether a waiting op lies in a loop, or a poll anywhere, in a function or one that it calls, at any depth."""
    seen: set[tuple[str, bool]] = set()
    todo = [(name, False)]
    while todo:
        name, looped = todo.pop()
        if (name, looped) in seen:
            continue
        seen.add((name, looped))
        for operation in functions[name].walk():
            if operation not in waiting:
                continue
            inside = looped or any(outer.name in ("for", "while") for outer in ancestors(operation))
            if operation.name == "atomic_poll" or (is_look(operation) and inside):
                return True
            if operation.name == "call":
                todo.append((str(operation.attributes["callee"]), inside))
    return False
