"""Kernels whose programs wait for one another: each program is a coroutine, and a fair scheduler runs them in turns.

A program is a chain of generators, one a region that waits, and stops before each op that looks at shared memory: an
atomic or a volatile load. Regions without such an op run as in the batched executor, on a batch of one program.

*Order.* The scheduler works in rounds, in which each program that can run gets one turn of some looks. Seed 0 goes
through the programs upwards and downwards in alternation, with turns so long that a program that waits for none mostly
finishes in its first (chains of waits in either direction resolve in one round). Other seeds shuffle each round and
draw the lengths of turns, from `random.Random(seed)`. All programs of the grid take part; a program starts at its first
turn and costs its frame and live values from then until it ends.

*Waiting.* A program that goes round a `while` with the carried values that it had one iteration ago, while memory is
as it was then, will do so until memory changes: a loop body is a function of what is carried, what is captured (fixed)
and memory. It is parked until `memory.version` moves. So is a poll that has not seen its value. When all programs are
parked none can ever go on: that is a deadlock, without any guessing. Loops that count their spins never look the same;
for them, `options.patience` rounds in which memory stays the same, no program ends and no loop is left say the same.

*Time* is simulated: each look takes `LOOK_NS`. When all programs are parked and a poll has a timeout, the clock jumps
to the first one that runs out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Sequence
from math import inf
from typing import TypeAlias

from tilewright.lang import Operation, PointerType, byte_width, element_of

from .batch import Batch, Options
from .control import loop_bounds, trip_counts
from .errors import DeadlockError, InterpreterError, Program, Waiting
from .memory import Memory
from .plan import BlockPlan, Frame, FunctionPlan, Planner, Resume, Run, locate
from .values import BatchValue, dense

#: Nanoseconds of simulated time that one look at memory takes, about what a load from another program's cache costs.
LOOK_NS = 100
#: Looks in a turn, with seed 0 and with others.
LONG_TURN = 64
TURNS = (1, 1, 1, 2, 2, 4, 8, 32)

ENDED = object()
Steps: TypeAlias = Generator[None, None, None]


class Task:
    """One program on its way: where it last stopped, and what it waits for."""

    __slots__ = ("batch", "steps", "clock", "operation", "looked_at", "parked", "deadline", "loops")

    def __init__(self, batch: Batch, clock: Clock, run: Callable[[Batch, Task], Steps]) -> None:
        self.batch = batch
        self.clock = clock
        self.steps = run(batch, self)
        self.operation: Operation | None = None
        self.looked_at: BatchValue | None = None
        self.parked = -1  # the version of memory at which nothing but a change can help; -1 when running
        self.deadline = inf
        self.loops: list[str] = []  # the loops with looks that it is in, outermost first

    def stop(self, operation: Operation, looked_at: BatchValue | None) -> None:
        """Note where the program is about to stop."""
        self.operation, self.looked_at = operation, looked_at

    def park(self, deadline: float = inf) -> None:
        """Do not run this program until memory changes or the clock reaches the deadline."""
        self.parked, self.deadline = self.batch.memory.version, deadline

    def can_run(self) -> bool:
        """Whether the program is not parked, or no longer."""
        return self.parked != self.batch.memory.version or self.clock.now >= self.deadline

    def turn(self, looks: int) -> bool:
        """Run up to some number of looks, or until parked; whether the program ended."""
        self.parked, self.deadline = -1, inf
        for _ in range(looks):
            self.clock.now += LOOK_NS
            if next(self.steps, ENDED) is ENDED:
                self.clock.progress += 1
                return True
            if self.parked >= 0:
                break
        return False


class Clock:
    """Simulated time in nanoseconds, and a count of programs ended and loops left."""

    __slots__ = ("now", "progress")

    def __init__(self) -> None:
        self.now: float = 0
        self.progress = 0


def run_tasks(
    plan: FunctionPlan,
    arguments: Sequence[BatchValue],
    batches: Iterable[Batch],
    memory: Memory,
    options: Options,
) -> None:
    """Run a function on each batch (of one program) as a coroutine, until all have ended.

    Raises DeadlockError when they never will, OutOfFuelError when the budget is spent first.
    """
    clock = Clock()

    def start(batch: Batch, task: Task) -> Steps:
        yield from resume_block(plan.body, batch, plan.body.template.copy(), arguments, task)

    tasks: Iterable[Task] = (Task(batch, clock, start) for batch in batches)
    chance = random.Random(options.seed) if options.seed else None
    seen, since = (-1, -1), 0
    while left := round_of_turns(tasks, chance):
        tasks, ran = left
        now = (memory.version, clock.progress)
        seen, since = (now, 0) if now != seen else (seen, since + 1)
        if not ran:
            clock.now = max(clock.now, min(task.deadline for task in tasks))
            if clock.now == inf:
                raise deadlock("deadlock: every program waits, and nothing can change any more", tasks)
        elif since > options.patience and all(is_spinning(task) for task in tasks):
            what = f"no progress: every program spins, and memory has not changed in {since} rounds"
            raise deadlock(what, tasks)
        elif chance is None:
            tasks.reverse()


def round_of_turns(tasks: Iterable[Task], chance: random.Random | None) -> tuple[list[Task], bool] | None:
    """Give each program that can run a turn; those that have not ended, and whether any could run. None: all ended."""
    if chance is not None:
        tasks = list(tasks)
        chance.shuffle(tasks)
    left: list[Task] = []
    ran = False
    for task in tasks:
        if not task.can_run():
            left.append(task)
            continue
        ran = True
        if not task.turn(LONG_TURN if chance is None else chance.choice(TURNS)):
            left.append(task)
    return (left, ran) if left else None


def is_spinning(task: Task) -> bool:
    """Whether a program is parked, or in a `while` (a `for` ends of its own)."""
    return not task.can_run() or (bool(task.loops) and task.loops[-1] == "while")


def deadlock(what: str, tasks: Sequence[Task]) -> DeadlockError:
    """The error that lists where programs wait, the most crowded place first."""
    places: dict[Operation, list[Task]] = {}
    for task in tasks:
        if task.operation is not None:
            places.setdefault(task.operation, []).append(task)
    waiting: list[Waiting] = []
    for operation, there in places.items():
        first = min(there, key=lambda task: task.batch.program(0)[::-1])
        example: Program = first.batch.program(0)
        waiting.append(Waiting(operation.location, operation.name, looked_at(first), len(there), example))
    waiting.sort(key=lambda entry: (-entry.count, entry.location.line, entry.location.column))
    return DeadlockError(what, tuple(waiting))


def looked_at(task: Task) -> str:
    """What a program looked at last, as `argument[element]`."""
    if task.looked_at is None or task.operation is None:
        return ""
    addresses = dense(task.looked_at).reshape(-1)
    address, more = int(addresses[0]), len(addresses) - 1
    buffer = task.batch.memory.holding(address, address + 1)
    pointer = element_of(task.operation.operands[0].type)
    if buffer is None or not isinstance(pointer, PointerType):
        text = f"address {address:#x}"
    else:
        text = f"{buffer.name}[{(address - buffer.start) // byte_width(pointer.pointee)}]"
    return f"{text} and {more} more" if more else text


def resume_block(
    block: BlockPlan, batch: Batch, frame: Frame, arguments: Sequence[BatchValue], task: Task
) -> Generator[None, None, list[BatchValue]]:
    """`BlockPlan.run` as a generator."""
    block.enter(frame, arguments)
    operation: Operation | None = None
    try:
        for run, dead, operation, resume in block.steps:  # noqa: B007 (used where an error is located)
            if resume is None:
                run(batch, frame)
            else:
                yield from resume(batch, frame, task)
            for slot in dead:
                frame[slot] = None
    except Exception as error:
        locate(error, operation)
        raise
    return block.leave(frame)


def fill(frame: Frame, slots: Sequence[int], values: Sequence[BatchValue]) -> None:
    """Put results into their slots."""
    for slot, value in zip(slots, values, strict=True):
        frame[slot] = value


def make_look(planner: Planner, operation: Operation, run: Run) -> Resume:
    """An atomic or a volatile load: let others run first."""
    pointer = planner.slot(operation.operands[0])

    def resume(batch: Batch, frame: Frame, task: Task) -> Steps:
        task.stop(operation, frame[pointer])
        yield
        run(batch, frame)

    return resume


def make_poll(planner: Planner, operation: Operation, run: Run) -> Resume:
    """`atomic_poll`: a look, and one after each change of memory, until every element was seen equal or time is up."""
    pointer, out = planner.slot(operation.operands[0]), planner.slot(operation.result)
    timeout = operation.operand("timeout")
    limit = None if timeout is None else planner.slot(timeout)

    def resume(batch: Batch, frame: Frame, task: Task) -> Steps:
        task.stop(operation, frame[pointer])
        deadline = inf if limit is None else task.clock.now + int(dense(frame[limit])[0])
        yield
        run(batch, frame)
        equal = dense(frame[out])
        while not equal.all() and task.clock.now < deadline:
            task.park(deadline)
            yield
            run(batch, frame)
            equal = equal | dense(frame[out])
        frame[out] = equal

    return resume


def make_if(planner: Planner, operation: Operation, run: Run) -> Resume:
    """`if`, of one program."""
    condition, out = planner.slot(operation.operands[0]), planner.slots_of(operation.results)
    then, other = planner.region(operation, 0), planner.region(operation, 1)

    def resume(batch: Batch, frame: Frame, task: Task) -> Steps:
        side = then if dense(frame[condition])[0] else other
        fill(frame, out, (yield from resume_block(side, batch, frame, (), task)))

    return resume


def make_for(planner: Planner, operation: Operation, run: Run) -> Resume:
    """`for`, of one program."""
    slots, out = planner.slots_of(operation.operands), planner.slots_of(operation.results)
    body, unsigned = planner.region(operation, 0), bool(operation.attributes["unsigned"])

    def resume(batch: Batch, frame: Frame, task: Task) -> Steps:
        index, stop, step = loop_bounds(batch, operation, [frame[slot] for slot in slots[:3]])
        carried = [frame[slot] for slot in slots[3:]]
        task.loops.append("for")
        for _ in range(int(trip_counts(index, stop, step, unsigned)[0])):
            batch.burn(operation.location)
            carried = yield from resume_block(body, batch, frame, (index, *carried), task)
            index = index + step
        leave_loop(task)
        fill(frame, out, carried)

    return resume


def make_while(planner: Planner, operation: Operation, run: Run) -> Resume:
    """`while`, of one program, which is parked when it would only do again what it has just done."""
    inits, out = planner.slots_of(operation.operands), planner.slots_of(operation.results)
    before, after = planner.region(operation, 0), planner.region(operation, 1)

    def resume(batch: Batch, frame: Frame, task: Task) -> Steps:
        carried: Sequence[BatchValue] = [frame[slot] for slot in inits]
        memory, previous, version = batch.memory, None, -1
        task.loops.append("while")
        while True:
            batch.burn(operation.location)
            if previous is not None and version == memory.version and same(previous, carried):
                task.park()
                yield
            previous, version = carried, memory.version
            flag, *passed = yield from resume_block(before, batch, frame, carried, task)
            if not dense(flag)[0]:
                break
            carried = yield from resume_block(after, batch, frame, passed, task)
        leave_loop(task)
        fill(frame, out, passed)

    return resume


def leave_loop(task: Task) -> None:
    """A loop with looks has ended: that is progress."""
    task.loops.pop()
    task.clock.progress += 1


def same(before: Sequence[BatchValue], after: Sequence[BatchValue]) -> bool:
    """Whether two lists of values of the same types have the same bits."""
    return all(a is b or dense(a).tobytes() == dense(b).tobytes() for a, b in zip(before, after, strict=True))


def make_call(planner: Planner, operation: Operation, run: Run) -> Resume:
    """`call`, of one program."""
    operands, out = planner.slots_of(operation.operands), planner.slots_of(operation.results)
    module, callee = planner.module, str(operation.attributes["callee"])

    def resume(batch: Batch, frame: Frame, task: Task) -> Steps:
        body = module.function(callee).body
        arguments = [frame[slot] for slot in operands]
        try:
            values = yield from resume_block(body, batch, body.template.copy(), arguments, task)
        except InterpreterError as error:
            error.calls.append(operation.location)
            raise
        fill(frame, out, values)

    return resume


#: The ops that hold looks, and the poll. Other ops that look get `make_look`.
RESUMABLE: dict[str, Callable[[Planner, Operation, Run], Resume]] = {
    "if": make_if,
    "for": make_for,
    "while": make_while,
    "call": make_call,
    "atomic_poll": make_poll,
}
