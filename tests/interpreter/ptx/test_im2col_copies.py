"""Copies of columns of pixels (im2col mode) and of interleaved arrays, beside loops over pixels as PTX defines them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interpreter.ptx.programs import HEADER, Array
from tests.interpreter.ptx.test_tensor_copies import DTYPES, START, laid, numbers
from tilewright.interpreter import Buffer, InterpreterError, LaunchError, MemoryAccessError, Options, load_ptx, run_ptx
from tilewright.interpreter.ptx import (
    PtxError,
    RaceError,
    decode_tensor_map,
    encode_im2col_map,
    encode_tensor_map,
)

SIZE = 16384
"""Bytes of shared memory."""


def kernel(instruction: str, nbytes: int) -> str:
    """Fill shared memory, execute an instruction (`%x` is where the column lies), and take it back after a load."""
    loads = "mbarrier" in instruction
    wait = "W: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0; @!%q bra W;"
    done = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    expect = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {nbytes};" if loads else ""
    return f"""{HEADER}.visible .entry k(.param .align 64 .b8 map[128], .param .u64 image) {{
    .shared .align 1024 .b8 s[{SIZE}]; .shared .align 8 .b8 bar[8];
    .reg .b32 %t, %x, %y, %s, %b, %i; .reg .b64 %m, %p, %o; .reg .pred %q, %z;
    mov.u32 %t, %tid.x; mov.u32 %s, s; mov.u32 %b, bar; mov.b64 %m, map; cvta.param.u64 %m, %m;
    ld.param.u64 %p, [image]; mov.u32 %i, %t; setp.ne.u32 %z, %t, 0;
    FILL: mul.wide.u32 %o, %i, 4; add.u64 %o, %o, %p; ld.global.u32 %y, [%o]; shl.b32 %x, %i, 2; add.u32 %x, %x, %s;
    st.shared.u32 [%x], %y; add.u32 %i, %i, 128; setp.lt.u32 %q, %i, {SIZE // 4}; @%q bra FILL;
    @!%z mbarrier.init.shared::cta.b64 [%b], 1; fence.proxy.async; bar.sync 0; add.u32 %x, %s, {START};
    @%z bra GO; {expect} {instruction} {"" if loads else done} GO: {wait if loads else ""}
    mov.u32 %i, %t;
    TAKE: shl.b32 %x, %i, 2; add.u32 %x, %x, %s; mul.wide.u32 %o, %i, 4; add.u64 %o, %o, %p;
    {"ld.shared.u32 %y, [%x]; st.global.u32 [%o], %y;" if loads else ""}
    add.u32 %i, %i, 128; setp.lt.u32 %q, %i, {SIZE // 4}; @%q bra TAKE; ret; }}"""


def instruction(action: str, at: Sequence[int], offsets: Sequence[int] = ()) -> str:
    """A load with offsets, a store, a prefetch or the reduction of a name, in im2col mode."""
    place, shift = "{" + ", ".join(map(str, at)) + "}", "{" + ", ".join(map(str, offsets)) + "}"
    base = f"bulk.tensor.{len(at)}d"
    if action == "load":
        head = f"cp.async.{base}.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        return f"{head} [%x], [%m, {place}], [%b], {shift};"
    if action == "prefetch":
        return f"cp.async.bulk.prefetch.tensor.{len(at)}d.L2.global.im2col [%m, {place}], {shift};"
    if action == "store":
        return f"cp.async.{base}.global.shared::cta.im2col_no_offs.bulk_group [%m, {place}], [%x];"
    return f"cp.reduce.async.{base}.global.shared::cta.{action}.im2col_no_offs.bulk_group [%m, {place}], [%x];"


def run(text: str, tensor: bytes, array: Array, image: Array | None = None, nbytes: int = 0) -> Array:
    """Shared memory after an instruction on an array."""
    image = np.full(SIZE, 0xEE, np.uint8) if image is None else image
    given = [tensor, Buffer.of("image", image)]
    module = load_ptx(kernel(text, nbytes))
    run_ptx(module, "k", (1,), (128,), given, Options(), reachable=[Buffer.of("array", array)])
    return image


class Images:
    """Images with a box of pixels in them, columns of which are copied; all by dimension, the innermost first."""

    def __init__(
        self, shape: Sequence[int], lower: Sequence[int], upper: Sequence[int], channels: int, pixels: int,
        steps: Sequence[int] = (), dtype: str = "uint32", **names: str,
    ) -> None:  # fmt: skip
        self.array = numbers(shape[::-1], dtype)
        self.shape, self.lower, self.upper = shape, lower, upper
        self.channels, self.pixels, self.steps = channels, pixels, tuple(steps) or (1,) * len(shape)
        self.dtype, self.names = dtype, names
        self.nbytes = channels * pixels * self.array.itemsize

    def record(self) -> bytes:
        """The tensor map."""
        strides = self.array.strides[-2::-1]
        return encode_im2col_map(
            self.dtype, self.array.ctypes.data, self.shape, strides, self.lower, self.upper, self.channels, self.pixels,
            self.steps, **self.names,
        )  # fmt: skip

    def column(self, at: Sequence[int], offsets: Sequence[int]) -> list[tuple[int, ...]]:
        """The pixels of a column: of the list of all pixels in the box of each image, shifted by the offsets, those
        from the start on."""
        axes = [
            range(low + shift, extent + up + shift, step)
            for low, up, extent, shift, step in zip(
                self.lower, self.upper, self.shape[1:-1], offsets, self.steps[1:-1], strict=True
            )
        ]
        images = range(at[-1], at[-1] + self.steps[-1] * (self.pixels + 1), self.steps[-1])
        found = [place[::-1] for place in product(images, *axes[::-1])]
        start = found.index((*(n + shift for n, shift in zip(at[1:-1], offsets, strict=True)), at[-1]))
        return found[start : start + self.pixels]

    def values(self, at: Sequence[int], offsets: Sequence[int], fill: Any = 0) -> Array:
        """What a column has, pixel by pixel and channel by channel."""
        out = np.full((self.pixels, self.channels), fill, self.array.dtype)
        for row, pixel in enumerate(self.column(at, offsets)):
            for channel in range(self.channels):
                place = (at[0] + channel, *pixel)
                if all(0 <= n < extent for n, extent in zip(place, self.shape, strict=True)):
                    out[row, channel] = self.array[place[::-1]]
        return out

    def loaded(self, at: Sequence[int], offsets: Sequence[int]) -> Array:
        """Shared memory after a load."""
        return run(instruction("load", at, offsets), self.record(), self.array, nbytes=self.nbytes)


@pytest.mark.parametrize(
    ("shape", "lower", "upper", "starts"),
    [
        ((8, 9, 4), (0,), (0,), [((0, 0, 0), (0,)), ((4, 8, 1), (0,)), ((0, 3, 3), (0,)), ((0, 0, -1), (0,))]),
        ((8, 9, 4), (-1,), (-1,), [((0, -1, 0), (0,)), ((0, 7, 0), (2,)), ((4, 3, 2), (1,))]),
        ((8, 7, 5, 3), (-1, -1), (-1, -1), [((0, -1, -1, 0), (0, 0)), ((0, 5, 3, 1), (2, 2)), ((4, 0, 2, 2), (1, 0))]),
        ((8, 7, 5, 3), (0, 1), (-2, 0), [((0, 0, 1, 0), (2, 0)), ((0, 4, 4, 2), (0, 0)), ((-4, 1, 1, 0), (1, 1))]),
        ((8, 5, 4, 3, 2), (-1, 0, -1), (0, -1, -1), [((0, -1, 0, -1, 0), (0, 0, 0)), ((4, 4, 2, 1, 0), (1, 1, 2))]),
    ],
)
@pytest.mark.parametrize("column", [(4, 30), (8, 17)])
def test_columns_go_through_the_pixels_of_the_box(
    shape: Any, lower: Any, upper: Any, starts: Any, column: tuple[int, int]
) -> None:
    images = Images(shape, lower, upper, *column)
    for at, offsets in starts:
        assert np.array_equal(images.loaded(at, offsets), laid(images.values(at, offsets), "none")), (at, offsets)


@pytest.mark.parametrize("steps", [(1, 2, 1, 1), (1, 1, 2, 1), (1, 3, 2, 1), (8, 2, 2, 1)])
def test_strides_of_elements_leave_out_pixels_but_none_of_the_column(steps: tuple[int, ...]) -> None:
    images = Images((8, 7, 5, 3), (-1, -1), (-1, 0), 4, 24, steps)
    assert len(images.column((0, -1, -1, 0), (1, 0))) == 24
    for at, offsets in (((0, -1, -1, 0), (0, 0)), ((0, -1 + steps[1], -1 + steps[2], 1), (1, 1))):
        assert np.array_equal(images.loaded(at, offsets), laid(images.values(at, offsets), "none"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(dtype: str) -> None:
    inner = 32 // np.dtype(DTYPES[dtype]).itemsize
    images = Images((2 * inner, 4, 2), (0,), (0,), inner, 12, dtype=dtype)
    assert np.array_equal(images.loaded((0, 2, 0), (0,)), laid(images.values((0, 2, 0), (0,)), "none"))


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_swizzles(swizzle: str) -> None:
    inner = int(swizzle[:-1]) // 2
    images = Images((inner, 5, 4, 2), (0, 0), (0, 0), inner, 20, dtype="uint16", swizzle=swizzle)
    want = laid(images.values((0, 1, 0, 0), (0, 0)), swizzle)
    assert np.array_equal(images.loaded((0, 1, 0, 0), (0, 0)), want)
    want = images.array.copy()
    images.array[...] = 0
    run(instruction("store", (0, 0, 0, 0)), images.record(), images.array, laid(want[0].reshape(20, inner), swizzle))
    assert np.array_equal(images.array[0], want[0]) and not images.array[1].any()


@pytest.mark.parametrize(("given", "offsets"), [
    ((0xFFFF,), (0xFFFF,)), ((257, 0x8002), (1, 2)), ((256, 1), (0, 1)),
    ((32, 1, 0), (0, 2, 0)), ((0, 33, 2), (0, 1, 3)), ((65505, 32802, 64), (1, 1, 1)), ((1, 2, 1), (1, 2, 1)),
])  # fmt: skip
def test_offsets_have_the_bits_that_an_h200_has(given: tuple[int, ...], offsets: tuple[int, ...]) -> None:
    """Two are cut to 8 bits. Three of 5 bits are added up in 16, so what is too large goes on into the next one."""
    pixels = len(given)
    images = Images((4, 5, 4, 3, 2)[: pixels + 1] + (2,), (0,) * pixels, (0,) * pixels, 4, 20)
    at = (0,) * (pixels + 2)
    assert np.array_equal(images.loaded(at, given), laid(images.values(at, offsets), "none"))


def test_what_lies_outside_is_filled_with_nan() -> None:
    images = Images((4, 3, 2), (-1,), (1,), 4, 12, dtype="float32", fill="nan")
    found = images.loaded((0, -1, 0), (0,))[START:][: images.nbytes].view(np.float32).reshape(12, 4)
    outside = [not (0 <= w < 3 and 0 <= n < 2) for w, n in images.column((0, -1, 0), (0,))]
    assert np.array_equal(np.isnan(found).all(1), outside) and sum(outside) == 6


@pytest.mark.parametrize(("action", "combine"), [("store", lambda old, new: new), ("add", np.add), ("max", np.maximum)])
def test_what_is_written(action: str, combine: Any) -> None:
    images = Images((8, 5, 4, 2), (1, 0), (0, -1), 4, 18)
    want, values = images.array.copy(), np.arange(1000, 1000 + 18 * 4, dtype=np.uint32).reshape(18, 4)
    for row, pixel in enumerate(images.column((4, 2, 1, 0), (0, 0))):
        place = (*pixel[::-1], slice(4, 8))
        want[place] = combine(want[place], values[row])
    run(instruction(action, (4, 2, 1, 0)), images.record(), images.array, laid(values, "none"))
    assert np.array_equal(images.array, want)


_PIXELS = st.integers(-2, 2)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_columns_anywhere(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    shape = (8, *(data.draw(st.integers(3, 6)) for _ in range(rank)), data.draw(st.integers(1, 3)))
    lower, upper = ([data.draw(st.integers(-2, 1)) for _ in range(rank)] for _ in range(2))
    upper = [max(up, low + 1 - n) for up, low, n in zip(upper, lower, shape[1:], strict=False)]
    steps = (1, *(data.draw(st.integers(1, 3)) for _ in range(rank)), 1)
    images = Images(shape, lower, upper, data.draw(st.sampled_from([4, 8])), data.draw(st.integers(1, 40)), steps)
    offsets = [data.draw(st.integers(0, 3)) for _ in range(rank)]
    spans = [range(low, n + up, step) for low, up, n, step in zip(lower, upper, shape[1:], steps[1:], strict=False)]
    at = (data.draw(st.sampled_from([0, 4])), *(data.draw(st.sampled_from(span)) for span in spans), data.draw(_PIXELS))
    assert np.array_equal(images.loaded(at, offsets), laid(images.values(at, offsets), "none"))


# --- interleaved arrays ---


class Slices:
    """Images whose channels lie in slices, (n, slice, h, w, channels of a slice) of 16 bits."""

    def __init__(self, layout: str, swizzle: str = "none") -> None:
        self.array = numbers((2, 3, 4, 5, int(layout[:-1]) // 2), "uint16")
        image, slice_, row, _, _ = self.array.strides
        self.fields = ("uint16", self.array.ctypes.data, (5, 4, 3, 2), (row, slice_, image))
        self.names: dict[str, Any] = {"interleave": layout, "swizzle": swizzle}

    def at(self, w: int, h: int, slice_: int, n: int) -> Array:
        """The channels of a slice of one pixel, zeros outside."""
        place = (n, slice_, h, w)
        inside = all(0 <= p < extent for p, extent in zip(place, self.array.shape, strict=False))
        return self.array[place] if inside else np.zeros(self.array.shape[-1], np.uint16)

    def box(self, start: Sequence[int], counts: Sequence[int], steps: Sequence[int] = (1, 1, 1, 1)) -> Array:
        """The pixels of a box, of one slice."""
        w, h, _, n = (range(a, a + b, c) for a, b, c in zip(start, counts, steps, strict=True))
        return np.stack([self.at(x, y, start[2], image) for image in n for y in h for x in w])


_LAYOUTS = [(layout, swizzle) for layout in ("16B", "32B") for swizzle in ("none", "32B", "64B", "128B")]


def tiled(text: str) -> str:
    """The instruction of a box."""
    return text.replace("im2col_no_offs", "tile").replace("im2col", "tile").replace(", {0, 0};", ";")


@pytest.mark.parametrize(("layout", "swizzle"), _LAYOUTS)
def test_boxes_of_a_slice(layout: str, swizzle: str) -> None:
    slices = Slices(layout, swizzle)
    for start, box, steps in (
        ((0, 0, 0, 0), (8, 4, 1, 2), (1, 1, 1, 1)),
        ((1, 2, 2, 1), (8, 3, 1, 1), (1, 1, 1, 1)),
        ((-1, -1, 1, -1), (8, 3, 2, 2), (1, 1, 1, 1)),
        ((2, 0, 3, 0), (8, 1, 1, 1), (1, 1, 1, 1)),
        ((1, 0, 1, 0), (8, 4, 3, 2), (3, 2, 2, 2)),
    ):
        want = slices.box(start, box, steps)
        boxes = encode_tensor_map(*slices.fields, box, steps, **slices.names)
        load = tiled(instruction("load", start, (0, 0)))
        assert np.array_equal(run(load, boxes, slices.array, nbytes=want.nbytes), laid(want, swizzle)), start


@pytest.mark.parametrize(("layout", "swizzle"), _LAYOUTS)
def test_columns_of_a_slice(layout: str, swizzle: str) -> None:
    slices = Slices(layout, swizzle)
    columns = encode_im2col_map(*slices.fields, (-1, 0), (-1, 1), 16, 13, (2, 1, 2, 1), **slices.names)
    pixels = [(w, h, 1, n) for n in range(2) for h in range(1, 6) for w in (1, 3, 5)]
    for start, at in ((0, (-1, 0, 1, 0)), (4, (1, 1, 1, 0)), (17, (3, 0, 1, 1))):
        want = np.stack([slices.at(*pixel) for pixel in pixels[start:][:13]])
        found = run(instruction("load", at, (2, 1)), columns, slices.array, nbytes=want.nbytes)
        assert np.array_equal(found, laid(want, swizzle)), at


@pytest.mark.parametrize("action", ["store", "add"])
def test_what_is_written_to_a_slice(action: str) -> None:
    slices, values = Slices("32B", "32B"), numbers((2, 2, 8, 16), "uint16")
    fields = ("uint32", *slices.fields[1:])
    boxes = encode_tensor_map(*fields, (8, 2, 2, 2), **slices.names)
    want = slices.array.copy()
    part, added = want[:, 1, 2:4, 3:5], values[:, :, :2]
    part[...] = added if action == "store" else part + added
    run(tiled(instruction(action, (3, 2, 1, 0))), boxes, slices.array, laid(values, "32B"))
    assert np.array_equal(slices.array, want)


def test_places_of_interleaved_columns() -> None:
    slices = Slices("16B")
    columns = encode_im2col_map(*slices.fields, (0, 0), (0, -1), 8, 4, **slices.names)
    for at, what in (
        ((5, 0, 0, 0), "coordinate 0 is 5: .* from 0 to 4"),
        ((0, 3, 0, 0), "coordinate 1 is 3: .* 0 to 2"),
    ):
        with pytest.raises(MemoryAccessError, match=what):
            run(instruction("load", at, (0, 0)), columns, slices.array)
    with pytest.raises(MemoryAccessError, match="coordinate 2 is -1: .* not written there"):
        run(instruction("store", (0, 0, -1, 0)), columns, slices.array)


# --- faults ---


def test_maps_and_copies_of_two_modes_do_not_go_together() -> None:
    images = Images((8, 5, 4, 2), (0, 0), (0, 0), 4, 10)
    array = images.array
    boxes = encode_tensor_map("uint32", array.ctypes.data, images.shape, array.strides[-2::-1], (4, 1, 1, 1))
    for action in ("load", "store", "add", "prefetch"):
        text = instruction(action, (0, 0, 0, 0), (0, 0))
        with pytest.raises(MemoryAccessError, match=r"it copies columns of pixels \(im2col\), and .* is one of boxes"):
            run(text, boxes, images.array)
        with pytest.raises(MemoryAccessError, match=r"it copies boxes, and the tensor map is one of columns of pixels"):
            run(tiled(text), images.record(), images.array)


def test_faults_of_places() -> None:
    images = Images((8, 5, 4, 2), (-1, -1), (0, 0), 4, 10)
    with pytest.raises(MemoryAccessError, match="coordinate 0 is 2: 8 bytes, no multiple of 16"):
        images.loaded((2, 0, 0, 0), (0, 0))
    with pytest.raises(MemoryAccessError, match="coordinate 1 is -1: .* not written"):
        run(instruction("store", (0, -1, 0, 0)), images.record(), images.array)
    for at in ((0, 5, 0, 0), (0, 0, 4, 1), (0, -2, 0, 0)):
        with pytest.raises(
            MemoryAccessError, match="coordinate . is .*: a column begins within the corners, from -1 to"
        ):
            images.loaded(at, (0, 0))
    with pytest.raises(MemoryAccessError, match="coordinate 2 is 4: a column begins within the corners, from -1 to 3"):
        run(instruction("store", (0, 0, 4, 0)), images.record(), images.array)
    with pytest.raises(MemoryAccessError, match="corners leave the array along dimension 1, with pixels from -1 to 4"):
        run(instruction("add", (0, 0, 0, 0)), images.record(), images.array)
    with pytest.raises(InterpreterError, match="3 coordinates for a tensor map of 4 dimensions"):
        run(instruction("load", (0, 0, 0), (0,)), images.record(), images.array)
    run(instruction("prefetch", (0, 0, 0, 0), (1, 1)), images.record(), images.array)
    with pytest.raises(MemoryAccessError, match="coordinate 2 is 4: a column begins within the corners, from -1 to 3"):
        run(instruction("prefetch", (0, 0, 4, 0), (1, 1)), images.record(), images.array)
    behind = Images((8, 5, 4, 2), (0, 0), (0, 1), 4, 2)
    with pytest.raises(MemoryAccessError, match="corners leave the array along dimension 2, with pixels from 0 to 4"):
        run(instruction("store", (0, 0, 0, 0)), behind.record(), behind.array)


def test_offsets_are_as_many_as_dimensions_of_pixels() -> None:
    text = instruction("load", (0, 0, 0, 0), (1, 1))
    for wrong in ("3;", "{1};", "{1, 1, 1};"):
        with pytest.raises(PtxError, match=r"needs \{...\} of 2 here, one a dimension of pixels"):
            load_ptx(kernel(text.replace("{1, 1};", wrong), 0))
    with pytest.raises(PtxError, match="needs more operands"):
        load_ptx(kernel(text.replace(", {1, 1};", ";"), 0))


def test_columns_that_overlap_race() -> None:
    images = Images((8, 5, 4, 2), (0, 0), (0, 0), 4, 10)
    text = instruction("store", (0, 0, 0, 0)) + " cp.async.bulk.commit_group; " + instruction("store", (0, 1, 1, 0))
    with pytest.raises(RaceError, match="without a wait for the write of a tensor copy"):
        run(text, images.record(), images.array)


# --- tensor maps ---

GOOD: dict[str, Any] = {
    "dtype": "float16", "address": 4096, "shape": (64, 9, 14, 5), "strides": (128, 1152, 16128),
    "lower_corner": (-1, -2), "upper_corner": (-1, 3), "channels_per_pixel": 64, "pixels_per_column": 48,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"shape": (64, 9), "strides": (128,)}, "an array of pixels has 3 to 5 dimensions, found 2"),
        ({"lower_corner": (0,)}, "lower_corner has an entry for each of 2 dimensions of pixels, found 1"),
        ({"upper_corner": (0, 0, 0)}, "upper_corner has an entry for each of 2 dimensions of pixels, found 3"),
        ({"element_strides": (1, 1)}, "element_strides has an entry for each of 4 dimensions, found 2"),
        ({"lower_corner": (-129, 0)}, r"lower_corner\[0\] is -128 to 127 for an array of 4 dimensions, found -129"),
        ({"upper_corner": (0, 128)}, r"upper_corner\[1\] is -128 to 127 for an array of 4 dimensions, found 128"),
        ({"upper_corner": (-10, 0)}, "the corners leave no pixels along dimension 1: -1 to -2"),
        ({"channels_per_pixel": 257}, "channels_per_pixel is 1 to 256, found 257"),
        ({"channels_per_pixel": 4}, "a pixel has 8 bytes, no multiple of 16"),
        ({"channels_per_pixel": 64.0}, "channels_per_pixel is an integer, found 64.0"),
        ({"pixels_per_column": 1025}, "pixels_per_column is 1 to 1024, found 1025"),
        ({"pixels_per_column": 0}, "pixels_per_column is 1 to 1024, found 0"),
        ({"pixels_per_column": 1024, "channels_per_pixel": 128}, "a column has 262144 bytes, more than"),
        ({"swizzle": "64B"}, "a pixel has 128 bytes, more than the 64 that the swizzle mixes"),
        ({"strides": (136, 1152, 16128)}, "the stride of dimension 1 is a multiple of 16 bytes, found 136"),
        ({"fill": "nan", "dtype": "uint16"}, "fill `nan` needs floats, found uint16"),
        ({"interleave": "32B", "channels_per_pixel": 4}, "a pixel has 8 bytes, no multiple of 16"),
        ({"interleave": "32B", "strides": (144, 1152, 16128)}, "stride of dimension 1 is a multiple of 32 bytes"),
        ({"interleave": "16B", "lower_corner": (62, 12)}, "the corners leave no pixels along dimension 1: 12 to 11"),
    ],
)
def test_what_the_driver_refuses(changed: dict[str, Any], what: str) -> None:
    with pytest.raises(LaunchError, match=what):
        encode_im2col_map(**{**GOOD, **changed})


def test_a_tensor_map_of_pixels_says_what_it_was_made_of() -> None:
    found = decode_tensor_map(encode_im2col_map(**GOOD, element_strides=(1, 2, 3, 1), swizzle="128B"))
    assert found is not None and found.corners is not None and found.counts == (64, 48)
    assert (found.corners.lower, found.corners.upper) == ((-1, -2), (-1, 3)) and found.element_strides == (1, 2, 3, 1)
    assert (found.shape, found.strides) == (GOOD["shape"], (2, *GOOD["strides"]))
    line = {**GOOD, "shape": (64, 9, 5), "strides": (128, 1152), "lower_corner": (-32768,), "upper_corner": (32767,)}
    found = decode_tensor_map(encode_im2col_map(**line))
    assert found is not None and found.corners is not None and found.corners.lower == (-32768,)
