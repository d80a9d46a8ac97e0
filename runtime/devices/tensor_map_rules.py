"""The rules of tensor maps, which are the same on every device that has them, told as errors of the runtime."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, cast

from tilewright.interpreter import LaunchError, check_tensor_map

from ..errors import ArgumentError
from ..tensor_map import TensorMap


def checked_tensor_map(tensor: TensorMap) -> TensorMap:
    """The same tensor map with Python's integers in tuples. Raises ArgumentError for what the driver would refuse."""
    given = cast("Any", tensor)
    if not isinstance(given, TensorMap):
        raise ArgumentError(f"a tensor map is made of a TensorMap, found a {type(given).__name__}")
    with told_as_arguments():
        return TensorMap(**check_tensor_map({f.name: getattr(tensor, f.name) for f in fields(tensor)})._asdict())


@contextmanager
def told_as_arguments() -> Generator[None]:
    """What the interpreter's room refuses, as an ArgumentError."""
    try:
        yield
    except LaunchError as error:
        what, _, hint = error.what.partition("\nhint: ")
        raise ArgumentError(what, hint) from None
