"""The Python frontend: captured functions, and their way to tile IR."""

from typing import TYPE_CHECKING, Any

from .._lazy import late as _late
from .function import ConstexprFunction, DeviceFunction, Parameter, constexpr_function, device_function

if TYPE_CHECKING:  # imported when first asked for
    from .generator import generate
    from .names import Dependency, dependencies, reads, used_globals
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
    "reads",
    "used_globals",
]


def __getattr__(name: str) -> Any:
    return _late(__name__, __all__, name)
