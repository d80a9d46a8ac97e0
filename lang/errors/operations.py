"""Mistakes in what an operation is given: arguments, types, shapes, axes, literals. One class a mistake."""

from __future__ import annotations

from .base import CompilationError

# --- arguments ---


class BadArguments(CompilationError):
    """A tl function is called with too few, too many or unknown arguments."""

    message = "{function}: {problem}"
    expected = "{function}{signature}"


class BadArgumentKind(CompilationError):
    """An argument is of a kind that the function has no use for."""

    message = "{function}: `{argument}` is {found}"
    expected = "{expected}"


class NeedsConstexpr(CompilationError):
    """A runtime value stands where a compile-time one is needed."""

    message = "{function}: `{argument}` must be known at compile time, but it is {found}"
    expected = "{expected}"
    hint = "make it a `tl.constexpr` parameter, or annotate the local: `name: tl.constexpr = ...`"


class BadChoice(CompilationError):
    """A word argument is none of those that exist."""

    message = "{function}: {argument}={value!r} does not exist"
    expected = "one of {choices}"


# --- types ---


class UnknownTypeName(CompilationError):
    """No element type has this name."""

    message = "{name!r} names no type"
    expected = "a name such as int32, uint8, fp16, bf16, fp32 or fp8e5; in signatures i32, u8, fp16, *fp32 or *kfp32"


class BadPointee(CompilationError):
    """A pointer to what memory does not hold."""

    message = "there are no pointers to {found}"
    expected = "an integer or float type"
    hint = "load the address as int64 and cast it to a pointer type"


class BadOperands(CompilationError):
    """An operator does not exist for operands of these types."""

    message = "`{operator}` does not exist for {a} and {b}"
    expected = "{expected}"
    hint = "{hint}"


class BadOperand(CompilationError):
    """An operator of one operand, or a function, does not take this type."""

    message = "{function} does not take {found}"
    expected = "{expected}"
    hint = "{hint}"


class Fp8WithInteger(CompilationError):
    """An 8-bit float meets an integer tensor: no type is common to both."""

    message = "`{operator}` of {a} and {b}: no type is common to an 8-bit float and an integer tensor"
    hint = "cast one of them first, for example `x.to(tl.float32)`"


class MixedSignedness(CompilationError):
    """Division or remainder of a signed and an unsigned integer."""

    message = "`{operator}` of {a} and {b}: one is signed, the other unsigned (int1 counts as unsigned)"
    hint = "cast one of them first, for example `x.to(tl.int64)`"


class NegativeWithUnsigned(CompilationError):
    """A negative literal meets an unsigned tensor."""

    message = "`{operator}` of the negative number {value} and {found}"
    hint = "cast the tensor to a signed type first, for example `x.to(tl.int64)`"


class LiteralOutOfRange(CompilationError):
    """A literal does not fit the integer type that it must take."""

    message = "{value} does not fit {type}, which holds {least} to {greatest}"
    hint = "cast the tensor to a wider type first, for example `x.to(tl.int64)`"


class LiteralTooLarge(CompilationError):
    """An integer literal fits no integer type at all."""

    message = "{value} fits no integer type"
    expected = "an integer from -2**63 to 2**64 - 1"


class FractionForInteger(CompilationError):
    """A literal with a fraction fills an integer tile."""

    message = "{function}: {value} is no {type}"
    expected = "an integer"
    hint = "round it, or choose a float dtype"


class CannotCast(CompilationError):
    """There is no conversion between these types."""

    message = "cannot cast {source} to {target}"
    expected = "{expected}"


class BitcastWidths(CompilationError):
    """A bitcast between types of different widths."""

    message = "cannot bitcast {source} ({source_bits} bits) to {target} ({target_bits} bits)"
    expected = "types of one width"
    hint = "use `x.to(dtype)` to convert the value instead of its bits"


class RoundingNotAllowed(CompilationError):
    """A rounding mode for a cast that does not narrow a float."""

    message = "fp_downcast_rounding is given for a cast from {source} to {target}"
    expected = "a cast from a float type to a narrower one"


class MismatchedTypes(CompilationError):
    """Two values that must have one type have two."""

    message = "{function}: {a} and {b} differ in type"
    expected = "{expected}"


# --- shapes ---


class NotPowerOfTwo(CompilationError):
    """An extent of a tile is not a power of two."""

    message = "a tile of shape {shape}: extent {extent} of dimension {axis} is not a power of two"
    hint = "round up to {above} and mask what is beyond, or use `tilewright.next_power_of_2` on the host"


class NotPositive(CompilationError):
    """An extent of a tile is zero or negative."""

    message = "a tile of shape {shape}: extent {extent} of dimension {axis} is not positive"
    expected = "powers of two, from 1"


class TileTooLarge(CompilationError):
    """A tile has more elements than allowed."""

    message = "a tile of shape {shape} has {numel} elements"
    expected = "at most {limit}"
    hint = "work on smaller tiles in a loop; TILEWRIGHT_MAX_TILE_NUMEL raises the limit"


class IncompatibleShapes(CompilationError):
    """Shapes do not broadcast together."""

    message = "`{function}` of shapes {a} and {b}: dimension {axis} is {x} in one and {y} in the other"
    expected = "extents that are equal or 1 (missing dimensions are added on the left)"


class CannotBroadcast(CompilationError):
    """A tile does not stretch to the shape asked for."""

    message = "{function}: a tile of shape {shape} does not stretch to {target}"
    expected = "{expected}"
    hint = "add dimensions with `x[:, None]`, or change the shape with `tl.reshape`"


class BadNumel(CompilationError):
    """A reshape that would change the number of elements."""

    message = "{function}: {shape} has {have} elements, {target} has {count}"
    expected = "a shape of {have} elements"


class BadAxis(CompilationError):
    """An axis that the tile does not have."""

    message = "{function}: {owner} of rank {rank} has no axis {axis}"
    expected = "{expected}"


class DuplicateAxis(CompilationError):
    """An axis that is named twice."""

    message = "{function}: axis {axis} is named twice in {axes}"


class BadPermutation(CompilationError):
    """The order of a permute is no permutation of the dimensions."""

    message = "{function}: {order} does not permute the dimensions of a tile of shape {shape}"
    expected = "each of 0 to {last} once"


class BadGridAxis(CompilationError):
    """A grid has three axes."""

    message = "{function}: a grid has no axis {axis}"
    expected = "0, 1 or 2"


class BadRange(CompilationError):
    """The bounds of an arange."""

    message = "arange({start}, {end}): {problem}"
    expected = "start < end, both in int32, and a length that is a power of two"


class NotSplittable(CompilationError):
    """A split needs a last dimension of two."""

    message = "split: the last dimension of {found} is not 2"
    hint = "reshape to (..., 2) first"


class NotOneElement(CompilationError):
    """A value with many elements where one is needed."""

    message = "{function}: {found} has {numel} elements"
    expected = "one element"


class BadSubscript(CompilationError):
    """A tensor is indexed by something else than `:` and `None`."""

    message = "{owner} cannot be indexed by {found}"
    expected = "only `:` (keep a dimension) and `None` (add one)"
    hint = "{hint}"


class TooManySubscripts(CompilationError):
    """More `:` than dimensions."""

    message = "{count} `:` index a tile of rank {rank}"
    expected = "at most {rank} of them, and any number of `None`"


class HintCount(CompilationError):
    """A hint needs one number a dimension."""

    message = "{function}: the values {values} for {found}"
    expected = "one positive integer a dimension ({rank})"


# --- reductions and the matrix product ---


class AxisNeeded(CompilationError):
    """Indices are asked for, but along no axis."""

    message = "{function}: indices are along one axis, but none is named"
    hint = "name the axis, or flatten first: `tl.{function}(x.ravel(), 0, return_indices=True)`"


class ReduceNeedsTile(CompilationError):
    """A scalar is reduced."""

    message = "{function}: {found} has nothing to reduce"
    expected = "a tile"


class RegionResult(CompilationError):
    """A combining function returns other types than it combines."""

    message = "{function} returns {found}"
    expected = "{expected}, as it combines"


class DotRank(CompilationError):
    """An operand of dot is neither a matrix nor a batch of them."""

    message = "dot: the operands are {a} and {b}"
    expected = "two tiles of rank 2, or two of rank 3 (a batch first)"


class DotShapes(CompilationError):
    """The operands of dot do not fit together."""

    message = "dot: shapes {a} and {b} do not fit together"
    expected = "(M, K) and (K, N), and the same batch before them if any"
    hint = "is one of them to be transposed? `tl.trans(b)`"


class DotTypes(CompilationError):
    """The operands of dot have types that do not multiply."""

    message = "dot: operands of {a} and {b}"
    expected = "both float8, or both the same one of int8, float16, bfloat16, float32, float64"
    hint = "{hint}"


class DotResult(CompilationError):
    """The result type or accumulator of dot does not fit its operands."""

    message = "dot: {what} is {found} for operands of {operands}"
    expected = "{expected}"


class DotPrecision(CompilationError):
    """Two arguments of dot that exclude each other."""

    message = "dot: `allow_tf32` and `input_precision` are both given"
    hint = "`allow_tf32` is the older spelling; keep `input_precision`"


class DotImprecise(CompilationError):
    """max_num_imprecise_acc does not fit."""

    message = "dot: max_num_imprecise_acc={value} {problem}"
    expected = "at most K = {k}, with float8 operands"


# --- at compile time ---


class StaticAssertionFailed(CompilationError):
    """A static_assert does not hold."""

    message = "static_assert failed{detail}"


class BadPrefix(CompilationError):
    """The prefix of a device_print."""

    message = "device_print: the prefix is {found}"
    expected = "a string of ASCII characters, known at compile time"
    hint = 'name what is printed first: device_print("x", x)'
