"""Tensor maps good and bad, of boxes and of columns of pixels: what a driver takes or refuses.

The innermost dimension comes first.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from tilewright.interpreter.ptx.hopper.map_rules import SWIZZLES

from .copies import ITEMSIZE

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

# --- interleaved arrays ---

_SLICED: dict[str, Any] = {
    "shape": (64, 8, 4), "strides": (256, 1024), "box": (8, 4, 2), "element_strides": (1, 1, 1), "interleave": "16B",
}  # fmt: skip
_TWICE: dict[str, Any] = {**_SLICED, "interleave": "32B", "swizzle": "32B", "box": (16, 4, 2)}

MAPS.update(
    {f"interleaved {name}": {**base, **changed} for base, name, changed in (
        *((_SLICED, f"16B, swizzle {s}", {"swizzle": s}) for s in ("none", "32B", "64B", "128B")),
        *((_TWICE, f"32B, swizzle {s}", {"swizzle": s}) for s in ("none", "64B", "128B")),
        *((_SLICED, f"16B, box rows of {n}", {"box": (n, 4, 2)}) for n in (1, 4, 7, 12, 16, 64, 128, 256, 257)),
        *((_TWICE, f"32B, box rows of {n}", {"box": (n, 4, 2)}) for n in (1, 8, 24, 32, 64, 128)),
        *((_SLICED, f"16B, swizzle 32B, box rows of {n}", {"box": (n, 4, 2), "swizzle": "32B"}) for n in (8, 16, 32)),
        *((_SLICED, f"16B, element strides {n}", {"element_strides": n}) for n in ((2, 1, 1), (9, 1, 1), (1, 2, 1))),
        *((_SLICED, f"16B, {n} channels", {"shape": (n, 8, 4)}) for n in (1, 7, 8, 60)),
        *((_SLICED, f"16B, strides {n}", {"strides": n}) for n in ((16, 16), (8, 64), (128, 64), (0, 0), (144, 64))),
        *((_TWICE, f"32B, strides {n}", {"strides": n}) for n in ((272, 1024), (256, 1040), (32, 32))),
        *((_TWICE, f"32B, address + {n}", {"offset": n}) for n in (16, 32)),
        (_SLICED, "16B, address + 16", {"offset": 16}),
        *((_SLICED, f"16B of {d}", {"dtype": d}) for d in ("uint8", "float32", "float64", "tfloat32")),
        (_SLICED, "16B, fill nan", {"fill": "nan"}),
        (_SLICED, "16B of 1-D", {"shape": (64,), "strides": (), "box": (8,), "element_strides": (1,)}),
        (_SLICED, "16B of 5-D", {"shape": (64, 2, 2, 2, 2), "strides": (128, 256, 512, 1024), "box": (8, 2, 1, 1, 2),
                                 "element_strides": (1,) * 5}),
        (_SLICED, "16B, box of 256 KB", {"box": (128, 256, 4), "shape": (128, 256, 4)}),
        (_SLICED, "16B, box of 128 KB", {"box": (64, 256, 4), "shape": (128, 256, 4)}),
        *((_SLICED, f"16B, box {n}", {"box": n, "shape": (256, 256, 256)})
          for n in ((256, 1, 256), (256, 1, 64), (64, 1, 256), (8, 256, 256))),
    )}
)  # fmt: skip

# --- columns of pixels ---

GOOD_IM2COL: dict[str, Any] = {
    "dtype": "float16", "shape": (64, 9, 14, 5), "strides": (128, 1152, 16128), "lower_corner": (-1, -1),
    "upper_corner": (-1, -1), "channels_per_pixel": 64, "pixels_per_column": 64,
}  # fmt: skip
_LINE: dict[str, Any] = {"shape": (64, 100, 5), "strides": (128, 12800), "lower_corner": (0,), "upper_corner": (0,)}
_VOLUME: dict[str, Any] = {"shape": (64, 4, 5, 6, 5), "strides": (128, 512, 2560, 15360), "lower_corner": (0, 0, 0),
                           "upper_corner": (0, 0, 0)}  # fmt: skip

IM2COL_MAPS: dict[str, dict[str, Any]] = {
    "as it should be": {}, "3-D": _LINE, "5-D": _VOLUME,
    "2-D": {"shape": (64, 9), "strides": (128,), "lower_corner": (), "upper_corner": ()},
    **{f"address + {n}": {"offset": n} for n in (8, 16)},
    **{f"{n} channels": {"channels_per_pixel": n} for n in (0, 1, 4, 8, 12, 24, 72, 128, 256, 257)},
    **{f"{n} channels of uint8": {"channels_per_pixel": n, "dtype": "uint8"} for n in (8, 15, 16, 256)},
    **{f"{n} pixels": {"pixels_per_column": n} for n in (0, 1, 7, 256, 257, 512, 1000, 1024, 1025)},
    "256 channels of 1024 pixels": {"channels_per_pixel": 256, "pixels_per_column": 1024},
    "256 channels of 512 pixels": {"channels_per_pixel": 256, "pixels_per_column": 512},
    "256 channels of 256 pixels": {"channels_per_pixel": 256, "pixels_per_column": 256},
    "128 channels of 1024 pixels": {"channels_per_pixel": 128, "pixels_per_column": 1024},
    **{f"3-D, corners {a}, {b}": {**_LINE, "lower_corner": (a,), "upper_corner": (b,)}
       for a, b in ((-32768, 32767), (-32769, 0), (0, 32768), (99, 0), (100, 0), (101, 0), (0, -99), (0, -100),
                    (0, -101), (50, -60))},
    **{f"4-D, corners {a}, {b}": {"lower_corner": a, "upper_corner": b}
       for a, b in (((-128, -128), (127, 127)), ((-129, 0), (0, 0)), ((0, -129), (0, 0)), ((0, 0), (128, 0)),
                    ((8, 0), (0, 0)), ((9, 0), (0, 0)), ((0, 13), (0, 0)), ((0, 14), (0, 0)), ((0, 10), (0, 0)),
                    ((10, 0), (0, 0)), ((0, 0), (-8, 0)), ((0, 0), (-9, 0)), ((0, 0), (0, -13)),
                    ((0, 0), (0, -14)), ((0, 0), (-10, 0)))},
    **{f"5-D, corners {a}, {b}": {**_VOLUME, "lower_corner": a, "upper_corner": b}
       for a, b in (((-16,) * 3, (15,) * 3), ((-17, 0, 0), (0, 0, 0)), ((0, 0, -17), (0, 0, 0)),
                    ((0, 0, 0), (0, 16, 0)), ((3, 0, 0), (0, 0, 0)), ((4, 0, 0), (0, 0, 0)),
                    ((0, 0, 5), (0, 0, 0)), ((0, 0, 6), (0, 0, 0)))},
    **{f"element strides {n}": {"element_strides": n}
       for n in ((1, 2, 2, 1), (1, 8, 8, 1), (1, 9, 1, 1), (1, 0, 1, 1), (0, 1, 1, 1), (9, 1, 1, 1), (2, 1, 1, 1),
                 (1, 1, 1, 2), (1, 1, 1, 9))},
    **{f"swizzle {s}, pixels of {n} bytes": {"swizzle": s, "channels_per_pixel": n // 2}
       for s, span in SWIZZLES.items() if span for n in (16, span, span + 16)},
    **{f"stride {n}": {"strides": (n, 1152, 16128)} for n in (0, 16, 136, 1 << 40)},
    "extent 0": {"shape": (64, 9, 0, 5)}, "no images": {"shape": (64, 9, 14, 0)},
    **{f"fill nan of {d}": {"fill": "nan", "dtype": d} for d in ("float16", "uint16", "tfloat32")},
    **{f"interleaved {layout}, swizzle {s}, {n} channels": {"interleave": layout, "swizzle": s, "channels_per_pixel": n}
       for layout, s, n in (("16B", "none", 8), ("16B", "none", 16), ("16B", "none", 4), ("16B", "128B", 8),
                            ("16B", "none", 256), ("32B", "32B", 16), ("32B", "none", 16), ("32B", "32B", 8),
                            ("32B", "32B", 32), ("16B", "64B", 64), ("32B", "128B", 72))},
    **{f"interleaved, corners {a}, {b}": {"interleave": "16B", "channels_per_pixel": 8, "lower_corner": a,
                                          "upper_corner": b}
       for a, b in (((63, 0), (0, 0)), ((64, 0), (0, 0)), ((65, 0), (0, 0)), ((9, 0), (0, 0)), ((0, 8), (0, 0)),
                    ((0, 9), (0, 0)), ((0, 10), (0, 0)), ((0, 0), (-63, 0)), ((0, 0), (-64, 0)), ((0, 0), (0, -8)),
                    ((0, 0), (0, -9)), ((-128, -128), (127, 127)), ((-129, 0), (0, 0)))},
    **{f"interleaved, {n} pixels": {"interleave": "16B", "channels_per_pixel": 8, "pixels_per_column": n}
       for n in (1024, 1025)},
    "interleaved, stride 144": {"interleave": "32B", "channels_per_pixel": 16, "strides": (144, 1152, 16128)},
    "interleaved, 256 channels of 1024 pixels": {"interleave": "16B", "channels_per_pixel": 256,
                                                 "pixels_per_column": 1024},
}  # fmt: skip
"""What is other than in `GOOD_IM2COL`."""
