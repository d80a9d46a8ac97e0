"""Bringing data to where a device can reach it, and back: a host device gets copies of CUDA tensors."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from .arguments import ArrayArgument
from .errors import ArgumentError


@contextmanager
def on_host(payload: Sequence[Any]) -> Generator[list[Any]]:
    """The payload with every array in host memory; copies are written back on leaving, unless by an exception.

    A whole storage is copied once, however many arguments view it, so that aliases stay aliases. Raises
    ArgumentError for CUDA arrays that are not torch tensors.
    """
    storages: dict[int, tuple[Any, Any]] = {}
    staged = [_stage(part, storages) if _is_remote(part) else part for part in payload]
    yield staged
    for device_storage, host_storage in storages.values():
        device_storage.copy_(host_storage)


def _is_remote(part: Any) -> bool:
    return isinstance(part, ArrayArgument) and part.device != "cpu"


def _stage(array: ArrayArgument, storages: dict[int, tuple[Any, Any]]) -> ArrayArgument:
    if not hasattr(array.owner, "untyped_storage"):
        raise ArgumentError(
            "a CUDA array that is no torch tensor can't be copied to the host", "copy it to a NumPy array yourself"
        )
    storage = array.owner.untyped_storage()
    start = int(storage.data_ptr())
    if start not in storages:
        storages[start] = (storage, storage.cpu())
    host = storages[start][1]
    shift = int(host.data_ptr()) - start
    return array._replace(address=array.address + shift, lowest=array.lowest + shift, device="cpu", owner=host)
