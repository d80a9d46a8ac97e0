"""The PTX emulator: PTX text, executed for every thread of every block at the same instruction.

`load_ptx` parses and checks a module; `run_ptx` runs one of its entries on buffers. The modules, in the order of the
work: `lexer`, `parser`, `body`, `declarations` and `syntax` (text to names resolved), `inline` and `program` (to basic
blocks), `table` and `ops/` (what each instruction means), `site` (how one reads and writes its operands), `frame`,
`spaces` and `machine` (threads, memory, and who runs next), `launch`.
"""

from . import ops
from .counters import Counters
from .errors import BarrierError, PtxError, TrapError, UninitializedError
from .launch import program_of, run_ptx
from .parser import PtxModule, parse
from .syntax import Function, Parameter

__all__ = [
    "BarrierError",
    "Counters",
    "Function",
    "Parameter",
    "PtxError",
    "PtxModule",
    "TrapError",
    "UninitializedError",
    "load_ptx",
    "ops",
    "run_ptx",
]


def load_ptx(text: str) -> PtxModule:
    """Parse a PTX text and check every instruction of its entries and of the functions they call.

    Raises PtxError, which shows the line and the place, for text that is not PTX or that the emulator does not know.
    """
    module = parse(text)
    for entry in module.entries:
        program_of(module, entry.name)
    return module
