"""Integer operations whose hardware or C meaning has holes, with every hole filled.

Arrays are signless storage: np.int8 to np.int64, and np.bool_ for i1. The suffix says how the bits are read: `_s` as
two's complement (a true i1 is -1), `_u` as unsigned. Results wrap to the width of the operands. The rules:

- x / 0 is all ones and x % 0 is x, signed and unsigned alike; INT_MIN / -1 is INT_MIN and its remainder 0.
- Quotients truncate toward zero, remainders have the sign of the dividend (C).
- A shift amount is unsigned; at or past the width, `shl` and `shr_u` give 0 and `shr_s` gives the sign in every bit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _read(x: Array, signed: bool) -> Array:
    """The values of signless storage; i1 becomes int8 (0, -1) or uint8 (0, 1)."""
    x = np.asarray(x)
    if x.dtype == np.bool_:
        bits = np.asarray(x.astype(np.int8))
        return np.asarray(-bits) if signed else np.asarray(bits.view(np.uint8))
    return np.asarray(x.view(f"{'i' if signed else 'u'}{x.dtype.itemsize}"))


def _store(values: Array, like: Array) -> Array:
    """Values back as storage of the dtype of `like`; i1 keeps the lowest bit."""
    dtype = np.asarray(like).dtype
    values = np.asarray(values)
    if dtype == np.bool_:
        return np.asarray((values & values.dtype.type(1)) != 0)
    return np.asarray(values.view(dtype))


def _width(x: Array) -> int:
    dtype = np.asarray(x).dtype
    return 1 if dtype == np.bool_ else 8 * dtype.itemsize


@np.errstate(all="ignore")
def div_u(a: Array, b: Array) -> Array:
    """The unsigned quotient; over zero it is all ones."""
    x, y = _read(a, False), _read(b, False)
    zero = y == 0
    quotient = np.floor_divide(x, np.where(zero, y.dtype.type(1), y))
    return _store(np.where(zero, np.iinfo(y.dtype).max, quotient), a)


@np.errstate(all="ignore")
def rem_u(a: Array, b: Array) -> Array:
    """The unsigned remainder; over zero it is the dividend."""
    x, y = _read(a, False), _read(b, False)
    zero = y == 0
    return _store(np.where(zero, x, np.remainder(x, np.where(zero, y.dtype.type(1), y))), a)


def _magnitudes(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """|x| and |y| as unsigned values (the smallest integer included), with zero divisors replaced by 1, and y == 0."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    zero = y == 0
    return np.abs(x).view(unsigned), np.where(zero, unsigned.type(1), np.abs(y).view(unsigned)), zero


@np.errstate(all="ignore")
def div_s(a: Array, b: Array) -> Array:
    """The signed quotient, truncated toward zero; over zero it is -1, and INT_MIN / -1 wraps to INT_MIN."""
    x, y = _read(a, True), _read(b, True)
    size, divisor, zero = _magnitudes(x, y)
    quotient = np.asarray(np.floor_divide(size, divisor)).view(x.dtype)
    return _store(np.where(zero, x.dtype.type(-1), np.where((x < 0) != (y < 0), -quotient, quotient)), a)


@np.errstate(all="ignore")
def rem_s(a: Array, b: Array) -> Array:
    """The signed remainder, with the sign of the dividend; over zero it is the dividend."""
    x, y = _read(a, True), _read(b, True)
    size, divisor, zero = _magnitudes(x, y)
    remainder = np.asarray(np.remainder(size, divisor)).view(x.dtype)
    return _store(np.where(zero, x, np.where(x < 0, -remainder, remainder)), a)


def _shift_amount(a: Array, amount: Array) -> tuple[Array, Array]:
    """A shift amount that NumPy defines, and where the given one was at or past the width."""
    steps = _read(amount, False)
    past = steps >= steps.dtype.type(_width(a))
    return np.asarray(np.where(past, steps.dtype.type(0), steps)), past


def shl(a: Array, amount: Array) -> Array:
    """Shift left; 0 when the unsigned amount reaches the width."""
    values = _read(a, False)
    steps, past = _shift_amount(a, amount)
    shifted = np.left_shift(values, steps.astype(values.dtype))
    return _store(np.where(past, values.dtype.type(0), shifted), a)


def shr_u(a: Array, amount: Array) -> Array:
    """Shift right, zeros coming in; 0 when the unsigned amount reaches the width."""
    values = _read(a, False)
    steps, past = _shift_amount(a, amount)
    shifted = np.right_shift(values, steps.astype(values.dtype))
    return _store(np.where(past, values.dtype.type(0), shifted), a)


def shr_s(a: Array, amount: Array) -> Array:
    """Shift right, copies of the sign coming in; only copies when the unsigned amount reaches the width."""
    values = _read(a, True)
    steps, past = _shift_amount(a, amount)
    last = values.dtype.type(_width(a) - 1)
    return _store(np.right_shift(values, np.where(past, last, steps.astype(values.dtype))), a)


def min_s(a: Array, b: Array) -> Array:
    """The smaller of two signed integers."""
    return _store(np.minimum(_read(a, True), _read(b, True)), a)


def max_s(a: Array, b: Array) -> Array:
    """The larger of two signed integers."""
    return _store(np.maximum(_read(a, True), _read(b, True)), a)


def min_u(a: Array, b: Array) -> Array:
    """The smaller of two unsigned integers."""
    return _store(np.minimum(_read(a, False), _read(b, False)), a)


def max_u(a: Array, b: Array) -> Array:
    """The larger of two unsigned integers."""
    return _store(np.maximum(_read(a, False), _read(b, False)), a)


def _mulhi_u64(x: NDArray[np.uint64], y: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The high 64 bits of the unsigned 128-bit product, from four products of 32-bit halves."""
    half, low = np.uint64(32), np.uint64(0xFFFF_FFFF)
    x_high, x_low, y_high, y_low = x >> half, x & low, y >> half, y & low
    middle = x_high * y_low + (x_low * y_low >> half)
    other = x_low * y_high + (middle & low)
    return np.asarray(x_high * y_high + (middle >> half) + (other >> half))


@np.errstate(all="ignore")
def mulhi_u(a: Array, b: Array) -> Array:
    """The high half of the unsigned product of twice the width (for i1: 0)."""
    x, y = _read(a, False), _read(b, False)
    width = _width(a)
    if width == 64:
        return _store(_mulhi_u64(x, y), a)
    high = np.asarray(x.astype(np.uint64) * y.astype(np.uint64) >> np.uint64(width))
    return _store(high.astype(x.dtype), a)


@np.errstate(all="ignore")
def mulhi_s(a: Array, b: Array) -> Array:
    """The high half of the signed product of twice the width (for i1: -1 * -1 is 01, whose high bit is 0)."""
    x, y = _read(a, True), _read(b, True)
    width = _width(a)
    if width < 64:
        high = np.asarray(x.astype(np.int64) * y.astype(np.int64) >> np.int64(width))
        return _store(high.astype(x.dtype), a)
    # Reading x as unsigned adds 2**64 to a negative one, and so y to the high half: take it off again.
    high = np.asarray(_mulhi_u64(x.view(np.uint64), y.view(np.uint64))).view(np.int64)
    return _store(high - np.where(x < 0, y, 0) - np.where(y < 0, x, 0), a)
