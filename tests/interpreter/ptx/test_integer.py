"""Integer and bit instructions against Python's integers, on every pair of special values."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.interpreter.ptx.programs import evaluate

TYPES = ("u16", "u32", "u64", "s16", "s32", "s64")


def dtype(name: str) -> np.dtype[Any]:
    return np.dtype(f"{'i' if name[0] == 's' else 'u'}{int(name[1:]) // 8}")


def values(name: str) -> list[int]:
    bits = int(name[1:])
    raw = [0, 1, 2, 3, 7, 0x55, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << (bits // 2)) + 5]
    return [wrap(x, name) for x in raw]


def wrap(x: int, name: str) -> int:
    bits = int(name[1:])
    x &= (1 << bits) - 1
    return x - (1 << bits) if name[0] in "s" and x >> (bits - 1) else x


def grids(name: str, count: int) -> list[np.ndarray]:
    rows = list(product(values(name), repeat=count))
    return [np.array(column, dtype(name)) for column in zip(*rows, strict=True)]


def check(instruction: str, name: str, count: int, rule: Callable[..., int], result: str = "") -> None:
    operands = grids(name, count)
    result = result or name
    (got,) = evaluate(instruction, *operands, results=[dtype(result)])
    want = [wrap(rule(*row), result) for row in zip(*(x.tolist() for x in operands), strict=True)]
    assert got.tolist() == want


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def high(a: int, b: int, name: str) -> int:
    return (a * b) >> int(name[1:])


BINARY: dict[str, Callable[[int, int, str], int]] = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul.lo": lambda a, b, t: a * b,
    "mul.hi": high,
    "div": lambda a, b, t: truncated(a, b) if b else -1,
    "rem": lambda a, b, t: a - b * truncated(a, b) if b else -1,
    "min": lambda a, b, t: min(a, b),
    "max": lambda a, b, t: max(a, b),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("opcode", BINARY)
def test_binary(opcode: str, name: str) -> None:
    check(f"{opcode}.{name} %d0, %a0, %a1;", name, 2, lambda a, b: BINARY[opcode](a, b, name))


@pytest.mark.parametrize("name", TYPES)
def test_mad_and_sad(name: str) -> None:
    check(f"mad.lo.{name} %d0, %a0, %a1, %a2;", name, 3, lambda a, b, c: a * b + c)
    check(f"mad.hi.{name} %d0, %a0, %a1, %a2;", name, 3, lambda a, b, c: high(a, b, name) + c)
    check(f"sad.{name} %d0, %a0, %a1, %a2;", name, 3, lambda a, b, c: c + abs(a - b))


@pytest.mark.parametrize("name", ["u16", "u32", "s16", "s32"])
def test_wide(name: str) -> None:
    double = f"{name[0]}{2 * int(name[1:])}"
    check(f"mul.wide.{name} %d0, %a0, %a1;", name, 2, lambda a, b: a * b, double)
    wide = f"mul.wide.{name} %d0, %a0, %a1; mad.wide.{name} %d0, %a0, %a1, %d0;"
    check(wide, name, 2, lambda a, b: 2 * a * b, double)


@pytest.mark.parametrize("opcode", ["add", "sub"])
def test_saturating(opcode: str) -> None:
    def clamped(a: int, b: int) -> int:
        return max(-(2**31), min(2**31 - 1, a + b if opcode == "add" else a - b))

    check(f"{opcode}.sat.s32 %d0, %a0, %a1;", "s32", 2, clamped)


@pytest.mark.parametrize("name", ["s16", "s32", "s64"])
def test_unary(name: str) -> None:
    check(f"abs.{name} %d0, %a0;", name, 1, abs)
    check(f"neg.{name} %d0, %a0;", name, 1, lambda a: -a)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_logic(width: int) -> None:
    name = f"u{width}"
    check(f"and.b{width} %d0, %a0, %a1;", name, 2, lambda a, b: a & b)
    check(f"or.b{width} %d0, %a0, %a1;", name, 2, lambda a, b: a | b)
    check(f"xor.b{width} %d0, %a0, %a1;", name, 2, lambda a, b: a ^ b)
    check(f"not.b{width} %d0, %a0;", name, 1, lambda a: ~a)
    check(f"cnot.b{width} %d0, %a0;", name, 1, lambda a: int(a == 0))


@pytest.mark.parametrize("name", TYPES)
def test_shifts_clamp_their_amount(name: str) -> None:
    width = int(name[1:])
    steps = [0, 1, 15, 16, 31, 32, 33, 63, 64, 65, 255, 256, 2**31, 2**32 - 1]
    xs, counts = zip(*product(values(name), steps), strict=True)
    a, n = np.array(xs, dtype(name)), np.array(counts, np.uint32)
    (left,) = evaluate(f"shl.b{width} %d0, %a0, %a1;", a, n, results=[a.dtype])
    (right,) = evaluate(f"shr.{name} %d0, %a0, %a1;", a, n, results=[a.dtype])
    rows = list(zip(a.tolist(), n.tolist(), strict=True))
    assert left.tolist() == [wrap(x << min(s, width), name) for x, s in rows]
    assert right.tolist() == [x >> min(s, width) for x, s in rows]


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shifts(mode: str) -> None:
    columns = zip(*product(values("u32"), values("u32"), range(40)), strict=True)
    low, high_, n = (np.array(column, np.uint32) for column in columns)
    (left,) = evaluate(f"shf.l.{mode}.b32 %d0, %a0, %a1, %a2;", low, high_, n)
    (right,) = evaluate(f"shf.r.{mode}.b32 %d0, %a0, %a1, %a2;", low, high_, n)
    for x, y, s, got_left, got_right in zip(*(v.tolist() for v in (low, high_, n, left, right)), strict=True):
        s = s & 31 if mode == "wrap" else min(s, 32)
        both = y << 32 | x
        assert got_left == both << s >> 32 & 0xFFFF_FFFF
        assert got_right == both >> s & 0xFFFF_FFFF


def test_lop3() -> None:
    a, b, c = grids("u32", 3)
    for table in (0x00, 0x80, 0x96, 0xE8, 0xCA, 0xFF):
        (got,) = evaluate(f"lop3.b32 %d0, %a0, %a1, %a2, {table};", a, b, c)
        want = np.zeros_like(a)
        for bit in range(32):
            row = (a >> bit & 1) * 4 + (b >> bit & 1) * 2 + (c >> bit & 1)
            want |= (table >> row & 1).astype(np.uint32) << np.uint32(bit)
        assert np.array_equal(got, want)


@pytest.mark.parametrize("width", [32, 64])
def test_counts(width: int) -> None:
    name = f"u{width}"
    check(f"popc.b{width} %d0, %a0;", name, 1, lambda a: a.bit_count(), "u32")
    check(f"clz.b{width} %d0, %a0;", name, 1, lambda a: width - a.bit_length(), "u32")
    check(f"brev.b{width} %d0, %a0;", name, 1, lambda a: int(f"{a:0{width}b}"[::-1], 2))
    check(f"bfind.u{width} %d0, %a0;", name, 1, lambda a: a.bit_length() - 1, "u32")
    shifted = lambda a: -1 if a == 0 else width - a.bit_length()  # noqa: E731
    check(f"bfind.shiftamt.u{width} %d0, %a0;", name, 1, shifted, "u32")
    check(f"bfind.s{width} %d0, %a0;", f"s{width}", 1, lambda a: (~a if a < 0 else a).bit_length() - 1, "u32")


WHERE = (0, 1, 5, 31, 32, 63, 64, 255, 256, 1 << 31)
"""Positions and lengths of fields; in words of 32 bits hardware looks at their low bytes alone."""


@pytest.mark.parametrize("name", ["u32", "u64", "s32", "s64"])
def test_bit_fields(name: str) -> None:
    width = int(name[1:])
    a, p, n = zip(*product(values(name), WHERE, WHERE), strict=True)
    arrays = np.array(a, dtype(name)), np.array(p, np.uint32), np.array(n, np.uint32)
    (got,) = evaluate(f"bfe.{name} %d0, %a0, %a1, %a2;", *arrays, results=[dtype(name)])

    def extracted(x: int, position: int, length: int) -> int:
        top, position, length = width - 1, seen(position, width), seen(length, width)
        sign_at = min(position + length - 1, top)
        sign = x >> sign_at & 1 if name[0] == "s" and length else 0
        bits = [(x >> (position + i) & 1) if i < length and position + i <= top else sign for i in range(width)]
        return wrap(sum(b << i for i, b in enumerate(bits)), name)

    assert got.tolist() == [extracted(*row) for row in zip(a, p, n, strict=True)]


def seen(x: int, width: int) -> int:
    return x & 0xFF if width == 32 else x


@pytest.mark.parametrize("width", [32, 64])
def test_bit_field_insert(width: int) -> None:
    name = f"u{width}"
    rows = list(product(values(name)[:4], values(name), WHERE, WHERE))
    a, b, p, n = zip(*rows, strict=True)
    arrays = np.array(a, dtype(name)), np.array(b, dtype(name)), np.array(p, np.uint32), np.array(n, np.uint32)
    (got,) = evaluate(f"bfi.b{width} %d0, %a0, %a1, %a2, %a3;", *arrays, results=[dtype(name)])

    def inserted(x: int, y: int, position: int, length: int) -> int:
        position = seen(position, width)
        for i in range(min(seen(length, width), width)):
            if position + i < width:
                y = y & ~(1 << (position + i)) | (x >> i & 1) << (position + i)
        return y

    assert got.tolist() == [inserted(*row) for row in rows]


def test_fns() -> None:
    rows = [(0b1011, 0, 2, 1), (0b1011, 3, -2, 1), (0b1011, 1, 0, 1), (0b1011, 2, 0, -1), (0b1011, 0, 4, -1)]
    rows += [(0b1011, 5, -(2**31), 0)]  # as an H200 has it
    mask, base, offset, want = np.array(rows).T
    (got,) = evaluate("fns.b32 %d0, %a0, %a1, %a2;", *(x.astype(np.uint32) for x in (mask, base, offset)))
    assert got.view(np.int32).tolist() == want.tolist()


def test_prmt() -> None:
    a, b = np.array([0x03020100, 0x8389C0FF], np.uint32), np.array([0x07060504, 0x77665544], np.uint32)
    pool = [list(int(x | y << 32).to_bytes(8, "little")) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    for selector in (0x3210, 0x7531, 0x89AB, 0xFEDC, 0x0000):
        (got,) = evaluate(f"prmt.b32 %d0, %a0, %a1, {selector};", a, b)
        for octets, value in zip(pool, got.tolist(), strict=True):
            want = 0
            for i in range(4):
                nibble = selector >> 4 * i & 15
                octet = octets[nibble & 7]
                want |= ((0xFF if octet & 0x80 else 0) if nibble & 8 else octet) << 8 * i
            assert value == want
    (forward,) = evaluate("prmt.b32.f4e %d0, %a0, %a1, 2;", a, b)
    assert forward[0] == 0x05040302
    (pair,) = evaluate("prmt.b32.rc16 %d0, %a0, %a1, 1;", a, b)
    assert pair[0] == 0x03020302


def test_dp4a_and_24_bit_products() -> None:
    rows = [(0x01FF807F, 0x02037F80, 10), (0xFFFFFFFF, 0x01010101, 4)]
    a, b, c = (np.array(column, np.uint32) for column in zip(*rows, strict=True))
    signed = lambda x: [(o ^ 0x80) - 0x80 for o in x.to_bytes(4, "little")]  # noqa: E731
    (got,) = evaluate("dp4a.s32.s32 %d0, %a0, %a1, %a2;", a, b, c)
    want = [z + sum(p * q for p, q in zip(signed(x), signed(y), strict=True)) for x, y, z in rows]
    assert got.view(np.int32).tolist() == want
    x = np.array([0xFF_FFFF, 0x123456], np.uint32)
    (low,) = evaluate("mul24.lo.u32 %d0, %a0, %a0;", x)
    (top,) = evaluate("mul24.hi.u32 %d0, %a0, %a0;", x)
    assert low.tolist() == [v * v & 0xFFFF_FFFF for v in x.tolist()]
    assert top.tolist() == [v * v >> 16 & 0xFFFF_FFFF for v in x.tolist()]


def signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (x >> bits - 1 << bits) if bits else 0


@pytest.mark.parametrize("kinds", ["u32.u32", "u32.s32", "s32.u32", "s32.s32"])
def test_dp2a(kinds: str) -> None:
    rows = list(product((0, 0x8000_7FFF, 0xFFFF_0001, 0x1234_FEDC), (0x80FF_7F01, 0x0102_80FE), (0, 0xFFFF_FFF0)))
    a, b, c = (np.array(column, np.uint32) for column in zip(*rows, strict=True))
    for half, shift in (("lo", 0), ("hi", 16)):
        (got,) = evaluate(f"dp2a.{half}.{kinds} %d0, %a0, %a1, %a2;", a, b, c)
        for n, (x, y, z) in enumerate(rows):
            wide = [x & 0xFFFF, x >> 16]
            narrow = [y >> shift & 0xFF, y >> shift + 8 & 0xFF]
            wide = wide if kinds[0] == "u" else [signed(v, 16) for v in wide]
            narrow = narrow if kinds[4] == "u" else [signed(v, 8) for v in narrow]
            assert got[n] == (z + sum(p * q for p, q in zip(wide, narrow, strict=True))) & 0xFFFF_FFFF


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_szext(mode: str, kind: str) -> None:
    rows = list(product((0, 1, 0x8000_0000, 0xFFFF_FFFF, 0x5A5A_A5A5), (*range(34), 63, 64, 255, 256, 0xFFFF_FFFF)))
    a, n = (np.array(column, np.uint32) for column in zip(*rows, strict=True))
    (got,) = evaluate(f"szext.{mode}.{kind} %d0, %a0, %a1;", a, n)
    for at, (x, count) in enumerate(rows):
        count = min(count, 32) if mode == "clamp" else count % 32
        want = signed(x, count) if kind == "s32" else x & (1 << count) - 1
        assert got[at] == want & 0xFFFF_FFFF, (x, count)


def test_a_sum_of_a_24_bit_product_is_clamped() -> None:
    a, b = np.array([0x7F_FFFF, 0x80_0000, 3], np.int32), np.array([0x7F_FFFF, 0x7F_FFFF, -5], np.int32)
    c = np.array([0x7FFF_FFFF, -0x8000_0000, 7], np.int32)
    (got,) = evaluate("mad24.hi.sat.s32 %d0, %a0, %a1, %a2;", a, b, c, results=[np.int32])
    assert got.tolist() == [0x7FFF_FFFF, -0x8000_0000, 6]


def test_packed_halves() -> None:
    a, b = np.array([0xFFFF_8000], np.uint32), np.array([0x0001_FFFF], np.uint32)
    assert evaluate("add.u16x2 %d0, %a0, %a1;", a, b)[0].tolist() == [0x0000_7FFF]
    assert evaluate("min.s16x2 %d0, %a0, %a1;", a, b)[0].tolist() == [0xFFFF_8000]
    assert evaluate("max.u16x2 %d0, %a0, %a1;", a, b)[0].tolist() == [0xFFFF_FFFF]
    assert evaluate("max.relu.s16x2 %d0, %a0, %a1;", a, b)[0].tolist() == [0x0001_0000]


@pytest.mark.parametrize("operator", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("name", TYPES)
def test_comparisons(operator: str, name: str) -> None:
    a, b = grids(name, 2)
    rule = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[operator]
    p, q = evaluate(f"setp.{operator}.{name} %d0|%d1, %a0, %a1;", a, b, results=[np.bool_, np.bool_])
    assert np.array_equal(p, rule) and np.array_equal(q, ~rule)
    (mask,) = evaluate(f"set.{operator}.u32.{name} %d0, %a0, %a1;", a, b)
    assert np.array_equal(mask, np.where(rule, 0xFFFF_FFFF, 0))
    choose = f".reg .pred %p; setp.{operator}.{name} %p, %a0, %a1; selp.b{name[1:]} %d0, %a0, %a1, %p;"
    (chosen,) = evaluate(choose, a, b, results=[a.dtype])
    assert np.array_equal(chosen, np.where(rule, a, b))


@pytest.mark.parametrize(("combine", "rule"), [("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)])
def test_combined_comparisons(combine: str, rule: Callable[..., Any]) -> None:
    a, b = grids("s32", 2)
    c = np.arange(len(a)) % 3 == 0
    p, q = evaluate(f"setp.lt.{combine}.s32 %d0|%d1, %a0, %a1, %a2;", a, b, c, results=[np.bool_, np.bool_])
    assert np.array_equal(p, rule(a < b, c)) and np.array_equal(q, rule(a >= b, c))
    (r,) = evaluate(f"setp.lt.{combine}.s32 %d0, %a0, %a1, !%a2;", a, b, c, results=[np.bool_])
    assert np.array_equal(r, rule(a < b, ~c))


def test_slct_and_unsigned_names() -> None:
    a, b = grids("s32", 2)
    (got,) = evaluate("slct.s32.s32 %d0, %a0, %a1, %a1;", a, b, results=[np.int32])
    assert np.array_equal(got, np.where(b >= 0, a, b))
    x, y = grids("u32", 2)
    (low,) = evaluate("setp.lo.u32 %d0, %a0, %a1;", x, y, results=[np.bool_])
    assert np.array_equal(low, x < y)
