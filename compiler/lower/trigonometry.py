"""Sine and cosine of f32, at any size of the argument.

The argument is reduced to a quarter turn: up to 2^30 by subtracting multiples of pi/2 in f64, in three parts; beyond by
multiplying with the bits of 2/pi that matter (M. Payne and R. Hanek, "Radian reduction for trigonometric functions",
1983). The polynomials are in f64, so that only the last rounding counts.
"""

from __future__ import annotations

from tilewright.lang import F64, Operation

from .context import Lowering
from .polynomials import fma, horner, number
from .registry import lowers_elements

#: (sin r - r) / r^3 and (cos r - 1) / r^2 over r^2 for |r| <= 0.786, within 2^-45.
SIN = (
    -0.1666666666666381,
    0.008333333331051457,
    -0.0001984126689403125,
    2.7555984496616824e-06,
    -2.4805066280449165e-08,
)
COS = (-0.49999999999999967, 0.041666666666630325, -0.0013888888882052175, 2.480158258746815e-05,
       -2.755584842547477e-07, 2.0665012190524058e-09)  # fmt: skip
#: floor(2^200 * 2 / pi).
TWO_OVER_PI = 1023008531944964742713634320094839494465182657242203849507326
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
FAST = 2.0**30

#: Gives the rest r, |r| <= pi/4, and the number of quarter turns modulo 4 in the low bits.
REDUCE = f"""define internal {{double, i32}} @reduce_quarter(float %x) alwaysinline {{
  %size = call float @llvm.fabs.f32(float %x)
  %fast = fcmp olt float %size, {number(FAST, "f32")}
  br i1 %fast, label %near, label %far
near:
  %wide = fpext float %x to double
  %scaled = fmul double %wide, {number(2 / 3.141592653589793, "f64")}
  %turns = call double @llvm.rint.f64(double %scaled)
  %less = fneg double %turns
  %r0 = call double @llvm.fma.f64(double %less, double {number(HALF_PI[0], "f64")}, double %wide)
  %r1 = call double @llvm.fma.f64(double %less, double {number(HALF_PI[1], "f64")}, double %r0)
  %r2 = call double @llvm.fma.f64(double %less, double {number(HALF_PI[2], "f64")}, double %r1)
  %count = fptosi double %turns to i32
  br label %done
far:
  %bits = bitcast float %size to i32
  %field = lshr i32 %bits, 23
  %fraction = and i32 %bits, 8388607
  %mantissa = or i32 %fraction, 8388608
  %back = sub i32 256, %field
  %shift = zext i32 %back to i256
  %window = lshr i256 {TWO_OVER_PI}, %shift
  %part = trunc i256 %window to i128
  %m = zext i32 %mantissa to i128
  %product = mul i128 %part, %m
  %turned = shl i128 %product, 32
  %top = lshr i128 %turned, 126
  %quarter = trunc i128 %top to i32
  %rest = shl i128 %turned, 2
  %high = lshr i128 %rest, 64
  %signed = trunc i128 %high to i64
  %round = lshr i64 %signed, 63
  %up = trunc i64 %round to i32
  %quarters = add i32 %quarter, %up
  %float = sitofp i64 %signed to double
  %angle = fmul double %float, {number(HALF_PI[0] * 2.0**-64, "f64")}
  %negative = fcmp olt float %x, 0.0
  %minus = fneg double %angle
  %opposite = sub i32 0, %quarters
  %r3 = select i1 %negative, double %minus, double %angle
  %count3 = select i1 %negative, i32 %opposite, i32 %quarters
  br label %done
done:
  %r = phi double [ %r2, %near ], [ %r3, %far ]
  %n = phi i32 [ %count, %near ], [ %count3, %far ]
  %pair = insertvalue {{double, i32}} poison, double %r, 0
  %both = insertvalue {{double, i32}} %pair, i32 %n, 1
  ret {{double, i32}} %both
}}"""
NEEDED = (
    "float @llvm.fabs.f32(float)",
    "double @llvm.rint.f64(double)",
    "double @llvm.fma.f64(double, double, double)",
)


def reduced(to: Lowering, x: str) -> tuple[str, str]:
    """The rest and the quarter turns."""
    to.text.helpers["reduce_quarter"] = REDUCE
    to.text.declarations.update(f"declare {each}" for each in NEEDED)
    pair = to.text.call("{double, i32}", "reduce_quarter", [("float", x)])
    parts = [to.text.value(f"extractvalue {{double, i32}} {pair}, {index}") for index in range(2)]
    return parts[0], parts[1]


@lowers_elements("sin", "cos", refused=frozenset((F64,)))
def _sine(to: Lowering, operation: Operation, args: list[str]) -> str:
    """sin or cos of the rest, by the quarter; the cosine is a quarter ahead. -0.0 stays, infinities give NaN."""
    (x,), text = args, to.text
    rest, quarter = reduced(to, x)
    if operation.name == "cos":
        quarter = text.value(f"add i32 {quarter}, 1")
    square = text.value(f"fmul double {rest}, {rest}")
    cube = text.value(f"fmul double {square}, {rest}")
    sine = fma(to, "f64", horner(to, "f64", square, SIN), cube, rest)
    cosine = fma(to, "f64", horner(to, "f64", square, COS), square, "1.0")
    odd = text.value(f"trunc i32 {quarter} to i1")
    chosen = text.value(f"select i1 {odd}, double {cosine}, double {sine}")
    half = text.value(f"and i32 {quarter}, 2")
    turned = text.value(f"icmp ne i32 {half}, 0")
    minus = text.value(f"fneg double {chosen}")
    result = text.value(f"fptrunc double {text.value(f'select i1 {turned}, double {minus}, double {chosen}')} to float")
    if operation.name == "sin":
        zero = text.value(f"fcmp oeq float {x}, 0.0")
        result = text.value(f"select i1 {zero}, float {x}, float {result}")
    finite = text.value(f"fcmp olt float {text.call('float', 'llvm.fabs.f32', [('float', x)])}, 0x7FF0000000000000")
    return text.value(f"select i1 {finite}, float {result}, float 0x7FF8000000000000")
