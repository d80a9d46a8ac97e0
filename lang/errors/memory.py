"""Mistakes in memory accesses: pointers, masks, fills, block pointers, atomics. One class a mistake."""

from __future__ import annotations

from .base import CompilationError


class NotAPointer(CompilationError):
    """A memory access through something that is no pointer."""

    message = "{function}: {found} is no pointer"
    hint = "add offsets to a pointer argument: `ptr + offsets`"


class BlockForScalarPointer(CompilationError):
    """A mask, fill or value of many elements goes with a scalar pointer."""

    message = "{function}: `{argument}` is {found}, but the pointer is a scalar"
    hint = "make a tile of pointers: `ptr + tl.arange(0, BLOCK)`"


class MaskNotBoolean(CompilationError):
    """A mask that is no boolean."""

    message = "{function}: the mask is {found}"
    expected = "int1, as comparisons give it"
    hint = "compare it: `mask != 0`"


class FillWithoutMask(CompilationError):
    """`other` where nothing is masked."""

    message = "load: `other` is given without `mask`"
    hint = "`other` fills what the mask leaves out; drop it, or give the mask"


class StoreThroughConst(CompilationError):
    """A write through a pointer that may only be read through."""

    message = "{function}: {found} may be read through only"
    hint = "drop `tl.const` from the parameter's annotation"


class PointerNotBroadcast(CompilationError):
    """A store whose value or mask is larger than the tile of pointers."""

    message = (
        "{function}: {what} of shape {shape} does not fit pointers of shape {pointers}; pointers are never stretched"
    )
    hint = "make the pointers {shape}: several elements for one address would be ambiguous"


class AtomicType(CompilationError):
    """An atomic that does not exist for this element type."""

    message = "{function} does not exist for {found}"
    expected = "{expected}"


class BlockPointerArgument(CompilationError):
    """An argument of make_block_ptr or advance does not fit."""

    message = "{function}: {problem}"
    expected = "{expected}"


class NotForBlockPointer(CompilationError):
    """`mask` or `other` with a block pointer."""

    message = "{function}: `{argument}` goes with tiles of pointers, not with a block pointer"
    hint = "name the dimensions to check in `boundary_check` and the fill in `padding_option`"


class OnlyForBlockPointer(CompilationError):
    """`boundary_check` or `padding_option` without a block pointer."""

    message = "{function}: `{argument}` goes with block pointers, not with {found}"
    hint = "use `mask` and `other`"


class NanForIntegers(CompilationError):
    """Padding with NaN where there is none."""

    message = 'load: padding_option="nan" for elements of {found}'
    expected = "a float element type"
