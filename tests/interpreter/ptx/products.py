"""One `mma` on matrices of bits, and matrices of bits to draw."""

import math
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter import Buffer, Options
from tilewright.interpreter.ptx import load_ptx, run_ptx
from tilewright.interpreter.ptx.types import TYPES
from tools.probes.products import WARP, WARPS_PER_BLOCK, Mma, kernel_text, packed

Array = NDArray[Any]


def multiply(
    mma: Mma, a: Array, b: Array, c: Array, mode: Literal["exact", "hardware"] = "exact", target: str = "sm_90a"
) -> Array:
    """The results' bits of matrices of bits [warps, rows, columns]; elements of less than a byte fill one each."""
    count = len(a)
    fragments = (*mma.fragments, mma.fragments[2])
    blocks = -(-count // WARPS_PER_BLOCK)
    registers = [packed(f, x[np.arange(blocks * WARPS_PER_BLOCK) % count])
                 for f, x in zip(fragments, (a, b, c, c), strict=True)]  # fmt: skip
    module = load_ptx(kernel_text(mma, target))
    buffers = [Buffer.of(name, x) for name, x in zip("abcd", registers, strict=True)]
    run_ptx(module, "k", (blocks,), (WARP * WARPS_PER_BLOCK,), buffers, Options(mma=mode))
    return fragments[3].matrices(registers[3])[:count]


def numbers(bits: Array, name: str) -> Array:
    """Bits as numbers: f64 of floats, int64 of integers. The low bits of tf32 do not count."""
    if name == "s4":
        return np.where(bits > 7, bits.astype(np.int64) - 16, bits)
    if name in ("u4", "b1"):
        return bits.astype(np.int64)
    if name == "tf32":
        bits = bits & np.uint32(0xFFFFE000)
    return bits.view(TYPES[name].dtype).astype(np.float64 if TYPES[name].kind == "f" else np.int64)


def bits_of(values: Array, name: str) -> Array:
    """f64 in a float type, as bits."""
    return values.astype(np.float32).astype(TYPES[name].dtype).view(TYPES[name].carrier)


def codes(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Array:
    """Floats as bits: of like size, of any exponent, tiny, and a few infinities, NaNs and zeros of both signs."""
    type_ = TYPES[name]
    near = bits_of(rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4, shape), name)
    wild = rng.integers(0, 1 << type_.bits, shape, dtype=np.uint64).astype(type_.carrier)
    tiny = wild & type_.carrier.type((1 << type_.bits - 5) - 1)
    with np.errstate(all="ignore"):
        special = bits_of(rng.choice([0.0, -0.0, math.inf, -math.inf, math.nan], shape), name)
    kind = rng.choice(4, shape[:1] + (1,) * (len(shape) - 1), p=[0.4, 0.2, 0.2, 0.2])
    kind = np.where(kind == 3, np.where(rng.random(shape) < 0.02, 3, 0), kind)
    return np.choose(kind, [near, wild, tiny, special])


def value_of(terms: Iterable[float]) -> float:
    """A sum of terms some of which are not finite."""
    with np.errstate(invalid="ignore"):
        return float(np.sum(np.array(list(terms))))
