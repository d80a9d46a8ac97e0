"""Named dimensions whose sizes are powers of two, and flat points of their products, for `layout.py`.

A point of a product of dimensions is kept as one integer, the *flat* point, in which the first dimension
listed has the lowest bits. The functions here say which of those bits belong to which dimension.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import index
from typing import Any

import numpy as np

Dims = tuple[tuple[str, int], ...]

MAX_BITS = 62  # a flat point has to fit a NumPy int64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class LayoutError(ValueError):
    """A layout that cannot exist, or an operation that its operands do not admit."""


def bit_count(dims: Dims) -> int:
    """Count the bits of a flat point.

    >>> bit_count((("register", 4), ("lane", 32)))
    7
    """
    return sum(size.bit_length() - 1 for _, size in dims)


def positions(dims: Dims) -> dict[str, range]:
    """Find the bits of each dimension in a flat point.

    >>> positions((("register", 4), ("lane", 32)))
    {'register': range(0, 2), 'lane': range(2, 7)}
    """
    result: dict[str, range] = {}
    start = 0
    for name, size in dims:
        result[name] = range(start, start + size.bit_length() - 1)
        start = result[name].stop
    return result


def low_bits(whole: Dims, part: Dims) -> list[int]:
    """Place the bits of a flat point of `part` in `whole`, at the low end of each dimension.

    >>> low_bits((("register", 4), ("lane", 32)), (("lane", 4),))
    [2, 3]
    """
    places = positions(whole)
    return [place for name, size in part for place in places[name][: size.bit_length() - 1]]


def high_bits(whole: Dims, part: Dims) -> list[int]:
    """As `low_bits`, with the high end of each dimension.

    >>> high_bits((("register", 4), ("lane", 32)), (("lane", 4),))
    [5, 6]
    """
    places = positions(whole)
    skipped = {name: len(places[name]) + 1 - size.bit_length() for name, size in part}
    return [place for name, _ in part for place in places[name][skipped[name] :]]


def pack(dims: Dims, point: Mapping[str, int]) -> int:
    """Join components, one for each dimension, into a flat point.

    >>> pack((("register", 4), ("lane", 32)), {"lane": 3, "register": 1})
    13
    """
    return sum(point[name] << bits.start for name, bits in positions(dims).items())


def pack_vector(dims: Dims, vector: Sequence[int]) -> int:
    """Join a vector's components into a flat point; raise LayoutError unless each fits its dimension.

    >>> pack_vector((("register", 4), ("lane", 32)), [1, 3])
    13
    """
    if len(vector) != len(dims):
        raise LayoutError(f"vector {list(vector)} should have {len(dims)} components")
    point = {name: index(component) for (name, _), component in zip(dims, vector, strict=True)}
    for name, size in dims:
        if not 0 <= point[name] < size:
            raise LayoutError(f"component {point[name]} lies outside {name!r} of size {size}")
    return pack(dims, point)


def unpack(dims: Dims, flat: Any) -> dict[str, Any]:
    """Split a flat point, or an array of them, into its components.

    >>> unpack((("register", 4), ("lane", 32)), 13)
    {'register': 1, 'lane': 3}
    """
    point: dict[str, Any] = {}
    start = 0
    for name, size in dims:
        point[name] = (flat >> start) & (size - 1)
        start += size.bit_length() - 1
    return point


def merge(low: Dims, high: Dims) -> Dims:
    """Give the dimensions of a product: sizes of equal names multiply, in order of first appearance.

    >>> merge((("lane", 4),), (("warp", 2), ("lane", 8)))
    (('lane', 32), ('warp', 2))
    """
    sizes = dict(low)
    for name, size in high:
        sizes[name] = sizes.get(name, 1) * size
    return tuple(sizes.items())


def divides(part: Dims, whole: Dims) -> bool:
    """Tell whether every dimension of `part` is one of `whole`, of at most its size.

    >>> divides((("lane", 4),), (("lane", 32), ("warp", 2))), divides((("lane", 4),), (("lane", 2),))
    (True, False)
    """
    sizes = dict(whole)
    return all(size <= sizes.get(name, 0) for name, size in part)


def quotient(whole: Dims, part: Dims) -> Dims:
    """Undo `merge(part, ...)`: every dimension of `whole`, its size divided by that in `part`.

    >>> quotient((("lane", 32), ("warp", 2)), (("lane", 4),))
    (('lane', 8), ('warp', 2))
    """
    sizes = dict(part)
    return tuple((name, size // sizes.get(name, 1)) for name, size in whole)


def select(dims: Dims, names: Sequence[str]) -> Dims:
    """Pick dimensions by name, in the order of the names.

    >>> select((("register", 4), ("lane", 32)), ["lane"])
    (('lane', 32),)
    """
    sizes = dict(dims)
    return tuple((name, sizes[name]) for name in names)


def show(dims: Dims) -> str:
    """Print dimensions as the text form of a layout does.

    >>> show((("dim0", 4), ("dim1", 32)))
    '[dim0:4, dim1:32]'
    """
    return f"[{', '.join(f'{name}:{size}' for name, size in dims)}]"


# A compilation asks the few layouts that a kernel has for the following again and again.


@lru_cache(maxsize=1024)
def images(ins: Dims, outs: Dims, columns: tuple[int, ...]) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Give the image of each input bit, from flat points, as vectors by input dimension.

    >>> images((("lane", 4),), (("dim0", 2), ("dim1", 2)), (1, 3))
    {'lane': ((1, 0), (1, 1))}
    """
    vectors = [tuple(unpack(outs, column).values()) for column in columns]
    return {name: tuple(vectors[bits.start : bits.stop]) for name, bits in positions(ins).items()}


@lru_cache(maxsize=1024)
def show_map(ins: Dims, outs: Dims, columns: tuple[int, ...], offset: int) -> str:
    """Print a layout, in the form that `layout_text.py` reads.

    >>> show_map((("lane", 2),), (("dim0", 4),), (3,), 1)
    '#linear<lane=[[3]] -> [dim0:4] ^ [1]>'
    """
    known = images(ins, outs, columns)
    inputs = [f"{name}=[{', '.join(str(list(v)) for v in vectors)}]" for name, vectors in known.items()]
    shift = f" ^ {list(unpack(outs, offset).values())}" if offset else ""
    return f"#linear<{', '.join(inputs)}{' ' if inputs else ''}-> {show(outs)}{shift}>"


@lru_cache(maxsize=1024)
def check_dims(dims: Dims, role: str) -> None:
    """Raise LayoutError unless the names are distinct names and the sizes powers of two."""
    names = [name for name, _ in dims]
    for name, size in dims:
        if not _NAME.fullmatch(name):
            raise LayoutError(f"{role} dimension {name!r} is not a name")
        if names.count(name) > 1:
            raise LayoutError(f"{role} dimension {name!r} appears twice")
        if size < 1 or size & (size - 1):
            raise LayoutError(f"size {size} of {role} dimension {name!r} is not a power of two")
    if bit_count(dims) > MAX_BITS:
        raise LayoutError(f"{role} dimensions have {bit_count(dims)} bits in all, more than {MAX_BITS}")


def check_names(names: Sequence[str], dims: Dims, role: str) -> None:
    """Raise LayoutError unless each name is that of a dimension and none is repeated."""
    known = [name for name, _ in dims]
    for name in names:
        if name not in known:
            raise LayoutError(f"no {role} dimension {name!r}; there are: {', '.join(known) or 'none'}")
        if names.count(name) > 1:
            raise LayoutError(f"{role} dimension {name!r} is named twice")


def check_total(old: Dims, new: Dims, role: str) -> None:
    """Raise LayoutError unless `new` are dimensions with as many points as `old`."""
    check_dims(new, role)
    if math.prod(size for _, size in old) != math.prod(size for _, size in new):
        raise LayoutError(f"{role} {show(old)} cannot be reshaped to {show(new)}: their sizes differ")


def checked(name: str, size: int, value: Any) -> Any:
    """Return a component (int), or many (int64 array); raise LayoutError unless they are in range.

    >>> checked("lane", 32, [0, 31])
    array([ 0, 31])
    """
    if isinstance(value, int):
        inside = 0 <= value < size
    else:
        value = np.asarray(value)
        if value.dtype.kind not in "iu":
            raise LayoutError(f"values of input dimension {name!r} are not integers but {value.dtype}")
        inside = value.size == 0 or (value.min() >= 0 and value.max() < size)
        value = value.astype(np.int64)
    if not inside:
        raise LayoutError(f"a value of input dimension {name!r} lies outside its size {size}")
    return value
