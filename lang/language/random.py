"""Counter-based random numbers: Philox 4x32 and 4x64.

After Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A number depends on the seed and the
offset only: the 128-bit counter is (offset low, offset high, 0, 0) in 32-bit words, the key the seed's low and high
words. Written in the language itself.
"""

# Kernel code: annotations say what is known at compile time, which Python's type checkers read otherwise.
# pyright: reportAssignmentType=false
from __future__ import annotations

from typing import Any

from ..constants import constexpr
from ..dtypes import float32, int32, int64, uint32, uint64
from ..frontend.function import device_function
from .creation import full, to_tensor
from .debug import static_assert
from .elementwise import add, cos, log, maximum, mul, sin, sqrt, umulhi, where
from .loops import static_range

ROUNDS = constexpr(10)
#: The constants of the paper, by word size: what the key grows by a round, and the multipliers.
KEY_32 = constexpr((0x9E3779B9, 0xBB67AE85))
KEY_64 = constexpr((0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B))
MULTIPLIER_32 = constexpr((0xD2511F53, 0xCD9E8D57))
MULTIPLIER_64 = constexpr((0xD2E7470EE14C6C93, 0xCA5A826395121157))
#: A little below 2**-31 and 2**-63, so that the largest word gives less than 1.
SCALE_32 = constexpr(4.6566127342e-10)
SCALE_64 = constexpr(1.0842020432385337e-19)
TWO_PI = constexpr(6.283185307179586)


@device_function
def philox_impl(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: constexpr = ROUNDS) -> Any:
    """The four words of a counter after `n_rounds` rounds with the key (k0, k1); all uint32, or all uint64."""
    growth: constexpr = KEY_32 if c0.dtype == uint32 else KEY_64
    factor: constexpr = MULTIPLIER_32 if c0.dtype == uint32 else MULTIPLIER_64
    for _ in static_range(n_rounds):
        low0, high0 = mul(c0, factor[0], sanitize_overflow=False), umulhi(c0, factor[0])
        low2, high2 = mul(c2, factor[1], sanitize_overflow=False), umulhi(c2, factor[1])
        c0, c1, c2, c3 = high2 ^ c1 ^ k0, low2, high0 ^ c3 ^ k1, low0
        k0 = add(k0, growth[0], sanitize_overflow=False)
        k1 = add(k1, growth[1], sanitize_overflow=False)
    return c0, c1, c2, c3


@device_function
def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: constexpr = ROUNDS) -> Any:
    """Four random words from a seed and four counter words of 32 or of 64 bits; unsigned, of the counter's width."""
    first = to_tensor(c0)
    width: constexpr = first.dtype.primitive_bitwidth
    static_assert(width == 32 or width == 64, "philox: counters have 32 or 64 bits")
    word: constexpr = uint32 if width == 32 else uint64
    key = to_tensor(seed).to(uint64)
    return philox_impl(
        first.to(word, bitcast=True),
        to_tensor(c1).to(word, bitcast=True),
        to_tensor(c2).to(word, bitcast=True),
        to_tensor(c3).to(word, bitcast=True),
        key.to(word),
        (key >> 32).to(uint32) if width == 32 else full((), 0, uint64),
        n_rounds,
    )


@device_function
def randint4x(seed: Any, offset: Any, n_rounds: constexpr = ROUNDS) -> Any:
    """Four uint32 tiles of random bits of the shape of `offset`, an integer tile; the cheapest way to get many.

    Offsets up to 64 bits count; the same seed and offset give the same numbers.
    """
    place = to_tensor(offset)
    zero = full(place.shape, 0, uint32)
    high = (place >> 32).to(uint32) if place.dtype.primitive_bitwidth > 32 else zero
    return philox(seed, place.to(uint32), high, zero, zero, n_rounds)


@device_function
def randint(seed: Any, offset: Any, n_rounds: constexpr = ROUNDS) -> Any:
    """uint32 random bits of the shape of `offset`: the first of what `randint4x` gives."""
    bits, _, _, _ = randint4x(seed, offset, n_rounds)
    return bits


@device_function
def uint_to_uniform_float(x: Any) -> Any:
    """Random bits of 32 or 64, signed or not, as float32 from 0 up to 1: the sign folded away, then scaled."""
    width: constexpr = x.dtype.primitive_bitwidth
    static_assert(width == 32 or width == 64, "uint_to_uniform_float: 32 or 64 bits")
    word = x.to(int32 if width == 32 else int64, bitcast=True)
    scale: constexpr = SCALE_32 if width == 32 else SCALE_64
    return where(word < 0, ~word, word).to(float32) * scale


@device_function
def rand(seed: Any, offset: Any, n_rounds: constexpr = ROUNDS) -> Any:
    """float32 numbers, uniform from 0 up to 1, of the shape of `offset`."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@device_function
def rand4x(seed: Any, offset: Any, n_rounds: constexpr = ROUNDS) -> Any:
    """Four tiles of float32 numbers, uniform from 0 up to 1, of the shape of `offset`."""
    a, b, c, d = randint4x(seed, offset, n_rounds)
    return uint_to_uniform_float(a), uint_to_uniform_float(b), uint_to_uniform_float(c), uint_to_uniform_float(d)


@device_function
def pair_uniform_to_normal(u1: Any, u2: Any) -> Any:
    """Two normal numbers from two uniform ones (Box and Muller, 1958); u1 is taken as 1e-7 at least."""
    radius = sqrt(-2.0 * log(maximum(1.0e-7, u1)))
    angle = TWO_PI * u2
    return radius * cos(angle), radius * sin(angle)


@device_function
def randn(seed: Any, offset: Any, n_rounds: constexpr = ROUNDS) -> Any:
    """float32 numbers, normal with mean 0 and variance 1, of the shape of `offset`."""
    a, b, _, _ = randint4x(seed, offset, n_rounds)
    normal, _ = pair_uniform_to_normal(uint_to_uniform_float(a), uint_to_uniform_float(b))
    return normal


@device_function
def randn4x(seed: Any, offset: Any, n_rounds: constexpr = ROUNDS) -> Any:
    """Four tiles of float32 numbers, normal with mean 0 and variance 1, of the shape of `offset`."""
    a, b, c, d = rand4x(seed, offset, n_rounds)
    n1, n2 = pair_uniform_to_normal(a, b)
    n3, n4 = pair_uniform_to_normal(c, d)
    return n1, n2, n3, n4
