"""Tensor maps as the CUDA driver encodes them."""

from __future__ import annotations

import ctypes
from typing import Any

from .._lazy import checked_tensor_map
from ..errors import ArgumentError
from ..tensor_map import TensorMap
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
    return driven_tensor_map(driver, checked_tensor_map(tensor))


def driven_tensor_map(driver: Driver, tensor: TensorMap) -> bytes:
    """What the driver itself makes of a tensor map. Raises ArgumentError for a name that it lacks, and CudaError."""
    wide, narrow = driver.api.cuuint64_t, driver.api.cuuint32_t
    dtype, *rest = (enumerator(driver.api, field, getattr(tensor, field)) for field in ENUMERATIONS)
    found = driver.call(
        "cuTensorMapEncodeTiled", dtype, len(tensor.shape), tensor.address, [wide(n) for n in tensor.shape],
        [wide(n) for n in tensor.strides or (16,)], [narrow(n) for n in tensor.box],
        [narrow(n) for n in tensor.steps], *rest,
    )  # fmt: skip
    return ctypes.string_at(found.getPtr(), SIZE)


def enumerator(api: Any, field: str, name: str) -> Any:
    """The driver's value for a name in a field. Raises ArgumentError."""
    enumeration, prefix = ENUMERATIONS[field]
    found = getattr(getattr(api, enumeration), prefix + RENAMED.get((field, name), name).upper(), None)
    if found is None:
        raise ArgumentError(f"tensor map: the driver knows no {field} {name!r}")
    return found
