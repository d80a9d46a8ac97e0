"""Sine and cosine of f32 and f64, at any size of the argument.

The argument is reduced to a quarter turn. Up to a limit multiples of pi/2 in three parts are subtracted; the first
subtraction is exact, and in f64 what the others lose is kept beside (W. J. Cody and W. Waite, "Software Manual for the
Elementary Functions", 1980). Beyond, the argument is multiplied as an integer with those bits of 2/pi that matter (M.
Payne and R. Hanek, "Radian reduction for trigonometric functions", 1983).
"""

from __future__ import annotations

from tilewright.lang import F32, Operation

from .context import Lowering
from .polynomials import MAGIC, fma, horner, number
from .registry import lowers_elements, source_element

#: floor(2^1216 * 2 / pi), 64 bits a line; the largest f64 needs the last of them.
TWO_OVER_PI = int(
    "A2F9836E4E441529" "FC2757D1F534DDC0" "DB6295993C439041" "FE5163ABDEBBC561" "B7246E3A424DD2E0" "06492EEA09D1921C"
    "FE1DEB1CB129A73E" "E88235F52EBB4484" "E99C7026B45F7E41" "3991D639835339F4" "9C845F8BBDF9283B" "1FF897FFDE05980F"
    "EF2F118B5A0A6D1F" "6D367ECF27CB09B7" "4F463F669E5FEA2D" "7527BAC7EBE5F17B" "3D0739F78A5292EA" "6BFB5FB11F8D5D08"
    "56033046FC7B6BAB", 16
)  # fmt: skip
#: The words of that, behind one of zeros, so that the exponent of any argument beyond the limits says where to start.
WORDS = (0, *(TWO_OVER_PI >> 64 * index & (1 << 64) - 1 for index in reversed(range(19))))
TABLE = f"@two_over_pi = internal addrspace(1) constant [20 x i64] [{', '.join(f'i64 {w}' for w in WORDS)}], align 8"
#: pi / 2 in three parts.
HALF_PI = {
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "f64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
QUARTERS = 0.6366197723675814  # 2 / pi
#: Up to here the parts do: n pi/2 is then exact enough beside any rest that an argument of the format leaves.
LIMIT = {"f32": 2.0**16, "f64": 2.0**30}
#: (sin r - r) / r^3 and (cos r - 1) / r^2 over r^2 for |r| <= 0.786, relative to sin and cos within 2^-27.
SIN = (-0.16666653752326965, 0.00833214446902275, -0.0001951343147084117)
COS = (-0.5, 0.04166661947965622, -0.0013886658707633615, 2.43816521106055e-05)
#: (sin r - r) / r^3 and (cos r - 1 + r^2 / 2) / r^4 likewise, within 2^-57.
SIN_F64 = (-0.1666666666666663, 0.008333333333321818, -0.0001984126982937938, 2.755731355491068e-06,
           -2.5050738027621354e-08, 1.5895693314495202e-10)  # fmt: skip
COS_F64 = (0.04166666666666659, -0.0013888888888872377, 2.4801587288472457e-05, -2.7557314079115723e-07,
           2.0875688183523615e-09, -1.1357919723905859e-11)  # fmt: skip


def f32(value: float) -> str:
    return number(value, "f32")


def f64(value: float) -> str:
    return number(value, "f64")


#: %x is 2^(field - 1075) times an integer. 192 bits of 2/pi, from that of weight 2 in the product on, times it, modulo
#: 4: the quarter turns (2 bits), the rest of one (126 bits), and 64 bits that only carry. The rest, as a number between
#: -1/2 and 1/2, comes in pieces of 53, 53 and 22 bits, which are exact, since it may begin with 61 zeros.
#: It is called and not inlined: it is long, and hardly ever runs.
FAR = f"""define internal {{double, double, i32}} @reduce_far(double %x) noinline {{
  %bits = bitcast double %x to i64
  %above = lshr i64 %bits, 52
  %field = and i64 %above, 2047
  %fraction = and i64 %bits, {(1 << 52) - 1}
  %mantissa = or i64 %fraction, {1 << 52}
  %start = sub i64 %field, {1075 - 62}
  %first = lshr i64 %start, 6
  %shift = and i64 %start, 63
  %at = getelementptr i64, ptr addrspace(1) @two_over_pi, i64 %first
  %at1 = getelementptr i64, ptr addrspace(1) %at, i64 1
  %at2 = getelementptr i64, ptr addrspace(1) %at, i64 2
  %at3 = getelementptr i64, ptr addrspace(1) %at, i64 3
  %a = load i64, ptr addrspace(1) %at, align 8
  %b = load i64, ptr addrspace(1) %at1, align 8
  %c = load i64, ptr addrspace(1) %at2, align 8
  %d = load i64, ptr addrspace(1) %at3, align 8
  %w2 = call i64 @llvm.fshl.i64(i64 %a, i64 %b, i64 %shift)
  %w1 = call i64 @llvm.fshl.i64(i64 %b, i64 %c, i64 %shift)
  %w0 = call i64 @llvm.fshl.i64(i64 %c, i64 %d, i64 %shift)
  %h0 = call i64 @llvm.nvvm.mulhi.ull(i64 %mantissa, i64 %w0)
  %h1 = call i64 @llvm.nvvm.mulhi.ull(i64 %mantissa, i64 %w1)
  %l1 = mul i64 %mantissa, %w1
  %l2 = mul i64 %mantissa, %w2
  %p1 = add i64 %l1, %h0
  %over = icmp ult i64 %p1, %l1
  %carry = zext i1 %over to i64
  %p20 = add i64 %l2, %h1
  %p2 = add i64 %p20, %carry
  %top = lshr i64 %p2, 62
  %quarter = trunc i64 %top to i32
  %high = call i64 @llvm.fshl.i64(i64 %p2, i64 %p1, i64 2)
  %low = shl i64 %p1, 2
  %half = lshr i64 %high, 63
  %up = trunc i64 %half to i32
  %quarters = add i32 %quarter, %up
  %c0 = and i64 %high, -2048
  %f0i = sitofp i64 %c0 to double
  %f0 = fmul double %f0i, {f64(2.0**-64)}
  %across = call i64 @llvm.fshl.i64(i64 %high, i64 %low, i64 42)
  %c1 = and i64 %across, {(1 << 53) - 1}
  %f1i = uitofp i64 %c1 to double
  %c2 = and i64 %low, {(1 << 22) - 1}
  %f2i = uitofp i64 %c2 to double
  %f2 = fmul double %f2i, {f64(2.0**-128)}
  %f12 = call double @llvm.fma.f64(double %f1i, double {f64(2.0**-106)}, double %f2)
  %h = fadd double %f0, %f12
  %back = fsub double %h, %f0
  %l = fsub double %f12, %back
  %angle = fmul double %h, {f64(HALF_PI["f64"][0])}
  %less = fneg double %angle
  %e0 = call double @llvm.fma.f64(double %h, double {f64(HALF_PI["f64"][0])}, double %less)
  %e1 = call double @llvm.fma.f64(double %h, double {f64(HALF_PI["f64"][1])}, double %e0)
  %e2 = call double @llvm.fma.f64(double %l, double {f64(HALF_PI["f64"][0])}, double %e1)
  %negative = icmp slt i64 %bits, 0
  %minus = fneg double %e2
  %opposite = sub i32 0, %quarters
  %r = select i1 %negative, double %less, double %angle
  %s = select i1 %negative, double %minus, double %e2
  %n = select i1 %negative, i32 %opposite, i32 %quarters
  %one = insertvalue {{double, double, i32}} poison, double %r, 0
  %two = insertvalue {{double, double, i32}} %one, double %s, 1
  %all = insertvalue {{double, double, i32}} %two, i32 %n, 2
  ret {{double, double, i32}} %all
}}"""

#: The rest of an f32, and the number of quarter turns, of which the low bits count.
NEAR_F32 = f"""  %shifted = call float @llvm.fma.f32(float %x, float {f32(QUARTERS)}, float {f32(MAGIC["f32"])})
  %turns = fsub float %shifted, {f32(MAGIC["f32"])}
  %less = fneg float %turns
  %r0 = call float @llvm.fma.f32(float %less, float {f32(HALF_PI["f32"][0])}, float %x)
  %r1 = call float @llvm.fma.f32(float %less, float {f32(HALF_PI["f32"][1])}, float %r0)
  %near_r = call float @llvm.fma.f32(float %less, float {f32(HALF_PI["f32"][2])}, float %r1)
  %near_n = bitcast float %shifted to i32"""
FAR_F32 = """  %wide = fpext float %x to double
  %all = call {double, double, i32} @reduce_far(double %wide)
  %angle = extractvalue {double, double, i32} %all, 0
  %far_r = fptrunc double %angle to float
  %far_n = extractvalue {double, double, i32} %all, 2"""
REDUCE_F32 = f"""define internal {{float, i32}} @reduce_f32(float %x) alwaysinline {{
  %size = call float @llvm.fabs.f32(float %x)
  %fast = fcmp olt float %size, {f32(LIMIT["f32"])}
  br i1 %fast, label %near, label %far
near:
{NEAR_F32}
  br label %done
far:
{FAR_F32}
  br label %done
done:
  %r = phi float [ %near_r, %near ], [ %far_r, %far ]
  %n = phi i32 [ %near_n, %near ], [ %far_n, %far ]
  %one = insertvalue {{float, i32}} poison, float %r, 0
  %both = insertvalue {{float, i32}} %one, i32 %n, 1
  ret {{float, i32}} %both
}}"""

#: The rest of an f64 as a sum of two, the second one below the last place of the first, and the quarter turns. %r0 is
#: exact. %hi + %e is what is left of it after the second part's rounded product, whose own error is %pe.
NEAR_F64 = f"""  %shifted = call double @llvm.fma.f64(double %x, double {f64(QUARTERS)}, double {f64(MAGIC["f64"])})
  %turns = fsub double %shifted, {f64(MAGIC["f64"])}
  %less = fneg double %turns
  %r0 = call double @llvm.fma.f64(double %less, double {f64(HALF_PI["f64"][0])}, double %x)
  %p = fmul double %less, {f64(HALF_PI["f64"][1])}
  %np = fneg double %p
  %pe = call double @llvm.fma.f64(double %less, double {f64(HALF_PI["f64"][1])}, double %np)
  %hi = fadd double %r0, %p
  %b = fsub double %hi, %r0
  %a = fsub double %hi, %b
  %ea = fsub double %r0, %a
  %eb = fsub double %p, %b
  %e = fadd double %ea, %eb
  %lo0 = fadd double %e, %pe
  %lo = call double @llvm.fma.f64(double %less, double {f64(HALF_PI["f64"][2])}, double %lo0)
  %near_r = fadd double %hi, %lo
  %back = fsub double %near_r, %hi
  %near_s = fsub double %lo, %back
  %counted = bitcast double %shifted to i64
  %near_n = trunc i64 %counted to i32"""
FAR_F64 = """  %all = call {double, double, i32} @reduce_far(double %x)
  %far_r = extractvalue {double, double, i32} %all, 0
  %far_s = extractvalue {double, double, i32} %all, 1
  %far_n = extractvalue {double, double, i32} %all, 2"""
REDUCE_F64 = f"""define internal {{double, double, i32}} @reduce_f64(double %x) alwaysinline {{
  %size = call double @llvm.fabs.f64(double %x)
  %fast = fcmp olt double %size, {f64(LIMIT["f64"])}
  br i1 %fast, label %near, label %far
near:
{NEAR_F64}
  br label %done
far:
{FAR_F64}
  br label %done
done:
  %r = phi double [ %near_r, %near ], [ %far_r, %far ]
  %s = phi double [ %near_s, %near ], [ %far_s, %far ]
  %n = phi i32 [ %near_n, %near ], [ %far_n, %far ]
  %one = insertvalue {{double, double, i32}} poison, double %r, 0
  %two = insertvalue {{double, double, i32}} %one, double %s, 1
  %three = insertvalue {{double, double, i32}} %two, i32 %n, 2
  ret {{double, double, i32}} %three
}}"""
REDUCE = {"f32": REDUCE_F32, "f64": REDUCE_F64}
PARTS = {"f32": "{float, i32}", "f64": "{double, double, i32}"}
KINDS = {"f32": "float", "f64": "double"}


def reduced(to: Lowering, name: str, x: str) -> list[str]:
    """The rest, for f64 what is to be added to it, and the quarter turns."""
    to.text.globals["@two_over_pi"] = TABLE
    to.text.helpers |= {"reduce_far": FAR, f"reduce_{name}": REDUCE[name]}
    to.text.declarations.add("declare i64 @llvm.fshl.i64(i64, i64, i64)")
    to.text.declarations.add("declare i64 @llvm.nvvm.mulhi.ull(i64, i64)")
    for each in {name, "f64"}:
        kind = KINDS[each]
        to.text.declarations.add(f"declare {kind} @llvm.fabs.{each}({kind})")
        to.text.declarations.add(f"declare {kind} @llvm.fma.{each}({kind}, {kind}, {kind})")
    parts = to.text.call(PARTS[name], f"reduce_{name}", [(KINDS[name], x)])
    count = PARTS[name].count(",") + 1
    return [to.text.value(f"extractvalue {PARTS[name]} {parts}, {index}") for index in range(count)]


def of_rest_f32(to: Lowering, rest: str) -> tuple[str, str]:
    """The sine and the cosine of a rest."""
    square = to.text.value(f"fmul float {rest}, {rest}")
    cube = to.text.value(f"fmul float {square}, {rest}")
    sine = fma(to, "f32", horner(to, "f32", square, SIN), cube, rest)
    return sine, fma(to, "f32", horner(to, "f32", square, COS), square, "1.0")


def of_rest_f64(to: Lowering, rest: str, more: str) -> tuple[str, str]:
    """The sine and the cosine of rest + more, the small terms first.

    sin(r + s) = r + (r^3 P(r^2) + s (1 - r^2 / 2)), cos(r + s) = 1 - r^2 / 2 + (r^4 Q(r^2) - r s), to the first order
    in s; what the rounding of 1 - r^2 / 2 loses is made good.
    """
    text = to.text
    square = text.value(f"fmul double {rest}, {rest}")
    cube = text.value(f"fmul double {square}, {rest}")
    base = fma(to, "f64", square, f64(-0.5), "1.0")
    small = text.value(f"fmul double {more}, {base}")
    sine = text.value(f"fadd double {rest}, {fma(to, 'f64', horner(to, 'f64', square, SIN_F64), cube, small)}")
    lost = fma(to, "f64", square, f64(-0.5), text.value(f"fsub double 1.0, {base}"))
    fourth = text.value(f"fmul double {square}, {square}")
    tail = fma(to, "f64", horner(to, "f64", square, COS_F64), fourth, lost)
    tail = fma(to, "f64", text.value(f"fneg double {rest}"), more, tail)
    return sine, text.value(f"fadd double {base}, {tail}")


@lowers_elements("sin", "cos")
def _sine(to: Lowering, operation: Operation, args: list[str]) -> str:
    """sin or cos of the rest, by the quarter; the cosine is a quarter ahead. -0.0 stays, infinities give NaN."""
    (x,), text = args, to.text
    name = str(source_element(operation))
    kind = KINDS[name]
    *rest, quarter = reduced(to, name, x)
    if operation.name == "cos":
        quarter = text.value(f"add i32 {quarter}, 1")
    sine, cosine = of_rest_f32(to, *rest) if source_element(operation) == F32 else of_rest_f64(to, *rest)
    odd = text.value(f"trunc i32 {quarter} to i1")
    chosen = text.value(f"select i1 {odd}, {kind} {cosine}, {kind} {sine}")
    half = text.value(f"and i32 {quarter}, 2")
    turned = text.value(f"icmp ne i32 {half}, 0")
    minus = text.value(f"fneg {kind} {chosen}")
    result = text.value(f"select i1 {turned}, {kind} {minus}, {kind} {chosen}")
    if operation.name == "sin":
        zero = text.value(f"fcmp oeq {kind} {x}, 0.0")
        result = text.value(f"select i1 {zero}, {kind} {x}, {kind} {result}")
    size = text.call(kind, f"llvm.fabs.{name}", [(kind, x)])
    finite = text.value(f"fcmp olt {kind} {size}, 0x7FF0000000000000")
    return text.value(f"select i1 {finite}, {kind} {result}, {kind} 0x7FF8000000000000")
