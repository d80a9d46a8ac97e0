"""The harness catches wrong implementations: each mutant replaces what one op means by something slightly wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.difftest import run_campaign
from tilewright.interpreter.meanings import MEANINGS
from tilewright.lang import FloatType, Operation, element_of

#: Campaigns end at the first finding. A fault in one pair of types of `cast_f` (of 72) takes the most cases.
SEEDS = range(600)
Runner = Callable[..., Any]
Mutant = Callable[[Operation, Runner], Runner]


def dense(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else value.dense()


def after(change: Callable[[Operation, Any], Any]) -> Mutant:
    """Change the result."""
    return lambda operation, run: lambda batch, *operands: change(operation, dense(run(batch, *operands)))


def before(change: Callable[..., Any]) -> Mutant:
    """Change the operands."""
    return lambda operation, run: lambda batch, *operands: run(batch, *change(*operands))


def bits_of(array: Any) -> Any:
    return np.array(array).view(f"u{array.dtype.itemsize}")


def one_ulp_off(operation: Operation, result: Any) -> Any:
    """The last bit of some finite numbers flipped."""
    bits = bits_of(result)
    return np.where(bits % 7 == 3, bits ^ 1, bits).astype(bits.dtype).view(result.dtype)


def lost_sign_of_zero(operation: Operation, result: Any) -> Any:
    return np.where(result == 0, np.zeros((), result.dtype), result)


def flushed(operation: Operation, result: Any) -> Any:
    fmt = element_of(operation.results[0].type)
    assert isinstance(fmt, FloatType)
    bits = bits_of(result)
    exponent = (1 << fmt.exponent) - 1 << fmt.mantissa
    return np.where(bits & exponent == 0, bits & (1 << fmt.width - 1), bits).astype(bits.dtype).view(result.dtype)


def half_up(operation: Operation, run: Runner) -> Runner:
    """f32 to bf16 with ties away from zero."""

    def wrong(batch: Any, a: Any) -> Any:
        result, source = dense(run(batch, a)), dense(a)
        if source.dtype != np.float32 or element_of(operation.result.type) != BFLOAT:
            return result
        bits = bits_of(source)
        tie = (bits & 0xFFFF == 0x8000) & np.isfinite(source)
        away = ((bits.astype(np.uint64) + 0x8000) >> 16).astype(np.uint16)
        return np.where(tie, away, bits_of(result)).astype(np.uint16).view(result.dtype)

    return wrong


def payload_kept(operation: Operation, result: Any) -> Any:
    """NaNs that are not canonical."""
    return np.where(np.isnan(result), -result, result)


def without_mask(operation: Operation, run: Runner) -> Runner:
    """A store that ignores its mask."""
    return lambda batch, pointer, value, mask=None: run(batch, pointer, value)


def without_other(operation: Operation, run: Runner) -> Runner:
    """A load that gives 0 where it should give `other`."""
    return lambda batch, pointer, mask=None, other=None: run(batch, pointer, *(() if mask is None else (mask,)))


def masked_the_other_way(operation: Operation, run: Runner) -> Runner:
    return lambda batch, p, v, mask=None: run(batch, p, v, *(() if mask is None else (~dense(mask),)))


def lost_update(operation: Operation, run: Runner) -> Runner:
    """An atomic that reports the newest value instead of the one that it found, where lanes meet."""
    return lambda batch, *operands: np.roll(dense(run(batch, *operands)), 1)


def last_of_ties(operation: Operation, run: Runner) -> Runner:
    axis = int(operation.attributes["axis"]) + 1  # type: ignore[arg-type]

    def wrong(batch: Any, a: Any) -> Any:
        value, index = run(batch, np.flip(dense(a), axis))
        return value, (dense(a).shape[axis] - 1 - index).astype(np.int32)

    return wrong


def in_f32_steps(operation: Operation, run: Runner) -> Runner:
    """A sum that rounds after every addition."""
    axis = int(operation.attributes["axis"]) + 1  # type: ignore[arg-type]

    def wrong(batch: Any, a: Any) -> Any:
        if dense(a).dtype != np.float32:
            return run(batch, a)
        return np.add.reduce(np.moveaxis(dense(a), axis, 0), axis=0, dtype=np.float32)

    return wrong


def transposed(operation: Operation, run: Runner) -> Runner:
    """A product whose second operand is transposed, where it is square."""

    def wrong(batch: Any, a: Any, b: Any, acc: Any) -> Any:
        right = dense(b)
        return run(batch, a, right.swapaxes(-1, -2) if right.shape[-1] == right.shape[-2] else right, acc)

    return wrong


BFLOAT = FloatType("bf16", 16, 8, 7)
MUTANTS: dict[str, tuple[str, Mutant]] = {
    "one ulp off": ("mul_f", after(one_ulp_off)),
    "one ulp off, function": ("exp", after(one_ulp_off)),
    "ties away from zero": ("cast_f", half_up),
    "sign of zero lost": ("mul_f", after(lost_sign_of_zero)),
    "sign of zero lost, ceil": ("ceil", after(lost_sign_of_zero)),
    "subnormals flushed": ("add_f", after(flushed)),
    "NaN not canonical": ("sqrt", after(payload_kept)),
    "swapped operands": ("sub_i", before(lambda a, b: (b, a))),
    "swapped operands, float": ("rem_f", before(lambda a, b: (b, a))),
    "swapped sides": ("select", before(lambda c, a, b: (c, b, a))),
    "signed for unsigned": ("div_u", lambda operation, run: MEANINGS["div_s"](operation)),
    "unsigned for signed": ("cmp_lt_s", lambda operation, run: MEANINGS["cmp_lt_u"](operation)),
    "sign extended": ("ext_u", lambda operation, run: MEANINGS["ext_s"](operation)),
    "less or equal": ("cmp_lt_f", lambda operation, run: MEANINGS["cmp_le_f"](operation)),
    "NaN propagated": ("minnum", lambda operation, run: MEANINGS["minimum"](operation)),
    "shift modulo the width": ("shl", before(lambda a, b: (a, dense(b) & (8 * dense(b).dtype.itemsize - 1)))),
    "mask dropped": ("store", without_mask),
    "mask inverted": ("store", masked_the_other_way),
    "other dropped": ("load", without_other),
    "wrong old values": ("atomic_rmw", lost_update),
    "exchange for addition": (
        "atomic_rmw",
        lambda operation, run: lambda batch, p, v, *m: run(batch, p, -dense(v), *m),
    ),
    "last of ties": ("argmax_s", last_of_ties),
    "rounded at each step": ("reduce_add_f", in_f32_steps),
    "transposed": ("dot", transposed),
    "halves swapped": ("split", lambda operation, run: lambda batch, a: run(batch, a)[::-1]),
    "off by one": ("arange", after(lambda operation, result: result + np.int32(1))),
    "program of another axis": ("program_id", after(lambda operation, result: np.zeros_like(result))),
    "assertions ignored": ("assert", lambda operation, run: lambda batch, *operands: None),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row, mutate = MUTANTS[name]
    right = MEANINGS[row]
    with np.errstate(all="ignore"):
        monkeypatch.setitem(MEANINGS, row, lambda operation: mutate(operation, right(operation)))
        assert any(run_campaign([seed], [row]).findings for seed in SEEDS)
        monkeypatch.undo()
