"""What is told when no thread can go on, or the budget is spent: who waits where, for what, and what may help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import OutOfFuelError, place
from ..memory import Buffer
from .access import Access
from .errors import BarrierError
from .frame import Frame, Index, spread
from .spaces import addresses_of, element_of, resolve
from .syntax import Address, Instruction

if TYPE_CHECKING:
    from .machine import Machine
    from .program import Block

Threads = NDArray[np.intp]


class _Group(NamedTuple):
    """Threads that wait for the same: the instruction, who, what they do there (of one, of several), and what for."""

    instruction: Instruction
    threads: Threads
    does: tuple[str, str]
    what: str


def deadlock(machine: Machine) -> BarrierError:
    """Every thread that has not exited waits: the places, first of those that poll and of what is known of what for,
    those of most threads first."""
    frame, waiting, polling = machine.frame, list(_waiting(machine)), list(_polling(machine))
    polling.sort(key=lambda each: (not each.what, -len(each.threads)))
    groups = [*polling, *sorted(waiting, key=lambda each: -len(each.threads))]
    lines = [f"  {place(frame.program.location_of(group.instruction))}: {_told(frame, group)}" for group in groups]
    what = "\n".join(["every thread that has not exited waits for others", *lines]) + _later(frame)
    return BarrierError(what, frame.program.location_of(groups[0].instruction))


def out_of_fuel(frame: Frame, block: Block, index: Index) -> OutOfFuelError:
    """The budget is spent where threads were to run a block."""
    launch = frame.launch
    what = f"still running after {launch.fuel} instructions, each counted once for all threads that run it together"
    what += f": the budget of the launch (TILEWRIGHT_FUEL){_later(frame)}"
    return OutOfFuelError(what, frame.program.line_of(block), frame.block_of(int(frame.indices(index)[0])))


def _waiting(machine: Machine) -> Iterator[_Group]:
    """The threads at gates: barriers, warps that must be whole, mbarriers and what else engines bring."""
    for number, threads, what in machine.waits():
        yield _Group(machine.blocks[number].instructions[0][0], threads, ("waits in", "wait in"), what)


def _polling(machine: Machine) -> Iterator[_Group]:
    """The threads that go round in circles, by what they ask again and again."""
    frame = machine.frame
    for number in sorted(machine.ready):
        threads = frame.indices(machine.take(number))
        poll = machine.circles.poll(number)
        if poll is None:
            yield _Group(machine.blocks[number].instructions[0][0], threads, ("goes round at", "go round at"), "")
            continue
        asks = _holds(frame, poll, threads)
        if asks.any():
            what = _looked_at(frame, poll, int(threads[asks][0]))
            yield _Group(poll, threads[asks], ("polls by", "poll by"), what)
        if not asks.all():
            yield _Group(poll, threads[~asks], ("goes along with polls by", "go along with polls by"), "")


def _told(frame: Frame, group: _Group) -> str:
    count, thread = len(group.threads), int(group.threads[0])
    who = f"thread {frame.thread_of(thread)} of block {frame.block_of(thread)}"
    if count == 1:
        return f"1 thread {group.does[0]} `{group.instruction.opcode}`: {who}{group.what}"
    blocks = len(np.unique(group.threads // frame.threads))
    of = f" of {blocks} blocks" if blocks > 1 else ""
    return f"{count} threads{of} {group.does[1]} `{group.instruction.opcode}`, for example {who}{group.what}"


def _holds(frame: Frame, instruction: Instruction, threads: Threads) -> NDArray[np.bool_]:
    """For which of the threads the guard of an instruction holds."""
    guard = instruction.guard
    if guard is None:
        return np.ones(len(threads), np.bool_)
    return spread(frame.registers[guard.register.index], frame.count)[threads] != guard.negated


def _looked_at(frame: Frame, poll: Instruction, thread: int) -> str:
    """The element that a thread reads again and again, and what it finds there."""
    access = next((each for each in frame.program.accesses if each.site.instruction is poll), None)
    operand = next((each for each in poll.operands if isinstance(each, Address)), None)
    if access is None or operand is None:
        return ""
    where = addresses_of(frame, operand, access.space)[thread : thread + 1]
    address = int(where[0])
    if access.object:
        return frame.engines.mbarriers.describe((thread // frame.threads * frame.shared.stride + address) // 8)
    (cells,) = resolve(access, access.space, frame, np.array([thread]), where)
    found = cells.view[cells.position]
    if isinstance(cells.home, Buffer):
        return f"; {element_of(cells.home, address)} is {_number(access, cells.home, found)}"
    return f"; what is at {access.space} address {address:#x} is {int(found[0])}"


def _number(access: Access, buffer: Buffer, found: NDArray[np.generic]) -> str:
    """An element, as a number of the argument's type where NumPy has that and the access is as wide."""
    if buffer.dtype.startswith(("int", "float")) and np.dtype(buffer.dtype).itemsize == access.size:
        found = found.view(buffer.dtype)
    return str(found[0])


def _later(frame: Frame) -> str:
    """What there is to say about blocks that have not begun; nothing if all have."""
    launch, begun = frame.launch, frame.first + frame.blocks
    if begun == launch.blocks:
        return ""
    left, room = launch.blocks - begun, launch.bytes_for_all()
    verb = "has" if left == 1 else "have"
    how = f"all with TILEWRIGHT_CHUNK_BYTES={room}" if room else "not all, whatever TILEWRIGHT_CHUNK_BYTES"
    return (
        f"\nhint: {left} of the grid's {launch.blocks} blocks {verb} not begun. The emulator runs {frame.blocks} at "
        f"once ({how}), a GPU as many as fit: where blocks wait for later ones, a GPU may hang as well"
    )
