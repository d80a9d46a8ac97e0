"""What a tensor map may say: the driver's rules (`cuTensorMapEncodeTiled`), told with what to do about a breach.

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
INTERLEAVES = ("none", "16B", "32B")

MOST_BYTES = 227 << 10
"""Bytes of a box: what shared memory a block can have. An H200's driver takes 128 KB and refuses 256 KB."""

_SHOWN = 60
"""Characters of a wrong value that a message shows."""
_NAMED: dict[str, Iterable[str]] = {
    "dtype": TYPES_OF, "interleave": INTERLEAVES, "swizzle": SWIZZLES, "l2_promotion": PROMOTIONS, "fill": FILLS,
}  # fmt: skip
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
    last means ones. Of interleaved layouts nothing but the kinds of the fields is checked.
    """
    dtype, interleave, swizzle, promotion, fill = (_name(field, given[field]) for field in _NAMED)
    shape, strides, box = (_integers(field, given[field]) for field in ("shape", "strides", "box"))
    steps = () if given["element_strides"] is None else _integers("element_strides", given["element_strides"])
    fields = Fields(
        dtype, _address(given["address"]), shape, strides, box, steps or (1,) * len(box), interleave, swizzle,
        promotion, fill,
    )  # fmt: skip
    _check_lengths(fields)
    if fields.interleave == "none":
        _check_array(fields)
        _check_box(fields)
        _check_rows(fields)
    return fields


# --- kinds ---


def _name(field: str, value: Any) -> str:
    known = list(_NAMED[field])
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


def _integers(field: str, value: Any) -> tuple[int, ...]:
    listed = isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping, AbstractSet))
    if not listed or getattr(cast("Any", value), "ndim", 1) != 1:
        hint = f"write ({value},)" if _is_integer(value) else ""
        refuse(f"{field} is a tuple of integers, found {_shown(value)}", hint)
    return tuple(_integer(f"{field}[{axis}]", n) for axis, n in enumerate(cast("Collection[Any]", value)))


def _integer(place: str, value: Any) -> int:
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


def _address(value: Any) -> int:
    if not _is_integer(value):
        hint = "the address is a number: `x.ctypes.data` of a NumPy array, `x.data_ptr()` of a tensor"
        refuse(f"address is an integer, found a {type(value).__name__}", hint)
    return int(value)


# --- limits ---


def _check_lengths(m: Fields) -> None:
    rank = len(m.shape)
    if not 1 <= rank <= 5:
        hint = "a single element has the shape (1,)" if not rank else "merge dimensions, or make a map of each part"
        refuse(f"an array has 1 to 5 dimensions, found {rank}", hint)
    if len(m.strides) != rank - 1:
        most = "the first, innermost dimension has none: its elements lie side by side; the others' are in bytes"
        refuse(f"{_some(rank, 'dimension')}, so {_some(rank - 1, 'stride')}, found {len(m.strides)}", most)
    for field in ("box", "element_strides"):
        if (found := len(getattr(m, field))) != rank:
            refuse(f"{field} has an entry for each of {_some(rank, 'dimension')}, found {found}")


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _check_array(m: Fields) -> None:
    if not 0 <= m.address < 1 << 64:
        refuse(f"address is a number of 64 bits, found {m.address}")
    if m.address % 16:
        refuse(f"the array's address {m.address:#x} is no multiple of 16", "start at an element that lies so")
    for axis, extent in enumerate(m.shape):
        if not 1 <= extent <= 1 << 32:
            refuse(f"dimension {axis} has 1 to 2**32 elements, found {extent}")
    for axis, stride in enumerate(m.strides, 1):
        if not 0 <= stride < 1 << 40:
            hint = "a tensor map goes forwards only: flip the array in the kernel" if stride < 0 else ""
            refuse(f"the stride of dimension {axis} is 0 to 2**40 - 16 bytes, found {stride}", hint)
        if stride % 16:
            hint = "strides are in bytes; pad the array's rows"
            refuse(f"the stride of dimension {axis} is a multiple of 16 bytes, found {stride}", hint)


def _check_box(m: Fields) -> None:
    for axis, (extent, step) in enumerate(zip(m.box, m.element_strides, strict=True)):
        if not 1 <= extent <= 256:
            refuse(f"the box has 1 to 256 elements along dimension {axis}, found {extent}", "copy several boxes")
        if not 1 <= step <= 8:
            refuse(f"the element stride of dimension {axis} is 1 to 8, found {step}", "1 takes every element")
    nbytes = prod(m.box) * itemsize(m.dtype)
    if nbytes > MOST_BYTES:
        refuse(f"the box has {nbytes} bytes, more than the {MOST_BYTES} of shared memory", "copy several boxes")


def _check_rows(m: Fields) -> None:
    inner, span = m.box[0] * itemsize(m.dtype), SWIZZLES[m.swizzle]
    if inner % 16:
        refuse(f"the box's rows have {inner} bytes, no multiple of 16", f"take {_whole(m)} elements of {m.dtype}")
    if span and inner > span:
        most = span // itemsize(m.dtype)
        hint = f"take {most} elements of {m.dtype} a row, or another swizzle"
        refuse(f"the box's rows have {inner} bytes, more than the {span} that the swizzle mixes", hint)
    if m.fill == "nan" and "float" not in m.dtype:
        refuse(f"fill `nan` needs floats, found {m.dtype}", "integers are filled with `zero`")


def _whole(m: Fields) -> int:
    """The row nearest to the box's, in elements, that has a multiple of 16 bytes."""
    size = itemsize(m.dtype)
    return -(-m.box[0] * size // 16) * 16 // size


def refuse(what: str, hint: str = "") -> NoReturn:
    """Raise the LaunchError of a tensor map."""
    raise LaunchError(f"tensor map: {what}" + (f"\nhint: {hint}" if hint else ""))
