"""The reference: what every operation means, in NumPy.

`execute` runs a kernel on a grid; `run_function` evaluates one function on given values. `run_ptx` runs PTX text on the
emulator; `enclose` runs a kernel on all the results that the accuracy contracts allow; `execute_distributed` runs GPU
IR in threads and registers. These load when first asked for.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ._lazy import LATE as _LATE
from ._lazy import late as _late
from .batch import Options
from .bounded import Bounded
from .errors import (
    DeadlockError,
    DeviceAssertError,
    DistributionError,
    InterpreterError,
    LaunchError,
    MemoryAccessError,
    OutOfFuelError,
    Waiting,
    ZeroStepError,
)
from .executor import Argument, execute, run_function
from .memory import Buffer

if _TYPE_CHECKING:
    from .distributed import execute_distributed
    from .interval import Enclosure, Undecided, enclose
    from .ptx import (
        BarrierError,
        Counters,
        PtxError,
        PtxModule,
        RaceError,
        TrapError,
        UninitializedError,
        check_im2col_map,
        check_tensor_map,
        encode_im2col_map,
        encode_tensor_map,
        load_ptx,
        run_ptx,
    )

__all__ = [
    "Argument",
    "BarrierError",
    "Bounded",
    "Buffer",
    "Counters",
    "DeadlockError",
    "DeviceAssertError",
    "DistributionError",
    "Enclosure",
    "InterpreterError",
    "LaunchError",
    "MemoryAccessError",
    "Options",
    "OutOfFuelError",
    "PtxError",
    "PtxModule",
    "RaceError",
    "TrapError",
    "Undecided",
    "UninitializedError",
    "Waiting",
    "ZeroStepError",
    "check_im2col_map",
    "check_tensor_map",
    "enclose",
    "encode_im2col_map",
    "encode_tensor_map",
    "execute",
    "execute_distributed",
    "load_ptx",
    "run_function",
    "run_ptx",
]


def __getattr__(name: str) -> _Any:
    if name in _LATE:
        return _late(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
