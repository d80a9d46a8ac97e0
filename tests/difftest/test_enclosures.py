"""Enclosures: on exact operands what the oracle says that the contract allows, on ranges all that may come of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.difftest import STRATEGIES, RecordedChoices, SplitMix64
from tilewright.difftest.oracles.bounds import ANY as ANYTHING
from tilewright.difftest.oracles.bounds import allowed
from tilewright.difftest.oracles.evaluator import expected_and_watched
from tilewright.difftest.oracles.formats import as_real, decode, encode, is_nan, ordinal
from tilewright.difftest.oracles.reals import REAL_RULES
from tilewright.difftest.recipes import edge, moderate, raw
from tilewright.difftest.storage import to_array, to_codes
from tilewright.interpreter import numerics
from tilewright.interpreter.interval.arithmetic import stored
from tilewright.interpreter.interval.arrays import ANY, NEVER, Span, hull, keys_of, pack, points, unpack
from tilewright.interpreter.interval.rules import ARITHMETIC, cast
from tilewright.interpreter.numerics import FORMATS
from tilewright.lang import F32, F64, OPS, FloatType, element_of

#: (row, format) of every rule, by the signatures of its row.
RULES = [(name, each[0][0]) for name in ARITHMETIC for each in OPS[name].signatures]
#: Functions of an f64 are enclosed by steps around a result that is rounded itself, and f32 ones with a little slack.
SLACK = 6
FUSES = ("add_f", "sub_f")


def names(rule: tuple[str, Any]) -> str:
    return f"{rule[0]}-{rule[1]}"


def ends(span: Span, fmt: FloatType) -> list[tuple[int, int] | None]:
    """For each element the ordinals of both ends in the oracle's counting; None where there is no number."""
    low, high = (to_codes(stored(keys, fmt.name), fmt) for keys in (span.low, span.high))
    return [
        None if none else (ordinal(a, fmt), ordinal(b, fmt)) for a, b, none in zip(low, high, span.empty, strict=True)
    ]


@pytest.mark.parametrize("name", ARITHMETIC)
def test_on_exact_operands_a_rule_gives_what_the_contract_allows(name: str) -> None:
    checked = 0
    with np.errstate(all="ignore"):
        for seed in range(40):
            case = STRATEGIES[name](RecordedChoices(seed))
            for watch in expected_and_watched(case, name)[1]:
                checked += check_against_the_oracle(name, watch)
    assert checked > 100


def check_against_the_oracle(name: str, watch: Any) -> int:
    """Compare the rule on these operands with the allowed ordinals of each element, or the one expected code."""
    fmt = element_of(watch.operation.results[0].type)
    assert isinstance(fmt, FloatType)
    count = len(watch.operands[0])
    spans = [points(to_array(codes, fmt, (count,)), fmt.name, ANY) for codes in watch.operands]
    made = ARITHMETIC[name](*spans, fmt.name)
    ranges = allowed(watch.operation, watch.operands)
    reference = to_codes(made.value, fmt)
    for place, found in enumerate(ends(made, fmt)):
        exact = None if is_nan(reference[place], fmt) else (ordinal(reference[place], fmt),) * 2
        want = exact if ranges is None else ranges[place]
        if ranges is None or found == exact:  # the reference alone: exact rows, and special cases, which rows state
            assert found == exact
            assert want in (exact, None, ANYTHING) or special(name, [*watch.operands, reference], place, fmt)
        elif want == ANYTHING:
            assert ordinal(reference[place], fmt) in range(found[0], found[1] + 1) if found and exact else True
        else:
            assert found is not None and want is not None
            assert found[0] <= want[0] and want[1] <= found[1], (name, watch.operands, place)
            if fmt in (F32, F64):
                assert want[0] - found[0] <= SLACK and found[1] - want[1] <= SLACK, (name, watch.operands, place)
    return count


def special(name: str, operands: Any, place: int, fmt: FloatType) -> bool:
    """Whether the row states this result: at zeros, infinities, and of logarithms at 1. (An overflow stays one.)"""
    values = [abs(decode(codes[place], fmt)) for codes in operands]
    return any(value in (0.0, math.inf) for value in values) or (name.startswith("log") and values[0] == 1)


def drawn(stream: SplitMix64, fmt: FloatType, count: int) -> Any:
    recipe = stream.pick((moderate, moderate, edge, raw))
    return to_array([recipe(stream, fmt) for _ in range(count)], fmt, (count,))


def span_of(a: Any, b: Any, fmt: FloatType) -> Span:
    """The enclosures that hold two numbers, or NaN where one of them is."""
    return unpack(hull(*(pack(points(x, fmt.name, ANY), fmt.name) for x in (a, b))), fmt.name)


def inside(stream: SplitMix64, fmt: FloatType, a: Any, b: Any) -> Any:
    """Numbers between two: one of them, or something in between, rounded."""
    with np.errstate(all="ignore"):
        low, high = (numerics.decode(x, fmt.name).astype(np.float64) for x in (a, b))
        share = np.array([stream.below(1001) / 1000 for _ in a])
        middle = np.clip(low * share + high * (1 - share), np.minimum(low, high), np.maximum(low, high))
        between = numerics.round_to(np.where(np.isfinite(low + high), middle, 0.0), fmt.name)
    carrier = FORMATS[fmt.name].carrier
    ends = np.where(share < 0.5, a.view(carrier), b.view(carrier))
    take = np.isfinite(low + high) & (share > 0.2) & (share < 0.8)
    return np.where(take, between.view(carrier), ends).view(a.dtype)


def holds(span: Span, result: Any, fmt: FloatType) -> Any:
    """Where a result is among those of a span."""
    wide = numerics.decode(result, fmt.name).astype(np.float64)
    missing = np.isnan(wide)
    keys = keys_of(np.where(missing, 0.0, wide))
    return np.where(missing, span.nan != NEVER, (keys >= span.low) & (keys <= span.high))


@pytest.mark.parametrize("rule", RULES, ids=names)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32))
def test_whatever_lies_in_the_operands_the_result_lies_in_the_result(rule: Any, seed: int) -> None:
    name, fmt = rule
    stream = SplitMix64(seed)
    arity = len(OPS[name].operands)
    count = 8 if fmt == F64 else 32
    with np.errstate(all="ignore"):
        pairs = [(drawn(stream, fmt, count), drawn(stream, fmt, count)) for _ in range(arity)]
        near = stream.chance(50)
        pairs = [(a, one_step(a, fmt)) if near else (a, b) for a, b in pairs]
        spans = [span_of(a, b, fmt) for a, b in pairs]
        made = ARITHMETIC[name](*spans, fmt.name)
        for _ in range(3):
            taken = [inside(stream, fmt, a, b) for a, b in pairs]
            result = ARITHMETIC[name](*(points(x, fmt.name, ANY) for x in taken), fmt.name)
            good = holds(made, result.value, fmt)
            assert good.all(), (name, [x[~good] for x in taken], result.value[~good], made.low[~good], made.high[~good])
            assert (made.low <= np.where(result.empty, made.low, result.low)).all()
            assert (made.high >= np.where(result.empty, made.high, result.high)).all()


def one_step(a: Any, fmt: FloatType) -> Any:
    """The neighbours of some numbers: codes one further."""
    codes = [
        code + 1 if not is_nan(code + 1, fmt) and (code + 1) % (1 << fmt.width - 1) else code
        for code in to_codes(a, fmt)
    ]
    return to_array(codes, fmt, a.shape)


@pytest.mark.parametrize(("source", "target"), [("f32", "f16"), ("f16", "f8e4m3fn"), ("f64", "bf16"), ("bf16", "f64")])
@pytest.mark.parametrize("mode", ["rtne", "rtz"])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=8)
def test_casts_keep_what_lies_inside(source: str, target: str, mode: str, seed: int) -> None:
    stream, formats = SplitMix64(seed), {fmt.name: fmt for (fmt,), _ in OPS["cast_f"].signatures}
    fmt = formats[source]
    with np.errstate(all="ignore"):
        a, b = drawn(stream, fmt, 24), drawn(stream, fmt, 24)
        span = span_of(a, b, fmt)
        made = cast(source, target, mode)(span)
        result = numerics.cast(inside(stream, fmt, a, b), source, target, mode)  # type: ignore[arg-type]
        assert holds(made, result, formats[target]).all()


@given(st.integers(0, 2**32))
def test_a_product_may_be_fused_with_what_is_added(seed: int) -> None:
    """Both roundings and the one of `fma` lie inside, and where nothing is a product an addition stays one number."""
    stream = SplitMix64(seed)
    with np.errstate(all="ignore"):
        for fmt in (F32, F64):
            a, b, c = (drawn(stream, fmt, 16) for _ in range(3))
            x, y, z = (points(each, fmt.name, ANY) for each in (a, b, c))
            product = ARITHMETIC["mul_f"](x, y, fmt.name)
            total = ARITHMETIC["add_f"](product, z, fmt.name)
            assert holds(total, numerics.fma(a, b, c, fmt.name), fmt).all()
            assert holds(total, numerics.add(numerics.mul(a, b, fmt.name), c, fmt.name), fmt).all()
            difference = ARITHMETIC["sub_f"](z, product, fmt.name)
            assert holds(difference, numerics.fma(numerics.neg(a, fmt.name), b, c, fmt.name), fmt).all()
            plain = ARITHMETIC["add_f"](x, z, fmt.name)
            assert plain.point.all() and product.point.all()


def test_a_fused_sum_is_as_wide_as_both_roundings_and_no_wider() -> None:
    """(1 + 2^-12)^2 - 1 in f32: 2^-11 + 2^-24 fused, and 2^-11 from the rounded product."""
    x = points(np.array([1 + 2.0**-12], np.float32), "f32", ANY)
    one = points(np.array([1.0], np.float32), "f32", ANY)
    difference = ARITHMETIC["sub_f"](ARITHMETIC["mul_f"](x, x, "f32"), one, "f32")
    low, high = difference.numbers()
    assert (low[0], high[0]) == (2.0**-11, 2.0**-11 + 2.0**-24)


def test_the_oracle_and_the_rules_count_alike() -> None:
    for fmt in (F32, F64):
        values = [-math.inf, -2.5, -0.0, 0.0, 1e-40, 3.0, math.inf]
        codes = [encode(as_real(value), fmt) for value in values]
        keys = points(to_array(codes, fmt, (len(codes),)), fmt.name, ANY).low
        assert (np.diff(keys) > 0).all()
        assert FORMATS[fmt.name].bits == fmt.width
    assert REAL_RULES.keys() >= ARITHMETIC.keys() - {"neg_f", "abs_f"}
