"""8-bit floats: codes to f32, which is exact, and f32 to codes, rounded once and saturated.

From sm_89 on two numbers of the OCP formats go at a time by an instruction. Elsewhere, and toward zero, by integer and
float arithmetic that every target has. The bits are the same. f32 holds every value of the formats; a source wider than
f32 must have been rounded to f32 *to odd* before (see `casts.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang import F8E4M3FN, F8E5M2, F16, F32, FloatType

from ..targets import Needs
from .context import Lowering
from .formats import FORMATS
from .pairs import byte_pair, bytes_of, halves, joined
from .text import float_literal

#: The formats that instructions know, by their names there, and what those need.
HARDWARE = {F8E4M3FN: "e4m3", F8E5M2: "e5m2"}
CONVERTS = Needs(89, 81)


def decode(to: Lowering, element: FloatType, codes: Sequence[str]) -> list[str]:
    """The f32 of each code."""
    if element in HARDWARE and to.target.meets(CONVERTS):
        narrow = [half for pair in _paired(codes) for half in _decode_pair(to, element, pair)][: len(codes)]
    elif element == F8E5M2:
        narrow = [_upper_byte(to, code) for code in codes]
    else:
        return [_decode(to, element, code) for code in codes]
    return [to.text.value(f"fpext half {half} to float") for half in narrow]


def _upper_byte(to: Lowering, code: str) -> str:
    """The f16 of an f8e5m2, which is its upper half."""
    placed = to.text.value(f"shl i16 {to.text.value(f'zext i8 {code} to i16')}, 8")
    return to.text.value(f"bitcast i16 {placed} to half")


def _paired(values: Sequence[str]) -> list[tuple[str, str]]:
    """Neighbours; an odd one at the end is its own."""
    return [(values[i], values[min(i + 1, len(values) - 1)]) for i in range(0, len(values), 2)]


def _decode_pair(to: Lowering, element: FloatType, codes: tuple[str, str]) -> list[str]:
    """Two halves."""
    code = f"cvt.rn.f16x2.{HARDWARE[element]}x2 $0, $1;"
    bits = to.text.asm("i32", code, "=r,h", [("i16", byte_pair(to, *codes))])
    return halves(to, "half", to.text.value(f"bitcast i32 {bits} to <2 x half>"))


def encode(
    to: Lowering, element: FloatType, values: Sequence[str], toward_zero: bool = False, source: FloatType = F32
) -> list[str]:
    """The code of each f32 (or f16), to nearest even or toward zero, saturated."""
    if element in HARDWARE and to.target.meets(CONVERTS) and not toward_zero:
        return [code for pair in _paired(values) for code in _encode_pair(to, element, source, pair)][: len(values)]
    if source == F16:
        values = [to.text.value(f"fpext half {value} to float") for value in values]
    return [_encode(to, element, value, toward_zero) for value in values]


def _encode_pair(to: Lowering, element: FloatType, source: FloatType, values: tuple[str, str]) -> list[str]:
    """Two codes; of two f32, the instruction puts the first one above."""
    code, (low, high) = f"cvt.rn.satfinite.{HARDWARE[element]}x2", values
    if source == F32:
        given = [("float", high), ("float", low)]
        return bytes_of(to, to.text.asm("i16", f"{code}.f32 $0, $1, $2;", "=h,f,f", given))
    both = to.text.value(f"bitcast <2 x half> {joined(to, 'half', low, high)} to i32")
    return bytes_of(to, to.text.asm("i16", f"{code}.f16x2 $0, $1;", "=h,r", [("i32", both)]))


def _decode(to: Lowering, element: FloatType, code: str) -> str:
    """The f32 of a code: its bits at the top of an f32 of too small an exponent, scaled by a power of two."""
    text, format_ = to.text, FORMATS[element.name]
    wide = text.value(f"zext i8 {code} to i32")
    magnitude = text.value(f"and i32 {wide}, 127")
    placed = text.value(f"shl i32 {magnitude}, {23 - element.mantissa}")
    small = text.value(f"bitcast i32 {placed} to float")
    scaled = text.value(f"fmul float {small}, {float_literal(2.0 ** (127 - format_.bias), 'f32')}")
    bits = text.value(f"bitcast float {scaled} to i32")
    if format_.infinity is not None:
        infinite = text.value(f"icmp eq i32 {magnitude}, {format_.infinity}")
        bits = text.value(f"select i1 {infinite}, i32 {0x7F800000}, i32 {bits}")
    upper = text.value(f"and i32 {wide}, 128")
    sign = text.value(f"shl i32 {upper}, 24")
    bits = text.value(f"or i32 {bits}, {sign}")
    if format_.unsigned_zero:
        bad = text.value(f"icmp eq i32 {wide}, 128")
    elif format_.nan is not None:
        bad = text.value(f"icmp ugt i32 {magnitude}, {format_.infinity or format_.largest}")
    else:
        return text.value(f"bitcast i32 {bits} to float")
    bits = text.value(f"select i1 {bad}, i32 {0x7FFFFFFF}, i32 {bits}")
    return text.value(f"bitcast i32 {bits} to float")


def _encode(to: Lowering, element: FloatType, value: str, toward_zero: bool) -> str:
    """The code of an f32, to nearest even or toward zero, saturated."""
    text, format_ = to.text, FORMATS[element.name]
    bits = text.value(f"bitcast float {value} to i32")
    magnitude = text.value(f"and i32 {bits}, {0x7FFFFFFF}")
    upper = text.value(f"lshr i32 {bits}, 24")
    sign = text.value(f"and i32 {upper}, 128")
    normal = _normal(to, element, magnitude, toward_zero)
    lowest = (128 - format_.bias) << 23  # the bits of the smallest normal number as f32
    is_small = text.value(f"icmp ult i32 {magnitude}, {lowest}")
    tiny = _subnormal(to, element, magnitude, is_small, toward_zero)
    code = text.value(f"select i1 {is_small}, i32 {tiny}, i32 {normal}")
    code = text.call("i32", "llvm.umin.i32", [("i32", code), ("i32", str(format_.largest))])
    signed = text.value(f"or i32 {code}, {sign}")
    if format_.unsigned_zero:
        is_zero = text.value(f"icmp eq i32 {code}, 0")
        signed = text.value(f"select i1 {is_zero}, i32 0, i32 {signed}")
    if format_.nan is not None:  # where there is no NaN, the largest number stands for it
        is_nan = text.value(f"icmp ugt i32 {magnitude}, {0x7F800000}")
        signed = text.value(f"select i1 {is_nan}, i32 {format_.nan}, i32 {signed}")
    return text.value(f"trunc i32 {signed} to i8")


def _normal(to: Lowering, element: FloatType, magnitude: str, toward_zero: bool) -> str:
    """Round the mantissa in place, as an integer that carries into the exponent, and change the bias."""
    text, drop = to.text, 23 - element.mantissa
    rounded = magnitude
    if not toward_zero:
        above = text.value(f"lshr i32 {magnitude}, {drop}")
        odd = text.value(f"and i32 {above}, 1")
        half = text.value(f"add i32 {magnitude}, {(1 << drop - 1) - 1}")
        rounded = text.value(f"add i32 {half}, {odd}")
    kept = text.value(f"lshr i32 {rounded}, {drop}")
    return text.value(f"sub i32 {kept}, {(127 - FORMATS[element.name].bias) << element.mantissa}")


def _subnormal(to: Lowering, element: FloatType, magnitude: str, is_small: str, toward_zero: bool) -> str:
    """Count quanta: the value over the format's smallest number, which scales exactly, rounded to an integer."""
    text = to.text
    quantum = 1 - FORMATS[element.name].bias - element.mantissa
    chosen = text.value(f"select i1 {is_small}, i32 {magnitude}, i32 0")
    value = text.value(f"bitcast i32 {chosen} to float")
    scaled = text.value(f"fmul float {value}, {float_literal(2.0**-quantum, 'f32')}")
    if not toward_zero:
        scaled = text.call("float", "llvm.rint.f32", [("float", scaled)])
    return text.value(f"fptoui float {scaled} to i32")
