"""The reference: what every operation means, in NumPy.

`execute` runs a kernel on a grid; `run_function` evaluates one function on given values. `run_ptx` runs PTX text on the
emulator, which loads when it is first asked for.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ._lazy import EMULATOR as _EMULATOR
from ._lazy import emulator as _emulator
from .batch import Options
from .bounded import Bounded
from .errors import (
    DeadlockError,
    DeviceAssertError,
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
    from .ptx import BarrierError, Counters, PtxError, PtxModule, TrapError, UninitializedError, load_ptx, run_ptx

__all__ = [
    "Argument",
    "BarrierError",
    "Bounded",
    "Buffer",
    "Counters",
    "DeadlockError",
    "DeviceAssertError",
    "InterpreterError",
    "LaunchError",
    "MemoryAccessError",
    "Options",
    "OutOfFuelError",
    "PtxError",
    "PtxModule",
    "TrapError",
    "UninitializedError",
    "Waiting",
    "ZeroStepError",
    "execute",
    "load_ptx",
    "run_function",
    "run_ptx",
]


def __getattr__(name: str) -> _Any:
    if name in _EMULATOR:
        return getattr(_emulator(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
