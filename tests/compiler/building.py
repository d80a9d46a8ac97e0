"""Modules for the compiler's tests: kernels of single rows, made with the builder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tilewright.lang import (
    I32,
    OPS,
    Block,
    Builder,
    Function,
    Location,
    Module,
    PointerType,
    ScalarType,
    TileType,
    Value,
    shape_of,
    with_shape,
)
from tilewright.lang.opdef import Signature

HERE = Location("tests.kernel", 7, 3)


class Kernel:
    """A kernel under construction; pointer parameters promise an alignment of 16 bytes."""

    def __init__(self, name: str = "kernel") -> None:
        self.body = Block()
        self.builder = Builder(self.body)
        self.builder.location = HERE
        self.attributes: list[dict[str, Any]] = []
        self.name = name

    def pointer(self, element: Any, name: str = "", divisibility: int = 16) -> Value:
        self.attributes.append({"divisibility": divisibility} if divisibility > 1 else {})
        return self.body.add_argument(PointerType(element), name)

    def number(self, element: Any, name: str = "", divisibility: int = 1) -> Value:
        self.attributes.append({"divisibility": divisibility} if divisibility > 1 else {})
        return self.body.add_argument(element, name)

    def make(
        self, name: str, operands: Sequence[Value] = (), result: Any = None, attributes: Mapping[str, Any] | None = None
    ) -> Value:
        return self.builder.value(OPS[name], operands, attributes, result)

    def do(self, name: str, operands: Sequence[Value] = (), **attributes: Any) -> None:
        self.builder.create(OPS[name], operands, attributes)

    def constant(self, value: Any, type_: Any = I32) -> Value:
        return self.make("constant", (), type_, {"value": value})

    def offsets(self, extent: int) -> Value:
        """program_id(0) * extent + arange(extent)."""
        pid = self.make("program_id", attributes={"axis": 0})
        first = self.make("mul_i", [pid, self.constant(extent)])
        lanes = self.make("arange", attributes={"start": 0, "end": extent})
        return self.make("add_i", [self.splat(first, (extent,)), lanes])

    def places(self, shape: tuple[int, ...]) -> Value:
        """The same for row-major tiles of any shape: the index of each element when program after program has one."""
        program = self.make("program_id", attributes={"axis": 0})
        if not shape:
            return program
        total = self.splat(self.make("mul_i", [program, self.constant(prod(shape))]), shape)
        for axis, extent in enumerate(shape):
            along = self.make("arange", attributes={"start": 0, "end": extent})
            for other in range(len(shape)):
                along = along if other == axis else self.make("expand_dims", [along], attributes={"axis": other})
            weight = self.splat(self.constant(prod(shape[axis + 1 :])), shape)
            spread = self.make("broadcast", [along], attributes={"shape": shape})
            total = self.make("add_i", [total, self.make("mul_i", [spread, weight])])
        return total

    def splat(self, value: Value, shape: tuple[int, ...]) -> Value:
        return self.make("splat", [value], attributes={"shape": shape}) if shape else value

    def at(self, pointer: Value, offsets: Value) -> Value:
        """A tile of pointers."""
        shape = offsets.type.shape if isinstance(offsets.type, TileType) else ()
        return self.make("add_ptr", [self.splat(pointer, shape), offsets])

    def module(self) -> Module:
        self.do("return")
        module = Module()
        module.add(Function(self.name, self.body, (), {}, self.attributes, HERE))
        return module


def row_kernel(
    name: str, signatures: Sequence[Signature], extent: int = 256, attributes: Mapping[str, Any] | None = None
) -> Module:
    """For each signature: load the operands, apply the row, store the result, masked by the last parameter."""
    kernel = Kernel()
    pointers = [[kernel.pointer(pointee(t)) for t in (*operands, result)] for operands, result in signatures]
    count = kernel.number(I32, "n")
    offsets = kernel.offsets(extent)
    mask = kernel.make("cmp_lt_s", [offsets, kernel.splat(count, (extent,))])
    for arguments, (operands, result) in zip(pointers, signatures, strict=True):
        loaded = [fetched(kernel, p, offsets, mask, t) for p, t in zip(arguments, operands, strict=False)]
        made = kernel.make(name, loaded, TileType((extent,), result), attributes)
        if isinstance(result, PointerType):
            made = kernel.make("ptr_to_int", [made], TileType((extent,), pointee(result)))
        kernel.do("store", [kernel.at(arguments[-1], offsets), made, mask])
    return kernel.module()


def pointee(element: ScalarType) -> Any:
    """The type in memory: an i64 for a pointer."""
    return OPS["ptr_to_int"].signatures[0][1] if isinstance(element, PointerType) else element


def fetched(kernel: Kernel, pointer: Value, offsets: Value, mask: Value, element: ScalarType) -> Value:
    loaded = kernel.make("load", [kernel.at(pointer, offsets), mask])
    if isinstance(element, PointerType):
        return kernel.make("int_to_ptr", [loaded], with_shape(element, shape_of(offsets.type)))
    return loaded
