"""The short way to a kernel that was called like this before.

The full way binds, specializes and hashes all that the code rests on, which takes a hundred times as long as handing
a kernel to a GPU. A call is like an earlier one when everything is equal that the full way would look at: of each
argument the trait below (type, alignment, being 1 or a multiple of 16; of a constexpr type and bits), the options, the
device that was asked for and the knobs; and when every name that the kernel reads from outside still means what it
meant (`reach.py`). What has no trait here, such as a list or a tuple of arrays, goes the full way each time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from inspect import Parameter
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from tilewright import lang
from tilewright.lang import DeviceFunction, TilewrightError, constexpr, dtype, knobs

from ._lazy import cuda_place
from .arguments import array_argument
from .options import OPTION_NAMES
from .reach import Reach, reach_of

if TYPE_CHECKING:
    from .compiled import CompiledKernel
    from .kernels import JITFunction
    from .specialization import Specialization

#: Calls that one kernel remembers; the oldest go first.
REMEMBERED = 1024
#: Bounds of the integer types that an integer without annotation may get: int32, int64, uint64.
_I32, _I64, _U64 = 1 << 31, 1 << 63, 1 << 64


class Unsettled(Exception):
    """A value that only the full way can judge."""


def integer_trait(value: int) -> Hashable:
    """The type that it gets, whether it is 1, and whether it is a multiple of 16, as one small number."""
    if -_I32 <= value < _I32:
        width = 0
    elif -_I64 <= value < _U64:
        width = 4 if value < _I64 else 8
    else:
        raise Unsettled
    return width + (1 if value == 1 else 2 if value % 16 == 0 else 0)


def _numpy_trait(value: np.ndarray[Any, Any]) -> Hashable:
    return np.ndarray, value.dtype, value.ctypes.data % 16 == 0


def _tensor_trait(value: Any) -> Hashable:
    return value.dtype, value.data_ptr() % 16 == 0, value.device


def _interface_trait(value: Any) -> Hashable:
    interface = value.__cuda_array_interface__
    address: int = interface["data"][0]
    try:
        place = cuda_place(address)
    except TilewrightError:
        raise Unsettled from None
    return interface["typestr"], address % 16 == 0, place


def _type(value: object) -> Hashable:
    return type(value)


def _itself(value: Any) -> Any:
    return value


def _item(value: Any) -> Any:
    return value.item()


def _scalar_trait(value: np.generic[Any]) -> Hashable:
    item = value.item()
    if type(item) not in _NUMBERS:
        raise Unsettled
    return _NUMBERS[type(item)](item)


def _tensor_address(value: Any) -> int:
    return value.data_ptr()


def _interface_address(value: Any) -> int:
    return value.__cuda_array_interface__["data"][0]


class Way(NamedTuple):
    """How arguments of one class take the short way: their trait, and what is passed of them.

    `address` stands for an array where the device takes addresses alone.
    """

    trait: Callable[[Any], Hashable]
    value: Callable[[Any], Any]
    address: Callable[[Any], int] | None = None


_NUMBERS: dict[type[Any], Callable[[Any], Hashable]] = {int: integer_trait, bool: _type, float: _type}
_OPTION_KINDS = (int, bool, NoneType)
_PLAIN: dict[type[Any], Way] = {kind: Way(trait, _itself) for kind, trait in _NUMBERS.items()}


class _Ways(dict[type[Any], Way]):
    """The way of each class of runtime arguments, found at its first argument. Raises Unsettled for all others."""

    def __missing__(self, kind: type[Any]) -> Way:
        self[kind] = way = _way_of(kind)
        return way


def _way_of(kind: type[Any]) -> Way:
    if issubclass(kind, np.ndarray):
        return Way(_numpy_trait, array_argument)
    if issubclass(kind, np.generic):
        return Way(_scalar_trait, _item)
    if issubclass(kind, DeviceFunction):
        return Way(_itself, _itself)
    if any((base.__module__, base.__name__) == ("torch", "Tensor") for base in kind.__mro__):
        return Way(_tensor_trait, array_argument, _tensor_address)
    if hasattr(kind, "__cuda_array_interface__") and not hasattr(kind, "data_ptr"):
        return Way(_interface_trait, array_argument, _interface_address)
    raise Unsettled


WAYS = _Ways(_PLAIN | {NoneType: Way(_type, _itself)})


def constant_trait(value: Any) -> Hashable:
    """The type and the bits of a compile-time value."""
    kind = cast("Any", type(value))
    if kind in (int, bool, str, NoneType) or isinstance(value, dtype):
        return kind, value
    if kind is float:
        return kind, struct.pack("<d", value)
    if kind is tuple:
        return kind, tuple(map(constant_trait, value))
    if kind is constexpr:
        return constant_trait(value.value)
    raise Unsettled


def _constexpr_trait(value: Any) -> Hashable:
    return value if isinstance(value, DeviceFunction) else constant_trait(value)


def _runtime_trait(value: Any) -> Hashable:
    return WAYS[type(value)].trait(value)


def _integer_of(annotation: dtype) -> Callable[[Any], Hashable]:
    """The trait of a parameter whose annotation forces an integer type, which not every integer fits."""
    low, high = annotation.get_int_min_value(), annotation.get_int_max_value()

    def trait(value: Any) -> Hashable:
        number: Any = _item(value) if isinstance(value, np.generic) else value
        if type(number) is not int:
            return _runtime_trait(value)
        if not low <= number <= high:
            raise Unsettled
        return number % 16 == 0

    return trait


class Plan(NamedTuple):
    """How a call like an earlier one is launched: the kernel's place among those that are held, and what is passed.

    `passed` has the index of each parameter of the compiled kernel, and what makes of the argument what is launched
    with. `is_direct`: the device takes that as it is.
    """

    place: tuple[str, str]
    passed: tuple[tuple[int, Callable[[Any], Any]], ...]
    is_direct: bool
    reaches: tuple[Reach, ...]

    def payload(self, values: Sequence[Any]) -> list[Any]:
        """What is passed to the kernel of these arguments."""
        return [take(values[index]) for index, take in self.passed]


class Call(NamedTuple):
    """A call that may be like an earlier one: the value of each parameter, and what tells it from other calls."""

    values: Sequence[Any]
    key: Hashable


class Plans:
    """The calls of one kernel that went the full way."""

    def __init__(self, kernel: JITFunction, annotated: Mapping[str, dtype]) -> None:
        self.kernel = kernel
        self.names = tuple(kernel.arg_names)
        self._defaults = {p.name: p.default for p in kernel.parameters if p.has_default}
        self._traits = tuple(self._trait(p, annotated.get(p.name)) for p in kernel.parameters)
        self._knobs = ("device", *(name for name, _ in knobs.code_changing()))
        self._plans: dict[Hashable, Plan] = {}
        kinds = {parameter.kind for parameter in kernel.signature.parameters.values()}
        self._is_plain = kinds <= {Parameter.POSITIONAL_OR_KEYWORD}

    @staticmethod
    def _trait(parameter: lang.Parameter, annotation: dtype | None) -> Callable[[Any], Hashable]:
        if parameter.is_constexpr:
            return _constexpr_trait
        return _integer_of(annotation) if annotation is not None and annotation.is_int() else _runtime_trait

    def __len__(self) -> int:
        return len(self._plans)

    def call(self, arguments: Sequence[Any], keywords: Mapping[str, Any], device: str) -> Call | None:
        """A call by what tells it from others; None for one that must go the full way."""
        if not self._is_plain:
            return None
        try:
            values, options = self._arrange(arguments, keywords)
            traits = [trait(value) for trait, value in zip(self._traits, values, strict=True)]
        except Unsettled:
            return None
        return Call(values, (device, self.kernel.debug, knobs.settings(self._knobs), options, *traits))

    def _arrange(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Sequence[Any], Hashable]:
        """The value of each parameter, and the options."""
        if not keywords and len(arguments) == len(self.names):
            return arguments, ()
        if len(arguments) > len(self.names):
            raise Unsettled
        values = list(arguments)
        later = self.names[len(arguments) :]
        for name in later:
            if name not in keywords and name not in self._defaults:
                raise Unsettled
            values.append(keywords[name] if name in keywords else self._defaults[name])
        options = [item for item in keywords.items() if item[0] not in later or item[0] in OPTION_NAMES]
        if any(name not in OPTION_NAMES or type(value) not in _OPTION_KINDS for name, value in options):
            raise Unsettled
        return values, tuple((name, _type(value), value) for name, value in options)

    def find(self, call: Call) -> Plan | None:
        """The plan for a call, if there was one like it and what the kernel reads is what it was."""
        plan = self._plans.get(call.key)
        if plan is None or all(reach.holds() for reach in plan.reaches):
            return plan
        self._plans.pop(call.key, None)
        return None

    def remember(self, call: Call, kernel: CompiledKernel, specialization: Specialization, is_direct: bool) -> None:
        """Plan calls like this one, which led to this kernel."""
        passed: list[tuple[int, Callable[[Any], Any]]] = []
        for index, bound in enumerate(specialization.bound.values()):
            if not isinstance(bound.type, constexpr):
                way = WAYS[type(call.values[index])]
                passed.append((index, way.address if is_direct and way.address is not None else way.value))
        functions = [self.kernel, *(value for value in call.values if isinstance(value, DeviceFunction))]
        reaches = tuple(map(reach_of, functions))
        while len(self._plans) >= REMEMBERED:
            self._plans.pop(next(iter(self._plans)), None)
        self._plans[call.key] = Plan((kernel.key, kernel.device.name), tuple(passed), is_direct, reaches)
