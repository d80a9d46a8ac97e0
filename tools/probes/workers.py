"""The cases of a probe, run in processes of their own: one that fails, dies or hangs costs its case alone."""

from __future__ import annotations

import multiprocessing
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tilewright.runtime import CudaError

PATIENCE = 120.0
"""Seconds after which a case counts as hanging; a process that has yet to start may need a few of them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A case without a result, and why. fatal: its process can go on with no other case."""

    what: str
    fatal: bool = False


Answer = Any | Failure
Work = Callable[[Any], Any]
"""What is done with a case, a function of a module."""


def answers(work: Work, cases: Sequence[Any], jobs: int, patience: float = PATIENCE) -> Iterator[Answer]:
    """What a function makes of each case, in their order; with one job in this process, which nothing protects."""
    if jobs == 1:
        yield from (_attempt(work, case) for case in cases)
        return
    free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    workers = [_Worker(work, patience) for _ in range(min(jobs, len(cases)))]

    def ask(case: Any) -> Answer:
        worker = free.get()
        try:
            return worker.ask(case)
        finally:
            free.put(worker)

    for worker in workers:
        free.put(worker)
    try:
        with ThreadPoolExecutor(max(1, len(workers))) as pool:
            yield from pool.map(ask, cases)
    finally:
        for worker in workers:
            worker.end()


def _attempt(work: Work, case: Any) -> Answer:
    """The result, or the failure, of whatever kind: the other cases must be run all the same."""
    try:
        return work(case)
    except CudaError as error:
        return Failure(_said(error), fatal=True)
    except Exception as error:
        return Failure(_said(error))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _serve(pipe: Any, work: Work) -> None:
    """Answer cases until there are no more, or none can be answered."""
    while (case := pipe.recv()) is not None:
        answer = _attempt(work, case[0])
        pipe.send(answer)
        if isinstance(answer, Failure) and answer.fatal:
            return


class _Worker:
    """A process that is started when it is needed, and again after it has ended."""

    def __init__(self, work: Work, patience: float) -> None:
        self._work, self._patience = work, patience
        self._process: Any = None
        self._pipe: Any = None

    def ask(self, case: Any) -> Answer:
        """The answer of the process."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs, self._work), daemon=True)
            self._process.start()
            theirs.close()
        try:
            self._pipe.send((case,))
            answer = self._pipe.recv() if self._pipe.poll(self._patience) else None
        except (EOFError, OSError) as error:
            answer = Failure(f"the process has died: {_said(error)}", fatal=True)
        if answer is None:
            answer = Failure(f"no answer within {self._patience:.0f} s", fatal=True)
        if isinstance(answer, Failure) and answer.fatal:
            self._stop()
        return answer

    def end(self) -> None:
        """There are no more cases."""
        if self._process is not None:
            self._pipe.send(None)
            self._process.join(10)
            self._stop()

    def _stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._process = None
