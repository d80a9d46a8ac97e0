"""Enclosures of reductions and matrix products: on exact operands what the oracles say that the contract allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
import tilewright.language as tl
from tilewright.difftest import STRATEGIES, RecordedChoices, SplitMix64
from tilewright.difftest.oracles.bounds import ANY as ANYTHING
from tilewright.difftest.oracles.bounds import allowed
from tilewright.difftest.oracles.evaluator import Watch, expected_and_watched
from tilewright.difftest.oracles.formats import is_nan, ordinal
from tilewright.difftest.recipes import edge, moderate, short
from tilewright.difftest.storage import to_array, to_codes
from tilewright.interpreter import Buffer, Undecided, enclose
from tilewright.interpreter.interval.arithmetic import stored
from tilewright.interpreter.interval.arrays import exact, hull, unpack
from tilewright.interpreter.interval.meanings import ENCLOSED
from tilewright.lang import F32, F64, FloatType, Operation, element_of, parse_module, shape_of

EXTREMES = ("reduce_minnum", "reduce_maxnum")
#: Sums are enclosed by float64 arithmetic, so that ends may lie a little further out than the exact ones.
SLACK = {F32: 2, F64: 6}


def watches(name: str, seeds: int) -> list[Watch]:
    """What the oracle's evaluator saw of one operation."""
    made = [expected_and_watched(STRATEGIES[name](RecordedChoices(seed)), name)[1] for seed in range(seeds)]
    return [watch for seen in made for watch in seen if is_of_floats(watch.operation)]


def is_of_floats(operation: Operation) -> bool:
    return isinstance(element_of(operation.operands[0].type), FloatType)


def operands_of(watch: Watch) -> list[Any]:
    """The operands as enclosures of what they are, one program's."""
    made: list[Any] = []
    for codes, operand in zip(watch.operands, watch.operation.operands, strict=True):
        element = element_of(operand.type)
        array = to_array(codes, element, (1, *shape_of(operand.type)))
        made.append(exact(array, element.name) if isinstance(element, FloatType) else array)
    return made


def enclosed(watch: Watch) -> Any:
    with np.errstate(all="ignore"):
        return ENCLOSED[watch.operation.name](watch.operation)(None, *operands_of(watch))


def ends(span: Any, fmt: FloatType) -> list[tuple[int, int]]:
    """For each element the ordinals of both ends."""
    low, high = (to_codes(stored(keys.reshape(-1), fmt.name), fmt) for keys in (span.low, span.high))
    return [(ordinal(a, fmt), ordinal(b, fmt)) for a, b in zip(low, high, strict=True)]


@pytest.mark.parametrize("name", ["reduce_add_f", "dot"])
def test_sums_hold_what_their_contract_allows_and_hardly_more(name: str) -> None:
    checked = 0
    for watch in watches(name, 30 if name == "dot" else 60):
        fmt = element_of(watch.operation.result.type)
        assert isinstance(fmt, FloatType)
        span, ranges = unpack(enclosed(watch), fmt.name), allowed(watch.operation, watch.operands)
        assert ranges is not None
        reference = to_codes(span.value.reshape(-1), fmt)
        empty, nan = span.empty.reshape(-1), span.nan.reshape(-1)
        for place, (found, want) in enumerate(zip(ends(span, fmt), ranges, strict=True)):
            exact_code = reference[place]
            if want is None:
                assert empty[place] or nan[place], (watch.operation, place)
            elif want == ANYTHING:
                assert is_nan(exact_code, fmt) or found[0] <= ordinal(exact_code, fmt) <= found[1]
            elif not (nan[place] and not empty[place]):
                checked += 1
                stated = found == (ordinal(exact_code, fmt),) * 2  # zeros, infinities, and single terms
                assert stated or (found[0] <= want[0] and want[1] <= found[1]), (watch.operation, place)
                if fmt in SLACK:
                    assert want[0] - found[0] <= SLACK[fmt] and found[1] - want[1] <= SLACK[fmt]
    assert checked > 100


@pytest.mark.parametrize("name", [*EXTREMES, "argmin_f", "argmax_f"])
def test_extremes_of_what_is_certain_are_certain(name: str) -> None:
    for watch in watches(name, 60):
        element = element_of(watch.operation.operands[0].type)
        assert isinstance(element, FloatType)
        made = enclosed(watch)
        plain = watch.program.operation(watch.operation, watch.operands, watch.values)
        span = unpack(made if name in EXTREMES else made[0], element.name)
        assert span.point.all()
        for code, want in zip(to_codes(span.value.reshape(-1), element), plain[0], strict=True):
            assert code == want or (is_nan(code, element) and is_nan(want, element))
        if name not in EXTREMES:
            assert made[1].reshape(-1).tolist() == list(plain[1])


# Ranges, and users' functions


@tilewright.jit
def then(a, b, c, d):
    return a * c, b * c + d


@tilewright.jit
def apart(a, b):
    return a - b


@tilewright.jit
def composed(x, y, scales, shifts, differences, N: tl.constexpr):
    at = tl.arange(0, N)
    scale, shift = tl.reduce((tl.load(x + at), tl.load(y + at)), 0, then)
    tl.store(scales, scale)
    tl.store(shifts, shift)
    tl.store(differences, tl.reduce(tl.load(x + at), 0, apart))


def brackets(elements: list[Any], combine: Callable[[Any, Any], Any]) -> list[Any]:
    """What all bracketings give."""
    if len(elements) == 1:
        return elements
    return [
        combine(left, right)
        for cut in range(1, len(elements))
        for left in brackets(elements[:cut], combine)
        for right in brackets(elements[cut:], combine)
    ]


def enclosures(kernel: Any, arrays: dict[str, Any], **constants: int) -> dict[str, Any]:
    module = kernel.warmup(**arrays, **constants, grid=(1,), device="interpreter").module
    return enclose(module, [Buffer.of(name, array) for name, array in arrays.items()], (1, 1, 1))


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_users_functions_hold_every_bracketing(seed: int) -> None:
    stream = SplitMix64(seed)
    x, y = (to_array([moderate(stream, F32) for _ in range(8)], F32, (8,)) for _ in range(2))
    names = ("scales", "shifts", "differences")
    found = enclosures(composed, {"x": x, "y": y} | {n: np.zeros(1, np.float32) for n in names}, N=8)
    pairs = brackets(list(zip(x, y, strict=True)), lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]))
    results = {"scales": [a for a, _ in pairs], "shifts": [b for _, b in pairs]}
    results["differences"] = brackets(list(x), lambda a, b: a - b)
    assert len(results["differences"]) == 429
    for name, values in results.items():
        for value in values:
            assert not found[name].outside(np.array([value], np.float32)).any()


def test_too_many_bracketings_are_not_tried() -> None:
    names = ("x", "y", "scales", "shifts", "differences")
    with pytest.raises(Undecided, match="not all bracketings"):
        enclosures(composed, {name: np.ones(256, np.float32) for name in names}, N=256)


@pytest.mark.parametrize("name", ["reduce_add_f", *EXTREMES])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_whatever_lies_in_the_operands_the_result_lies_in_the_result(name: str, seed: int) -> None:
    stream = SplitMix64(seed)
    lines = parse_module(
        f"module {{\n  kernel @f(%a: tile<4x8xf32>) {{\n    %r = {name} %a {{axis = 1}} : tile<4xf32>\n"
        "    return\n  }\n}\n"
    )
    operation = next(each for each in lines.walk() if each.name == name)
    recipe = stream.pick((moderate, edge, short))
    a, b = (to_array([recipe(stream, F32) for _ in range(32)], F32, (1, 4, 8)) for _ in range(2))
    with np.errstate(all="ignore"):
        wide = unpack(ENCLOSED[name](operation)(None, hull(exact(a, "f32"), exact(b, "f32"))), "f32")
        for _ in range(4):
            taken = np.where([[[stream.chance(50) for _ in range(8)] for _ in range(4)]], a, b)
            point = unpack(ENCLOSED[name](operation)(None, exact(taken, "f32")), "f32")
            assert (point.empty | ((wide.low <= point.low) & (point.high <= wide.high))).all()
            assert ((point.nan == 0) | (wide.nan != 0)).all()


@pytest.mark.parametrize("precision", ["ieee", "tf32", "bf16x3"])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_products_of_ranges_hold_the_products_of_what_is_in_them(precision: str, seed: int) -> None:
    stream = SplitMix64(seed)
    lines = parse_module(
        "module {\n  kernel @f(%a: tile<2x4xf32>, %b: tile<4x2xf32>, %c: tile<2x2xf32>) {\n"
        f'    %r = dot %a, %b, %c {{precision = "{precision}"}} : tile<2x2xf32>\n    return\n  }}\n}}\n'
    )
    run = ENCLOSED["dot"](next(each for each in lines.walk() if each.name == "dot"))
    recipe = stream.pick((moderate, edge, short))
    pairs = [
        [to_array([recipe(stream, F32) for _ in range(m * n)], F32, (1, m, n)) for _ in range(2)]
        for m, n in ((2, 4), (4, 2), (2, 2))
    ]
    with np.errstate(all="ignore"):
        wide = unpack(run(None, *(hull(exact(a, "f32"), exact(b, "f32")) for a, b in pairs)), "f32")
        for _ in range(4):
            side = stream.below(8)
            taken = [exact(pair[side >> index & 1], "f32") for index, pair in enumerate(pairs)]
            point = unpack(run(None, *taken), "f32")
            assert (point.empty | ((wide.low <= point.low) & (point.high <= wide.high))).all()
            assert ((point.nan == 0) | (wide.nan != 0)).all()


def test_products_that_vanish_are_rounded_one_by_one() -> None:
    """Four products of half the smallest subnormal are two of it, and a chain of `fma` makes them nothing."""
    lines = parse_module(
        "module {\n  kernel @f(%a: tile<1x4xf64>, %b: tile<4x1xf64>, %c: tile<1x1xf64>) {\n"
        "    %r = dot %a, %b, %c : tile<1x1xf64>\n    return\n  }\n}\n"
    )
    run = ENCLOSED["dot"](next(each for each in lines.walk() if each.name == "dot"))
    a, b = np.full((1, 1, 4), 2.0**-537), np.full((1, 4, 1), 2.0**-538)
    span = unpack(run(None, *(exact(x, "f64") for x in (a, b, np.zeros((1, 1, 1))))), "f64")
    low, high = span.numbers()
    assert span.value.item() == 2.0**-1073
    assert low.item() <= 0.0 and 2.0**-1072 <= high.item() <= 2.0**-1071
