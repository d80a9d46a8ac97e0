"""Operations on bits: logic, shifts, fields, counts, permutations."""

from __future__ import annotations

import numpy as np

from ... import numerics
from ..frame import Frame, Index
from ..site import Site
from ..syntax import Operand, Pair
from ..table import Kernel, Modifiers, Step, pure, step
from ..types import TYPES, Array

_LOGIC = "pred|b16|b32|b64"
_BITS = "b16|b32|b64"
_COMBINERS = {"or": np.logical_or, "and": np.logical_and}


@pure(f"and.<type:{_LOGIC}>", "type <- type type", "bits")
def and_(m: Modifiers) -> Kernel:
    return np.bitwise_and


@pure(f"or.<type:{_LOGIC}>", "type <- type type", "bits")
def or_(m: Modifiers) -> Kernel:
    return np.bitwise_or


@pure(f"xor.<type:{_LOGIC}>", "type <- type type", "bits")
def xor(m: Modifiers) -> Kernel:
    return np.bitwise_xor


@pure(f"not.<type:{_LOGIC}>", "type <- type", "bits")
def not_(m: Modifiers) -> Kernel:
    return np.invert


@pure(f"cnot.<type:{_BITS}>", "type <- type", "bits")
def cnot(m: Modifiers) -> Kernel:
    return lambda a: (a == 0).astype(a.dtype)


def _amount(width: int, steps: Array) -> Array:
    """A shift amount, clamped to the width, as signless storage of the width of the value."""
    return np.minimum(steps, np.uint32(width)).astype(f"i{width // 8}")


@pure(f"shl.<type:{_BITS}>", "type <- type b32", "bits")
def shl(m: Modifiers) -> Kernel:
    width = int(m["type"][1:])
    dtype = f"i{width // 8}"
    return lambda a, n: numerics.shl(a.view(dtype), _amount(width, n))


@pure(f"shr.<type:{_BITS}|u16|u32|u64|s16|s32|s64>", "type <- type b32", "bits")
def shr(m: Modifiers) -> Kernel:
    width = int(m["type"][1:])
    dtype, shift = f"i{width // 8}", numerics.shr_s if m["type"][0] == "s" else numerics.shr_u
    return lambda a, n: shift(a.view(dtype), _amount(width, n))


@pure("shf.<way:l|r>.<mode:clamp|wrap>.b32", "b32 <- b32 b32 b32", "bits")
def shf(m: Modifiers) -> Kernel:
    left, wrap = m["way"] == "l", m["mode"] == "wrap"

    def kernel(low: Array, high: Array, steps: Array) -> Array:
        n = (steps & np.uint32(31) if wrap else np.minimum(steps, np.uint32(32))).astype(np.uint64)
        both = (high.astype(np.uint64) << np.uint64(32)) | low
        moved = (both << n) >> np.uint64(32) if left else both >> n
        return moved.astype(np.uint32)

    return kernel


@pure("lop3.b32", "b32 <- b32 b32 b32 b32", "bits")
def lop3(m: Modifiers) -> Kernel:
    return _by_table


def _by_table(a: Array, b: Array, c: Array, table: Array) -> Array:
    """Each bit is that of the table which the three bits number."""
    out = np.uint32(0)
    for row in range(8):
        term = (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        out = out | np.where(table & np.uint32(1 << row), term, np.uint32(0))
    return np.asarray(out)


@step("lop3.<op:or|and>.b32", "bits")
def lop3_with_predicate(site: Site) -> Step:
    """lop3, and whether the result is not 0, combined with a predicate."""
    site.arity(6)
    target: Operand = site.operands[0]
    if not isinstance(target, Pair):
        site.fail(f"`{site.instruction.opcode}` has a register and a predicate as results")
    write, write_predicate = site.write(target.first, TYPES["b32"]), site.write(target.second, TYPES["pred"])
    reads = [site.read(operand, TYPES["b32"]) for operand in site.operands[1:5]]
    other, combine = site.read(site.operands[5], TYPES["pred"]), _COMBINERS[site.modifiers["op"]]

    def run(frame: Frame, index: Index) -> None:
        given = other(frame, index)
        result = _by_table(*(read(frame, index) for read in reads))
        write(frame, index, result)
        write_predicate(frame, index, combine(result != 0, given))

    return run


@pure("popc.<type:b32|b64>", "b32 <- type", "bits")
def popc(m: Modifiers) -> Kernel:
    return lambda a: np.bitwise_count(a).astype(np.uint32)


def _leading(a: Array) -> Array:
    """The position of the highest bit that is set, -1 for none."""
    at = np.full(a.shape, -1, np.int32)
    rest = a.copy()
    for half in (32, 16, 8, 4, 2, 1)[1 if a.dtype.itemsize == 4 else 0 :]:
        high = rest >> a.dtype.type(half)
        some = high != 0
        at += np.where(some, half, 0).astype(np.int32)
        rest = np.where(some, high, rest)
    return at + (rest != 0).astype(np.int32)


@pure("clz.<type:b32|b64>", "b32 <- type", "bits")
def clz(m: Modifiers) -> Kernel:
    top = int(m["type"][1:]) - 1
    return lambda a: (top - _leading(a)).astype(np.uint32)


@pure("bfind[.shiftamt].<type:u32|u64|s32|s64>", "b32 <- type", "bits")
def bfind(m: Modifiers) -> Kernel:
    top = int(m["type"][1:]) - 1

    def kernel(a: Array) -> Array:
        if a.dtype.kind == "i":
            a = np.where(a < 0, ~a, a)
        at = _leading(a.view(f"u{a.dtype.itemsize}"))
        return np.where(at < 0, at, top - at) if m["shiftamt"] else at

    return kernel


@pure("brev.<type:b32|b64>", "type <- type", "bits")
def brev(m: Modifiers) -> Kernel:
    def kernel(a: Array) -> Array:
        octets = np.packbits(np.unpackbits(np.ascontiguousarray(a).view(np.uint8), bitorder="little"), bitorder="big")
        return octets.reshape(len(a), -1)[:, ::-1].copy().view(a.dtype).reshape(len(a))

    return kernel


@pure("bfe.<type:u32|u64|s32|s64>", "type <- type b32 b32", "bits")
def bfe(m: Modifiers) -> Kernel:
    width = int(m["type"][1:])

    def kernel(a: Array, position: Array, length: Array) -> Array:
        start, count = _ends(position, width), _ends(length, width)
        top = np.minimum(start + count, np.uint32(width))
        unsigned = a.view(f"u{width // 8}")
        up, down = np.uint32(width) - top, np.uint32(width) - (top - start)
        shifted = _shift(unsigned, up, width, left=True).view(a.dtype)
        field = _shift(shifted, down, width, left=False)
        if a.dtype.kind == "u":
            return np.where(count == 0, a.dtype.type(0), field)
        # Past the top, the field is the sign of the value (of the field's last bit where it ends inside).
        sign = a >> a.dtype.type(width - 1)
        return np.where(count == 0, a.dtype.type(0), np.where(start >= width, sign, field))

    return kernel


def _ends(x: Array, width: int) -> Array:
    """Positions or lengths in a word: the low byte alone counts in one of 32 bits, as hardware has it; all do in 64."""
    return np.minimum(x & np.uint32(0xFF) if width == 32 else x, np.uint32(width))


def _shift(a: Array, steps: Array, width: int, left: bool) -> Array:
    """Shift by up to the whole width; to the right with the sign of the type."""
    amount, dtype = steps.astype(f"i{width // 8}"), f"i{width // 8}"
    if left:
        return numerics.shl(a.view(dtype), amount).view(a.dtype)
    shift = numerics.shr_s if a.dtype.kind == "i" else numerics.shr_u
    return shift(a.view(dtype), amount).view(a.dtype)


@pure("bfi.<type:b32|b64>", "type <- type type b32 b32", "bits")
def bfi(m: Modifiers) -> Kernel:
    width = int(m["type"][1:])

    def kernel(a: Array, b: Array, position: Array, length: Array) -> Array:
        start, count = _ends(position, width), _ends(length, width)
        ones = np.full(1, -1, a.dtype.str.replace("u", "i")).view(a.dtype)
        field = ~_shift(np.broadcast_to(ones, count.shape).copy(), count, width, left=True)
        mask = _shift(field, start, width, left=True)
        return (b & ~mask) | (_shift(a, start, width, left=True) & mask)

    return kernel


_PRMT_MODES = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": tuple((n,) * 4 for n in range(4)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3)) * 2,
}


def _octets(a: Array, count: int) -> Array:
    return np.ascontiguousarray(np.broadcast_to(a, (count,))).view(np.uint8).reshape(count, 4)


@pure("prmt.b32[.<mode:f4e|b4e|rc8|ecl|ecr|rc16>]", "b32 <- b32 b32 b32", "bits")
def prmt(m: Modifiers) -> Kernel:
    table = np.array(_PRMT_MODES[m["mode"]]) if m["mode"] else None

    def kernel(a: Array, b: Array, selector: Array) -> Array:
        count = max(len(a), len(b), len(selector))
        pool = np.concatenate([_octets(a, count), _octets(b, count)], axis=1)
        chosen = np.broadcast_to(selector, (count,))[:, None]
        if table is None:
            nibble = (chosen >> np.array([0, 4, 8, 12], np.uint32)) & np.uint32(15)
            picked = np.take_along_axis(pool, (nibble & 7).astype(np.intp), 1)
            sign = (picked.view(np.int8) >> 7).view(np.uint8)
            picked = np.where(nibble & 8, sign, picked)
        else:
            picked = np.take_along_axis(pool, table[(chosen & 3).astype(np.intp)[:, 0]], 1)
        return np.ascontiguousarray(picked).view(np.uint32).reshape(count)

    return kernel


@pure("fns.b32", "b32 <- b32 b32 s32", "bits")
def fns(m: Modifiers) -> Kernel:
    def one(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if mask >> base & 1 else 0xFFFF_FFFF
        if offset == -1 << 31:  # of which |offset| is no s32
            return 0
        way = 1 if offset > 0 else -1
        left, at = abs(offset), base
        while 0 <= at < 32:
            left -= mask >> at & 1
            if not left:
                return at
            at += way
        return 0xFFFF_FFFF

    return np.vectorize(one, otypes=[np.uint32])


@pure("bmsk.<mode:clamp|wrap>.b32", "b32 <- b32 b32", "bits")
def bmsk(m: Modifiers) -> Kernel:
    wrap = m["mode"] == "wrap"

    def kernel(a: Array, b: Array) -> Array:
        start, count = ((x & np.uint32(31)) if wrap else np.minimum(x, np.uint32(32)) for x in (a, b))
        ones = (np.uint64(1) << count.astype(np.uint64)) - np.uint64(1)
        return (ones << start.astype(np.uint64)).astype(np.uint32)

    return kernel


@pure("szext.<mode:clamp|wrap>.<type:u32|s32>", "type <- type b32", "bits")
def szext(m: Modifiers) -> Kernel:
    """So many low bits as a number: extended by zeros or by the highest of them, 0 for no bits."""
    wrap, signed = m["mode"] == "wrap", m["type"][0] == "s"

    def kernel(a: Array, length: Array) -> Array:
        count = (length & np.uint32(31) if wrap else np.minimum(length, np.uint32(32))).astype(np.int64)
        low = a.view(np.uint32).astype(np.int64) & (np.int64(1) << count) - 1
        sign = low >> np.maximum(count - 1, 0) & 1 if signed else np.int64(0)
        return (low - (sign << count)).astype(np.uint32).view(a.dtype)

    return kernel
