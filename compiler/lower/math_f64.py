"""Functions of one f64 within 1 ulp: reduced arguments, and series long enough for 53 bits.

The method is Tang's and Sun's of old (W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980).
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

from .context import Lowering
from .polynomials import fma, horner, nearest, number, power_of_two

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
    count, exponent = nearest(to, "f64", to.text.value(f"fmul double {x}, {literal(LOG2_E)}"))
    rest = fma(to, "f64", count, literal(-LN_2), x)
    rest = fma(to, "f64", count, literal(-LN_2_LOW), rest)
    return scaled(to, horner(to, "f64", rest, EXP), exponent)


def exp2(to: Lowering, x: str) -> str:
    """2^x = 2^k e^(f ln 2), f = x - k exactly; the low part of the product enters at the end."""
    x = capped(to, x, 1150.0)
    count, exponent = nearest(to, "f64", x)
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


F64_FUNCTIONS: dict[str, Callable[[Lowering, str], str]] = {"exp": exp, "exp2": exp2, "log": log, "log2": log2}
