"""What `print` writes: one line an element, `pid (0, 0, 0) idx (3) prefix: value`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tilewright.lang import FloatType, IntType, Operation, ScalarType, bit_width, element_of, shape_of

from ..storage import Codes, to_array
from .formats import decode
from .scalars import signed
from .tiles import indices


def printed(operation: Operation, operands: Sequence[Codes], program: tuple[int, int, int]) -> Iterator[str]:
    """The lines that one program prints."""
    prefix = str(operation.attributes["prefix"]).strip().removesuffix(":")
    signs = operation.attributes["signed"]
    assert isinstance(signs, tuple)
    if not operands:
        yield f"pid {program} {prefix}\n"
    for number, (value, codes) in enumerate(zip(operation.operands, operands, strict=True)):
        label = prefix if len(operands) == 1 else f"{prefix} (operand {number})"
        is_signed = number >= len(signs) or bool(signs[number])
        for index, code in zip(indices(shape_of(value.type)), codes, strict=True):
            place = ", ".join(map(str, index))
            text = shown(code, element_of(value.type), bool(operation.attributes["hex"]), is_signed)
            yield f"pid {program} idx ({place}) {label}: {text}\n"


def shown(code: int, element: ScalarType, in_hex: bool, is_signed: bool) -> str:
    """One element: hexadecimal shows the bits; floats are written as NumPy does, as short as tells them apart."""
    if in_hex or not isinstance(element, IntType | FloatType):
        return f"0x{code:0{max(1, bit_width(element) // 4)}x}"
    if isinstance(element, IntType):
        return str(signed(code, element.width) if is_signed and element.width > 1 else code)
    if element.name == "f8e4m3b15":
        return str(np.float32(decode(code, element)))  # its storage is no float: shown as the f32 that it is
    return str(to_array([code], element, (1,))[0])
