"""A launch: arguments into parameters, blocks into chunks, chunks through the machine."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import TextIO

import numpy as np
import numpy.typing as npt

from ..batch import Options
from ..errors import InterpreterError, LaunchError
from ..memory import Buffer, Memory
from .copies import Copies
from .counters import Counters, Tally
from .errors import RaceError
from .frame import Frame, Triple, tuple_of, unravel
from .history import History
from .hopper.clusters import cluster_of
from .hopper.engines import Engines
from .machine import Machine
from .order import SLOTS
from .parser import PtxModule
from .program import Program
from .shadow import THREAD
from .spaces import Rows
from .specials import value_of
from .syntax import Parameter
from .taint import Taint
from .types import TYPES
from .watch import Watch

Argument = Buffer | int | float | bytes

_MAX_THREADS = 1024
_MAX_SHARED = 232_448 + 1024
_GRANULES = 1 << 22
"""How many pieces of shared memory are watched at once, at 24 bytes each."""
_KNOWLEDGE = 1 << 24
"""How many entries there are at once of what threads and engines know of each other."""
_THREAD_BITS = 6
"""A thread counts as 64 bytes of a chunk."""
_UNSET = 0xA5
"""What shared and local memory hold before anything was stored."""


class Launch:
    """What all chunks of a launch share."""

    def __init__(
        self, program: Program, grid: Triple, block: Triple, memory: Memory, parameters: bytes, dynamic_shared: int,
        options: Options, stdout: TextIO, cluster: Triple | None = None,
    ) -> None:  # fmt: skip
        self.program, self.grid, self.block, self.memory = program, grid, block, memory
        self.explicit_cluster, self.cluster = cluster is not None, cluster or (1, 1, 1)
        self.clusters = tuple_of(n // c for n, c in zip(grid, self.cluster, strict=True))
        self.blocks = grid[0] * grid[1] * grid[2]
        self.threads = block[0] * block[1] * block[2]
        self.seed = options.seed
        self.dynamic_shared = dynamic_shared
        self.shared_bytes = program.shared_bytes + dynamic_shared
        self.fuel, self.mma, self.stdout = options.fuel, options.mma, stdout
        self.issued = 0
        self.history: History | None = None
        self.parameters = Rows(1, len(parameters), 0, 0)
        self.parameters.bytes[: len(parameters)] = np.frombuffer(parameters, np.uint8)

    def shared_rows(self, blocks: int) -> Rows:
        """New shared memory for some blocks."""
        return Rows(blocks, self.shared_bytes, _UNSET, self.threads)

    def local_rows(self, threads: int) -> Rows:
        """New local memory for some threads."""
        return Rows(threads, self.program.local_bytes, _UNSET, 1)

    def blocks_at_once(self, chunk_bytes: int) -> int:
        """How many blocks run at once: whole clusters, as many as memory is meant for."""
        count = max(1, (chunk_bytes >> _THREAD_BITS) // self.threads)
        if self.history is not None:
            count = min(count, max(1, _GRANULES // max(1, self.shared_bytes >> self.history.bits["shared"])))
        cluster = self.cluster[0] * self.cluster[1] * self.cluster[2]
        if self.program.asynchronous or cluster > 1:
            count = min(count, _KNOWLEDGE // (self.threads * (2 * cluster * self.threads + cluster * SLOTS)))
        return max(1, count // cluster) * cluster

    def bytes_for_all(self) -> int | None:
        """The `chunk_bytes` with which all blocks run at once; None where other things limit how many do."""
        found = self.blocks * self.threads << _THREAD_BITS
        return found if self.blocks_at_once(found) >= self.blocks else None

    def place(self, block: int) -> Triple:
        """The index of a block in the grid; the blocks of a cluster are numbered one after the other."""
        if self.cluster == (1, 1, 1):
            return unravel(block, self.grid)
        number, rank = divmod(block, self.cluster[0] * self.cluster[1] * self.cluster[2])
        outer, inner = unravel(number, self.clusters), unravel(rank, self.cluster)
        return tuple_of(o * c + i for o, c, i in zip(outer, self.cluster, inner, strict=True))

    def special(self, frame: Frame, name: str) -> npt.NDArray[np.uint64]:
        """A special register that does not change, for all threads of a chunk."""
        return value_of(frame, name)


def run_ptx(
    module: PtxModule,
    entry: str,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[Argument],
    options: Options | None = None,
    shared_bytes: int = 0,
    stdout: TextIO | None = None,
    checks: bool = True,
    cluster: Sequence[int] | None = None,
    reachable: Sequence[Buffer] = (),
) -> Counters:
    """Run an entry of a module on a grid of blocks, each (x, y, z) or fewer numbers, in clusters if that is given.

    A Buffer is passed as its address; a number as the parameter's type has it; bytes (such as tensor maps) as they are;
    `reachable` are buffers that only tensor maps point to. `options.fuel` is the budget of instructions, each counted
    once for all threads that run it together; `options.chunk_bytes` decides how many blocks run at once, `options.mma`
    how matrix instructions add. `shared_bytes` is the dynamic shared memory of a block. Device prints go to `stdout`.
    `options.seed` picks one of the orders in which threads may run and copies be done. Without `checks`, or with more
    than 2**30 threads, nobody looks for races and values that were never written, or counts traffic.

    Raises LaunchError when the arguments or the launch do not fit the entry, PtxError for what the emulator does not
    know, MemoryAccessError, UninitializedError, BarrierError, RaceError, TrapError, DeviceAssertError for what the
    kernel does wrong, and OutOfFuelError. Races are told when the launch has ended, in one way or another.
    """
    options = options or Options()
    program = program_of(module, entry)
    extent = _triple(grid), _triple(block)
    _check_launch(program, *extent, shared_bytes)
    shape = cluster_of(program, extent[0], None if cluster is None else _triple(cluster))
    buffers = [argument for argument in arguments if isinstance(argument, Buffer)]
    memory = Memory([*buffers, *reachable, *_module_buffers(program)])
    parameters = _packed(program, arguments)
    out = stdout or options.stdout or sys.stdout
    launch = Launch(program, *extent, memory, parameters, shared_bytes, options, out, shape)
    try:
        return _run_chunks(launch, options, checks)
    except MemoryError as error:
        raise LaunchError(f"`{entry}` needs more memory than there is, for a grid of {extent[0]} blocks") from error


def _run_chunks(launch: Launch, options: Options, checks: bool) -> Counters:
    """Run all blocks, some at a time."""
    program, tally = launch.program, Tally(launch.program)
    blocks = launch.blocks
    launch.history = History(program.accesses, blocks) if checks and launch.threads * blocks <= THREAD else None
    at_once = launch.blocks_at_once(options.chunk_bytes)
    with np.errstate(all="ignore"):
        for first in range(0, blocks, at_once):
            _run_chunk(launch, Frame(launch, program, first, min(at_once, blocks - first)), tally, options.seed)
    if launch.history is not None:
        launch.history.races.check()
    return tally.counters(launch.issued)


def _run_chunk(launch: Launch, frame: Frame, tally: Tally, seed: int) -> None:
    """Run some blocks to their end. What goes wrong after a race is told as the race."""
    frame.copies = Copies(frame, seed)
    frame.engines = Engines(frame, seed)
    if launch.history is not None:
        frame.watch = Watch(frame, launch.history, tally.traffic)
        frame.taint = Taint(frame, launch.program.tracked) if launch.program.tracked else None
    try:
        Machine(frame, tally, seed).run()
        frame.copies.wait(None, None)
        frame.engines.end()
        if frame.watch is not None:
            frame.watch.order.end()
    except RaceError:
        raise
    except InterpreterError as error:
        if launch.history is not None:
            launch.history.races.check(error)
        raise


def program_of(module: PtxModule, entry: str) -> Program:
    """The program of an entry, built once for each module. Its global variables keep their values between launches."""
    found = module.programs.get(entry)
    if found is None:
        found = module.programs[entry] = Program(module, module.entry(entry))
    return found


def _module_buffers(program: Program) -> list[Buffer]:
    return [
        Buffer.of(variable.name, data, readonly=variable.space == "const" or None)
        for variable, data in program.data.items()
        if variable.size
    ]


def _triple(values: Sequence[int]) -> Triple:
    if not 1 <= len(values) <= 3:
        raise LaunchError(f"a grid and a block have one to three numbers, found {tuple(values)}")
    x, y, z = (*values, 1, 1)[:3]
    return int(x), int(y), int(z)


def _check_launch(program: Program, grid: Triple, block: Triple, shared_bytes: int) -> None:
    """Raise LaunchError for a launch that the entry, or any GPU, refuses."""
    name, threads = program.entry.name, block[0] * block[1] * block[2]
    if min(grid) < 0 or min(block) < 1 or threads > _MAX_THREADS:
        raise LaunchError(f"a grid of {grid} blocks of {block} threads: a block has 1 to {_MAX_THREADS} threads")
    required, largest = program.entry.reqntid, program.entry.maxntid
    if required is not None and block != required:
        raise LaunchError(f"`{name}` needs blocks of {required} threads, found {block}")
    if largest is not None and threads > largest[0] * largest[1] * largest[2]:
        raise LaunchError(f"`{name}` takes blocks of at most {largest} threads, found {block}")
    if program.shared_bytes + shared_bytes > _MAX_SHARED:
        raise LaunchError(f"{program.shared_bytes + shared_bytes} bytes of shared memory; the largest is {_MAX_SHARED}")


def _packed(program: Program, arguments: Sequence[Argument]) -> bytes:
    """The bytes of the parameters."""
    parameters = program.entry.parameters
    if len(arguments) != len(parameters):
        raise LaunchError(f"`{program.entry.name}` has {len(parameters)} parameters, found {len(arguments)} arguments")
    out = bytearray(max((p.offset + p.size for p in parameters), default=0))
    for parameter, argument in zip(parameters, arguments, strict=True):
        out[parameter.offset : parameter.offset + parameter.size] = _bytes(parameter, argument)
    return bytes(out)


def _bytes(parameter: Parameter, argument: Argument) -> bytes:
    size = parameter.size
    if isinstance(argument, bytes):
        if len(argument) != size:
            raise LaunchError(f"`{parameter.name}` has {size} bytes, found {len(argument)}")
        return argument
    if isinstance(argument, Buffer):
        if size != 8:
            raise LaunchError(f"`{parameter.name}` has {size} bytes and cannot hold an address")
        return (argument.start if argument.origin is None else argument.origin).to_bytes(8, "little")
    if isinstance(argument, float):
        return _float_bytes(parameter, argument)
    if not -(1 << (8 * size - 1)) <= argument < 1 << (8 * size):
        raise LaunchError(f"`{parameter.name}` has {size} bytes, too few for {argument}")
    return (int(argument) & (1 << 8 * size) - 1).to_bytes(size, "little")


def _float_bytes(parameter: Parameter, argument: float) -> bytes:
    code = {2: "<e", 4: "<f", 8: "<d"}.get(parameter.size)
    if code is None or TYPES[parameter.type.partition("[")[0]].kind in "us":
        raise LaunchError(f"`{parameter.name}` is a {parameter.type}, found the float {argument}")
    try:
        return struct.pack(code, argument)
    except OverflowError:
        return struct.pack(code, float("inf") if argument > 0 else float("-inf"))
