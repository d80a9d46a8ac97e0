"""Kernels of GPU IR written by hand: text in which tiles have layouts, and what both executors make of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.interpreter import Buffer, execute, execute_distributed
from tilewright.lang import LinearLayout, Module, parse_module, tile_layouts, verify

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
PARAMETERS = "%x: ptr<i32>, %out: ptr<i32>"


def tile(shape: Sequence[int], element: str, layout: LinearLayout) -> str:
    """The type of a placed tile."""
    return f"tile<{'x'.join(map(str, shape))}x{element}, {layout}>"


def blocked(shape: Shape, own: Shape, lanes: Shape, warps: Shape, order: Shape | None = None) -> LinearLayout:
    """A blocked layout, by default with the last dimension fastest."""
    order = tuple(reversed(range(len(shape)))) if order is None else order
    return tile_layouts.blocked(own, lanes, warps, order, shape)


def pointers(name: str, base: str, shape: Shape, layout: LinearLayout, element: str = "i32") -> str:
    """Lines that make `%name` the pointers to all elements after `%base`, row by row; `%name.at` are the offsets."""
    count, flat = prod(shape), tile_layouts.reshape(layout, (prod(shape),))
    return f"""
  %{name}_flat = arange {{start = 0, end = {count}}} : {tile((count,), "i32", flat)}
  %{name}_at = reshape %{name}_flat {{shape = {shape}}} : {tile(shape, "i32", layout)}
  %{name}_base = splat %{base} {{shape = {shape}}} : {tile(shape, f"ptr<{element}>", layout)}
  %{name} = add_ptr %{name}_base, %{name}_at : {tile(shape, f"ptr<{element}>", layout)}"""


def loaded(name: str, shape: Shape, layout: LinearLayout) -> str:
    """Lines that load `%name` from `%x`."""
    return (
        f"{pointers(name + '_from', 'x', shape, layout)}\n  %{name} = load %{name}_from : {tile(shape, 'i32', layout)}"
    )


def stored(name: str, shape: Shape, layout: LinearLayout, start: int = 0) -> str:
    """Lines that store `%name` to `%out`, from its element `start` on."""
    first = (
        f"  %{name}_start = constant {{value = {start}}} : i32\n  %{name}_o = add_ptr %out, %{name}_start : ptr<i32>"
    )
    to = pointers(name + "_to", f"{name}_o", shape, layout)
    return f"{first}{to}\n  store %{name}_to, %{name}"


def module_of(*lines: str, warps: int = 1, shared: int = 0, parameters: str = PARAMETERS) -> Module:
    """The module whose kernel has these lines. Each has the place `k:<its number>:1`, from 2 on."""
    body = [line for part in lines for line in part.splitlines() if line.strip()]
    plain = ("}", "^")
    located = [
        line if line.lstrip().startswith(plain) or line.rstrip().endswith("{") else f'{line} loc("k":{number}:1)'
        for number, line in enumerate(body, 2)
    ]
    text = f"module {{num_warps = {warps}, shared = {shared}}} {{\nkernel @k({parameters}) {{\n"
    module = parse_module(text + "\n".join(located) + "\n  return\n}\n}\n")
    verify(module)
    return module


def ran(run: Callable[..., None], module: Module, x: Array, size: int, programs: int = 1) -> Array:
    """What a kernel leaves in `out`, i32 of so many elements."""
    out = np.full(size, -1, np.int32)
    run(module, [Buffer.of("x", x.copy()), Buffer.of("out", out)], (programs, 1, 1))
    return out


def both(module: Module, x: Array, size: int, programs: int = 1) -> Array:
    """What a kernel leaves in `out` with its tiles in threads, which must be what `execute` leaves there."""
    got, want = (ran(run, module, x, size, programs) for run in (execute_distributed, execute))
    assert (got == want).all()
    return got
