"""The key of a compiled kernel: a digest of every assumption that its code rests on, and of nothing else.

What goes in: the source and line numbers of the kernel and of each device function it can reach, the values of the
globals that they capture, their default arguments; the type of each runtime parameter and its promises; each constant
by type and bits; the target and the options; the versions of the toolchain; the knobs that change code; a digest of
the sources of the rooms that make code. What stays out: paths, hash seeds, the order of dictionaries, addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, cast

from tilewright.lang import DeviceFunction, constexpr, knobs, type_text

from .digests import room_digest, toolchain_versions
from .encoding import encode
from .options import CompileOptions
from .reach import function_digest
from .specialization import Specialization


def key_ingredients(
    function: DeviceFunction, specialization: Specialization, options: CompileOptions, target: str
) -> dict[str, Callable[[], Any]]:
    """Each ingredient of the key by name, computed when called."""
    return {
        "function": lambda: function_digest(function),
        "signature": lambda: {n: _types(t) for n, t in specialization.signature.items()},
        "constants": lambda: dict(specialization.constants),
        "attributes": lambda: specialization.attributes,
        "options": lambda: options,
        "target": lambda: target,
        "knobs": lambda: knobs.code_changing(),
        "toolchain": lambda: toolchain_versions(),
        "rooms": lambda: room_digest(),
    }


def _types(type_: Any) -> Any:
    if isinstance(type_, tuple):
        return tuple(map(_types, cast("tuple[Any, ...]", type_)))
    return ("constant", type_.value) if isinstance(type_, constexpr) else type_text(type_)


def kernel_key(function: DeviceFunction, specialization: Specialization, options: CompileOptions, target: str) -> str:
    """The key, in hexadecimal. Raises Unencodable when a compile-time value has no canonical form."""
    ingredients = key_ingredients(function, specialization, options, target)
    return sha256(encode({name: get() for name, get in ingredients.items()})).hexdigest()
