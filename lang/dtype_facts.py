"""What is known of each element type, by its short name. `dtypes` makes types of these rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from . import types as ir


class Kind(IntEnum):
    """What promotion ranks first: a weak scalar yields to a tensor of its own kind or a higher one."""

    BOOLEAN = 0
    INTEGRAL = 1
    FLOATING = 2


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one element type. `public` is its name in `tilewright.language`; `signed` is None for floats."""

    public: str
    ir_type: ir.IntType | ir.FloatType | None
    signed: bool | None = None
    exponent_bias: int = 0


FACTS: dict[str, Facts] = {
    "void": Facts("void", None),
    "int1": Facts("int1", ir.I1, signed=False),
    "int8": Facts("int8", ir.I8, signed=True),
    "int16": Facts("int16", ir.I16, signed=True),
    "int32": Facts("int32", ir.I32, signed=True),
    "int64": Facts("int64", ir.I64, signed=True),
    "uint8": Facts("uint8", ir.I8, signed=False),
    "uint16": Facts("uint16", ir.I16, signed=False),
    "uint32": Facts("uint32", ir.I32, signed=False),
    "uint64": Facts("uint64", ir.I64, signed=False),
    "fp8e5": Facts("float8e5", ir.F8E5M2, exponent_bias=15),
    "fp8e5b16": Facts("float8e5b16", ir.F8E5M2FNUZ, exponent_bias=16),
    "fp8e4nv": Facts("float8e4nv", ir.F8E4M3FN, exponent_bias=7),
    "fp8e4b8": Facts("float8e4b8", ir.F8E4M3FNUZ, exponent_bias=8),
    "fp8e4b15": Facts("float8e4b15", ir.F8E4M3B15, exponent_bias=15),
    "fp16": Facts("float16", ir.F16, exponent_bias=15),
    "bf16": Facts("bfloat16", ir.BF16, exponent_bias=127),
    "fp32": Facts("float32", ir.F32, exponent_bias=127),
    "fp64": Facts("float64", ir.F64, exponent_bias=1023),
}
