"""Branches, exits, traps, and calls of the functions that the CUDA runtime has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import TrapError
from ..frame import Frame, Index, spread
from ..printf import assert_fail, vprintf
from ..site import Site
from ..syntax import LabelRef, Name, VariableRef, Vector
from ..table import End, Step, end, step
from ..types import TYPES


@end("bra[.uni]")
def bra(site: Site) -> End:
    site.arity(1)
    (label,) = site.operands
    if not isinstance(label, LabelRef):
        site.fail("`bra` needs a label")
    target = site.program.block_of_label[label.number]
    return lambda machine, frame, index: machine.go(target, index)


@end("brx.idx[.uni]")
def brx(site: Site) -> End:
    """To the label of a table that the index selects."""
    site.arity(2)
    read, name = site.read(site.operands[0], TYPES["u32"]), site.operands[1]
    if not isinstance(name, Name) or name.text not in site.program.tables:
        site.fail("`brx.idx` needs the label of a `.branchtargets`")
    targets = [site.program.block_of_label[label] for label in site.program.tables[name.text]]

    def run(machine: Any, frame: Frame, index: Index) -> None:
        chosen = spread(read(frame, index), frame.size(index))
        threads = frame.indices(index)
        if int(chosen.max()) >= len(targets):
            at = int(np.argmax(chosen >= len(targets)))
            what = f"`brx.idx` with index {chosen[at]}, but there are {len(targets)} targets"
            raise site.fault(TrapError, what, frame, int(threads[at]))
        for number in np.unique(chosen).tolist():
            machine.go(targets[number], threads[chosen == number])

    return run


@end("exit")
@end("ret[.uni]")
def exit_(site: Site) -> End:
    site.arity(0)
    location = site.location
    return lambda machine, frame, index: machine.finish(index, location)


@end("brkpt")
@end("trap")
def trap(site: Site) -> End:
    site.arity(0)
    opcode = site.instruction.opcode

    def run(machine: Any, frame: Frame, index: Index) -> None:
        raise site.fault(TrapError, f"the kernel executed `{opcode}`", frame, int(frame.indices(index)[0]))

    return run


_BUILTINS = {"vprintf": vprintf, "__assertfail": assert_fail}


@step("call[.uni]", "control")
def call(site: Site) -> Step:
    """A call of a builtin function; all others have been inlined."""
    results = [op for op in site.operands[:1] if isinstance(op, Vector)]
    name, arguments = site.operands[len(results)], site.operands[len(results) + 1 :]
    assert isinstance(name, Name)
    parts = arguments[0].elements if arguments and isinstance(arguments[0], Vector) else ()
    if not all(isinstance(part, VariableRef) for part in parts):
        site.fail(f"`{name.text}` takes `.param` variables")
    return _BUILTINS[name.text](site, results[0].elements if results else (), parts)


@step("nanosleep.u32", "control")
def nanosleep(site: Site) -> Step:
    site.arity(1)
    read = site.read(site.operands[0], TYPES["u32"])

    def run(frame: Frame, index: Index) -> None:
        read(frame, index)

    return run


@step("griddepcontrol.<action:launch_dependents|wait>", "control")
def griddepcontrol(site: Site) -> Step:
    """Nothing: launches run one after the other."""
    return lambda frame, index: None


@step("tcgen05.<rest:[^ ]+>", "control")
def tcgen05(site: Site) -> Step:
    """The tensor memory of Blackwell, of which there is nothing here."""
    site.fail(f"`tcgen05` (`{site.instruction.opcode}`) is not supported: the emulator has no tensor memory")


@step("multimem.<rest:[^ ]+>", "control")
def multimem(site: Site) -> Step:
    """Accesses to memory that several GPUs map as one, of which there is nothing here."""
    site.fail(f"`multimem` (`{site.instruction.opcode}`) is not supported: the emulator is one GPU, with no multicast "
              "objects for such an address to lie in")  # fmt: skip
