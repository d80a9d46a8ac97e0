"""The language: types, IR, op tables, layouts as data, typing rules, the `tl` operations and the Python frontend."""

import typing

from . import _lazy, language, ops
from ._lazy import close_names
from .constants import constexpr, plain, unwrap
from .context import Options as FrontendOptions
from .contracts import EXACT, AbsRel, Contract, Contracts, Exact, Mma, Sum, Tree, Ulp, Unordered
from .dtypes import (
    dtype,
    float16,
    float32,
    float64,
    int1,
    int8,
    int32,
    int64,
    parse_type,
    pointer_type,
    type_text,
    uint8,
    uint64,
)
from .errors.base import CompilationError, CompilerBug, Span, TilewrightError, shown
from .errors.operations import UnknownTypeName
from .frontend import ConstexprFunction, DeviceFunction, Parameter, constexpr_function, device_function
from .ir import UNKNOWN_LOCATION, Block, Builder, Function, Location, Module, Operation, Value
from .knobs import KnobError, Knobs, knobs
from .opdef import OPS, Attribute, Effect, OpDef, OpTypeError, Trait
from .types import (
    BF16,
    F8E4M3B15,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
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

if typing.TYPE_CHECKING:  # imported when first asked for
    from . import tile_layouts
    from .equality import fingerprint, structurally_equal
    from .frontend import Dependency, dependencies, generate, reads
    from .layout import LinearLayout
    from .layout_dims import LayoutError
    from .layout_text import parse_layout
    from .parser import ParseError, parse_module
    from .printer import print_function, print_module, print_operation
    from .verifier import VerifyError, verify

__all__ = [
    "AbsRel",
    "Attribute",
    "BF16",
    "Block",
    "Builder",
    "CompilationError",
    "CompilerBug",
    "ConstexprFunction",
    "Contract",
    "Contracts",
    "Dependency",
    "DeviceFunction",
    "EXACT",
    "Effect",
    "Exact",
    "F16",
    "F32",
    "F64",
    "F8E4M3B15",
    "F8E4M3FN",
    "F8E4M3FNUZ",
    "F8E5M2",
    "F8E5M2FNUZ",
    "FLOATS",
    "FP8",
    "FloatType",
    "FrontendOptions",
    "Function",
    "I1",
    "I16",
    "I32",
    "I64",
    "I8",
    "INTS",
    "IntType",
    "KnobError",
    "Knobs",
    "LayoutError",
    "LinearLayout",
    "Location",
    "Mma",
    "Module",
    "NUMBERS",
    "OPS",
    "OpDef",
    "OpTypeError",
    "Operation",
    "POINTERS",
    "Parameter",
    "ParseError",
    "PointerType",
    "ScalarType",
    "Span",
    "Sum",
    "TileType",
    "TilewrightError",
    "Trait",
    "Tree",
    "Type",
    "UNKNOWN_LOCATION",
    "Ulp",
    "UnknownTypeName",
    "Unordered",
    "Value",
    "VerifyError",
    "bit_width",
    "byte_width",
    "close_names",
    "constexpr",
    "constexpr_function",
    "dependencies",
    "device_function",
    "dtype",
    "element_of",
    "fingerprint",
    "float16",
    "float32",
    "float64",
    "generate",
    "int1",
    "int32",
    "int64",
    "int8",
    "knobs",
    "language",
    "ops",
    "parse_layout",
    "parse_module",
    "parse_type",
    "plain",
    "pointer_type",
    "print_function",
    "print_module",
    "print_operation",
    "reads",
    "shape_of",
    "shown",
    "structurally_equal",
    "tile_layouts",
    "type_text",
    "uint64",
    "uint8",
    "unwrap",
    "verify",
    "with_element",
    "with_shape",
]


def __getattr__(name: str) -> typing.Any:
    return _lazy.late(__name__, __all__, name)
