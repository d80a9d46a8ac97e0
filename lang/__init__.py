"""The language: types, IR, op tables, layouts as data, typing rules, the `tl` operations and the Python frontend."""

from . import ops as ops
from .contracts import EXACT, AbsRel, Contract, Contracts, Exact, Mma, Sum, Tree, Ulp, Unordered
from .ir import UNKNOWN_LOCATION, Block, Builder, Function, Location, Module, Operation, Value
from .opdef import OPS, Attribute, Effect, OpDef, OpTypeError, Trait
from .types import (
    BF16,
    F16,
    F32,
    F64,
    FLOATS,
    FP8,
    I1,
    I8,
    I16,
    I32,
    I64,
    INTS,
    NUMBERS,
    POINTERS,
    FloatType,
    IntType,
    PointerType,
    ScalarType,
    TileType,
    Type,
    bit_width,
    byte_width,
    element_of,
    shape_of,
    with_element,
    with_shape,
)
