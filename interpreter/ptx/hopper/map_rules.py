"""What tensor maps may say: the driver's rules (`cuTensorMapEncodeTiled`), told with what to do about a breach.

What an H200's driver takes and refuses was compared with these rules by `tools.probes.tensor_copies`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import prod
from numbers import Integral
from typing import Any, NamedTuple, NoReturn, cast

from tilewright.lang import close_names

from ...errors import LaunchError

TYPES_OF: dict[str, str] = {
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "int32": "s32", "uint64": "u64", "int64": "s64", "float16": "f16",
    "float32": "f32", "float64": "f64", "bfloat16": "bf16", "float32_ftz": "f32", "tfloat32": "tf32",
    "tfloat32_ftz": "tf32",
}  # fmt: skip
"""The element types, by the names that the driver gives them, and PTX's for them."""

SWIZZLES: dict[str, int] = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
"""Swizzles, and how many bytes of a row they mix."""
FILLS = ("zero", "nan")
PROMOTIONS = ("none", "64B", "128B", "256B")
INTERLEAVES: dict[str, int] = {"none": 0, "16B": 16, "32B": 32}
"""Interleaved layouts, and how many bytes a pixel has: a slice of its channels."""

MOST_BYTES = 227 << 10
"""Bytes of a box: what shared memory a block can have. An H200's driver takes 128 KB and refuses 256 KB."""

_SHOWN = 60
"""Characters of a wrong value that a message shows."""
NAMED: dict[str, Iterable[str]] = {
    "dtype": TYPES_OF, "interleave": INTERLEAVES, "swizzle": SWIZZLES, "l2_promotion": PROMOTIONS, "fill": FILLS,
}  # fmt: skip
"""The fields that are names, and which."""
_SPELLED: dict[str, str] = {
    **dict.fromkeys(("fp16", "f16", "half"), "float16"), **dict.fromkeys(("bf16", "bfloat"), "bfloat16"),
    **dict.fromkeys(("fp32", "f32", "float", "single"), "float32"), "tf32": "tfloat32",
    **dict.fromkeys(("fp64", "f64", "double"), "float64"), "i32": "int32", "s32": "int32", "i64": "int64",
    "s64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    **dict.fromkeys(("0", "zeros"), "zero"), "": "none",
}  # fmt: skip
"""Other ways to write names."""
_BITS: dict[str, str] = {
    **dict.fromkeys(("int8", "i8", "s8", "bool", "i1"), "uint8"), **dict.fromkeys(("int16", "i16", "s16"), "uint16"),
    **dict.fromkeys(("complex64", "f32x2"), "uint64"),
}  # fmt: skip
"""Types that the driver lacks, and the one whose copies move their bits; 8-bit floats have many names."""


class Fields(NamedTuple):
    """What a tensor map says, each number a Python integer: see `TensorMap`."""

    dtype: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: str
    swizzle: str
    l2_promotion: str
    fill: str


def itemsize(dtype: str) -> int:
    """Bytes of an element."""
    name = TYPES_OF[dtype]
    return 4 if name == "tf32" else int(name.lstrip("busf")) // 8


def check_tensor_map(given: Mapping[str, Any]) -> Fields:
    """The fields of a tensor map by name, if the driver takes them. Raises LaunchError, with a hint.

    Integers may be NumPy's, and `shape`, `strides`, `box` and `element_strides` any sequences; None or nothing for the
    last means ones.
    """
    dtype, interleave, swizzle, promotion, fill = (name_in(field, given[field]) for field in NAMED)
    shape, strides, box = (integers(field, given[field]) for field in ("shape", "strides", "box"))
    steps = steps_in(given) or (1,) * len(box)
    address = address_in(given["address"])
    fields = Fields(dtype, address, shape, strides, box, steps, interleave, swizzle, promotion, fill)
    check_lengths(fields, {"box": len(shape)})
    check_array(fields)
    _check_box(fields)
    _check_rows(fields)
    check_names(fields)
    return fields


# --- kinds ---


def name_in(field: str, value: Any) -> str:
    """A field that is one of some names. Raises LaunchError."""
    known = list(NAMED[field])
    if isinstance(value, str) and value in known:
        return value
    text = value if isinstance(value, str) else str(getattr(value, "__name__", value)).rpartition(".")[2]
    refuse(f"{field} is one of {', '.join(known)}, found {_shown(value)}", _meant(text.lower(), known))


def _meant(text: str, known: Sequence[str]) -> str:
    """A hint: the name that somebody who wrote `text` may have meant."""
    if text in _BITS or "8e" in text or text.startswith("float8"):
        same = _BITS.get(text, "uint8")
        return f"the driver has no {text}; `{same}` moves the same bits" if same in known else ""
    folded = {name.lower(): name for name in known}
    close = [_SPELLED.get(text, ""), text, f"{text}b", *close_names(text, list(folded))]
    chosen = next((folded[word] for word in close if word in folded), "")
    return f"did you mean `{chosen}`?" if chosen else ""


def integers(field: str, value: Any) -> tuple[int, ...]:
    """A field of several integers. Raises LaunchError."""
    listed = isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping, AbstractSet))
    if not listed or getattr(cast("Any", value), "ndim", 1) != 1:
        hint = f"write ({value},)" if _is_integer(value) else ""
        refuse(f"{field} is a tuple of integers, found {_shown(value)}", hint)
    return tuple(integer(f"{field}[{axis}]", n) for axis, n in enumerate(cast("Collection[Any]", value)))


def steps_in(given: Mapping[str, Any]) -> tuple[int, ...]:
    """The element strides, empty if they are not given."""
    value = given["element_strides"]
    return () if value is None else integers("element_strides", value)


def integer(place: str, value: Any) -> int:
    """A field that is an integer. Raises LaunchError."""
    if _is_integer(value):
        return int(value)
    whole = isinstance(value, float) and value.is_integer()
    refuse(f"{place} is an integer, found {_shown(value)}", f"write {int(value)}" if whole else "")


def _shown(value: Any) -> str:
    """A value and its type, on one line of bearable length."""
    text = " ".join(repr(value).split())
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return shown if isinstance(value, str) else f"{shown} ({type(value).__name__})"


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def address_in(value: Any) -> int:
    """The address. Raises LaunchError."""
    if not _is_integer(value):
        hint = "the address is a number: `x.ctypes.data` of a NumPy array, `x.data_ptr()` of a tensor"
        refuse(f"address is an integer, found a {type(value).__name__}", hint)
    return int(value)


# --- limits ---


IMAGES = "channels, 1 to 3 dimensions of pixels, images: write 1 for what there is one of"
"""What the dimensions of an array of pixels are."""
SLICES = "1 to 3 dimensions of pixels, slices of channels, images: write 1 for what there is one of"
"""What those of an interleaved array are."""


def check_lengths(m: Any, fields: Mapping[str, int]) -> None:
    """Refuse an array of no or too many dimensions, and fields of other than so many numbers."""
    rank = len(m.shape)
    if not 1 <= rank <= 5:
        hint = "merge dimensions, or make a map of each part" if rank else "a single element has the shape (1,)"
        refuse(f"an array has 1 to 5 dimensions, found {rank}", hint)
    if len(m.strides) != rank - 1:
        most = "the first, innermost dimension has none: its elements lie side by side; the others' are in bytes"
        refuse(f"{_some(rank, 'dimension')}, so {_some(rank - 1, 'stride')}, found {len(m.strides)}", most)
    for field, length in {**fields, "element_strides": rank}.items():
        if (found := len(getattr(m, field))) != length:
            of = "" if length == rank else " of pixels"
            refuse(f"{field} has an entry for each of {_some(length, 'dimension')}{of}, found {found}")
    if m.interleave != "none" and rank < 3:
        refuse(f"an interleaved array ({m.interleave}) has 3 to 5 dimensions, found {rank}", SLICES)


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def check_array(m: Any) -> None:
    """Refuse an array that cannot lie so in memory."""
    unit = INTERLEAVES[m.interleave] or 16
    if not 0 <= m.address < 1 << 64:
        refuse(f"address is a number of 64 bits, found {m.address}")
    if m.address % unit:
        refuse(f"the array's address {m.address:#x} is no multiple of {unit}", "start at an element that lies so")
    for axis, extent in enumerate(m.shape):
        if not 1 <= extent <= 1 << 32:
            refuse(f"dimension {axis} has 1 to 2**32 elements, found {extent}")
    for axis, stride in enumerate(m.strides, 1):
        if not 0 <= stride < 1 << 40:
            hint = "a tensor map goes forwards only: flip the array in the kernel" if stride < 0 else ""
            refuse(f"the stride of dimension {axis} is 0 to 2**40 - {unit} bytes, found {stride}", hint)
        if stride % unit:
            hint = "strides are in bytes; pad the array's rows"
            refuse(f"the stride of dimension {axis} is a multiple of {unit} bytes, found {stride}", hint)
    for axis, step in enumerate(m.element_strides):
        if not 1 <= step <= 8:
            refuse(f"the element stride of dimension {axis} is 1 to 8, found {step}", "1 takes every element")


def _check_box(m: Fields) -> None:
    for axis, extent in enumerate(m.box):
        if not 1 <= extent <= 256:
            refuse(f"the box has 1 to 256 elements along dimension {axis}, found {extent}", "copy several boxes")
    nbytes = prod(m.box) * itemsize(m.dtype)
    if nbytes > MOST_BYTES:
        refuse(f"the box has {nbytes} bytes, more than the {MOST_BYTES} of shared memory", "copy several boxes")


def _check_rows(m: Fields) -> None:
    check_row(m, "the box's rows have", m.box[0])


def check_row(m: Any, what: str, count: int) -> None:
    """Refuse so many elements along the innermost dimension, `what` saying whose they are."""
    size, span = itemsize(m.dtype), 0 if m.interleave != "none" else SWIZZLES[m.swizzle]
    inner = count * size
    if inner % 16:
        whole = min(-(-inner // 16) * 16, span or inner + 16)
        refuse(f"{what} {inner} bytes, no multiple of 16", f"take {whole // size} elements of {m.dtype}")
    if span and inner > span:
        hint = f"take {span // size} elements of {m.dtype} a row, or another swizzle"
        refuse(f"{what} {inner} bytes, more than the {span} that the swizzle mixes", hint)


def check_names(m: Any) -> None:
    """Refuse names that do not go together."""
    if m.fill == "nan" and "float" not in m.dtype:
        refuse(f"fill `nan` needs floats, found {m.dtype}", "integers are filled with `zero`")


def refuse(what: str, hint: str = "") -> NoReturn:
    """Raise the LaunchError of a tensor map."""
    raise LaunchError(f"tensor map: {what}", hint=hint)
