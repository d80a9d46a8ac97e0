"""Prints and asserts, at compile time and on the device."""

from __future__ import annotations

from typing import IO, Any

from .. import semantic
from ..constants import unwrap
from ..context import current, current_options
from ..errors.base import shown
from ..errors.operations import BadArgumentKind, BadPrefix, NeedsConstexpr, StaticAssertionFailed
from ..ops.debug import ASSERT, PRINT
from ..values import describe, tensor
from .arguments import flag, operand
from .builtin import builtin


@builtin
def static_print(
    *values: Any, sep: str = " ", end: str = "\n", file: IO[str] | None = None, flush: bool = False
) -> None:
    """Print while the kernel is compiled: compile-time values as Python does, tensors by their type and shape."""
    print(*map(shown, values), sep=sep, end=end, file=file, flush=flush)


@builtin
def static_assert(cond: Any, msg: Any = "") -> None:
    """Stop the compilation with the message unless a condition known at compile time holds.

    Raises StaticAssertionFailed, NeedsConstexpr, BadArgumentKind.
    """
    if isinstance(cond, tensor):
        raise NeedsConstexpr(
            function="static_assert",
            argument="cond",
            found=describe(cond),
            expected="True or False; `tl.device_assert` checks runtime values",
        )
    if not isinstance(cond, bool):
        raise BadArgumentKind(function="static_assert", argument="cond", found=describe(cond), expected="True or False")
    if not cond:
        raise StaticAssertionFailed(detail=f": {msg}" if msg else "")


@builtin
def device_print(prefix: Any, *args: Any, hex: Any = False) -> None:
    """Print from the device: for each element of `args` the prefix, its program, its index and its value.

    The prefix is an ASCII string known at compile time; `hex` prints in base 16. Raises BadPrefix.
    """
    text = unwrap(prefix)
    if not isinstance(text, str) or not text.isascii():
        raise BadPrefix(found=describe(text))
    values = [operand("device_print", "args", each) for each in args]
    signed = tuple(value.dtype.is_int_signed() for value in values)
    attributes = {"prefix": text, "hex": flag("device_print", "hex", hex), "signed": signed}
    current().create(PRINT, [value.handle for value in values], attributes)


@builtin
def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """In debug builds, stop the kernel with the message where a condition (`!= 0`) fails under the mask; else nothing.

    Raises BadArgumentKind, IncompatibleShapes.
    """
    condition = operand("device_assert", "cond", cond)
    text = unwrap(msg)
    if not isinstance(text, str):
        raise BadArgumentKind(
            function="device_assert", argument="msg", found=describe(text), expected="a string known at compile time"
        )
    if not current_options().debug:
        return
    flags = [semantic.to_condition(condition)]
    if mask is not None:
        flags = semantic.together(
            "device_assert", *flags, semantic.to_condition(operand("device_assert", "mask", mask))
        )
    current().create(ASSERT, [each.handle for each in flags], {"message": text})
