"""Copies by tensor map and bulk copies as data: arrays, boxes, where they lie; and tensor maps good and bad.

The innermost dimension comes first, as tensor maps have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.ptx.hopper.map_rules import SWIZZLES, TYPES_OF

Array = NDArray[Any]
At = tuple[int, ...]

ITEMSIZE: dict[str, int] = {
    name: 4 if type_ == "tf32" else int(type_.lstrip("busf")) // 8 for name, type_ in TYPES_OF.items()
}
_SPECIAL = tuple(
    sign | bits for sign in (0, 1 << 31) for bits in (
        0, 1, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x49ACC, 0x7F_F000, 0x7F_FFFF, 0x80_0000, 0x80_1000, 0x80_3000,
        0x3F80_0FFF, 0x3F80_1000, 0x3F80_3000, 0x3F80_1001, 0x7F7F_F000, 0x7F7F_FFFF, 0x7F80_0000, 0x7F80_0001,
        0x7FC0_0000, 0x7FC0_1234, 0x7FFF_FFFF,
    )
)  # fmt: skip
"""f32 as bits: zeros, subnormals, what lies between two tf32, the largest, infinities and NaN."""
_FLOATS = {2: np.dtype(np.float16), 4: np.dtype(np.float32), 8: np.dtype(np.float64)}


@dataclass(frozen=True, slots=True)
class Copy:
    """Some copies of one kind, each of one box.

    kind: what it is listed under. action: `load`, `store` or a reduction; behind `bulk` a plain row of bytes, where
    `near` is one within shared memory. ats: the coordinates of each box; of a row its offset in bytes. gap: bytes that
    lie between the rows of the array. start: where in shared memory the box begins. plain: whether elements are
    ordinary numbers; special: f32 of `_SPECIAL`; else any bits. A bulk copy has `shape` bytes in the array and `box`
    bytes to copy.
    """

    kind: str
    action: str
    dtype: str
    shape: At
    box: At
    ats: tuple[At, ...]
    gap: int = 0
    steps: At = ()
    swizzle: str = "none"
    fill: str = "zero"
    promotion: str = "none"
    start: int = 1024
    plain: bool = False
    special: bool = False

    @property
    def label(self) -> str:
        """All of it, as data and reports call it."""
        more = [f"gap {self.gap}"] * bool(self.gap) + [f"steps {self.steps}"] * bool(self.steps)
        more += [f"swizzle {self.swizzle}"] * (self.swizzle != "none") + [f"fill {self.fill}"] * (self.fill != "zero")
        more += [f"at {self.start}"] * (self.start != 1024) + ["plain"] * self.plain
        more += ["special"] * self.special + [f"from {self.ats[0]}"] * self.refused
        more += [f"L2 {self.promotion}"] * (self.promotion != "none")
        return ", ".join([f"{self.action} {self.dtype} {self.box} of {self.shape}", *more, f"x{len(self.ats)}"])

    @property
    def refused(self) -> bool:
        """Whether hardware has no such copy."""
        return self.kind.endswith(("between 16 bytes", "before the array", "no such reduction"))

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return ITEMSIZE[self.dtype]

    @property
    def strides(self) -> At:
        """Bytes from one row to the next, and so on outwards; multiples of 16."""
        found = [-(-self.shape[0] * self.itemsize // 16) * 16 + self.gap]
        for extent in self.shape[1:]:
            found.append(found[-1] * extent + self.gap)
        return tuple(found)

    @property
    def nbytes(self) -> int:
        """Of the array."""
        return self.strides[-1]

    @property
    def copied(self) -> int:
        """Bytes of a box."""
        steps = (1, *self.steps[1:]) if self.steps else (1,) * len(self.box)
        return self.itemsize * int(np.prod([-(-b // s) for b, s in zip(self.box, steps, strict=True)]))

    def octets(self, count: int, seed: int) -> Array:
        """Bytes of elements, drawn."""
        if self.special:
            return np.resize(np.array(_SPECIAL, np.uint32), -(-count // 4)).view(np.uint8)[:count]
        rng = np.random.default_rng([seed, count, list(ITEMSIZE).index(self.dtype)])
        if not self.plain or "int" in self.dtype:
            return rng.integers(0, 256, count, dtype=np.uint8)
        values = rng.integers(-4096, 4097, -(-count // self.itemsize)) / 64.0
        if self.dtype == "bfloat16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)[:count]
        return values.astype(_FLOATS[self.itemsize]).view(np.uint8)[:count]


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
    *map(_in_units, (*_loads(), *_stores(), *_reductions())), *_refused(), *_rows(),
)  # fmt: skip
"""All that is probed."""

# --- tensor maps ---

GOOD: dict[str, Any] = {
    "dtype": "float16", "shape": (64, 32), "strides": (128,), "box": (64, 8), "element_strides": (1, 1),
}  # fmt: skip
_CUBE: dict[str, Any] = {"shape": (64, 8, 4), "strides": (128, 1024), "box": (64, 4, 2), "element_strides": (1, 1, 1)}

MAPS: dict[str, dict[str, Any]] = {
    "as it should be": {},
    **{f"address + {n}": {"offset": n} for n in (8, 16, 4)},
    **{f"extent {n:#x}": {"shape": (64, n)} for n in (0, 1 << 32, (1 << 32) + 1)},
    "inner extent 1": {"shape": (1, 32)},
    **{f"stride {n:#x}": {"strides": (n,)} for n in (0, 16, 64, 136, 144, 1 << 40, (1 << 40) - 16)},
    "3-D": _CUBE,
    "3-D, stride no multiple of the one before": {**_CUBE, "strides": (128, 1040)},
    "3-D, stride less than the one before": {**_CUBE, "strides": (1024, 128)},
    **{f"box {n} rows": {"box": (64, n)} for n in (0, 1, 256, 257)},
    **{f"box rows of {n} elements": {"box": (n, 8)} for n in (0, 4, 8, 12, 256, 264)},
    "box of 128 KB": {"box": (256, 256)},
    "box of 512 KB": {"dtype": "float64", "strides": (512,), "box": (256, 256)},
    **{f"box of {n} {d}": {"dtype": d, "strides": (4096,), "box": n}
       for d, n in (*product(("float64",), ((256, 64), (128, 128), (256, 128), (64, 256), (128, 256))),
                    *product(("float32",), ((256, 256), (256, 128), (128, 256))), ("uint8", (256, 256)))},
    **{f"box of {n} float16 in 3-D": {**_CUBE, "strides": (512, 65536), "box": n}
       for n in ((256, 256, 1), (256, 256, 2), (256, 256, 4), (256, 128, 2))},
    "box larger than the array": {"shape": (64, 4)},
    **{f"swizzle {s}, rows of {n} bytes": {"swizzle": s, "box": (n // 2, 8)}
       for s, span in SWIZZLES.items() if span for n in (span // 2, span, 2 * span)},
    "swizzle 128B, rows of 48 bytes": {"swizzle": "128B", "box": (24, 8)},
    **{f"element strides {n}": {"element_strides": n}
       for n in ((1, 0), (1, 8), (1, 9), (0, 1), (2, 1), (8, 1), (9, 1), (2, 2))},
    "element stride larger than the box": {"box": (64, 4), "element_strides": (1, 8)},
    **{f"type {dtype}, fill {fill}": {"dtype": dtype, "fill": fill, "strides": (512,), "box": (16, 8)}
       for dtype in ITEMSIZE for fill in ("zero", "nan")},
    **{f"promotion {n}": {"l2_promotion": n} for n in ("64B", "128B", "256B")},
    "1-D": {"shape": (64,), "strides": (), "box": (64,), "element_strides": (1,)},
    "5-D": {"shape": (64, 2, 2, 2, 2), "strides": (128, 256, 512, 1024), "box": (64, 2, 1, 1, 2),
            "element_strides": (1,) * 5},
    "interleave 16B of 2-D": {"interleave": "16B", "box": (8, 8)},
    "interleave 16B of 3-D": {**_CUBE, "interleave": "16B", "box": (8, 4, 2)},
    "interleave 32B of 3-D": {**_CUBE, "interleave": "32B", "swizzle": "32B", "box": (16, 4, 2)},
}  # fmt: skip
"""What is other than in `GOOD`, by what it shows; `offset` is added to the array's address."""
