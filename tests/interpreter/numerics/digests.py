"""Prints one digest for each operation on a fixed grid of inputs: `python -m tests.interpreter.numerics.digests`.

The test of CPU independence runs it with vector features switched on and off, and compares.
"""

import hashlib
import itertools

import numpy as np

from tilewright.interpreter import numerics as nx
from tilewright.interpreter.numerics import FORMATS

UNARY = ("abs_", "ceil", "cos", "erf", "exp", "exp2", "floor", "log", "log2", "neg", "rsqrt", "sin", "sqrt", "tanh")
BINARY = ("add", "sub", "mul", "div", "rem", "minnum", "maxnum", "minimum", "maximum")
SLOW_IN_F64 = ("cos", "erf", "exp", "exp2", "log", "log2", "rsqrt", "sin", "tanh")


def grid(name: str, count: int, seed: int) -> np.ndarray:
    """Random codes of every kind, then ordinary numbers, in storage of the format."""
    row = FORMATS[name]
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 1 << row.bits, count // 2, dtype=np.uint64, endpoint=False) if row.bits < 64 else None
    raw = np.frombuffer(rng.bytes(4 * count), np.uint64) if codes is None else codes
    return np.concatenate(
        [raw.astype(row.carrier).view(row.storage), nx.round_to(rng.uniform(-8, 8, count // 2), name)]
    )


def show(label: str, result: np.ndarray) -> None:
    """One line of output for one result."""
    print(label, hashlib.sha256(np.ascontiguousarray(result).tobytes()).hexdigest()[:16])


def floats(name: str) -> None:
    """All float operations of one format."""
    a, b, c = (grid(name, 4000, seed) for seed in (1, 2, 3))
    for operation in UNARY:
        few = slice(None, None, 40) if name == "f64" and operation in SLOW_IN_F64 else slice(None)
        x = np.clip(a[few], -1e30, 1e30) if name == "f64" else a[few]
        show(f"{operation} {name}", getattr(nx, operation)(x, name))
    for operation in BINARY:
        show(f"{operation} {name}", getattr(nx, operation)(a, b, name))
    show(f"fma {name}", nx.fma(a, b, c, name))
    for other, mode in itertools.product(FORMATS, ("rtne", "rtz")):
        show(f"cast {name} {other} {mode}", nx.cast(a, name, other, mode))
    for width in (8, 16, 32, 64):
        show(f"float_to_int {name} {width}", nx.float_to_int(a, name, width, True))
        codes = np.frombuffer(np.random.default_rng(width).bytes(4000), f"i{width // 8}")
        show(f"int_to_float {name} {width}", nx.int_to_float(codes, True, name))


def sums(name: str) -> None:
    """Sums and dot products of one format, special values in one part of the data."""
    out = "f64" if name == "f64" else "f32"
    finite = nx.round_to(np.random.default_rng(4).standard_normal((4, 48, 40)), name)
    wild = grid(name, 4 * 48 * 40, 5).reshape(4, 48, 40)
    for label, x in (("finite", finite), ("wild", wild)):
        for axis in (0, 1, 2):
            show(f"sum {label} {name} {axis}", nx.sum_along(x, axis, name))
        b = np.swapaxes(x[:, :8], 1, 2)
        show(
            f"dot {label} {name}", nx.dot(x[:2] if name == "f64" else x, b[:2] if name == "f64" else b, None, name, out)
        )


def main() -> None:
    """Print all digests."""
    for name in FORMATS:
        floats(name)
        sums(name)


if __name__ == "__main__":
    main()
