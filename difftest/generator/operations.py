"""Expressions: one row an operation, from a maker and a place to an expression over variables in reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from .maker import NUMERIC, Maker
from .numbers import (
    BOOL,
    FLOAT,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT,
    INT1,
    INT16,
    INT32,
    INT64,
    INTEGERS,
    NUMBERS,
    UINT,
    UINT8,
    UINT32,
    literal,
    meet,
)
from .source import Expr, Place, derived

Row: TypeAlias = Callable[[Maker, Place], Expr]
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
FUNCTIONS = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "sigmoid")


def arithmetic(maker: Maker, place: Place) -> Expr:
    """+ - *, of operands that may differ in type."""
    sign = maker.choices.sample(("+", "-", "*"))
    a, b, type_ = maker.pair(place)
    fusible = sign != "*" and (a.product or b.product)
    made = derived(f"{a.operand} {sign} {b.operand}", type_, a, b, exact=not (type_.is_float and fusible), simple=False)
    return replace(made, product=type_.is_float and sign == "*")


def contracted(maker: Maker, place: Place) -> Expr:
    """A product with something added or taken away, or taken from something: what may be fused."""
    a = maker.pick(place, (FLOAT,))
    b, c = (maker.alike(place, a, (FLOAT,)) for _ in range(2))
    forms = ("{a} * {b} + {c}", "{a} * {b} - {c}", "{c} - {a} * {b}", "{a} * {b} + {b} * {c}", "{c} + {b} * {a}")
    text = maker.choices.sample(forms).format(a=a.operand, b=b.operand, c=c.operand)
    return replace(derived(text, a.type, a, b, c, exact=False, simple=False), product=False)


def mirrored(maker: Maker, place: Place) -> Expr:
    """An operation beside itself, or with its operands the other way round."""
    a = maker.pick(place, INTEGERS)
    b = maker.alike(place, a, INTEGERS)
    sign, outer = maker.choices.sample(("-", "<<", "//", "%", "+", "*")), maker.choices.sample(("^", "-", "+"))
    x, y = (a, b) if maker.choices.boolean(30) else (b, a)
    text = f"({a.operand} {sign} {b.operand}) {outer} ({x.operand} {sign} {y.operand})"
    return derived(text, a.type, a, b, simple=False)


def constant(maker: Maker, place: Place) -> Expr:
    """A number in every element, known when compiling."""
    type_ = maker.choices.sample((INT32, FLOAT32, UINT8, INT64, FLOAT16, UINT32, INT16))
    return Expr(f"tl.full({place.shape}, {literal(maker.choices, type_)}, {type_})", type_, *_at(place))


def _at(place: Place) -> tuple[tuple[int, ...], int | None]:
    return place.shape, place.axis


def identity(maker: Maker, place: Place) -> Expr:
    """An operation with a number that changes nothing, or everything, on either side."""
    a = maker.pick(place, INTEGERS)
    b = maker.choices.sample(("0", "1", "-1" if a.type.kind == INT else str((1 << a.type.bits) - 1)))
    sign = maker.choices.sample(("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"))
    x, y = (a.operand, b) if maker.choices.boolean(70) else (b, a.operand)
    return derived(f"{x} {sign} {y}", a.type, a, simple=False)


def folded(maker: Maker, place: Place) -> Expr:
    """An operation on integers that are known when compiling, though not to the frontend."""
    scope, maker.scope = maker.scope, []
    for _ in range(2):
        type_ = maker.choices.sample((INT32, UINT8, INT16, UINT32, INT64))
        maker.let(Expr(f"tl.full({place.shape}, {literal(maker.choices, type_)}, {type_})", type_, *_at(place)))
    scope += maker.scope
    made = maker.choices.weighted(ROWS[:_FOLDABLE])(maker, place)
    maker.scope = scope
    return made


def quotient(maker: Maker, place: Place) -> Expr:
    """Division of floats, or of integers to floats; and the remainder of floats, exactly."""
    a = maker.pick(place, NUMERIC)
    b = maker.alike(place, a, NUMERIC)
    type_ = FLOAT64 if a.type == FLOAT64 else FLOAT32
    form = maker.choices.sample(("{} / {}", "{} % {}", "tl.fdiv({}, {})", "tl.div_rn({}, {})"))
    if not a.type.is_float:
        form = "{} / {}"
    text = form.format(*(x.operand if form[0] == "{" else x.text for x in (a, b)))
    exact = type_ == FLOAT64 or "%" in form or "rn" in form
    return replace(derived(text, type_, a, b, exact=exact, simple=form[0] != "{"), product=False)


def whole_quotient(maker: Maker, place: Place) -> Expr:
    """// and % of integers, by zero too."""
    a = maker.pick(place, INTEGERS)
    b = maker.alike(place, a, INTEGERS)
    return derived(f"{a.operand} {maker.choices.sample(('//', '%'))} {b.operand}", a.type, a, b, simple=False)


def bits(maker: Maker, place: Place) -> Expr:
    """& | ^."""
    a = maker.pick(place, (INT, UINT, BOOL))
    b = maker.pick(place, (BOOL,)) if a.type == INT1 else maker.alike(place, a, INTEGERS)
    sign = maker.choices.sample(("&", "|", "^"))
    return derived(f"{a.operand} {sign} {b.operand}", a.type, a, b, simple=False)


def shift(maker: Maker, place: Place) -> Expr:
    """<< and >>, by the width and more too."""
    a = maker.pick(place, INTEGERS)
    b = maker.alike(place, a, INTEGERS)
    if maker.choices.boolean(60):
        b = derived(f"{b.operand} & {a.type.bits - 1}", a.type, b, simple=False)
    return derived(f"{a.operand} {maker.choices.sample(('<<', '>>'))} {b.operand}", a.type, a, b, simple=False)


def sign(maker: Maker, place: Place) -> Expr:
    """-x, ~x and |x|."""
    form = maker.choices.sample(("-{}", "~{}", "tl.abs({})"))
    a = maker.pick(place, {"-": (FLOAT, INT), "~": (INT, UINT, BOOL)}.get(form[0], NUMERIC))
    return derived(form.format(a.operand), a.type, a, simple=form[0] == "t")


def extremum(maker: Maker, place: Place) -> Expr:
    """Minima and maxima, with NaN ignored or handed on."""
    a, b, type_ = maker.pair(place)
    nan = ", propagate_nan=tl.PropagateNan.ALL" if maker.choices.boolean(30) else ""
    made = derived(f"tl.{maker.choices.sample(('minimum', 'maximum'))}({a.text}, {b.text}{nan})", type_, a, b)
    return replace(made, product=False)


def clamp(maker: Maker, place: Place) -> Expr:
    a = maker.pick(place, NUMERIC)
    low, high = maker.choices.sample((("0", "7"), ("1", "100"), ("0", "1"))) if not a.type.is_float else ("-1.5", "2.0")
    return replace(derived(f"tl.clamp({a.text}, {low}, {high})", a.type, a), product=False)


def fused(maker: Maker, place: Place) -> Expr:
    """fma, rounded once."""
    a = maker.pick(place, (FLOAT,))
    b, c = (maker.alike(place, a, (FLOAT,)) for _ in range(2))
    return replace(derived(f"tl.fma({a.text}, {b.text}, {c.text})", a.type, a, b, c), product=False)


def high_product(maker: Maker, place: Place) -> Expr:
    a = maker.pick(place, INTEGERS)
    if a.type.bits < 32:
        a = a.cast(INT32)
    b = maker.alike(place, a, INTEGERS)
    return derived(f"tl.umulhi({a.text}, {b.text})", a.type, a, b)


def function(maker: Maker, place: Place) -> Expr:
    """The functions of one number, approximate all of them."""
    a = wide(maker, place)
    return replace(derived(f"tl.{maker.choices.sample(FUNCTIONS)}({a.text})", a.type, a, exact=False), product=False)


def wide(maker: Maker, place: Place) -> Expr:
    """A float32 or float64."""
    a = maker.pick(place, (FLOAT,))
    return a if a.type.is_wide else a.cast(FLOAT32)


def exact_function(maker: Maker, place: Place) -> Expr:
    """floor, ceil and the square root that rounds once: exact on what is exact."""
    a = wide(maker, place)
    return replace(
        derived(f"tl.{maker.choices.sample(('floor', 'ceil', 'sqrt_rn'))}({a.text})", a.type, a), product=False
    )


def condition(maker: Maker, place: Place, exact: bool = True) -> Expr:
    """A comparison; `exact`: whose outcome is the same everywhere."""
    kinds = NUMERIC if not exact or maker.candidates(place, NUMERIC, exact) else INTEGERS
    a = maker.pick(place, kinds, exact)
    b = Expr(literal(maker.choices, a.type), a.type)
    if not maker.choices.boolean(40):
        b = maker.pick(place, kinds, exact)
        if meet(a.type, b.type) is None:
            b = b.cast(a.type) if a.type.is_float else b
            a = a.cast(b.type) if b.type.is_float else a
    made = derived(f"{a.operand} {maker.choices.sample(COMPARISONS)} {b.operand}", INT1, a, b, simple=False)
    return logic(maker, place, made) if exact and maker.choices.boolean(15) else made


def logic(maker: Maker, place: Place, a: Expr) -> Expr:
    """A condition turned round, or together with another."""
    words = ("{} and {}", "{} or {}", "not {}") if not place.shape else ("{} & {}", "{} | {}", "~{}")
    form = maker.choices.sample(words)
    b = condition(maker, place) if form != words[2] else a
    return derived(form.format(a.operand, b.operand), INT1, a, b, simple=False)


def comparison(maker: Maker, place: Place) -> Expr:
    return replace(condition(maker, place), product=False)


def choice(maker: Maker, place: Place) -> Expr:
    """tl.where, of floats by a comparison of floats too whose outcome is open."""
    a = maker.pick(place, (FLOAT, INT, UINT, BOOL))
    flags = condition(maker, place, exact=not a.type.is_float)
    if maker.choices.boolean(30) and (known := maker.candidates(place, (BOOL,))):
        flags = maker.choices.sample(known).along(len(maker.shape)) if place == maker.tile else known[0]
    b = maker.pick(place, (BOOL,)) if a.type == INT1 else maker.alike(place, a, (a.type.kind,))
    return derived(f"tl.where({flags.text}, {a.text}, {b.text})", a.type, flags, a, b)


def cast(maker: Maker, place: Place) -> Expr:
    """To any type that keeps what is open out of integers; to a narrower float sometimes toward zero."""
    a = maker.pick(place, (FLOAT, INT, UINT, BOOL))
    targets = [type_ for type_ in NUMBERS if type_ != a.type and (type_.is_float or a.exact)]
    type_ = maker.choices.sample(targets)
    if a.type.is_float and type_.is_float and type_.bits < a.type.bits and maker.choices.boolean(25):
        text = f'{a.operand}.to({type_}, fp_downcast_rounding="rtz")'
        return replace(derived(text, type_, a), product=False)
    return a.cast(type_)


def bitcast(maker: Maker, place: Place) -> Expr:
    """The bits of something exact, that is no NaN that arithmetic made, under another type."""
    a = maker.pick(place, INTEGERS)
    targets = [type_ for type_ in NUMBERS if type_ != a.type and type_.bits == a.type.bits]
    type_ = maker.choices.sample(targets)
    return derived(f"{a.operand}.to({type_}, bitcast=True)", type_, a)


def stretched(maker: Maker, place: Place) -> Expr:
    """Broadcasting, spelt out."""
    a = maker.pick(place, (FLOAT, INT, UINT, BOOL))
    if not place.shape:
        return a
    return replace(a, text=f"tl.broadcast_to({a.text}, {place.shape})", shape=place.shape, axis=place.axis, simple=True)


def random_bits(maker: Maker, place: Place) -> Expr:
    """Philox: many integer operations in a row."""
    a = maker.integer(place)
    if maker.choices.boolean():
        return derived(f"tl.randint({maker.choices.integer(0, 99)}, {a.text})", UINT32, a)
    return replace(derived(f"tl.rand({maker.choices.integer(0, 99)}, {a.text})", FLOAT32, a), product=True)


#: The rows and their weights, the simplest first, those with an integer form that can be folded before all others.
ROWS: tuple[tuple[Row, int], ...] = (
    (arithmetic, 24), (bits, 8), (whole_quotient, 5), (shift, 5), (sign, 5), (extremum, 7), (comparison, 5),
    (choice, 9), (cast, 12), (high_product, 2), (mirrored, 6), (identity, 8),
    (folded, 20), (constant, 3), (contracted, 8), (quotient, 6), (function, 11), (exact_function, 4), (fused, 4),
    (clamp, 2), (bitcast, 3), (stretched, 3), (random_bits, 1),
)  # fmt: skip
_FOLDABLE = 12
