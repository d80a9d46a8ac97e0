"""Tensor maps and tensor copies: 1-D to 5-D boxes, swizzles, what lies outside, element strides, reductions, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interpreter.ptx.programs import HEADER, Array, aligned
from tilewright.interpreter import Buffer, InterpreterError, LaunchError, Options, load_ptx, run_ptx
from tilewright.interpreter.ptx import RaceError, decode_tensor_map, encode_tensor_map

DTYPES: dict[str, Any] = {
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "int32": np.int32, "uint64": np.uint64,
    "int64": np.int64, "float16": np.float16, "float32": np.float32, "float64": np.float64,
    "bfloat16": ml_dtypes.bfloat16, "tfloat32": np.float32,
}  # fmt: skip
START = 1024
"""Where in shared memory a box begins."""


def kernel(action: str, rank: int, nbytes: int) -> str:
    """Load or store (reduce) one box at coordinates given as parameters, `image` being all of shared memory.

    action: `load`, `store`, or the operation of a reduction.
    """
    names = [f"c{n}" for n in range(rank)]
    coordinates = ", ".join(f"%{name}" for name in names)
    out = "cp.async.bulk.tensor" if action == "store" else "cp.reduce.async.bulk.tensor"
    op = "" if action == "store" else f".{action}"
    load = f"""mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {nbytes};
        cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
            [%s+{START}], [%m, {{{coordinates}}}], [%b];"""
    store = f"""{out}.{rank}d.global.shared::cta{op}.tile.bulk_group [%m, {{{coordinates}}}], [%s+{START}];
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    word = "ld.shared.u32 %y, [%x]; st.global.u32 [%o], %y;" if action == "load" else ""
    return f"""{HEADER}.visible .entry k(.param .align 64 .b8 map[128], .param .u64 image{
        "".join(f", .param .s32 {name}" for name in names)
    }) {{
    .shared .align 1024 .b8 s[16384]; .shared .align 8 .b8 bar[8];
    .reg .b32 %t, %x, %y, %s, %b{"".join(f", %{name}" for name in names)}; .reg .b64 %m, %i, %o; .reg .pred %p, %q;
    mov.u32 %t, %tid.x; mov.u32 %s, s; mov.u32 %b, bar; mov.b64 %m, map; cvta.param.u64 %m, %m;
    ld.param.u64 %i, [image]; {" ".join(f"ld.param.s32 %{name}, [{name}];" for name in names)}
    mov.u32 %y, %t;
    FILL: mul.wide.u32 %o, %y, 4; add.u64 %o, %o, %i; ld.global.u32 %x, [%o]; shl.b32 %t, %y, 2; add.u32 %t, %t, %s;
    st.shared.u32 [%t], %x; add.u32 %y, %y, 128; setp.lt.u32 %q, %y, 4096; @%q bra FILL;
    mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [%b], 1;
    fence.proxy.async; bar.sync 0; @!%p bra GO; {load if action == "load" else store} GO:
    {"W: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0; @!%q bra W;" if action == "load" else ""}
    mov.u32 %t, %tid.x;
    TAKE: shl.b32 %x, %t, 2; cvt.u64.u32 %o, %x; add.u64 %o, %o, %i; add.u32 %x, %x, %s; {word}
    add.u32 %t, %t, 128; setp.lt.u32 %q, %t, 4096; @%q bra TAKE; ret; }}"""


def moved(
    action: str, array: Array, box: Sequence[int], at: Sequence[int], dtype: str, *, swizzle: str = "none",
    steps: Sequence[int] | None = None, fill: str = "zero", image: Array | None = None, nbytes: int = 0,
) -> Array:  # fmt: skip
    """Shared memory after an action on one box of an array, whose last axis is the innermost dimension."""
    size = int(np.prod(box)) * array.itemsize
    tensor = encode_tensor_map(
        dtype, array.ctypes.data, array.shape[::-1], array.strides[-2::-1], box, steps, swizzle=swizzle, fill=fill
    )
    image = np.full(16384, 0xEE, np.uint8) if image is None else image
    arguments = [tensor, Buffer.of("image", image), *at]
    text = kernel(action, len(box), nbytes or size)
    run_ptx(load_ptx(text), "k", (1,), (128,), arguments, Options(), reachable=[Buffer.of("array", array)])
    return image


def plain(array: Array, box: Sequence[int], at: Sequence[int], steps: Sequence[int] | None, fill: Any) -> Array:
    """The elements of a box, as a loop over indices finds them; outermost axis first."""
    steps = steps or [1] * len(box)
    counts = [b if n == 0 else -(-b // s) for n, (b, s) in enumerate(zip(box, steps, strict=True))]
    out = np.full(counts[::-1], fill, array.dtype)
    for index in np.ndindex(*counts):
        place = [a + i * (s if n else 1) for n, (a, i, s) in enumerate(zip(at, index, steps, strict=True))]
        if all(0 <= p < e for p, e in zip(place, array.shape[::-1], strict=True)):
            out[index[::-1]] = array[tuple(place[::-1])]
    return out


def laid(values: Array, swizzle: str) -> Array:
    """All of shared memory with a box at `START`: 16-byte pieces go where the swizzle's drawing has them."""
    image = np.full(16384, 0xEE, np.uint8)
    octets = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 16)
    pieces = {"none": 1, "32B": 2, "64B": 4, "128B": 8}[swizzle]
    for number, octet in enumerate(octets):
        line, piece = divmod(number, 8)
        to = 8 * line + (piece ^ line % pieces)
        image[START + 16 * to : START + 16 * to + 16] = octet
    return image


def numbers(shape: Sequence[int], dtype: str) -> Array:
    return aligned(np.arange(1, int(np.prod(shape)) + 1).reshape(shape).astype(DTYPES[dtype]), 128)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(dtype: str) -> None:
    array = numbers((10, 64), dtype)
    inner = 32 // array.itemsize
    at = inner // 2, 7
    image = moved("load", array, (inner, 6), at, dtype)
    assert np.array_equal(image, laid(plain(array, (inner, 6), at, None, 0), "none"))


@pytest.mark.parametrize(
    ("shape", "box", "at"),
    [
        ((64,), (32,), (4,)),
        ((64,), (32,), (-8,)),
        ((9, 32), (16, 4), (20, 7)),
        ((3, 4, 32), (8, 3, 2), (4, -1, 2)),
        ((3, 4, 32), (8, 3, 2), (28, 2, 2)),
        ((3, 2, 4, 16), (8, 2, 2, 2), (-4, 3, 1, 2)),
        ((3, 2, 4, 16), (8, 2, 2, 2), (12, 3, 1, 2)),
        ((2, 3, 2, 4, 16), (8, 2, 1, 2, 2), (12, 1, 1, 2, -1)),
        ((2, 3, 2, 4, 16), (8, 2, 1, 2, 2), (12, 3, 1, 2, 1)),
        ((4, 32), (8, 2), (100, 100)),
        ((4, 32), (8, 2), (-2147483648, 2147483647)),
    ],
)
def test_boxes_of_every_rank(shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...]) -> None:
    array = numbers(shape, "float32")
    want = plain(array, box, at, None, 0)
    assert np.array_equal(moved("load", array, box, at, "float32"), laid(want, "none"))
    if min(at) < 0:
        return
    values = np.arange(1000, 1000 + want.size, dtype=np.float32).reshape(want.shape)
    after = array.copy()
    moved("store", array, box, at, "float32", image=laid(values, "none"))
    for index in np.ndindex(*box):
        place = [a + i for a, i in zip(at, index, strict=True)]
        if all(0 <= p < e for p, e in zip(place, shape[::-1], strict=True)):
            after[tuple(place[::-1])] = values[index[::-1]]
    assert np.array_equal(array, after)


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
@pytest.mark.parametrize("rows", [1, 13, 24])
def test_swizzles(swizzle: str, rows: int) -> None:
    inner = int(swizzle[:-1]) // 2
    array = numbers((32, 64), "uint16")
    want = plain(array, (inner, rows), (0, 2), None, 0)
    image = moved("load", array, (inner, rows), (0, 2), "uint16", swizzle=swizzle)
    assert np.array_equal(image, laid(want, swizzle))
    copy = aligned(np.zeros_like(array), 128)
    moved("store", copy, (inner, rows), (0, 2), "uint16", swizzle=swizzle, image=image)
    assert np.array_equal(copy[2 : 2 + rows, :inner], want) and np.count_nonzero(copy) == want.size


def test_a_swizzle_is_one_of_addresses() -> None:
    """A narrow box with a wide swizzle: its rows of 64 bytes lie 128 apart, as they do on an H200."""
    array = numbers((16, 64), "uint16")
    image = moved("load", array, (32, 16), (0, 0), "uint16", swizzle="128B")
    flat = image[START:][:2048].view(np.uint16).reshape(-1, 8)
    want = plain(array, (32, 16), (0, 0), None, 0).reshape(-1, 8)
    order = [8 * line + (piece ^ line % 8) for line in range(16) for piece in range(4)]
    assert np.array_equal(flat[order], want)
    rest = np.setdiff1d(np.arange(len(flat)), order)
    assert (flat[rest] == 0xEEEE).all()


@pytest.mark.parametrize("fill", ["zero", "nan"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_what_lies_outside(dtype: str, fill: str) -> None:
    array = numbers((4, 16), dtype)
    inner = 64 // array.itemsize
    image = moved("load", array, (inner, 4), (8, 2), dtype, fill=fill)
    values = image[START:][: 4 * 64].view(DTYPES[dtype]).reshape(4, inner).astype(np.float64)
    outside = np.ones((4, inner), np.bool_)
    outside[:2, :8] = False
    assert np.array_equal(values[~outside].reshape(2, -1), array[2:, 8:16][:, :inner].astype(np.float64))
    assert (np.isnan(values[outside]) if fill == "nan" else values[outside] == 0).all()
    if fill == "nan":
        assert (image[START:][: 4 * 64].view(np.uint16).reshape(4, -1)[2:] == 0x7FF7).all()


@pytest.mark.parametrize("steps", [(1, 2), (1, 3), (4, 2)])
def test_element_strides(steps: tuple[int, int]) -> None:
    """Along the innermost dimension no elements are left out, whatever its stride."""
    array = numbers((20, 32), "float32")
    want = plain(array, (8, 7), (4, 5), steps, 0)
    assert np.array_equal(
        moved("load", array, (8, 7), (4, 5), "float32", steps=steps, nbytes=want.nbytes), laid(want, "none")
    )


@pytest.mark.parametrize(
    ("op", "dtype", "want"),
    [
        ("add", "float32", np.add), ("add", "float16", np.add), ("add", "int32", np.add), ("min", "int64", np.minimum),
        ("max", "bfloat16", np.maximum), ("xor", "uint32", np.bitwise_xor), ("and", "uint64", np.bitwise_and),
    ],
)  # fmt: skip
def test_reductions(op: str, dtype: str, want: Any) -> None:
    array = numbers((6, 32), dtype)
    before, inner = array.copy(), 32 // array.itemsize
    values = (np.arange(4 * inner) % 5).astype(array.dtype).reshape(4, inner)
    first = inner // 2
    moved(op, array, (inner, 4), (first, 4), dtype, image=laid(values, "none"))
    before[4:6, first : first + inner] = want(before[4:6, first : first + inner], values[:2]).astype(array.dtype)
    assert np.array_equal(array.astype(np.float64), before.astype(np.float64))


def test_reductions_that_there_are_not() -> None:
    for op, dtype in (("add", "int64"), ("or", "int64"), ("max", "float32")):
        with pytest.raises(InterpreterError, match=f"no `{op}` of {dtype}"):
            moved(op, numbers((4, 16), dtype), (8, 2), (0, 0), dtype)


# What an H200 does, found by `tools/probes/tensor_copies.py`


def test_a_box_begins_at_a_multiple_of_16_bytes() -> None:
    for dtype, first, nbytes in (("uint8", 8, 8), ("float16", -1, -2), ("float32", 3, 12), ("uint64", 1, 8)):
        for action in ("load", "store", "add"):
            if action == "add" and dtype == "uint8":
                continue
            with pytest.raises(InterpreterError, match=f"coordinate 0 is {first}: {nbytes} bytes, no multiple of 16"):
                moved(action, numbers((4, 64), dtype), (16, 2), (first, 0), dtype)


def test_no_box_is_written_before_the_array() -> None:
    for at, axis in (((-4, 0), 0), ((0, -1), 1)):
        for action in ("store", "add"):
            with pytest.raises(InterpreterError, match=f"coordinate {axis} is {at[axis]}: .* not written"):
                moved(action, numbers((4, 16), "float32"), (8, 2), at, "float32")


def test_16_bytes_are_written_at_once() -> None:
    """Also where the array's rows end between two such pieces; they are read no further."""
    whole = aligned(np.zeros(8, np.uint32), 128)
    array, values = whole[:6], np.arange(1, 9, dtype=np.uint32)
    assert list(moved("load", array, (8,), (0,), "uint32")[START:][:32].view(np.uint32)[6:]) == [0, 0]
    image = laid(values, "none")
    tensor = encode_tensor_map("uint32", whole.ctypes.data, (6,), (), (8,))
    given = [tensor, Buffer.of("image", image), 0]
    run_ptx(
        load_ptx(kernel("store", 1, 32)), "k", (1,), (128,), given, Options(), reachable=[Buffer.of("whole", whole)]
    )
    assert np.array_equal(whole, values)
    with pytest.raises(InterpreterError, match="element 6 of array .*, 0 bytes past its end"):
        moved("store", array, (8,), (0,), "uint32", image=image)


def test_subnormal_numbers_are_zeros_to_sums_of_the_type_that_says_so() -> None:
    small, least = np.float32(1e-40), np.finfo(np.float32).tiny
    for dtype, want in (("float32", small + small), ("float32_ftz", 0)):
        array = aligned(np.array([small, least, -small, 1], np.float32), 128)
        moved("add", array, (4,), (0,), dtype, image=laid(np.array([small, -small, 0, small], np.float32), "none"))
        assert array[0] == want and array[3] == 1
        assert (array[1] == least) == (array[2] == 0) == (dtype == "float32_ftz")


def test_tf32_are_rounded_to_even_when_they_are_loaded() -> None:
    bits = np.array([0x3F80_0FFF, 0x3F80_1000, 0x3F80_3000, 0x3F80_1001], np.uint32)
    array = aligned(np.concatenate([bits, bits | 1 << 31]).view(np.float32), 128)
    for dtype in ("tfloat32", "tfloat32_ftz"):
        found = moved("load", array, (8,), (0,), dtype)[START:][:32].view(np.uint32)
        want = np.array([0x3F80_0000, 0x3F80_0000, 0x3F80_4000, 0x3F80_2000], np.uint32)
        assert np.array_equal(found, np.concatenate([want, want | 1 << 31]))


_RANKS = st.integers(1, 5)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_boxes_anywhere(data: st.DataObject) -> None:
    rank = data.draw(_RANKS)
    inner = data.draw(st.sampled_from([16, 32, 48]))
    shape = (*(data.draw(st.integers(1, 5)) for _ in range(rank - 1)), inner)
    box = (data.draw(st.sampled_from([4, 8, 12])), *(data.draw(st.integers(1, 3)) for _ in range(rank - 1)))
    first, *rest = (data.draw(st.integers(-4, n + 2)) for n in shape[::-1])
    at = first // 4 * 4, *rest
    array = numbers(shape, "int32")
    assert np.array_equal(moved("load", array, box, at, "int32"), laid(plain(array, box, at, None, 0), "none"))


# --- tensor maps ---


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"dtype": "float8"}, "dtype is one of uint8"),
        ({"address": 4104}, "the array's address 0x1008 is no multiple of 16"),
        ({"shape": ()}, "1 to 5 dimensions, found 0"),
        ({"shape": (8,) * 6}, "1 to 5 dimensions, found 6"),
        ({"shape": (64, 0)}, "dimension 1 has 1 to 2\\*\\*32 elements, found 0"),
        ({"strides": ()}, "2 dimensions, so 1 stride, found 0"),
        ({"strides": (136,)}, "the stride of dimension 1 is a multiple of 16 bytes, found 136"),
        ({"strides": (1 << 40,)}, "0 to 2\\*\\*40 - 16 bytes"),
        ({"box": (64,)}, "box has an entry for each of 2 dimensions, found 1"),
        ({"dtype": "float64", "box": (256, 128)}, "the box has 262144 bytes, more than the 232448 of shared memory"),
        ({"box": (64, 257)}, "1 to 256 elements along dimension 1, found 257"),
        ({"box": (0, 1)}, "1 to 256 elements along dimension 0, found 0"),
        ({"box": (4, 8)}, "the box's rows have 8 bytes, no multiple of 16"),
        ({"box": (64, 8), "swizzle": "64B"}, "the box's rows have 128 bytes, more than the 64 that the swizzle mixes"),
        ({"element_strides": (1, 9)}, "the element stride of dimension 1 is 1 to 8, found 9"),
        ({"swizzle": "256B"}, "swizzle is one of none, 32B, 64B, 128B, found '256B'"),
        ({"interleave": "16B"}, r"an interleaved array \(16B\) has 3 to 5 dimensions, found 2"),
        ({"interleave": "8B"}, "interleave is one of"),
        ({"fill": "one"}, "fill is one of zero, nan"),
        ({"fill": "nan", "dtype": "uint16"}, "fill `nan` needs floats, found uint16"),
        ({"l2_promotion": "512B"}, "l2_promotion is one of"),
    ],
)
def test_what_the_driver_refuses(changed: dict[str, Any], what: str) -> None:
    good: dict[str, Any] = {"dtype": "float16", "address": 4096, "shape": (64, 32), "strides": (128,), "box": (64, 8)}
    assert len(encode_tensor_map(**good)) == 128
    with pytest.raises(LaunchError, match=what):
        encode_tensor_map(**{**good, **changed})


def test_a_tensor_map_says_what_it_was_made_of() -> None:
    record = encode_tensor_map("bfloat16", 1 << 40, (1 << 32, 7, 3), (128, 1024), (32, 7, 2), (1, 2, 8), swizzle="64B")
    tensor = decode_tensor_map(record)
    assert tensor is not None and tensor.shape == (1 << 32, 7, 3) and tensor.strides == (2, 128, 1024)
    assert (tensor.counts, tensor.itemsize, tensor.swizzle) == ((32, 4, 1), 2, "64B")
    assert decode_tensor_map(record[:50] + b"\x01" + record[51:]) is None
    assert decode_tensor_map(bytes(128)) is None


def test_bad_maps_and_boxes() -> None:
    array = numbers((4, 16), "float32")
    text = kernel("load", 2, 128)

    def told(tensor: bytes, change: tuple[str, str] = ("", ""), reachable: Sequence[Buffer] = ()) -> str:
        given = [tensor, Buffer.of("image", np.zeros(16384, np.uint8)), 0, 0]
        changed = text.replace(*change) if change[0] else text
        with pytest.raises(InterpreterError) as caught:
            run_ptx(load_ptx(changed), "k", (1,), (128,), given, reachable=reachable)
        return str(caught.value)

    good = encode_tensor_map("float32", array.ctypes.data, (16, 4), (64,), (8, 4))
    whole = [Buffer.of("array", array)]
    assert "no tensor map at" in told(bytes(128))
    assert "in no argument" in told(good)
    assert "which is in no argument" in told(good, reachable=[Buffer.of("array", array[:3])])
    assert "no multiple of 64" in told(
        good, ("cvta.param.u64 %m, %m;", "cvta.param.u64 %m, %m; add.u64 %m, %m, 32;"), whole
    )
    assert "is no multiple of 128" in told(good, (f"[%s+{START}]", f"[%s+{START + 16}]"), whole)
    assert "out of bounds: there are" in told(good, (f"[%s+{START}]", "[%s+16384]"), whole)
    assert "where no mbarrier is" in told(good, ("{%c0, %c1}], [%b]", "{%c0, %c1}], [%b-8]"), whole)
    flat = encode_tensor_map("float32", array.ctypes.data, (64,), (), (8,))
    assert "2 coordinates for a tensor map of 1 dimensions" in told(flat, reachable=whole)


def test_stores_of_boxes_that_overlap_race() -> None:
    array = numbers((8, 32), "float32")
    text = kernel("store", 2, 0)
    store = text[text.index("cp.async.bulk.tensor.2d.global") :].split(";")[0]
    twice = text.replace("cp.async.bulk.commit_group;", f"{store}; cp.async.bulk.commit_group;")
    tensor = encode_tensor_map("float32", array.ctypes.data, (32, 8), (128,), (8, 4))
    with pytest.raises(RaceError, match="without a wait for the write of a tensor copy"):
        run_ptx(load_ptx(twice), "k", (1,), (128,), [tensor, Buffer.of("image", np.zeros(16384, np.uint8)), 0, 0],
                reachable=[Buffer.of("array", array)])  # fmt: skip


def test_a_reduction_outside_of_the_array_changes_nothing() -> None:
    array = numbers((4, 32), "float32")
    before = array.copy()
    moved("add", array, (8, 2), (100, 0), "float32")
    assert np.array_equal(array, before)
