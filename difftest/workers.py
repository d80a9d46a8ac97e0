"""Child processes that examine kernels, one at a time each, and may die or be killed without harm."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_CONTEXT = multiprocessing.get_context("spawn")


@dataclass(slots=True)
class Lost(Generic[Task]):
    """A task whose process died of a signal or ended with a status, or that took too long and was killed."""

    task: Task
    how: str


def _serve(function: Callable[[Any], Any], connection: Connection) -> None:
    """What a child does: take a task, give its result, until there are no more."""
    while (task := connection.recv()) is not None:
        connection.send(function(task[0]))


@dataclass(slots=True)
class _Child:
    """One process, and what it works on."""

    process: Any
    connection: Connection
    task: Any = None
    since: float = 0.0

    def give(self, task: Any) -> None:
        self.task, self.since = (task,), time.monotonic()
        self.connection.send(self.task)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


@dataclass(slots=True)
class Workers(Generic[Task, Result]):
    """Processes that apply one function (of a module, as it is sent by name) to tasks.

    seconds: how long one task may take, the start of the process included.
    """

    function: Callable[[Task], Result]
    jobs: int = 1
    seconds: float = 120.0
    children: list[_Child] = field(default_factory=list[_Child])

    def __enter__(self) -> Workers[Task, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            child.stop()
        self.children.clear()

    def _start(self) -> _Child:
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_serve, args=(self.function, theirs), daemon=True)
        process.start()
        theirs.close()
        self.children.append(_Child(process, ours))
        return self.children[-1]

    def run(self, tasks: Iterable[Task]) -> Iterator[Result | Lost[Task]]:
        """The results, in the order in which they come; tasks are taken as processes become free."""
        todo, idle = iter(tasks), list(self.children)
        while True:
            while len(self.busy(idle)) < self.jobs and (task := next(todo, None)) is not None:
                (idle.pop() if idle else self._start()).give(task)
            busy = self.busy(idle)
            if not busy:
                return
            for child in self._ready(busy):
                result = self._take(child)
                if child in self.children:
                    idle.append(child)
                yield result

    def busy(self, idle: list[_Child]) -> list[_Child]:
        return [child for child in self.children if child not in idle]

    def _ready(self, busy: list[_Child]) -> list[_Child]:
        """The children that have something to say, have died, or have run out of time."""
        left = min(child.since + self.seconds for child in busy) - time.monotonic()
        spoken = wait([child.connection for child in busy], max(0.0, left))
        late = time.monotonic() - self.seconds
        return [child for child in busy if child.connection in spoken or child.since <= late]

    def _take(self, child: _Child) -> Result | Lost[Task]:
        (task,) = child.task
        try:
            if child.connection.poll():
                return child.connection.recv()
            how = f"took more than {self.seconds:.0f} s"
        except EOFError:
            child.process.join(10)
            code = child.process.exitcode
            how = f"the process died of signal {-code}" if code and code < 0 else f"the process ended with {code}"
        child.stop()
        self.children.remove(child)
        return Lost(task, how)

    def one(self, task: Task) -> Result | Lost[Task]:
        """The result of one task."""
        (result,) = self.run([task])
        return result
