"""Conversions between number types. Each rounds once.

Where no instruction goes from a wide source to a narrow result, the source is rounded to f32 *to odd* first: toward
zero, with the last bit set if anything was lost. f32 has more than two bits beyond every narrower format, so that
rounding again gives what rounding once would (S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded
sums", 2008).
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang import BF16, F8E4M3B15, F16, F32, F64, FloatType, IntType, Operation, PointerType, bit_width

from .context import Lowering
from .fp8 import decode, encode
from .pairs import FLOAT_LETTERS, LETTERS, halves, joined
from .registry import lowers_columns, lowers_elements, result_element, source_element
from .text import PTR, llvm_type


def f32_to_odd(to: Lowering, truncated: str, inexact: str) -> str:
    """An f32 that was cut toward zero, its last bit set where that lost something."""
    bits = to.text.value(f"bitcast float {truncated} to i32")
    sticky = to.text.value(f"zext i1 {inexact} to i32")
    odd = to.text.value(f"or i32 {bits}, {sticky}")
    return to.text.value(f"bitcast i32 {odd} to float")


def convert(to: Lowering, source: str, result: str, mode: str, value: str) -> str:
    """A PTX `cvt` between f64, f32 and f16, with a rounding mode."""
    letters = {"f64": "d", "f32": "f", "f16": "h"}
    types = {"f64": "double", "f32": "float", "f16": "half"}
    given = [(types[source], value)]
    return to.text.asm(
        types[result], f"cvt.{mode}.{result}.{source} $0, $1;", f"={letters[result]},{letters[source]}", given
    )


def bf16_toward_zero(to: Lowering, value: str) -> str:
    """The upper half of an f32; a NaN must not become an infinity."""
    bits = to.text.value(f"bitcast float {value} to i32")
    upper = to.text.value(f"lshr i32 {bits}, 16")
    short = to.text.value(f"trunc i32 {upper} to i16")
    is_nan = to.text.value(f"fcmp uno float {value}, {value}")
    chosen = to.text.value(f"select i1 {is_nan}, i16 {0x7FFF}, i16 {short}")
    return to.text.value(f"bitcast i16 {chosen} to bfloat")


def f64_to_odd(to: Lowering, value: str) -> str:
    """An f64 as an f32 rounded to odd."""
    cut = convert(to, "f64", "f32", "rz", value)
    back = to.text.value(f"fpext float {cut} to double")
    return f32_to_odd(to, cut, to.text.value(f"fcmp one double {back}, {value}"))


def float_to_float(
    to: Lowering, source: FloatType, result: FloatType, values: Sequence[str], toward_zero: bool = False
) -> list[str]:
    """Values from one format to another, each rounded once."""
    made = _rounded(to, source, result, values, toward_zero)
    if result != F8E4M3B15:
        return made
    return [_signed(to, source, value, code) for value, code in zip(values, made, strict=True)]


def _signed(to: Lowering, source: FloatType, value: str, code: str) -> str:
    """A code with the sign of the source, which instructions lose where that is a NaN."""
    bits, text = f"i{source.width}", to.text
    if not source.is_fp8:
        value = text.value(f"bitcast {llvm_type(source)} {value} to {bits}")
    if source.width > 8:
        shifted = text.value(f"lshr {bits} {value}, {source.width - 8}")
        value = text.value(f"trunc {bits} {shifted} to i8")
    sign = text.value(f"and i8 {value}, -128")
    magnitude = text.value(f"and i8 {code}, 127")
    return text.value(f"or i8 {magnitude}, {sign}")


def _extended(to: Lowering, source: FloatType, result: FloatType, values: Sequence[str]) -> list[str]:
    """Values in a wider format."""
    return [to.text.value(f"fpext {llvm_type(source)} {value} to {llvm_type(result)}") for value in values]


def _rounded(to: Lowering, source: FloatType, result: FloatType, values: Sequence[str], toward_zero: bool) -> list[str]:
    """The cast but for the sign of what stands for a NaN: step by step to a format that has an instruction."""
    if source.is_fp8:
        source, values = F32, decode(to, source, values)
    if source == F16 and result.is_fp8 and not toward_zero:
        return encode(to, result, values, source=F16)
    if source in (F16, BF16) and result != F64 and result != F32:
        source, values = F32, _extended(to, source, F32, values)
    if source == result:
        return list(values)
    if result.width > source.width:
        return _extended(to, source, result, values)
    if toward_zero:
        if source == F64 and result != F16:
            source, values = F32, [convert(to, "f64", "f32", "rz", value) for value in values]
        return list(values) if source == result else _cut(to, source, result, values)
    if source == F64 and result != F32 and result != F16:
        source, values = F32, [f64_to_odd(to, value) for value in values]
    if result.is_fp8:
        return encode(to, result, values)
    return _truncated(to, source, result, values)


def _truncated(to: Lowering, source: FloatType, result: FloatType, values: Sequence[str]) -> list[str]:
    """To nearest; two f32 go into one register of two narrow numbers at once."""
    made, wide, narrow = list[str](), llvm_type(source), llvm_type(result)
    paired = len(values) - len(values) % 2 if source == F32 else 0
    for first in range(0, paired, 2):
        both = joined(to, wide, *values[first : first + 2])
        made += halves(to, narrow, to.text.value(f"fptrunc <2 x {wide}> {both} to <2 x {narrow}>"))
    return made + [to.text.value(f"fptrunc {wide} {value} to {narrow}") for value in values[paired:]]


def _cut(to: Lowering, source: FloatType, result: FloatType, values: Sequence[str]) -> list[str]:
    """Toward zero to a narrower format, from f32 (or f64 to f16)."""
    if result.is_fp8:
        return encode(to, result, values, toward_zero=True)
    if result == BF16:
        return [bf16_toward_zero(to, value) for value in values]
    return [convert(to, source.name, result.name, "rz", value) for value in values]


@lowers_columns("cast_f")
def _cast(to: Lowering, operation: Operation, columns: list[list[str]]) -> list[str]:
    source, result = source_element(operation), result_element(operation)
    assert isinstance(source, FloatType) and isinstance(result, FloatType)
    return float_to_float(to, source, result, columns[0], operation.attributes["rounding"] == "rtz")


@lowers_columns("s_to_f", "u_to_f")
def _from_integer(to: Lowering, operation: Operation, columns: list[list[str]]) -> list[str]:
    """Integers of up to 16 bits fit f32; wider ones go straight where an instruction does, else to odd first."""
    source, result = source_element(operation), result_element(operation)
    assert isinstance(source, IntType) and isinstance(result, FloatType)
    signed, (values,), text = operation.name == "s_to_f", columns, to.text
    name, extend = ("sitofp", "sext") if signed else ("uitofp", "zext")
    if source.width < 32:
        values = [text.value(f"{extend} i{source.width} {value} to i32") for value in values]
    type_ = f"i{max(source.width, 32)}"
    if result in (F64, F32, F16):
        return [text.value(f"{name} {type_} {value} to {llvm_type(result)}") for value in values]
    if source.width < 32:
        exact = [text.value(f"{name} {type_} {value} to float") for value in values]
        return float_to_float(to, F32, result, exact)
    return float_to_float(to, F32, result, [integer_to_odd(to, signed, type_, value) for value in values])


def integer_to_odd(to: Lowering, signed: bool, type_: str, value: str) -> str:
    """An integer of 32 or 64 bits as an f32 rounded to odd."""
    letter, kind = ("r" if type_ == "i32" else "l"), f"{'s' if signed else 'u'}{type_[1:]}"
    cut = to.text.asm("float", f"cvt.rz.f32.{kind} $0, $1;", f"=f,{letter}", [(type_, value)])
    back = to.text.value(f"{'fptosi' if signed else 'fptoui'} float {cut} to {type_}")
    return f32_to_odd(to, cut, to.text.value(f"icmp ne {type_} {back}, {value}"))


@lowers_columns("f_to_s", "f_to_u")
def _to_integer(to: Lowering, operation: Operation, columns: list[list[str]]) -> list[str]:
    source, result = source_element(operation), result_element(operation)
    assert isinstance(source, FloatType) and isinstance(result, IntType)
    values = columns[0]
    if source not in (F32, F64):
        source, values = F32, float_to_float(to, source, F32, values)
    return [clamped(to, source, result, operation.name == "f_to_s", value) for value in values]


def clamped(to: Lowering, source: FloatType, result: IntType, signed: bool, value: str) -> str:
    """A float, f32 or f64, toward zero to an integer of its range, 0 for a NaN.

    The instruction does all that, but it makes a NaN the smallest number where f64 or 64 bits are involved.
    """
    width, kind = max(result.width, 16), llvm_type(source)
    code = f"cvt.rzi.{'s' if signed else 'u'}{result.width}.{source} $0, $1;"
    letters = f"={LETTERS[width]},{FLOAT_LETTERS[str(source)]}"
    made = to.text.asm(f"i{width}", code, letters, [(kind, value)])
    if source == F64 or result.width == 64:
        unordered = to.text.value(f"fcmp uno {kind} {value}, {value}")
        made = to.text.value(f"select i1 {unordered}, i{width} 0, i{width} {made}")
    return made if width == result.width else to.text.value(f"trunc i{width} {made} to {result}")


@lowers_elements("bitcast")
def _bitcast(to: Lowering, operation: Operation, args: list[str]) -> str:
    source, result = llvm_type(source_element(operation)), llvm_type(result_element(operation))
    return args[0] if source == result else to.text.value(f"bitcast {source} {args[0]} to {result}")


@lowers_elements("ptr_to_int")
def _address(to: Lowering, operation: Operation, args: list[str]) -> str:
    return to.text.value(f"ptrtoint {PTR} {args[0]} to i64")


@lowers_elements("int_to_ptr")
def _pointer(to: Lowering, operation: Operation, args: list[str]) -> str:
    assert isinstance(result_element(operation), PointerType) and bit_width(result_element(operation)) == 64
    return to.text.value(f"inttoptr i64 {args[0]} to {PTR}")
