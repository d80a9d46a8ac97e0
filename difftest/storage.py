"""Between arrays as executors hold them and *codes*: the bits of each element as an unsigned Python integer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.lang import (
    BF16,
    F8E4M3B15,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    PointerType,
    ScalarType,
    bit_width,
)

Array = NDArray[Any]
Codes = tuple[int, ...]

_DTYPES: dict[ScalarType, np.dtype[Any]] = {
    I1: np.dtype(np.bool_),
    I8: np.dtype(np.int8),
    I16: np.dtype(np.int16),
    I32: np.dtype(np.int32),
    I64: np.dtype(np.int64),
    F16: np.dtype(np.float16),
    BF16: np.dtype(ml_dtypes.bfloat16),
    F32: np.dtype(np.float32),
    F64: np.dtype(np.float64),
    F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    F8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    F8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    F8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    F8E4M3B15: np.dtype(np.uint8),
}


def dtype_of(element: ScalarType) -> np.dtype[Any]:
    """The dtype of arrays that hold values of an element type; addresses are int64."""
    return np.dtype(np.int64) if isinstance(element, PointerType) else _DTYPES[element]


def carrier_of(element: ScalarType) -> np.dtype[Any]:
    """The unsigned dtype of codes of an element type; one byte for an i1."""
    return np.dtype(f"u{max(1, bit_width(element) // 8)}")


def to_array(codes: Sequence[int], element: ScalarType, shape: tuple[int, ...]) -> Array:
    """Storage with these codes, in row-major order."""
    bits = np.array(list(codes), carrier_of(element))
    return bits.view(dtype_of(element)).reshape(shape)


def to_codes(array: Array, element: ScalarType) -> Codes:
    """The codes of storage, in row-major order. Raises TypeError for storage of another dtype."""
    if array.dtype != dtype_of(element):
        raise TypeError(f"{element} is stored as {dtype_of(element)}, not {array.dtype}")
    flat = np.ascontiguousarray(array).reshape(-1)
    return tuple(flat.view(carrier_of(element)).tolist())
