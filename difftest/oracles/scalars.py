"""What each elementwise op does to the codes of one element, in Python integers and fractions.

`scalar_rule(operation)` gives the function from the operands' codes to the result's code. It is a second account of
the op rows, independent of `interpreter/`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

from tilewright.lang import FloatType, IntType, Operation, ScalarType, bit_width, element_of

from .formats import as_real, decode, encode, has_negative_zero, round_result, sign_bit
from .reals import REAL_RULES

ScalarRule: TypeAlias = Callable[..., int]


def signed(code: int, width: int) -> int:
    """A code read as a two's complement number; an i1 holds 0 and -1."""
    return code - (1 << width) if code >> width - 1 else code


def _truncated(a: int, b: int) -> int:
    """a / b toward zero, for b not 0."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _div_s(a: int, b: int) -> int:
    return -1 if b == 0 else _truncated(a, b)


def _rem_s(a: int, b: int) -> int:
    return a if b == 0 else a - _truncated(a, b) * b


#: On signed numbers; the result is taken modulo 2**width.
_SIGNED: dict[str, Callable[..., int]] = {
    "add_i": operator.add,
    "sub_i": operator.sub,
    "mul_i": operator.mul,
    "div_s": _div_s,
    "rem_s": _rem_s,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "min_s": min,
    "max_s": max,
    "abs_i": lambda a: abs(a),
}
#: On unsigned numbers; the result is taken modulo 2**width.
_UNSIGNED: dict[str, Callable[..., int]] = {
    "div_u": lambda a, b: a // b if b else -1,
    "rem_u": lambda a, b: a % b if b else a,
    "min_u": min,
    "max_u": max,
}
#: On the width and unsigned codes.
_WITH_WIDTH: dict[str, Callable[[int, int, int], int]] = {
    "mulhi_u": lambda width, a, b: a * b >> width,
    "mulhi_s": lambda width, a, b: signed(a, width) * signed(b, width) >> width,
    "shl": lambda width, a, b: a << b if b < width else 0,
    "shr_u": lambda width, a, b: a >> b if b < width else 0,
    "shr_s": lambda width, a, b: signed(a, width) >> min(b, width),
}
_PREDICATES: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _comparison(name: str, element: ScalarType) -> ScalarRule:
    """`cmp_<predicate>_<kind>`."""
    _, predicate, kind = name.split("_")
    holds = _PREDICATES[predicate]
    if isinstance(element, FloatType):
        return lambda a, b: int(holds(decode(a, element), decode(b, element)))
    width = bit_width(element)
    if kind == "u":
        return lambda a, b: int(holds(a, b))
    return lambda a, b: int(holds(signed(a, width), signed(b, width)))


def _integer(name: str, width: int) -> ScalarRule:
    mask = (1 << width) - 1
    if name in _SIGNED:
        rule = _SIGNED[name]
        return lambda *codes: rule(*(signed(code, width) for code in codes)) & mask
    if name in _UNSIGNED:
        free = _UNSIGNED[name]
        return lambda *codes: free(*codes) & mask
    sized = _WITH_WIDTH[name]
    return lambda a, b: sized(width, a, b) & mask


def _to_integer(code: int, source: FloatType, width: int, is_signed: bool) -> int:
    """Truncated, clamped; NaN is 0."""
    value = decode(code, source)
    if math.isnan(value):
        return 0
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if is_signed else (0, (1 << width) - 1)
    whole = (low if value < 0 else high) if math.isinf(value) else math.trunc(Fraction(value))
    return min(max(whole, low), high) & ((1 << width) - 1)


def _from_integer(value: int, target: FloatType) -> int:
    return encode(Fraction(value) if value else 0.0, target)


def _cast_f(operation: Operation, source: ScalarType, target: ScalarType) -> ScalarRule:
    assert isinstance(source, FloatType) and isinstance(target, FloatType)
    toward_zero = operation.attributes["rounding"] == "rtz"
    return lambda code: encode(as_real(decode(code, source)), target, toward_zero)


def _move_sign(name: str, fmt: FloatType) -> ScalarRule:
    """Flip or clear the sign bit; where -0.0 has no code, zero and NaN (whose codes differ in it) stay."""
    sign = sign_bit(fmt)

    def rule(code: int) -> int:
        if not has_negative_zero(fmt) and code & ~sign == 0:
            return code
        return code ^ sign if name == "neg_f" else code & ~sign

    return rule


#: Conversions: operation, source element, target element -> the rule.
_CASTS: dict[str, Callable[[Operation, ScalarType, ScalarType], ScalarRule]] = {
    "trunc_i": lambda _, a, b: lambda code: code & ((1 << bit_width(b)) - 1),
    "ext_s": lambda _, a, b: lambda code: signed(code, bit_width(a)) & ((1 << bit_width(b)) - 1),
    "ext_u": lambda _, a, b: lambda code: code,
    "s_to_f": lambda _, a, b: lambda code: _from_integer(signed(code, bit_width(a)), _float(b)),
    "u_to_f": lambda _, a, b: lambda code: _from_integer(code, _float(b)),
    "f_to_s": lambda _, a, b: lambda code: _to_integer(code, _float(a), bit_width(b), True),
    "f_to_u": lambda _, a, b: lambda code: _to_integer(code, _float(a), bit_width(b), False),
    "cast_f": _cast_f,
    "bitcast": lambda _, a, b: lambda code: code,
    "ptr_to_int": lambda _, a, b: lambda code: code,
    "int_to_ptr": lambda _, a, b: lambda code: code,
}


def _float(element: ScalarType) -> FloatType:
    assert isinstance(element, FloatType)
    return element


def float_rule(name: str, fmt: FloatType) -> ScalarRule:
    """An arithmetic op or function on codes of one format."""
    rule = REAL_RULES[name]
    return lambda *codes: round_result(rule(*(decode(code, fmt) for code in codes)), fmt)


def named_rule(name: str, element: ScalarType) -> ScalarRule:
    """The rule of an op all of whose operands and results have one element type."""
    if name in REAL_RULES:
        return float_rule(name, _float(element))
    if name in ("neg_f", "abs_f"):
        return _move_sign(name, _float(element))
    assert isinstance(element, IntType)
    return _integer(name, element.width)


def scalar_rule(operation: Operation) -> ScalarRule:
    """What an elementwise operation does to one element: codes of the operands in, the code of the result out."""
    name = operation.name
    first, target = element_of(operation.operands[0].type), element_of(operation.result.type)
    if name == "select":
        return lambda condition, a, b: a if condition else b
    if name in _CASTS:
        return _CASTS[name](operation, first, target)
    if name.startswith("cmp_"):
        return _comparison(name, first)
    return named_rule(name, first)
