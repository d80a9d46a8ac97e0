"""Functions of one f64 within 1 ulp: reduced arguments, and series long enough for 53 bits.

The method is Tang's and Sun's of old (W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980).
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

from .context import Lowering
from .polynomials import fma, horner, magnitude, nearest, number, power_of_two, with_sign

LOG2_E, LOG2_E_LOW = 1.4426950408889634, 2.0355273740931033e-17
LN_2, LN_2_LOW = 0.6931471805599453, 2.3190468138462996e-17
#: e^r for |r| <= 0.35: the series up to r^13, within 2^-57.
EXP = tuple(1.0 / factorial(n) for n in range(14))
#: ln((1 + s) / (1 - s)) = 2 s + s z R(z) with z = s^2: the series of R; |s| <= 0.172, within 2^-62.
LOG = tuple(2.0 / (2 * n + 3) for n in range(12))


def literal(value: float) -> str:
    return number(value, "f64")


def capped(to: Lowering, x: str, limit: float) -> str:
    """x within [-limit, limit]; a NaN stays."""
    above = to.text.value(f"fcmp ogt double {x}, {literal(limit)}")
    x = to.text.value(f"select i1 {above}, double {literal(limit)}, double {x}")
    below = to.text.value(f"fcmp olt double {x}, {literal(-limit)}")
    return to.text.value(f"select i1 {below}, double {literal(-limit)}, double {x}")


def scaled(to: Lowering, value: str, exponent: str) -> str:
    """value * 2^exponent for an exponent up to about 1200 either way, rounded once, by two factors."""
    half = to.text.value(f"ashr i32 {exponent}, 1")
    rest = to.text.value(f"sub i32 {exponent}, {half}")
    once = to.text.value(f"fmul double {value}, {power_of_two(to, 'f64', half)}")
    return to.text.value(f"fmul double {once}, {power_of_two(to, 'f64', rest)}")


def exp(to: Lowering, x: str) -> str:
    """e^x = 2^k e^r, r = x - k ln 2 in two parts."""
    x = capped(to, x, 800.0)
    return scaled(to, *exp_parts(to, x))


def exp_parts(to: Lowering, x: str) -> tuple[str, str]:
    """e^r and k, for |x| up to 800."""
    count, exponent = nearest(to, "f64", x, LOG2_E)
    rest = fma(to, "f64", count, literal(-LN_2), x)
    rest = fma(to, "f64", count, literal(-LN_2_LOW), rest)
    return horner(to, "f64", rest, EXP), exponent


def exp2(to: Lowering, x: str) -> str:
    """2^x = 2^k e^(f ln 2), f = x - k exactly; the low part of the product enters at the end."""
    x = capped(to, x, 1150.0)
    count, exponent = nearest(to, "f64", x, 1.0)
    fraction = to.text.value(f"fsub double {x}, {count}")
    high = to.text.value(f"fmul double {fraction}, {literal(LN_2)}")
    low = fma(to, "f64", fraction, literal(LN_2), to.text.value(f"fneg double {high}"))
    low = fma(to, "f64", fraction, literal(LN_2_LOW), low)
    power = horner(to, "f64", high, EXP)
    return scaled(to, fma(to, "f64", power, low, power), exponent)


def split(to: Lowering, x: str) -> tuple[str, str, str, str]:
    """(f, f^2/2, s (f^2/2 + R), exponent): x = 2^k (1 + f) and ln(1 + f) = f - (f^2/2 - s (f^2/2 + R))."""
    text = to.text
    tiny = text.value(f"fcmp olt double {x}, {literal(2.0**-1022)}")
    larger = text.value(f"fmul double {x}, {literal(2.0**54)}")
    normal = text.value(f"select i1 {tiny}, double {larger}, double {x}")
    bits = text.value(f"bitcast double {normal} to i64")
    # From sqrt(1/2) on, the exponent counts one more: its bits are those of 1 less the ones of sqrt(1/2).
    moved = text.value(f"add i64 {bits}, {0x3FF0000000000000 - 0x3FE6A09E667F3BCD}")
    field = text.value(f"ashr i64 {moved}, 52")
    fraction = text.value(f"and i64 {moved}, {(1 << 52) - 1}")
    placed = text.value(f"add i64 {fraction}, {0x3FE6A09E667F3BCD}")
    f = text.value(f"fadd double {text.value(f'bitcast i64 {placed} to double')}, -1.0")
    short = text.value(f"trunc i64 {field} to i32")
    bias = text.value(f"select i1 {tiny}, i32 {1023 + 54}, i32 1023")
    exponent = text.value(f"sitofp i32 {text.value(f'sub i32 {short}, {bias}')} to double")
    half = text.value(f"fmul double {text.value(f'fmul double {f}, {f}')}, 0.5")
    s = text.value(f"fdiv double {f}, {text.value(f'fadd double {f}, 2.0')}")
    z = text.value(f"fmul double {s}, {s}")
    series = text.value(f"fmul double {horner(to, 'f64', z, LOG)}, {z}")
    return f, half, text.value(f"fmul double {s}, {text.value(f'fadd double {half}, {series}')}"), exponent


def specials(to: Lowering, x: str, result: str) -> str:
    """-inf at zeros, NaN below, inf and NaN kept."""
    text = to.text
    zero = text.value(f"fcmp oeq double {x}, 0.0")
    result = text.value(f"select i1 {zero}, double 0xFFF0000000000000, double {result}")
    negative = text.value(f"fcmp ult double {x}, 0.0")
    result = text.value(f"select i1 {negative}, double 0x7FF8000000000000, double {result}")
    infinite = text.value(f"fcmp oeq double {x}, 0x7FF0000000000000")
    return text.value(f"select i1 {infinite}, double {x}, double {result}")


def log(to: Lowering, x: str) -> str:
    """k ln 2 + ln(1 + f), the small terms first."""
    f, half, inner, exponent = split(to, x)
    low = fma(to, "f64", exponent, literal(LN_2_LOW), inner)
    small = to.text.value(f"fsub double {half}, {low}")
    rest = to.text.value(f"fsub double {small}, {f}")
    high = to.text.value(f"fmul double {exponent}, {literal(LN_2_HIGH)}")
    last = fma(to, "f64", exponent, literal(LN_2 - LN_2_HIGH), to.text.value(f"fneg double {rest}"))
    return specials(to, x, to.text.value(f"fadd double {high}, {last}"))


#: ln 2 with 20 zeros at its end: times an exponent it is exact.
LN_2_HIGH = 0.69314718036912381649


def log2(to: Lowering, x: str) -> str:
    """k + log2(e) ln(1 + f), in twice the precision until the last sum."""
    text = to.text
    f, half, inner, exponent = split(to, x)
    high = text.value(f"fsub double {f}, {half}")
    low = text.value(f"fsub double {text.value(f'fsub double {f}, {high}')}, {half}")
    low = text.value(f"fadd double {low}, {inner}")
    product = text.value(f"fmul double {high}, {literal(LOG2_E)}")
    error = fma(to, "f64", high, literal(LOG2_E), text.value(f"fneg double {product}"))
    error = fma(to, "f64", high, literal(LOG2_E_LOW), error)
    error = fma(to, "f64", low, literal(LOG2_E), error)
    total = text.value(f"fadd double {exponent}, {product}")
    lost = text.value(f"fadd double {text.value(f'fsub double {exponent}, {total}')}, {product}")
    return specials(to, x, text.value(f"fadd double {total}, {text.value(f'fadd double {lost}, {error}')}"))


#: (tanh x - x) / x^3 over x^2 for |x| <= 0.75; relative to tanh within 2^-56.
TANH = (-0.33333333333333265, 0.13333333333323605, -0.0539682539635008, 0.021869488418503356, -0.00886323380345609,
        0.0035921116714407557, -0.0014557289450401762, 0.0005895515549853154, -0.00023760112226637873,
        9.341223378882174e-05, -3.35849085717466e-05, 9.472810375046085e-06, -1.4803766784013853e-06)  # fmt: skip


def tanh(to: Lowering, x: str) -> str:
    """A polynomial near 0, else 1 - 2 / (e^2x + 1), which from 20 on is 1."""
    text = to.text
    square = text.value(f"fmul double {x}, {x}")
    cube = text.value(f"fmul double {square}, {x}")
    near = fma(to, "f64", horner(to, "f64", square, TANH), cube, x)  # of -0.0 it makes 0.0
    size = magnitude(to, "f64", x)
    twice = text.value(f"fadd double {(limited := capped(to, size, 20.0))}, {limited}")
    power, exponent = exp_parts(to, twice)
    grown = text.value(f"fmul double {power}, {power_of_two(to, 'f64', exponent)}")
    part = text.value(f"fdiv double {literal(2.0)}, {text.value(f'fadd double {grown}, 1.0')}")
    far = text.value(f"fsub double 1.0, {part}")
    small = text.value(f"fcmp olt double {size}, {literal(0.75)}")
    return with_sign(to, "f64", text.value(f"select i1 {small}, double {near}, double {far}"), x)


#: erf(x) / x - 1 over x^2 for |x| <= 1; relative to erf within 2^-56.
ERF_SMALL = (0.1283791670955126, -0.3761263890318375, 0.11283791670954854, -0.02686617064507231,
             0.0052239776247753195, -0.0008548326978430694, 0.00012055331025793798, -1.4925593245923501e-05,
             1.6460968721975601e-06, -1.634998274189769e-07, 1.4657600165778558e-08, -1.1364607520605601e-09,
             5.943508233981782e-11)  # fmt: skip
#: -ln(erfc x) for 1 <= x <= 6; 1 - e^-that is within 2^-56 of erf.
ERF_LARGE = (-3.6728828844043876e-08, 1.1283796202442709, 0.6366171233719564, 0.10278236575918098,
             -0.01915390345062209, -0.00015923400713945826, 0.0016195865306460114, -0.00049607215974856,
             -6.794991287639333e-05, 0.00014119745802530317, -8.118721001809794e-05, 3.1534659042204246e-05,
             -9.401550052391746e-06, 2.237962027856889e-06, -4.301347193149315e-07, 6.6557687131892e-08,
             -8.18338373986748e-09, 7.807295350018271e-10, -5.5620828167918146e-11, 2.776660650063278e-12,
             -8.629733758954264e-14, 1.2496710350468438e-15)  # fmt: skip


def erf(to: Lowering, x: str) -> str:
    """A polynomial near 0, else 1 - e^-p(|x|), which from 6 on is 1."""
    text = to.text
    square = text.value(f"fmul double {x}, {x}")
    near = fma(to, "f64", horner(to, "f64", square, ERF_SMALL), x, x)
    size = magnitude(to, "f64", x)
    power = horner(to, "f64", capped(to, size, 6.0), [-c for c in ERF_LARGE])
    grown, exponent = exp_parts(to, power)
    scale = text.value(f"fneg double {power_of_two(to, 'f64', exponent)}")
    far = with_sign(to, "f64", fma(to, "f64", grown, scale, "1.0"), x)
    small = text.value(f"fcmp olt double {size}, 1.0")
    return text.value(f"select i1 {small}, double {near}, double {far}")


F64_FUNCTIONS: dict[str, Callable[[Lowering, str], str]] = {
    "exp": exp, "exp2": exp2, "log": log, "log2": log2, "tanh": tanh, "erf": erf,
}  # fmt: skip
