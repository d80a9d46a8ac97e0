"""Local memory that threads ask for while they run: `alloca`, and what keeps and brings back how much was in use.

Behind its variables each thread has a stack (`Program.stack`), as large as a GPU gives unless the host asks for more.
It grows upwards here. A function gives back what it took when it returns (see `inline`). What was given back, or lies
above what is in use, is not told from the rest, but holds no value that was written.
"""

from __future__ import annotations

import numpy as np

from ...errors import MemoryAccessError
from ..frame import Frame, Index, spread
from ..site import Site
from ..syntax import Immediate
from ..table import Step, step
from ..types import TYPES, Array

_TYPE = "<type:u32|u64>"
_ALIGNMENT = 8
"""Of what names none."""


def _alignment(site: Site) -> int:
    if len(site.operands) < 3:
        return _ALIGNMENT
    operand = site.operands[2]
    value = int(operand.value) if isinstance(operand, Immediate) and operand.kind == "int" else 0
    if value < 1 or value & value - 1:
        site.fail(f"the alignment of `{site.instruction.opcode}` is a constant, a power of two")
    return value


@step(f"alloca.{_TYPE}", "move")
def alloca(site: Site) -> Step:
    """The address of so many bytes in local memory. Raises MemoryAccessError where the stack has no such room."""
    site.arity(2, 3)
    type_, align = TYPES[site.modifiers["type"]], _alignment(site)
    write, size = site.write(site.operands[0], type_), site.read(site.operands[1], type_)

    def run(frame: Frame, index: Index) -> None:
        threads, end = frame.indices(index), np.int64(frame.program.stack.stop)
        start = frame.stack[threads] + align - 1 & -align
        wanted = spread(size(frame, index), len(threads)).astype(np.uint64)
        bad = wanted > np.maximum(end - start, 0).astype(np.uint64)
        if bad.any():
            at = int(np.argmax(bad))
            stack, top = frame.program.stack, int(frame.stack[threads[at]])
            what = f"`{site.instruction.opcode}` of {int(wanted[at])} bytes: the stack has {len(stack)}"
            what += f", {top - stack.start} of them in use"
            raise site.fault(MemoryAccessError, what, frame, int(threads[at]))
        taken = wanted.astype(np.int64)
        frame.stack[threads] = start + taken
        if frame.watch is not None:
            frame.watch.stack.forget(threads, start, taken)
        write(frame, index, start.astype(type_.dtype))

    return run


@step(f"stacksave.{_TYPE}", "move")
def stacksave(site: Site) -> Step:
    """How much is in use."""
    site.arity(1)
    type_ = TYPES[site.modifiers["type"]]
    write = site.write(site.operands[0], type_)
    return lambda frame, index: write(frame, index, frame.stack[frame.indices(index)].astype(type_.dtype))


@step(f"stackrestore.{_TYPE}", "control")
def stackrestore(site: Site) -> Step:
    """Give back what was taken since. Raises MemoryAccessError for what no `stacksave` can have given."""
    site.arity(1)
    if isinstance(site.operands[0], Immediate):
        site.fail(f"`{site.instruction.opcode}` takes a register")
    read = site.read(site.operands[0], TYPES[site.modifiers["type"]])

    def run(frame: Frame, index: Index) -> None:
        threads = frame.indices(index)
        saved: Array = spread(read(frame, index), len(threads)).astype(np.uint64)
        bad = (saved < frame.program.stack.start) | (saved > frame.stack[threads].astype(np.uint64))
        if bad.any():
            at = int(np.argmax(bad))
            what = f"`{site.instruction.opcode}` of {int(saved[at]):#x}, which is not in use"
            raise site.fault(MemoryAccessError, what, frame, int(threads[at]))
        frame.stack[threads] = saved.astype(np.int64)

    return run
