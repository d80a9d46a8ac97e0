"""Conversions between types: value-preserving where the target can hold the value, and of bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..context import current
from ..dtypes import dtype, int64, ir_scalar, show
from ..errors.operations import BadChoice, BitcastWidths, CannotCast, RoundingNotAllowed
from ..opdef import OpDef
from ..ops.cast import (
    BITCAST,
    CAST_F,
    EXT_S,
    EXT_U,
    F_TO_S,
    F_TO_U,
    INT_TO_PTR,
    PTR_TO_INT,
    S_TO_F,
    TRUNC_I,
    U_TO_F,
)
from ..ops.compare import CMP_NE_F, CMP_NE_I
from ..ops.shape import CONSTANT
from ..types import I1, with_shape
from ..values import tensor

ROUNDINGS = ("rtne", "rtz")


def cast_tensor(x: tensor, target: dtype, rounding: str | None = None, bitcast: bool = False) -> tensor:
    """A tensor converted to an element type; itself when it has it.

    Integers narrow to their low bits and widen by their own sign (int1 by zeros); a number to int1 is `!= 0`; a float
    to an integer truncates and clamps; all else rounds once. Pointers convert to 64-bit integers, int1 and each other.
    Integers convert to 8-bit floats and back as to any float. `rounding` ("rtne" or "rtz") goes with casts from a
    float to a narrower one only. Raises RoundingNotAllowed, BadChoice, BitcastWidths, CannotCast.
    """
    source = x.dtype
    if rounding is not None:
        _check_rounding(source, target, rounding)
    if source == target:
        return x
    if bitcast and source.is_ptr() == target.is_ptr():
        return _bitcast(x, target)
    if target.is_void() or target.is_block():
        raise CannotCast(source=show(source), target=show(target), expected="a number or pointer type")
    return CASTS[_family(source), _family(target)](x, target, rounding)


def _check_rounding(source: dtype, target: dtype, rounding: str) -> None:
    if rounding not in ROUNDINGS:
        raise BadChoice(function="cast", argument="fp_downcast_rounding", value=rounding, choices=", ".join(ROUNDINGS))
    narrows = target.primitive_bitwidth < source.primitive_bitwidth
    if not (source.is_floating() and target.is_floating() and narrows):
        raise RoundingNotAllowed(source=show(source), target=show(target))


def _family(type_: dtype) -> str:
    if type_.is_ptr():
        return "pointer"
    if type_.is_bool():
        return "bool"
    return "float" if type_.is_floating() else "int"


def _make(row: OpDef, x: tensor, target: dtype, **attributes: Any) -> tensor:
    type_ = with_shape(ir_scalar(target), x.shape)
    return tensor(current().value(row, [x.handle], attributes, type_), target)


def _bitcast(x: tensor, target: dtype) -> tensor:
    source_bits, target_bits = x.dtype.primitive_bitwidth, target.primitive_bitwidth
    if source_bits != target_bits:
        raise BitcastWidths(source=show(x.dtype), source_bits=source_bits, target=show(target), target_bits=target_bits)
    if ir_scalar(x.dtype) == ir_scalar(target):  # only the sign or the constness changes, which IR does not know
        return tensor(x.handle, target)
    return _make(BITCAST, x, target)


def _int_to_int(x: tensor, target: dtype, rounding: str | None) -> tensor:
    source_bits, target_bits = x.dtype.primitive_bitwidth, target.primitive_bitwidth
    if source_bits == target_bits:
        return tensor(x.handle, target)
    if target_bits < source_bits:
        return _make(TRUNC_I, x, target)
    return _make(EXT_S if x.dtype.is_int_signed() else EXT_U, x, target)


def _to_bool(x: tensor, target: dtype, rounding: str | None) -> tensor:
    is_float = x.dtype.is_floating()
    zero = current().value(CONSTANT, (), {"value": 0.0 if is_float else 0}, x.handle.type)
    row = CMP_NE_F if is_float else CMP_NE_I
    return tensor(current().value(row, [x.handle, zero], None, with_shape(I1, x.shape)), target)


def _int_to_float(x: tensor, target: dtype, rounding: str | None) -> tensor:
    return _make(S_TO_F if x.dtype.is_int_signed() else U_TO_F, x, target)


def _float_to_int(x: tensor, target: dtype, rounding: str | None) -> tensor:
    return _make(F_TO_S if target.is_int_signed() else F_TO_U, x, target)


def _float_to_float(x: tensor, target: dtype, rounding: str | None) -> tensor:
    return _make(CAST_F, x, target, rounding=rounding or "rtne")


def _pointer_to_int(x: tensor, target: dtype, rounding: str | None) -> tensor:
    if target.primitive_bitwidth != 64:
        raise CannotCast(
            source=show(x.dtype), target=show(target), expected="int64 or uint64 (an address has 64 bits), or int1"
        )
    return _make(PTR_TO_INT, x, target)


def _pointer_to_bool(x: tensor, target: dtype, rounding: str | None) -> tensor:
    return _to_bool(_make(PTR_TO_INT, x, int64), target, None)


def _int_to_pointer(x: tensor, target: dtype, rounding: str | None) -> tensor:
    return _make(INT_TO_PTR, cast_tensor(x, int64), target)


def _pointer_to_pointer(x: tensor, target: dtype, rounding: str | None) -> tensor:
    return _bitcast(x, target)


def _no_cast(x: tensor, target: dtype, rounding: str | None) -> tensor:
    raise CannotCast(source=show(x.dtype), target=show(target), expected="an integer for an address")


CASTS: dict[tuple[str, str], Callable[[tensor, dtype, str | None], tensor]] = {
    ("int", "int"): _int_to_int,
    ("int", "bool"): _to_bool,
    ("int", "float"): _int_to_float,
    ("int", "pointer"): _int_to_pointer,
    ("bool", "int"): _int_to_int,
    ("bool", "float"): _int_to_float,
    ("bool", "pointer"): _no_cast,
    ("float", "int"): _float_to_int,
    ("float", "bool"): _to_bool,
    ("float", "float"): _float_to_float,
    ("float", "pointer"): _no_cast,
    ("pointer", "int"): _pointer_to_int,
    ("pointer", "bool"): _pointer_to_bool,
    ("pointer", "float"): _no_cast,
    ("pointer", "pointer"): _pointer_to_pointer,
}
