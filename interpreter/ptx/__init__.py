"""The PTX emulator: PTX text, executed for every thread of every block at the same instruction.

`load_ptx` parses and checks a module; `run_ptx` runs one of its entries on buffers. The modules, in the order of the
work: `lexer`, `parser`, `body`, `declarations` and `syntax` (text to names resolved), `inline` and `program` (to basic
blocks), `table` and `ops/` (what each instruction means), `site` (how one reads and writes its operands), `frame`,
`spaces` and `machine` (threads, memory, and who runs next), `launch`. Matrix instructions have `fragments` (which lane
holds what), `products` and `tensor_cores` (how they multiply and add).

What runs beside the threads is in `hopper/`; `circles` finds threads that poll for ever.

What is checked: `access` says what kind of access an instruction makes, `watch` looks at each one with `shadow` (the
last accesses to every byte), `order`, `messages` and `fences` (what comes before what) and `scopes`, and tells `races`;
`copies` are the asynchronous ones; `taint`, `marks` and `definedness` follow values that nobody wrote. What is counted:
`traffic`, `counters`.
"""

from . import ops
from .counters import Counters
from .errors import BarrierError, PtxError, RaceError, TrapError, UninitializedError
from .hopper.im2col_rules import check_im2col_map
from .hopper.map_rules import check_tensor_map
from .hopper.maps import TensorMap, decode_tensor_map, encode_im2col_map, encode_tensor_map
from .launch import program_of, run_ptx
from .parser import PtxModule, parse
from .races import Race
from .syntax import Function, Parameter

__all__ = [
    "BarrierError",
    "Counters",
    "Function",
    "Parameter",
    "PtxError",
    "PtxModule",
    "Race",
    "RaceError",
    "TensorMap",
    "TrapError",
    "UninitializedError",
    "check_im2col_map",
    "check_tensor_map",
    "decode_tensor_map",
    "encode_im2col_map",
    "encode_tensor_map",
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
