"""The exact remainder of floats, `fmod`: long division of the mantissas, one bit a round.

LLVM's `frem` goes through a rounded quotient, which is wrong beyond 2^24. Here nothing rounds: while the exponents
differ, subtract if it goes and double what is left.
"""

from __future__ import annotations

from tilewright.lang import FloatType, Operation

from .context import Lowering
from .registry import lowers_elements, source_element
from .text import llvm_type


def helper(element: FloatType) -> str:
    """The function for one format, as LLVM text."""
    width, fraction, exponent = element.width, element.mantissa, element.exponent
    w, kind = f"i{width}", llvm_type(element)
    sign = 1 << width - 1
    infinity = ((1 << exponent) - 1) << fraction
    return f"""define internal {kind} @remainder_{element}({kind} %x, {kind} %y) alwaysinline {{
entry:
  %bx = bitcast {kind} %x to {w}
  %by = bitcast {kind} %y to {w}
  %sign = and {w} %bx, {sign}
  %a = and {w} %bx, {sign - 1}
  %b = and {w} %by, {sign - 1}
  %zero = icmp eq {w} %b, 0
  %huge = icmp uge {w} %a, {infinity}
  %nan = icmp ugt {w} %b, {infinity}
  %bad0 = or i1 %zero, %huge
  %bad = or i1 %bad0, %nan
  %less = icmp ult {w} %a, %b
  %early = or i1 %bad, %less
  %instead = select i1 %bad, {kind} 0x7FF8000000000000, {kind} %x
  br i1 %early, label %done, label %divide
divide:
{_normalised(element, "a")}
{_normalised(element, "b")}
  %n = sub {w} %ea, %eb
  br label %round
{_rounds(w)}
pack:
{_packed(element)}
  br label %done
done:
  %r = phi {kind} [ %instead, %entry ], [ %result, %pack ]
  ret {kind} %r
}}"""


def _rounds(w: str) -> str:
    """The blocks of the division: subtract the divisor where it goes, and double what is left, %n times."""
    return f"""round:
  %left = phi {w} [ %n, %divide ], [ %fewer, %more ]
  %m = phi {w} [ %ma, %divide ], [ %twice, %more ]
  %minus = sub {w} %m, %mb
  %goes = icmp uge {w} %m, %mb
  %rest = select i1 %goes, {w} %minus, {w} %m
  %last = icmp eq {w} %left, 0
  br i1 %last, label %pack, label %more
more:
  %twice = shl {w} %rest, 1
  %fewer = sub {w} %left, 1
  br label %round"""


def _packed(element: FloatType) -> str:
    """Lines that give %result: the rest with its first bit in place, its exponent, and the sign of the dividend."""
    w, fraction, kind = f"i{element.width}", element.mantissa, llvm_type(element)
    return f"""  %none = icmp eq {w} %rest, 0
  %some = select i1 %none, {w} 1, {w} %rest
  %blank = call {w} @llvm.ctlz.{w}({w} %some, i1 true)
  %shift = sub {w} %blank, {element.exponent}
  %high = shl {w} %some, %shift
  %e = sub {w} %eb, %shift
  %normal = icmp sgt {w} %e, 0
  %field = shl {w} %e, {fraction}
  %cut = sub {w} %high, {1 << fraction}
  %whole = add {w} %cut, %field
  %under0 = sub {w} 1, %e
  %under = select i1 %normal, {w} 0, {w} %under0
  %small = lshr {w} %high, %under
  %size0 = select i1 %normal, {w} %whole, {w} %small
  %size = select i1 %none, {w} 0, {w} %size0
  %bits = or {w} %size, %sign
  %result = bitcast {w} %bits to {kind}"""


def _normalised(element: FloatType, name: str) -> str:
    """Lines that give %m<name>, the mantissa with its first bit in place, and %e<name>, the exponent."""
    w, fraction = f"i{element.width}", element.mantissa
    return f"""  %f{name} = lshr {w} %{name}, {fraction}
  %s{name} = icmp eq {w} %f{name}, 0
  %c{name} = call {w} @llvm.ctlz.{w}({w} %{name}, i1 false)
  %h{name}0 = sub {w} %c{name}, {element.exponent}
  %h{name} = select i1 %s{name}, {w} %h{name}0, {w} 0
  %l{name} = shl {w} %{name}, %h{name}
  %k{name} = sub {w} 1, %h{name}
  %p{name} = and {w} %{name}, {(1 << fraction) - 1}
  %q{name} = or {w} %p{name}, {1 << fraction}
  %m{name} = select i1 %s{name}, {w} %l{name}, {w} %q{name}
  %e{name} = select i1 %s{name}, {w} %k{name}, {w} %f{name}"""


@lowers_elements("rem_f")
def _remainder(to: Lowering, operation: Operation, args: list[str]) -> str:
    element = source_element(operation)
    assert isinstance(element, FloatType)
    to.text.helpers[f"remainder_{element}"] = helper(element)
    to.text.declarations.add(f"declare i{element.width} @llvm.ctlz.i{element.width}(i{element.width}, i1)")
    kind = llvm_type(element)
    return to.text.call(kind, f"remainder_{element}", [(kind, arg) for arg in args])
