"""The Python frontend: captured functions, and their way to tile IR."""

from .function import ConstexprFunction, DeviceFunction, Parameter, constexpr_function, device_function
from .generator import generate
from .names import Dependency, dependencies, used_globals
from .operators import TileLogicWarning

__all__ = [
    "ConstexprFunction",
    "Dependency",
    "DeviceFunction",
    "Parameter",
    "TileLogicWarning",
    "constexpr_function",
    "dependencies",
    "device_function",
    "generate",
    "used_globals",
]
