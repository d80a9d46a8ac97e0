"""What the annotations of a kernel's parameters say about types."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from tilewright.lang import DeviceFunction, UnknownTypeName, dtype, language, parse_type

from .errors import ArgumentError, did_you_mean

#: The types of the language by their names in it.
NAMED_TYPES: dict[str, dtype] = {
    name: getattr(language, name) for name in language.__all__ if isinstance(getattr(language, name), dtype)
}


def annotated_types(function: DeviceFunction) -> dict[str, dtype]:
    """The type that each parameter's annotation forces, where it forces one. Raises ArgumentError."""
    found: dict[str, dtype] = {}
    for parameter in function.parameters:
        try:
            type_ = annotated_type(parameter.annotation, function.function.__globals__)
        except ArgumentError as error:
            raise ArgumentError(f"{function.name}: parameter {parameter.name}: {error}") from None
        if type_ is not None:
            found[parameter.name] = type_
    return found


def annotated_type(annotation: Any, space: Mapping[str, Any]) -> dtype | None:
    """The type that an annotation forces on a parameter: a dtype, or text that names one (`tl.int64`, `i64`, `*fp32`).

    Every other annotation (`int`, `torch.Tensor`) says nothing about types, as in Triton. Text means what it means in
    `space`, the globals of the kernel, so that nothing changes where a module keeps all its annotations as text. Raises
    ArgumentError for text that asks the language for what it does not have.
    """
    if not isinstance(annotation, str):
        return annotation if isinstance(annotation, dtype) else None
    text = annotation.strip("'\" ")
    try:
        found = eval(text, dict(space))
    except AttributeError as error:
        if isinstance(error.obj, ModuleType) and vars(error.obj).get("int64") is language.int64:
            raise _unknown(annotation, str(error.name)) from None
        return None
    except Exception:  # no expression, or one that only type checkers can read: what it names may be defined nowhere
        return _written(annotation, text)
    return found if isinstance(found, dtype) else _written(annotation, text)


def _written(annotation: str, text: str) -> dtype | None:
    """The type that text names by itself: as signatures write it, or of `tl` where nobody can tell what `tl` is."""
    owner, _, name = text.rpartition(".")
    if owner in ("tl", "language"):
        if not hasattr(language, name):
            raise _unknown(annotation, name)
        return NAMED_TYPES.get(name)
    if text in NAMED_TYPES:
        return NAMED_TYPES[text]
    try:
        return parse_type(text)
    except UnknownTypeName:
        return None


def _unknown(annotation: str, name: str) -> ArgumentError:
    return ArgumentError(f"the annotation {annotation!r} names no type", did_you_mean(name, NAMED_TYPES))
