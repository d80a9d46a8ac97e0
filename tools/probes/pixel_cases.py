"""Copies of columns of pixels (im2col mode) and of interleaved arrays as data, and the tensor maps of such arrays.

Most of their arrays are numbered, so that what arrives says where it came from, which `tensor_copies` tells if it
differs. Dimensions are channels, pixels (width, height, depth), images; of interleaved arrays pixels, slices of
channels, images. Offsets and corners are of pixels alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from .copies import ITEMSIZE, At, Copy

Corners = tuple[At, At]

_IMAGES: dict[int, At] = {3: (8, 9, 4), 4: (8, 7, 5, 3), 5: (8, 5, 4, 3, 2)}
"""Arrays of 32-bit elements by their dimensions, the last one the images."""


def _columns(kind: str, corners: Corners, ats: Iterator[At] | list[At], shape: At, box: At, **more: Any) -> Copy:
    fields: dict[str, Any] = {"dtype": "uint32", "numbered": True, "action": "load", **more}
    return Copy(kind, shape=shape, box=box, ats=tuple(dict.fromkeys(ats)), corners=(*corners[0], *corners[1]), **fields)


def _around(shape: At, corners: Corners, offsets: At) -> Iterator[At]:
    """Starts within the corners: first, in the middle and last pixels of the first, last and no image."""
    spans = [(low, n - 1 + up) for low, up, n in zip(*corners, shape[1:-1], strict=True)]
    images = (0, shape[-1] - 1, shape[-1], -1)
    for pixel in (
        [low for low, _ in spans], [high for _, high in spans], [(low + high) // 2 for low, high in spans],
        [spans[0][1], *(low for low, _ in spans[1:])], [spans[0][0], *(high for _, high in spans[1:])],
    ):  # fmt: skip
        for image in images:
            yield (0, *pixel, image, *offsets)
    for channel in (4, -4, shape[0], shape[0] - 4):
        yield (channel, *(low for low, _ in spans), 0, *offsets)


_CORNERS: tuple[tuple[At, At, At], ...] = (
    ((0, 0, 0), (0, 0, 0), (0, 0, 0)), ((-1, -1, -1), (-1, -1, -1), (0, 0, 0)), ((-1, -1, -1), (-1, -1, -1), (1, 2, 0)),
    ((0, 0, 0), (-2, -2, -2), (2, 1, 2)), ((-2, 0, -1), (1, 0, 1), (0, 3, 1)), ((1, 1, 1), (1, 1, 1), (0, 0, 0)),
)  # fmt: skip
"""Lower and upper corners, and offsets."""


def _walks() -> Iterator[Copy]:
    for (rank, shape), numbers, box in product(_IMAGES.items(), _CORNERS, ((4, 40), (8, 13))):
        lower, upper, offsets = (some[: rank - 2] for some in numbers)
        yield _columns("im2col: walks", (lower, upper), _around(shape, (lower, upper), offsets), shape, box)
    shape = (6, 5, 4, 3)  # rows of channels that end between 16 bytes, and boxes wider than they are
    for box in ((4, 9), (8, 9), (16, 9)):
        corners = ((0, 0), (0, 0))
        ats = [(c, 1, 1, 1, 0, 0) for c in (0, 4, 8, -4, -8)]
        yield _columns("im2col: channels", corners, ats, shape, box)
    for count in (1, 2, 16, 100, 256, 700):
        yield _columns("im2col: columns", ((-1,), (-1,)), [(0, 2, 0, 0), (0, -1, 1, 1)], (4, 9, 200), (4, count))


_OUTSIDE = ((0, 1), (-1, 1), (5, 1), (6, 2), (7, 0), (2, 0), (2, -1), (2, 4), (2, 5), (0, 4), (7, 5))
"""Pixels outside of the corners (1, 1) and (-2, -1) of 7 by 5."""


def _outside() -> Iterator[Copy]:
    """Starts outside of the corners, and large offsets, which the ISA leaves open."""
    corners, kind = ((1, 1), (-2, -1)), "im2col: outside the corners"
    for at in _OUTSIDE:
        yield _columns(kind, corners, [(0, *at, 0, 0, 0)], _IMAGES[4], (4, 24))
    for at in _OUTSIDE[0], _OUTSIDE[3], _OUTSIDE[7]:
        yield _columns(kind, corners, [(0, *at, 0, 1, 1)], _IMAGES[4], (4, 24))
        yield _columns(kind, corners, [(0, *at, 0)], _IMAGES[4], (4, 24), action="store")
        yield _columns(kind, corners, [(0, *at, 0)], _IMAGES[4], (4, 24), action="add")
    yield _columns("im2col: prefetches outside the corners", corners, [(0, *_OUTSIDE[0], 0, 0, 0)], _IMAGES[4], (4, 24),
                   action="prefetch")  # fmt: skip
    for axis, past in ((1, 5), (2, 4), (3, 3), (1, -1), (3, -1)):
        at = [past if n == axis else 0 for n in range(8)]
        yield _columns(kind, ((0,) * 3, (0,) * 3), [tuple(at)], _IMAGES[5], (4, 24))
    for at in ((0, 9, 0, 0), (0, -1, 0, 1)):
        yield _columns(kind, ((0,), (0,)), [at], _IMAGES[3], (4, 24))
    for offsets in ((255, 0), (0, 255), (7, 0), (100, 3), (256, 1), (1, 256), (0x8101, 0x7F02)):
        yield _columns("im2col: offsets", ((0, 0), (0, 0)), [(0, 0, 0, 0, *offsets)], _IMAGES[4], (4, 24))
    for offset in (0xFFFF, 0x8000, 0x7FFF):
        yield _columns("im2col: offsets", ((0,), (0,)), [(0, 0, 0, offset)], _IMAGES[3], (4, 24))
    for offsets in ((16, 0, 0), (0, 31, 0), (0, 0, 31), (32, 1, 0), (0, 33, 2), (1, 0, 32), (0xFFE1, 0x8022, 64)):
        corners = ((0,) * 3, (0,) * 3)
        yield _columns("im2col: offsets", corners, [(0, 0, 0, 0, 0, *offsets)], _IMAGES[5], (4, 24))


def _strides() -> Iterator[Copy]:
    corners = ((-1, -1), (-1, 0))
    for steps in ((1, 2, 1, 1), (1, 1, 2, 1), (1, 2, 2, 1), (1, 3, 2, 1), (1, 8, 8, 1), (1, 1, 1, 2), (2, 1, 1, 1)):
        ats = [(0, *at, *more) for at in ((-1, -1, 0), (0, 0, 0), (1, -1, 0), (5, 4, 1), (4, 3, 0), (2, 1, 2))
               for more in ((0, 0), (1, 1))]  # fmt: skip
        yield _columns("im2col: element strides", corners, ats, _IMAGES[4], (4, 30), steps=steps)
    for steps in ((1, 2, 1), (1, 3, 1), (1, 1, 3), (8, 2, 1)):
        ats = [(0, w, 0, shift) for w in (0, 1, 2, 7, 8) for shift in (0, 1)]
        yield _columns("im2col: element strides", ((0,), (0,)), ats, _IMAGES[3], (8, 20), steps=steps)
    ats = [(0,) * 8, (4, 1, 1, 1, 0, 1, 1, 1)]
    corners = ((0, 0, 0), (0, 0, -1))
    yield _columns("im2col: element strides", corners, ats, _IMAGES[5], (4, 30), steps=(1, 2, 3, 2, 1))


def _types() -> Iterator[Copy]:
    starts = [(-1, -1, 0, 0, 0), (5, 3, 1, 0, 1), (2, 1, 2, 2, 2)]
    corners = ((-1, -1), (-1, -1))
    for dtype in ITEMSIZE:
        inner = 32 // ITEMSIZE[dtype]
        for fill in ("zero", "nan") if "float" in dtype else ("zero",):
            ats = [(c, *start) for start in starts for c in (0, inner // 2)]
            yield _columns("im2col: types", corners, ats, (2 * inner, 7, 5, 3), (inner, 20), dtype=dtype, fill=fill,
                           numbered=False)  # fmt: skip
    for swizzle, span in (("32B", 32), ("64B", 64), ("128B", 128)):
        for nbytes, itemsize in product({16, span // 2, span, min(span, 48)}, (1, 2, 4)):
            inner = nbytes // itemsize
            yield _columns(
                "im2col: swizzles", corners, [(0, *start) for start in starts], (2 * inner, 7, 5, 3), (inner, 20),
                dtype=f"uint{8 * itemsize}", swizzle=swizzle, numbered=False, start=1024 + 384,
            )  # fmt: skip


def _stores() -> Iterator[Copy]:
    for rank, shape in _IMAGES.items():
        pixels = rank - 2
        for corners in (((0,) * pixels, (0,) * pixels), ((1,) * pixels, (-1,) * pixels)):
            ats = [(c, *low, image) for c in (0, 4) for image in (0, shape[-1] - 1)
                   for low in ((1,) * pixels, (2, 1, 1)[:pixels])]  # fmt: skip
            yield _columns("im2col: stores", corners, ats, shape, (4, 30), action="store", swizzle="32B")
    corners = ((0, 0), (0, 0))
    yield _columns("im2col: stores", corners, [(0, 0, 0, 0), (0, 1, 1, 0)], _IMAGES[4], (8, 20), action="store",
                   steps=(1, 2, 3, 1))  # fmt: skip
    yield _columns("im2col: stores", corners, [(0, 0, 0, 0), (4, 3, 3, 2)], (6, 5, 4, 3), (4, 30), action="store")
    for action, dtype in (
        ("add", "float32"),
        ("add", "uint32"),
        ("min", "int64"),
        ("xor", "uint64"),
        ("max", "float16"),
    ):
        inner = 32 // ITEMSIZE[dtype]
        ats = [(0, 0, 0, 0), (inner, 2, 1, 1)]
        yield _columns("im2col: reductions", corners, ats, (2 * inner, 7, 5, 3), (inner, 30),
                       dtype=dtype, action=action, plain="float" in dtype, numbered=False)  # fmt: skip
    for rank, shape in _IMAGES.items():
        corners, at = ((0,) * (rank - 2), (0,) * (rank - 2)), (0,) * (2 * rank - 2)
        yield _columns("im2col: prefetches", corners, [at], shape, (4, 30), action="prefetch")
    yield from _stores_before()


def _stores_before() -> Iterator[Copy]:
    """What is stored outside of the array: by its start, by pixels that the column comes to, or by none at all, but the
    corners leave the array."""
    for rank, shape in _IMAGES.items():
        ones, lower = (1,) * (rank - 2), (-1,) * (rank - 2)
        more: dict[str, Any] = {"corners": (lower, lower), "ats": [(0, *ones, 0)], "shape": shape}
        for action in ("store", "add"):
            yield _columns("im2col: stores before the array", box=(4, 30), action=action, **more)
            yield _columns("im2col: stores short of what lies before the array", box=(4, 3), action=action, **more)
        beyond: dict[str, Any] = {**more, "corners": ((0,) * (rank - 2), ones)}
        for count in (3, 30):
            yield _columns("im2col: stores by corners behind the array", box=(4, count), action="store", **beyond)
    last: dict[str, Any] = {"corners": ((0, -1), (0, 0)), "shape": _IMAGES[4], "action": "store"}
    yield _columns("im2col: stores before the array", ats=[(0, 3, 3, 0)], box=(4, 20), **last)
    yield _columns("im2col: stores short of what lies before the array", ats=[(0, 3, 3, 0)], box=(4, 11), **last)
    for at in ((0, -1, 0, 0), (0, 0, -1, 0), (0, 0, 0, -1), (-4, 0, 0, 0)):
        yield _columns(
            "im2col: stores before the array", ((-1, -1), (-1, -1)), [at], _IMAGES[4], (4, 20), action="store"
        )


def _refused() -> Iterator[Copy]:
    corners, shape = ((0, 0), (0, 0)), (8, 7, 5, 3)
    for first in (1, 2):
        yield _columns("im2col: between 16 bytes", corners, [(first, 0, 0, 0, 0, 0)], shape, (4, 20))
    yield _columns("im2col: boxes of another mode", corners, [(0, 0, 0, 0)], shape, (4, 20), action="tile load")
    yield _columns("im2col: boxes of another mode", corners, [(0, 0, 0, 0)], shape, (4, 20), action="tile store")
    for action in ("im2col load", "im2col store"):
        at = (0,) * (6 if "load" in action else 4)
        yield Copy("im2col: columns of another mode", action, "uint32", shape, (4, 2, 2, 1), (at,), numbered=True)


# --- interleaved arrays ---

_SLICED: dict[int, tuple[At, At]] = {
    3: ((16, 5, 3), (2560, 20480, 122880)),
    4: ((16, 5, 4, 3), (2560, 640, 20480, 122880)),
    5: ((16, 5, 4, 2, 3), (2560, 640, 10240, 40960, 163840)),
}
"""Arrays of 32-bit elements by their dimensions, with strides and bytes; room for whatever the strides mean."""


_UNITS = {"16B": 4, "32B": 8}
"""How many 32-bit elements a pixel has."""


def _interleaved() -> Iterator[Copy]:
    for (layout, unit), (shape, pitches) in product(_UNITS.items(), _SLICED.values()):
        rank = len(shape)
        zeros, ones = (0,) * rank, (1,) * rank
        more: dict[str, Any] = {"interleave": layout, "pitches": pitches, "swizzle": "32B" if unit == 8 else "none"}

        def case(kind: str, box: At, start: At, action: str = "load", more: Any = more, **others: Any) -> Copy:
            kind, shape = f"interleaved {more['interleave']}: {kind}", _SLICED[len(box)][0]
            return Copy(kind, action, "uint32", shape, box, (start,), numbered=True, **more, **others)

        twos = (2,) * rank
        boxes = [(unit, 2, *ones[2:]), (unit, *twos[1:]), (2 * unit, 3, *twos[2:])]
        starts = [(*zeros[:axis], 1, *zeros[axis + 1 :]) for axis in range(1, rank)]
        starts += [(place, *zeros[1:]) for place in dict.fromkeys((0, 1, -1, unit // 2, unit, 2 * unit, -unit, 16))]
        yield from (case("loads", box, start) for box, start in product(boxes, starts))
        outside = [(0, 4, *ones[2:]), (0, -1, *zeros[2:]), (0, *zeros[1:-1], shape[-1] - 1)]
        outside += [(0, *zeros[1:-2], slices, 0) for slices in (shape[-2], -1)] + [(0, *zeros[1:-1], -1)]
        yield from (case("outside", boxes[1], start) for start in dict.fromkeys(outside))
        yield case("boxes that are no slice wide", (4 if unit == 8 else 12, 2, *ones[2:]), zeros)
        for axis in range(rank):
            steps = tuple(2 if n == axis else 1 for n in range(rank))
            yield case("element strides", (2 * unit, 4, *twos[2:]), zeros, steps=steps)
        yield case("element strides", (2 * unit, 3, *twos[2:-1], 3), (1, *zeros[1:]), steps=(3, *twos[1:]))
        later = (unit, 1, *zeros[2:])
        yield from (case("stores", box, start, "store") for box, start in product(boxes, (zeros, later)))
        yield from (case("stores", boxes[2], start, "store") for start in ((14, 4, *ones[2:]), (1, *zeros[1:-1], 2)))
        yield case("reductions", boxes[2], (14, 4, *ones[2:]), "add")
        for start in ((-1, *zeros[1:]), (0, *zeros[1:-2], -1, 0)):
            yield case("stores before the array", boxes[0], start, "store")


def _interleaved_swizzles() -> Iterator[Copy]:
    shape, pitches = _SLICED[4]
    for layout, swizzle, rows in product(_UNITS, ("none", "32B", "64B", "128B"), (2, 4)):
        more: dict[str, Any] = {"interleave": layout, "pitches": pitches, "numbered": True, "swizzle": swizzle}
        for box in ((4, rows, 3, 1), (8, rows, 2, 2)):
            kind = f"interleaved {layout}: swizzles"
            yield Copy(kind, "load", "uint32", shape, box, ((0, 0, 0, 0), (4, 1, 1, 0)), **more)
            if rows == 2:
                yield Copy(kind, "load", "uint32", shape, box, ((1, 2, 1, 1),), start=1024 + 384, **more)
                yield Copy(kind, "store", "uint32", shape, box, ((1, 2, 1, 1),), **more)
    for layout, unit in _UNITS.items():
        more = {"interleave": layout, "pitches": pitches, "swizzle": "32B" if unit == 8 else "none"}
        for dtype in ITEMSIZE:
            inner = 4 * unit // ITEMSIZE[dtype]
            case = Copy(
                f"interleaved {layout}: types", "load", dtype, (64 // ITEMSIZE[dtype], 5, 4, 3), (inner, 3, 2, 2),
                ((0, 0, 0, 0), (inner, 3, 1, 1)), numbered=True, **more,
            )  # fmt: skip
            yield case
            if "float" in dtype:
                yield replace(case, fill="nan")
            if "float32" in dtype:
                yield replace(case, numbered=False)


def _interleaved_columns() -> Iterator[Copy]:
    for layout, unit in _UNITS.items():
        kind, swizzle = f"interleaved {layout}: columns", "32B" if unit == 8 else "none"
        shape, pitches = _SLICED[4]
        more: dict[str, Any] = {"interleave": layout, "pitches": pitches, "swizzle": swizzle}
        zeros = ((0, 0), (0, 0))
        for channels in (unit, 2 * unit):
            for at in ((0, 0, 0, 0, 0, 0), (min(channels, 15), 3, 2, 1, 0, 0), (0, 0, 0, 0, 1, 1)):
                yield _columns(kind, zeros, [at], shape, (channels, 30), **more)
        yield _columns("interleaved: outside the corners", zeros, [(16, 3, 2, 1, 0, 0)], shape, (unit, 30), **more)
        yield _columns("interleaved: outside the corners", zeros, [(0, 5, 2, 1, 0, 0)], shape, (unit, 30), **more)
        yield _columns("interleaved: outside the corners", zeros, [(-1, 0, 0, 0)], shape, (unit, 30),
                       action="store", **more)  # fmt: skip
        for corners, at in (
            (((-2, -1), (-3, 1)), (-2, -1, 1, 0, 0, 0)), (((-2, -1), (-3, 1)), (12, 5, 1, 0, 2, 3)),
            (((3, 1), (-8, -1)), (7, 3, 0, -1, 1, 0)), (zeros, (0, 0, 4, 0, 0, 0)), (zeros, (0, 0, -1, 0, 0, 0)),
            (zeros, (3, 0, 1, 3, 0, 0)), (zeros, (3, 0, 1, 0, 255, 2)),
        ):  # fmt: skip
            yield _columns(kind, corners, [at], shape, (unit, 50), **more)
        for steps in ((2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2), (3, 2, 2, 1)):
            yield _columns(kind, zeros, [(1, 0, 1, 0, 1, 0)], shape, (unit, 50), steps=steps, **more)
        for action in ("store", "add"):
            yield _columns(kind, zeros, [(3, 2, 1, 1)], shape, (unit, 40), action=action, **more)
        for rank, at in ((3, (2, 1, 0, 1)), (5, (2, 1, 1, 1, 0, 1, 0, 1))):
            some: dict[str, Any] = {**more, "pitches": _SLICED[rank][1]}
            corners = ((0,) * (rank - 2), (0,) * (rank - 2))
            yield _columns(kind, corners, [at], _SLICED[rank][0], (unit, 50), **some)
        for other in ("none", "32B", "64B", "128B"):
            yield _columns(kind, zeros, [(3, 2, 1, 1, 0, 0)], shape, (unit, 20), **{**more, "swizzle": other})


PIXEL_COPIES: tuple[Copy, ...] = (
    *_walks(), *_outside(), *_strides(), *_types(), *_stores(), *_refused(), *_interleaved(), *_interleaved_swizzles(),
    *_interleaved_columns(),
)  # fmt: skip
"""All that is probed."""
