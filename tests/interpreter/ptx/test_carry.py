"""Arithmetic over several words against Python's integers, and which forms there are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.interpreter.ptx.programs import evaluate
from tilewright.compiler import assemble
from tilewright.interpreter import PtxError, UninitializedError, load_ptx

BITS = 32
WORDS = (0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
PAIRS = np.array(list(product(WORDS, repeat=4)), np.uint32)
"""Two numbers of 64 bits each, as words, the low ones first."""


def computed(body: str) -> list[int]:
    """The 128 bits that a body makes of each pair."""
    words = evaluate(body, *PAIRS.T, results=[np.uint32] * 4)
    return [sum(int(word) << BITS * n for n, word in enumerate(row)) for row in zip(*words, strict=True)]


def pairs() -> list[tuple[int, int]]:
    return [(int(a) | int(b) << BITS, int(c) | int(d) << BITS) for a, b, c, d in PAIRS]


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_sums_and_differences(kind: str) -> None:
    """The third word of a result is the carry that is left; a difference's is all ones if it is negative."""
    rest = "mov.b32 %d3, 0;"
    added = f"add.cc.{kind} %d0, %a0, %a2; addc.cc.{kind} %d1, %a1, %a3; addc.{kind} %d2, 0, 0; {rest}"
    assert computed(added) == [a + b for a, b in pairs()]
    taken = f"sub.cc.{kind} %d0, %a0, %a2; subc.cc.{kind} %d1, %a1, %a3; subc.{kind} %d2, 0, 0; {rest}"
    assert computed(taken) == [(a - b) % (1 << 96) for a, b in pairs()]


def test_products() -> None:
    body = """
        mul.lo.u32 %d0, %a0, %a2; mul.hi.u32 %d1, %a0, %a2; mov.b32 %d2, 0; mov.b32 %d3, 0;
        mad.lo.cc.u32 %d1, %a0, %a3, %d1; madc.hi.u32 %d2, %a0, %a3, 0;
        mad.lo.cc.u32 %d1, %a1, %a2, %d1; madc.hi.cc.u32 %d2, %a1, %a2, %d2; addc.u32 %d3, 0, 0;
        mad.lo.cc.u32 %d2, %a1, %a3, %d2; madc.hi.u32 %d3, %a1, %a3, %d3;
    """
    assert computed(body) == [a * b for a, b in pairs()]


def test_words_of_64_bits() -> None:
    body = """
        .reg .b64 %u, %v;
        mov.b64 %u, {%a0, %a1}; mov.b64 %v, {%a2, %a3};
        add.cc.u64 %u, %u, %v; addc.s64 %v, 0, 0;
        mov.b64 {%d0, %d1}, %u; mov.b64 {%d2, %d3}, %v;
    """
    assert computed(body) == [a + b for a, b in pairs()]


def test_a_difference_leaves_a_carry_where_nothing_was_borrowed() -> None:
    """Which `subc` takes as it is meant, and `madc` as it is."""
    body = "mov.b32 %d2, 0; mov.b32 %d3, 0; sub.cc.u32 %d0, %a0, %a1; madc.lo.u32 %d1, %a2, 1, 0;"
    rows = PAIRS.astype(int).tolist()
    assert computed(body) == [(a - b) % (1 << 32) | (c + (a >= b)) % (1 << 32) << 32 for a, b, c, _ in rows]


def test_halves_of_signed_products() -> None:
    body = """
        mov.b32 %d1, 0; mov.b32 %d2, 0; mov.b32 %d3, 0;
        mad.hi.cc.s32 %d0, %a0, %a1, %a2; addc.u32 %d1, 0, 0;
    """
    signed = PAIRS.view(np.int32).astype(int)
    want = [(int(a) * int(b) >> 32) % (1 << 32) + int(c) for (a, b, _, _), c in zip(signed, PAIRS[:, 2], strict=True)]
    assert computed(body) == want


def test_a_carry_that_nothing_gave_is_told() -> None:
    with pytest.raises(UninitializedError, match=r"CC\.CF"):
        computed("addc.u32 %d0, %a0, %a1; mov.b32 %d1, 0; mov.b32 %d2, 0; mov.b32 %d3, 0;")


TEXT = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry f() {{ .reg .b32 %d<4>; mov.b32 %d1, 0; {} ret; }}
"""


@pytest.mark.parametrize(
    "form", ["mad.wide.cc.u32 %d1, %d1, %d1, %d1;", "add.cc.u16 %d1, %d1, %d1;", "addc.u32 %d1, 0;"]
)
def test_what_has_no_such_form(form: str) -> None:
    with pytest.raises(PtxError):
        load_ptx(TEXT.format(form))


def test_the_assembler_takes_the_forms() -> None:
    body = "add.cc.u32 %d1, %d1, 1; addc.cc.s32 %d1, %d1, %d1; subc.u32 %d1, %d1, 1; madc.hi.cc.u32 %d1, %d1, 3, 4;"
    assert assemble("f", TEXT.format(body), "sm_90a").cubin and load_ptx(TEXT.format(body))
