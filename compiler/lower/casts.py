"""Conversions between number types. Each rounds once.

Where no instruction goes from a wide source to a narrow result, the source is rounded to f32 *to odd* first: toward
zero, with the last bit set if anything was lost. f32 has more than two bits beyond every narrower format, so that
rounding again gives what rounding once would (S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded
sums", 2008).
"""

from __future__ import annotations

from tilewright.lang import BF16, F8E4M3B15, F16, F32, F64, FloatType, IntType, Operation, PointerType, bit_width

from .context import Lowering
from .fp8 import decode, encode
from .registry import lowers_elements, result_element, source_element
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


def float_to_float(to: Lowering, source: FloatType, result: FloatType, value: str, toward_zero: bool) -> str:
    """One value from one format to another, rounded once."""
    made = _rounded(to, source, result, value, toward_zero)
    return made if result != F8E4M3B15 else _signed(to, source, value, made)


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


def _rounded(to: Lowering, source: FloatType, result: FloatType, value: str, toward_zero: bool) -> str:
    if source.is_fp8:
        source, value = F32, decode(to, source, value)
    if source in (F16, BF16) and result != F64 and result != F32:
        source, value = F32, to.text.value(f"fpext {llvm_type(source)} {value} to float")
    if source == result:
        return value
    if result.width > source.width:
        return to.text.value(f"fpext {llvm_type(source)} {value} to {llvm_type(result)}")
    if toward_zero:
        if source == F64 and result != F16:
            source, value = F32, convert(to, "f64", "f32", "rz", value)
        return value if source == result else _cut(to, source, result, value)
    if source == F64 and result != F32 and result != F16:
        source, value = F32, f64_to_odd(to, value)
    if result.is_fp8:
        return encode(to, result, value)
    return to.text.value(f"fptrunc {llvm_type(source)} {value} to {llvm_type(result)}")


def _cut(to: Lowering, source: FloatType, result: FloatType, value: str) -> str:
    """Toward zero to a narrower format, from f32 (or f64 to f16)."""
    if result.is_fp8:
        return encode(to, result, value, toward_zero=True)
    if result == BF16:
        return bf16_toward_zero(to, value)
    return convert(to, source.name, result.name, "rz", value)


@lowers_elements("cast_f")
def _cast(to: Lowering, operation: Operation, args: list[str]) -> str:
    source, result = source_element(operation), result_element(operation)
    assert isinstance(source, FloatType) and isinstance(result, FloatType)
    return float_to_float(to, source, result, args[0], operation.attributes["rounding"] == "rtz")


@lowers_elements("s_to_f", "u_to_f")
def _from_integer(to: Lowering, operation: Operation, args: list[str]) -> str:
    """Integers of up to 16 bits fit f32; wider ones go straight where an instruction does, else to odd first."""
    source, result = source_element(operation), result_element(operation)
    assert isinstance(source, IntType) and isinstance(result, FloatType)
    signed, (value,), text = operation.name == "s_to_f", args, to.text
    name, extend = ("sitofp", "sext") if signed else ("uitofp", "zext")
    if source.width < 32:
        value = text.value(f"{extend} i{source.width} {value} to i32")
    type_ = f"i{max(source.width, 32)}"
    if result in (F64, F32, F16):
        return text.value(f"{name} {type_} {value} to {llvm_type(result)}")
    if source.width < 32:
        return float_to_float(to, F32, result, text.value(f"{name} {type_} {value} to float"), False)
    letter, kind = ("r" if type_ == "i32" else "l"), f"{'s' if signed else 'u'}{type_[1:]}"
    cut = text.asm("float", f"cvt.rz.f32.{kind} $0, $1;", f"=f,{letter}", [(type_, value)])
    back = text.value(f"{'fptosi' if signed else 'fptoui'} float {cut} to {type_}")
    odd = f32_to_odd(to, cut, text.value(f"icmp ne {type_} {back}, {value}"))
    return float_to_float(to, F32, result, odd, False)


@lowers_elements("f_to_s", "f_to_u")
def _to_integer(to: Lowering, operation: Operation, args: list[str]) -> str:
    source, result = source_element(operation), result_element(operation)
    assert isinstance(source, FloatType)
    value = args[0]
    if source not in (F32, F64):
        source, value = F32, float_to_float(to, source, F32, value, False)
    name = "fptosi" if operation.name == "f_to_s" else "fptoui"
    return to.text.call(str(result), f"llvm.{name}.sat.{result}.{source}", [(llvm_type(source), value)])


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
