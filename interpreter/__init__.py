"""The reference: what every operation means, in NumPy.

`execute` runs a kernel on a grid; `run_function` evaluates one function on given values.
"""

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

__all__ = [
    "Argument",
    "Bounded",
    "Buffer",
    "DeadlockError",
    "DeviceAssertError",
    "InterpreterError",
    "LaunchError",
    "MemoryAccessError",
    "Options",
    "OutOfFuelError",
    "Waiting",
    "ZeroStepError",
    "execute",
    "run_function",
]
