"""Which bytes of a result depend on bytes that nobody wrote: never fewer than really do, and often no more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interpreter.ptx.programs import evaluate, module_text, run
from tilewright.interpreter import UninitializedError, load_ptx
from tilewright.interpreter.ptx.bytewise import bytewise
from tilewright.interpreter.ptx.marks import Marks
from tilewright.interpreter.ptx.syntax import Instruction, Operand, Register

ALL = (1 << 32) - 1
MARK = 1 << 8
words = st.one_of(st.integers(0, ALL), st.sampled_from([0, 1, 0xFF, 0xFF00, 0x7F007F00, 0x80008000, ALL]))
INSTRUCTIONS = (
    "and.b32 %d0, %a0, {k:#x};", "or.b32 %d0, {k:#x}, %a0;", "xor.b32 %d0, %a0, %a1;", "not.b32 %d0, %a0;",
    "lop3.b32 %d0, %a0, {k:#x}, %a1, {table:#x};", "prmt.b32 %d0, %a0, %a1, {low:#x};", "shl.b32 %d0, %a0, {n};",
    "shr.u32 %d0, %a0, {n};", "add.u32 %d0, %a0, {k:#x};", "sub.s32 %d0, {k:#x}, %a0;",
    "mul.lo.u32 %d0, %a0, {k:#x};", "mad.lo.s32 %d0, %a0, {k:#x}, %a1;", "cvt.u32.u32 %d0, %a0;",
    "shr.s32 %d0, %a0, {n};", "shf.l.wrap.b32 %d0, %a0, %a1, {n};", "shf.r.clamp.b32 %d0, %a1, %a0, {n};",
    "bfe.u32 %d0, %a0, {n}, 11;", "bfe.s32 %d0, %a0, {n}, 16;", "bfi.b32 %d0, %a0, %a1, {n}, 13;",
    "bfi.b32 %d0, %a1, %a0, {n}, 13;", "cvt.s8.s32 %d0, %a0;", "cvt.s16.u32 %d0, %a0;", "cvt.s32.s16 %d0, %a0;",
    "cvt.u16.s8 %d0, %a0;", "and.b32 %d0, %a0, %a1;", "or.b32 %d0, %a1, %a0;", "mul.lo.u32 %d0, %a1, %a0;",
    "mad.lo.u32 %d0, %a0, %a1, %a1;", "mad.lo.s32 %d0, %a1, %a1, %a0;",
)  # fmt: skip


def marked(text: str, octets: int, values: Sequence[int] = (0,)) -> list[int] | None:
    """The marked bytes of %d0 where those of %a0 are marked, for values of %a1; None for other instructions."""
    body = load_ptx(module_text(f".reg .b32 %d0, %a<2>; {text}", ())).functions["k"].body
    assert body is not None and isinstance(body[0], Instruction)

    def of(operand: Operand) -> Marks:
        is_it = isinstance(operand, Register) and operand.name == "%a0" and octets
        return np.array([MARK | octets if is_it else 0], np.uint32)

    held = {"%a0": np.zeros(1, np.uint32), "%a1": np.array(values, np.uint32)}
    found = bytewise(body[0], of, lambda register: held[register.name])
    return None if found is None else [int(each) & 0xFF for each in np.broadcast_to(found, len(values))]


@settings(max_examples=10)
@given(st.data(), words, st.integers(0, 255), st.integers(0, 0xFFFF), st.integers(0, 40), st.integers(0, 15))
@pytest.mark.parametrize("form", INSTRUCTIONS)
def test_what_is_not_marked_does_not_change(
    form: str, data: st.DataObject, k: int, table: int, low: int, n: int, octets: int
) -> None:
    text = form.format(k=k, table=table, low=low, n=n)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    a, other, b = rng.integers(0, 1 << 32, (3, 64), np.uint32)
    b[rng.integers(0, 2, 64, np.bool_)] &= np.uint32(data.draw(words))
    predicted = marked(text, octets, b.tolist())
    assert predicted is not None
    changing = np.uint32(sum(0xFF << 8 * at for at in range(4) if octets >> at & 1))
    before, after = (evaluate(text, x, b)[0] for x in (a, a & ~changing | other & changing))
    changed = before ^ after
    for at in range(4):
        reached = (changed >> np.uint32(8 * at) & np.uint32(0xFF)) != 0
        assert not (reached & (np.array(predicted) >> at & 1 == 0)).any()


@pytest.mark.parametrize(
    ("text", "octets", "found"),
    [
        ("and.b32 %d0, %a0, 0x00ff0000;", 0b1111, 0b0100),
        ("or.b32 %d0, %a0, 0x0000ffff;", 0b0111, 0b0100),
        ("and.b32 %d0, %a0, %a0;", 0b0110, 0b0110),
        ("xor.b32 %d0, %a0, %a1;", 0b0101, 0b0101),
        ("lop3.b32 %d0, %a1, 0x80008000, %a0, 0xf8;", 0b1111, 0b1010),
        ("prmt.b32 %d0, 0, %a0, 0x5746;", 0b1100, 0b0101),
        ("shl.b32 %d0, %a0, 12;", 0b0001, 0b0110),
        ("shr.u32 %d0, %a0, 8;", 0b1001, 0b0100),
        ("add.u32 %d0, %a0, 1;", 0b0100, 0b1100),
        ("shr.s32 %d0, %a0, 8;", 0b0001, 0b0000),
        ("shr.s32 %d0, %a0, 9;", 0b1000, 0b1110),
        ("shl.b32 %d0, %a0, -1;", 0b1111, 0b0000),
        ("bfe.u32 %d0, %a0, 8, 8;", 0b1101, 0b0000),
        ("bfe.u32 %d0, %a0, 4, 16;", 0b0100, 0b0010),
        ("bfi.b32 %d0, %a1, %a0, 8, 16;", 0b1110, 0b1000),
        ("shf.r.wrap.b32 %d0, %a0, %a1, 16;", 0b1011, 0b0010),
        ("cvt.s8.s32 %d0, %a0;", 0b0001, 0b1111),
        ("cvt.s8.s32 %d0, %a0;", 0b1110, 0b0000),
        ("mul.lo.u32 %d0, %a0, %a0;", 0b0010, 0b1110),
        ("mul.hi.u32 %d0, %a0, 3;", 0b0001, None),
        ("lop3.b32 %d0, %a0, %a1, %a1, 0x80;", 0b0000, 0b0000),
    ],
)
def test_which_bytes_are_marked(text: str, octets: int, found: int | None) -> None:
    assert marked(text, octets) == (None if found is None else [found])


@pytest.mark.parametrize(
    ("text", "values", "found"),
    [
        ("and.b32 %d0, %a0, %a1;", [0, 0xFF00, ALL], [0, 0b0010, 0b1111]),
        ("or.b32 %d0, %a1, %a0;", [0, 0xFF00FE, ALL], [0b1111, 0b1011, 0]),
        ("mul.lo.u32 %d0, %a1, %a0;", [0, 1], [0, 0b1111]),
        ("mad.lo.u32 %d0, %a0, %a1, %a0;", [0], [0b1111]),
        ("mad.lo.u32 %d0, %a0, %a1, %a1;", [0], [0]),
    ],
)
def test_what_another_register_leaves(text: str, values: list[int], found: list[int]) -> None:
    assert marked(text, 0b1111, values) == found


def test_bytes_that_nobody_needs_may_be_unwritten() -> None:
    """A 16-bit number is packed with nothing, worked on with 32-bit instructions, and taken out again."""
    start = """
        .reg .b16 %h, %none; .reg .b32 %w, %x<4>;
        mov.b16 %h, 0x1234; mov.b32 %w, {%h, %none};
        and.b32 %x0, %w, 0x7fff7fff; mad.lo.u32 %x1, %x0, 2, 0x00800080; lop3.b32 %x2, %w, 0x80008000, %x1, 0xea;
    """
    out = np.zeros(1, np.uint32)
    run(f"{start} .reg .b64 %p; ld.param.u64 %p, [a]; cvt.u16.u32 %h, %x2; st.global.b16 [%p], %h; ret;", out, block=1)
    assert out[0] == 2 * 0x1234 + 0x80
    with pytest.raises(UninitializedError, match="depends on `%none`"):
        run(f"{start} .reg .b64 %p; ld.param.u64 %p, [a]; st.global.b32 [%p], %x2; ret;", out, block=1)
