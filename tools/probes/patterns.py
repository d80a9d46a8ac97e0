"""Operands of single instructions: special values against each other, and bits from a hash of their number.

Nothing but integer arithmetic of 64 bits decides them, so that they are the same with every NumPy, here and there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.numerics import FORMATS, FloatFormat
from tilewright.interpreter.ptx.types import TYPES, Array, PtxType

Bits = NDArray[np.uint64]

SWEEP = 1 << 16
"""Inputs of an instruction with one operand of 16 bits, which gets all of them."""
_GRID = {1: 1 << 12, 2: 80, 3: 22, 4: 8}
"""How many special values of each operand are put against each other, by the number of operands."""


def hashed(stream: int, count: int) -> Bits:
    """The first numbers of a stream: the finalizer of SplitMix64 on its counter."""
    x = np.arange(count, dtype=np.uint64) + np.uint64(stream * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF)
    x *= np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


# --- special values ---


def _integer_specials(bits: int) -> list[int]:
    top = 1 << bits - 1
    some = [
        0,
        1,
        top,
        2 * top - 1,
        top - 1,
        2,
        31,
        32,
        33,
        255,
        2 * top - 2,
        top + 1,
        63,
        64,
        7,
        8,
        15,
        16,
        24,
        65,
        127,
    ]
    some += [128, 256, 3, 10, 0x5555_5555_5555_5555, 0xAAAA_AAAA_AAAA_AAAA, 0x0123_4567_89AB_CDEF, 1 << bits // 2]
    some += [(1 << bits // 2) - 1, top - 2, 0xFFFF_FFFF_FFFF_FF80, 0xFFFF_FFFF_FFFF_8000, 0xFFFF_FFFF_8000_0000]
    return [x & 2 * top - 1 for x in some]


def _float_specials(row: FloatFormat) -> list[int]:
    """Codes: zeros, infinities, NaNs, the ends of the ranges, 1 and its neighbours, and the limits of integers."""
    one, ulp, sign = row.bias << row.mantissa_bits, row.mantissa_bits, row.sign_bit
    normal = 1 << ulp
    inf = row.max_code + 1 if row.inf_code is None else row.inf_code
    some = [0, sign, one, inf, sign | inf, inf | normal >> 1, 1, sign | one, normal, row.max_code, inf | 1, sign - 1]
    some += [sign | 1, normal - 1, sign | normal, sign | row.max_code, sign | inf | normal >> 1 | 5, one + normal]
    some += [one + 1, one - 1, sign | normal - 1, one - normal, one + (normal >> 1), sign | inf | 1, 2 * sign - 1]
    some += [normal + 1, row.max_code - 1, one + normal + (normal >> 2), normal | normal >> 1, one - ulp * normal]
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):  # where integers end, with both neighbours
        limit = row.bias + bits << ulp
        some += [limit + d | s for d in (0, -1, 1) for s in (0, sign) if limit + 1 <= row.max_code]
    return [x & 2 * sign - 1 for x in some]


@cache
def specials(name: str) -> Bits:
    """The special values of a type as bits, the most telling first; packed types have two of them side by side."""
    type_ = TYPES[name]
    width = type_.bits // type_.lanes
    if type_.kind == "p":
        return np.array([0, 1], np.uint64)
    found = np.array(
        _float_specials(FORMATS[type_.format]) if type_.kind == "f" else _integer_specials(width), np.uint64
    )
    lanes = [np.roll(found, 5 * lane) << np.uint64(width * lane) for lane in range(type_.lanes)]
    return np.bitwise_or.reduce(lanes)


# --- what is drawn ---


def _shaped_integer(x: Bits, bits: int) -> Bits:
    """Of any length, of either sign."""
    size = x >> (np.uint64(64 - bits) + (x & np.uint64(63)) % np.uint64(bits))
    return np.where(x & np.uint64(64), size, ~size)


def _shaped_float(x: Bits, row: FloatFormat, around: NDArray[np.int64]) -> Bits:
    """Near a power of two, with a significand that may end in zeros."""
    spread = row.mantissa_bits + 3
    offset = (x & np.uint64(0xFFFF)).astype(np.int64) % (2 * spread + 1) - spread
    exponent = np.clip(around + offset + row.bias, 0, row.max_code >> row.mantissa_bits)
    low = x >> np.uint64(16)
    cut = np.where(low & np.uint64(1), low >> np.uint64(1) & np.uint64(63), np.uint64(0)) % np.uint64(row.mantissa_bits)
    mantissa = x * np.uint64(0x9E37_79B9_7F4A_7C15) >> np.uint64(64 - row.mantissa_bits)
    code = exponent.astype(np.uint64) << np.uint64(row.mantissa_bits) | mantissa >> cut << cut
    return np.where(x >> np.uint64(15) & np.uint64(1), code | np.uint64(row.sign_bit), code)


def _shaped(type_: PtxType, x: Bits, around: NDArray[np.int64]) -> Bits:
    """One element of a type; `around` is an exponent, which all operands share."""
    width = type_.bits // type_.lanes
    if type_.kind == "f":
        return _shaped_float(x, FORMATS[type_.format], around)
    return _shaped_integer(x, width) if type_.kind != "p" else x & np.uint64(1)


def _lanes(type_: PtxType, stream: int, draw: Callable[[int, int], Bits]) -> Bits:
    width = type_.bits // type_.lanes
    mask = np.uint64((1 << width) - 1 if width < 64 else 0xFFFF_FFFF_FFFF_FFFF)
    return np.bitwise_or.reduce(
        [(draw(stream + lane, lane) & mask) << np.uint64(width * lane) for lane in range(type_.lanes)]
    )


def _exponents(names: Sequence[str], count: int) -> list[NDArray[np.int64]]:
    """What the operands' exponents lie around: the same for the first two, and their sum (a product's) or the same for
    a third."""
    formats = [FORMATS[TYPES[name].format] for name in names if TYPES[name].kind == "f"]
    reach = min((row.bias for row in formats), default=1)
    x = hashed(900, count)
    first = (x % np.uint64(2 * reach + 1)).astype(np.int64) - reach
    near = np.where(x >> np.uint64(40) & np.uint64(1), first, first // 2)
    second = np.where(x >> np.uint64(41) & np.uint64(1), near, -near)
    third = np.where(x >> np.uint64(42) & np.uint64(1), near + second, near)
    return [near, second, third, third]


@lru_cache(maxsize=16)
def drawn(names: tuple[str, ...], count: int) -> tuple[Array, ...]:
    """The operands of `count` instructions: an array of bits for each type, in the carrier of its register.

    First come the special values in all combinations; then by turns bits at random, operands of like size, and special
    values between such.
    """
    around = _exponents(names, count)
    found: list[Bits] = []
    each = np.arange(count)
    for number, name in enumerate(names):
        type_, stream = TYPES[name], 16 * number + 1
        raw = _lanes(type_, stream, lambda s, lane: hashed(s, count))
        shaped = _lanes(type_, stream + 4, lambda s, lane, t=type_, n=number: _shaped(t, hashed(s, count), around[n]))
        some = specials(name)
        special = some[(hashed(stream + 8, count) % np.uint64(len(some))).astype(np.intp)]
        mixed = np.where(hashed(stream + 9, count) & np.uint64(1), special, shaped)
        found.append(np.choose(each % 4, [raw, shaped, mixed, shaped]))
    _put_grid(found, names, count)
    return tuple(x.astype(register(name)) for x, name in zip(found, names, strict=True))


def _put_grid(operands: list[Bits], names: Sequence[str], count: int) -> None:
    some = [specials(name)[: _GRID[len(names)]] for name in names]
    grid = np.meshgrid(*some, indexing="ij")
    size = min(grid[0].size, count // 2)
    for x, column in zip(operands, grid, strict=True):
        x[:size] = column.reshape(-1)[:size]


def register(name: str) -> np.dtype[np.unsignedinteger]:
    """How the bits of a type are stored: bytes in 16 bits, since no register is narrower."""
    bits = TYPES[name].bits
    return np.dtype(np.uint8) if bits == 1 else np.dtype(f"u{max(bits, 16) // 8}")


@cache
def swept(name: str) -> Array:
    """All 2**16 inputs of a type of 8 or 16 bits, or of two such side by side, of which the second has all as well."""
    low = np.arange(SWEEP, dtype=np.uint32)
    if TYPES[name].bits <= 16:
        return low.astype(np.uint16)
    return low | (low * np.uint32(40_503) + np.uint32(12_345) & np.uint32(0xFFFF)) << np.uint32(16)


def is_swept(names: Sequence[str]) -> bool:
    """Whether an instruction with such operands gets all inputs."""
    return len(names) == 1 and TYPES[names[0]].kind != "p" and TYPES[names[0]].bits // TYPES[names[0]].lanes <= 16


def operands(names: tuple[str, ...], count: int) -> tuple[Array, ...]:
    """The operands of a probed instruction."""
    return (swept(names[0]),) if is_swept(names) else drawn(names, count)
