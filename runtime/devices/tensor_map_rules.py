"""The rules of tensor maps, which are the same on every device that has them, told as errors of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, cast

from tilewright.interpreter import LaunchError, check_im2col_map, check_tensor_map

from ..errors import ArgumentError
from ..tensor_map import Im2colMap, SomeMap, TensorMap

_CHECKS: dict[type, Callable[[Mapping[str, Any]], Any]] = {TensorMap: check_tensor_map, Im2colMap: check_im2col_map}


def checked_tensor_map(tensor: SomeMap, kind: type[SomeMap]) -> SomeMap:
    """The same tensor map, of a kind, with Python's integers in tuples. Raises ArgumentError for what the driver would
    refuse."""
    given = cast("Any", tensor)
    if not isinstance(given, kind):
        raise ArgumentError(f"a tensor map is made of a {kind.__name__}, found a {type(given).__name__}", _hint(given))
    with told_as_arguments():
        return kind(**_CHECKS[kind](values(tensor))._asdict())


def _hint(given: Any) -> str:
    methods = {TensorMap: "encode_tensor_map", Im2colMap: "encode_im2col_map"}
    return f"`{methods[type(given)]}` takes it" if type(given) in methods else ""


def values(tensor: TensorMap | Im2colMap) -> dict[str, Any]:
    """What a tensor map says, by the names of its fields."""
    return {field.name: getattr(tensor, field.name) for field in fields(tensor)}


@contextmanager
def told_as_arguments() -> Generator[None]:
    """What the interpreter's room refuses, as an ArgumentError."""
    try:
        yield
    except LaunchError as error:
        raise ArgumentError(error.what, error.hint) from None
