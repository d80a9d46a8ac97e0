"""Copies of boxes and bulk copies as data: all that `tensor_copies` probes, those of `pixel_cases` among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from tilewright.interpreter.ptx.hopper.map_rules import SWIZZLES, TYPES_OF

from .copies import ITEMSIZE, At, Copy
from .pixel_cases import PIXEL_COPIES


def _around(shape: At, box: At, steps: At = ()) -> tuple[At, ...]:
    """Coordinates inside, and along each dimension out of the array on both sides, in part and wholly; and far out."""
    steps = steps or (1,) * len(shape)
    inside = tuple(max(0, (n - b) // 2) for n, b in zip(shape, box, strict=True))
    found = [inside, tuple(-b // 2 for b in box), tuple(n - max(1, b // 2) for n, b in zip(shape, box, strict=True))]
    for axis, (n, b, step) in enumerate(zip(shape, box, steps, strict=True)):
        for place in (-1, -b + step, -b, n - b, n - b + 1, n - 1, n, -step - 1):
            found.append((*inside[:axis], place, *inside[axis + 1 :]))
    found += [(-(1 << 31),) * len(shape), ((1 << 31) - 1,) * len(shape), (inside[0], *(1 << 20 for _ in shape[1:]))]
    return tuple(dict.fromkeys(found))


_BOXES: tuple[tuple[At, At], ...] = (
    ((70,), (32,)), ((48, 9), (16, 4)), ((24, 5, 4), (8, 3, 2)), ((20, 4, 3, 3), (8, 2, 2, 2)),
    ((12, 3, 2, 3, 2), (8, 2, 1, 2, 2)), ((300, 3), (256, 2)), ((4, 300), (4, 256)),
)  # fmt: skip
"""Arrays of one to five dimensions, and boxes of 4-byte elements."""
_RAGGED: tuple[tuple[str, At, At], ...] = (
    ("uint32", (70,), (32,)), ("uint32", (71,), (32,)), ("float16", (13, 7), (16, 4)), ("float16", (77,), (32,)),
    ("bfloat16", (13, 3, 2), (8, 2, 2)), ("uint64", (5, 4), (4, 2)), ("float32", (9, 5), (8, 2)),
)  # fmt: skip
"""Arrays whose rows end within 16 bytes of a box. What is added falls into boxes apart, so that no order shows."""


def _loads() -> Iterator[Copy]:
    for dtype in ITEMSIZE:
        inner = 32 // ITEMSIZE[dtype]
        shape, box = (3 * inner + 16 // ITEMSIZE[dtype], 7), (inner, 4)
        fills = ("zero", "nan") if "float" in dtype else ("zero",)
        for fill in fills:
            yield Copy("load: types", "load", dtype, shape, box, _around(shape, box), fill=fill)
    for (shape, box), dtype in product(_BOXES, ("uint32", "float32")):
        fill = "nan" if dtype == "float32" else "zero"
        yield Copy("load: 1-D to 5-D", "load", dtype, shape, box, _around(shape, box), fill=fill, gap=16)
    for swizzle, itemsize, rows in product(SWIZZLES, (1, 2, 4, 8), (5, 24)):
        inner = max(16, SWIZZLES[swizzle]) // itemsize
        shape, box = (2 * inner, 30), (inner, rows)
        for start in (1024, 1024 + 384):
            yield Copy(
                "load: swizzles", "load", f"uint{8 * itemsize}", shape, box, _around(shape, box), swizzle=swizzle,
                start=start,
            )  # fmt: skip
    for swizzle, inner in (("128B", 32), ("128B", 24), ("128B", 8), ("64B", 16), ("64B", 24), ("32B", 8)):
        shape, box = (80, 6, 5), (inner, 5, 3)
        yield Copy("load: narrow boxes", "load", "uint16", shape, box, _around(shape, box), swizzle=swizzle)
    for steps, swizzle in product(((1, 2, 1), (1, 3, 2), (1, 1, 8), (4, 2, 3)), ("none", "64B")):
        shape, box = (40, 21, 17), (16, 7, 8)
        yield Copy(
            "load: element strides", "load", "uint32", shape, box, _around(shape, box, steps), steps=steps,
            swizzle=swizzle,
        )  # fmt: skip
    for promotion in ("64B", "128B", "256B"):
        yield Copy("load: L2 promotion", "load", "uint16", (64, 8), (16, 4), ((8, 2), (-8, 7)), promotion=promotion)


def _stores() -> Iterator[Copy]:
    for dtype in ITEMSIZE:
        inner = 32 // ITEMSIZE[dtype]
        yield Copy("store: types", "store", dtype, (3 * inner, 7), (inner, 4), ((3, 2), (2 * inner + 1, 5), (-3, -1)))
    for action, dtype in product(("load", "store", "add"), ("float32", "float32_ftz", "tfloat32", "tfloat32_ftz")):
        if action == "add" and dtype.startswith("tf"):
            continue
        yield Copy(f"{action}: special numbers", action, dtype, (64, 4), (64, 4), ((0, 0),), special=True)
    for shape, box in _BOXES:
        yield Copy("store: 1-D to 5-D", "store", "uint32", shape, box, _around(shape, box)[:24], gap=16)
    for action, (dtype, shape, box) in product(("store", "add"), _RAGGED):
        last = ((shape[0] - 1) // 2 * 2, *(n - max(1, b // 2) for n, b in zip(shape[1:], box[1:], strict=True)))
        ats = ((0,) * len(shape), last) if action == "add" else _around(shape, box)
        yield Copy(f"{action}: ragged rows", action, dtype, shape, box, ats, gap=16, plain=True)
    for swizzle, itemsize in product(SWIZZLES, (1, 2, 4, 8)):
        inner = max(16, SWIZZLES[swizzle]) // itemsize
        shape, box = (2 * inner, 30), (inner, 13)
        ats = ((3, 4), (-1, 20), (inner + 1, -5))
        yield Copy(
            "store: swizzles", "store", f"uint{8 * itemsize}", shape, box, ats, swizzle=swizzle, start=1024 + 384
        )
    for steps in ((1, 2, 1), (1, 3, 2), (4, 2, 3)):
        shape, box = (40, 21, 17), (16, 7, 8)
        yield Copy("store: element strides", "store", "uint32", shape, box, _around(shape, box)[:8], steps=steps)


_REDUCED: dict[str, tuple[str, ...]] = {
    "add": ("uint32", "int32", "uint64", "float16", "bfloat16", "float32", "float64"),
    "min": ("uint32", "int32", "uint64", "int64", "float16", "bfloat16"),
    "max": ("uint32", "int32", "uint64", "int64", "float16", "bfloat16"),
    "inc": ("uint32",), "dec": ("uint32",), "and": ("uint32", "uint64"), "or": ("int32", "int64"),
    "xor": ("uint32", "uint64"),
}  # fmt: skip
_PTX = {**TYPES_OF, "float16": "f16", "bfloat16": "bf16"}


def _reductions() -> Iterator[Copy]:
    for op, dtypes in _REDUCED.items():
        for dtype, plain in product(dtypes, (True, False)):
            if (plain and "float" not in dtype) or (op, dtype) == ("or", "int64"):
                continue
            inner = 64 // ITEMSIZE[dtype]
            yield Copy(
                "reductions of boxes", op, dtype, (3 * inner, 12), (inner, 8), ((3, 2), (-2, 9)), swizzle="64B",
                plain=plain,
            )  # fmt: skip


def _rows() -> Iterator[Copy]:
    sizes, offsets = (16, 48, 512, 4080), ((0,), (16,), (1008,))
    for action, size in product(("bulk load", "bulk near", "bulk store"), sizes):
        yield Copy("bulk copies", action, "uint8", (8192,), (size,), offsets, start=1024 + 16)
    for op, dtypes in _REDUCED.items():
        for dtype, plain in product(dtypes, (True, False)):
            if plain and "float" not in dtype:
                continue
            bits = op in ("and", "or", "xor")
            type_ = f"b{8 * ITEMSIZE[dtype]}" if bits else _PTX[dtype]
            name = f"{op}{'.noftz' if op == 'add' and ITEMSIZE[dtype] == 2 else ''}.{type_}"
            count = 1024 // ITEMSIZE[dtype]
            yield Copy(
                "bulk reductions", f"bulk {name}", dtype, (2 * count,), (count,), offsets[:2], start=1024 + 16,
                plain=plain,
            )  # fmt: skip
    for name in ("add.u32", "min.s32", "xor.b32", "inc.u32", "add.u64"):
        dtype = "uint64" if "64" in name else "uint32"
        count = 512 // ITEMSIZE[dtype]
        yield Copy("bulk reductions", f"bulk near {name}", dtype, (2 * count,), (count,), ((0,),), start=1024 + 16)


def _in_units(copy: Copy) -> Copy:
    """The case with boxes that begin at multiples of 16 bytes along the innermost dimension and, where they are
    written, not before the array, as they must."""
    unit, least = 16 // copy.itemsize, -(1 << 31) if copy.action == "load" else 0
    ats = [(at[0] // unit * unit, *at[1:]) for at in copy.ats]
    return replace(copy, ats=tuple(dict.fromkeys(tuple(max(least, place) for place in at) for at in ats)))


def _refused() -> Iterator[Copy]:
    """Boxes that begin elsewhere, and a type of elements, one a case; hardware calls them illegal instructions, the
    emulator faults."""
    yield Copy("or: no such reduction", "or", "int64", (24, 12), (8, 8), ((0, 2),), swizzle="64B")
    for at in ((-16, 0), (0, -1), (-(1 << 31), 0)):
        for action in ("store", "add"):
            yield Copy(f"{action}: before the array", action, "uint32", (48, 6), (16, 2), (at,))
    for action, itemsize in product(("load", "store"), (1, 2, 4, 8)):
        unit = 16 // itemsize
        for first in (unit + unit // 2, 1) if itemsize < 8 else (1,):
            shape, box = (4 * unit, 6), (2 * unit, 2)
            yield Copy(f"{action}: between 16 bytes", action, f"uint{8 * itemsize}", shape, box, ((first, 1),))


COPIES: tuple[Copy, ...] = (
    *map(_in_units, (*_loads(), *_stores(), *_reductions())), *_refused(), *_rows(), *PIXEL_COPIES,
)  # fmt: skip
"""All that is probed."""
