"""Tensor maps as the CUDA driver encodes them."""

from __future__ import annotations

import ctypes
from typing import Any

from .._lazy import checked_tensor_map
from ..errors import ArgumentError
from ..tensor_map import Im2colMap, TensorMap
from .cuda_driver import Driver

#: Bytes of a tensor map.
SIZE = 128
#: Each field that is a name: the driver's enumeration, and what comes before the name there.
ENUMERATIONS: dict[str, tuple[str, str]] = {
    "dtype": ("CUtensorMapDataType", "CU_TENSOR_MAP_DATA_TYPE_"),
    "interleave": ("CUtensorMapInterleave", "CU_TENSOR_MAP_INTERLEAVE_"),
    "swizzle": ("CUtensorMapSwizzle", "CU_TENSOR_MAP_SWIZZLE_"),
    "l2_promotion": ("CUtensorMapL2promotion", "CU_TENSOR_MAP_L2_PROMOTION_"),
    "fill": ("CUtensorMapFloatOOBfill", "CU_TENSOR_MAP_FLOAT_OOB_FILL_"),
}
#: Names that the driver has others for.
RENAMED: dict[tuple[str, str], str] = {
    ("fill", "zero"): "none",
    ("fill", "nan"): "nan_request_zero_fma",
    **{("l2_promotion", size): f"L2_{size}" for size in ("64B", "128B", "256B")},
}


def tensor_map(driver: Driver, tensor: TensorMap) -> bytes:
    """The driver's 128 bytes. Raises ArgumentError for what breaks its rules, CudaError for what it refuses besides."""
    return driven_tensor_map(driver, checked_tensor_map(tensor, TensorMap))


def im2col_map(driver: Driver, tensor: Im2colMap) -> bytes:
    """The same for columns of pixels."""
    return driven_im2col_map(driver, checked_tensor_map(tensor, Im2colMap))


def driven_tensor_map(driver: Driver, tensor: TensorMap) -> bytes:
    """What the driver itself makes of a tensor map. Raises ArgumentError for a name that it lacks, and CudaError."""
    narrow, (array, rest) = driver.api.cuuint32_t, _common(driver, tensor)
    box = [narrow(n) for n in tensor.box]
    return _octets(driver.call("cuTensorMapEncodeTiled", *array, box, *rest))


def driven_im2col_map(driver: Driver, tensor: Im2colMap) -> bytes:
    """The same for columns of pixels."""
    array, rest = _common(driver, tensor)
    corners = list(tensor.lower_corner), list(tensor.upper_corner)
    column = tensor.channels_per_pixel, tensor.pixels_per_column
    return _octets(driver.call("cuTensorMapEncodeIm2col", *array, *corners, *column, *rest))


def _common(driver: Driver, tensor: TensorMap | Im2colMap) -> tuple[list[Any], list[Any]]:
    """What both of the driver's functions take first and last."""
    wide, narrow = driver.api.cuuint64_t, driver.api.cuuint32_t
    dtype, *names = (enumerator(driver.api, field, getattr(tensor, field)) for field in ENUMERATIONS)
    strides = [wide(n) for n in tensor.strides or (16,)]
    array = [dtype, len(tensor.shape), tensor.address, [wide(n) for n in tensor.shape], strides]
    return array, [[narrow(n) for n in tensor.steps], *names]


def _octets(found: Any) -> bytes:
    return ctypes.string_at(found.getPtr(), SIZE)


def enumerator(api: Any, field: str, name: str) -> Any:
    """The driver's value for a name in a field. Raises ArgumentError."""
    enumeration, prefix = ENUMERATIONS[field]
    found = getattr(getattr(api, enumeration), prefix + RENAMED.get((field, name), name).upper(), None)
    if found is None:
        raise ArgumentError(f"tensor map: the driver knows no {field} {name!r}")
    return found
