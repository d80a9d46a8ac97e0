"""What memory ops do, one lane after the other, on buffers of bytes at addresses of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.lang import FloatType, Operation, PointerType, ScalarType, bit_width, byte_width, element_of

from ..storage import Codes
from .formats import sign_bit
from .scalars import float_rule, named_rule, signed
from .tiles import count_of

#: Buffers lie this far apart, so that an address outside one is outside all.
_APART = 1 << 40


class Stopped(Exception):
    """A program did what the language forbids: the kind of fault, as `Outcome.stopped` names it."""


@dataclass(slots=True)
class Buffers:
    """The bytes of the buffers; buffer i begins at `address(i)`."""

    contents: list[bytearray]

    @staticmethod
    def address(index: int) -> int:
        """The address of the first byte of a buffer."""
        return (index + 1) * _APART

    def _place(self, address: int, size: int) -> tuple[bytearray, int]:
        index, offset = divmod(address, _APART)
        if not 1 <= index <= len(self.contents) or address % size:
            raise Stopped("memory")
        buffer = self.contents[index - 1]
        if offset + size > len(buffer):
            raise Stopped("memory")
        return buffer, offset

    def read(self, address: int, element: ScalarType) -> int:
        """The code of the element at an address. Raises Stopped outside all buffers, and for a misaligned address."""
        size = byte_width(element)
        buffer, offset = self._place(address, size)
        code = int.from_bytes(buffer[offset : offset + size], "little")
        return int(code != 0) if bit_width(element) == 1 else code

    def write(self, address: int, element: ScalarType, code: int) -> None:
        """Store a code at an address. Raises Stopped as `read` does."""
        size = byte_width(element)
        buffer, offset = self._place(address, size)
        buffer[offset : offset + size] = code.to_bytes(size, "little")


def pointee_of(operation: Operation) -> ScalarType:
    """The element type that a memory op moves."""
    pointer = element_of(operation.operands[0].type)
    assert isinstance(pointer, PointerType)
    return pointer.pointee


def _float_order(code: int, fmt: FloatType) -> int:
    """Floats by their bits, as the atomics on floats order them: NaN outermost on the side of its sign."""
    return -(code & ~sign_bit(fmt)) - 1 if code & sign_bit(fmt) else code


def combine(kind: str, element: ScalarType) -> Callable[[int, int], int]:
    """What a read-modify-write makes of the old code and the operand's."""
    if kind == "xchg":
        return lambda old, value: value
    if kind == "add_f":
        assert isinstance(element, FloatType)
        return float_rule("add_f", element)
    if kind in ("min_f", "max_f"):
        assert isinstance(element, FloatType)
        pick = min if kind == "min_f" else max
        return lambda old, value: pick((old, value), key=lambda code: _float_order(code, element))
    return named_rule(kind, element)


def _active(operation: Operation, operands: Sequence[Codes], mask: int) -> Iterator[int]:
    """The lanes that are not masked off; `mask` is the position of the mask among the operands."""
    given = operands[mask] if len(operands) > mask and operation.definition.operands[mask] == "mask?" else None
    for lane in range(count_of(operation.operands[0].type)):
        if given is None or given[lane]:
            yield lane


def load(buffers: Buffers, operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    """`load` and `atomic_load`."""
    result = list(operands[2]) if len(operands) > 2 else [0] * len(operands[0])
    for lane in _active(operation, operands, 1):
        result[lane] = buffers.read(operands[0][lane], pointee_of(operation))
    return (tuple(result),)


def store(buffers: Buffers, operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    """`store` and `atomic_store`: checked as a whole before anything is written, then lane by lane."""
    lanes = list(_active(operation, operands, 2))
    for lane in lanes:
        buffers.read(operands[0][lane], pointee_of(operation))
    for lane in lanes:
        buffers.write(operands[0][lane], pointee_of(operation), operands[1][lane])
    return ()


def atomic_rmw(buffers: Buffers, operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    element = pointee_of(operation)
    step = combine(str(operation.attributes["kind"]), element)
    result = [0] * len(operands[0])
    for lane in _active(operation, operands, 2):
        result[lane] = old = buffers.read(operands[0][lane], element)
        buffers.write(operands[0][lane], element, step(old, operands[1][lane]))
    return (tuple(result),)


def atomic_cas(buffers: Buffers, operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    element = pointee_of(operation)
    result: list[int] = []
    for address, expected, value in zip(*operands, strict=True):
        old = buffers.read(address, element)
        result.append(old)
        if old == expected:
            buffers.write(address, element, value)
    return (tuple(result),)


def atomic_poll(buffers: Buffers, operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    """One look: programs run one after the other here, so what is not there by now never comes."""
    element = pointee_of(operation)
    seen = tuple(
        int(buffers.read(address, element) == expected)
        for address, expected in zip(operands[0], operands[1], strict=True)
    )
    if not all(seen) and (len(operands) < 3 or signed(operands[2][0], 64) < 0):
        raise Stopped("deadlock")
    return (seen,)


#: (buffers, operation, operands) -> results.
MEMORY_RULES: dict[str, Callable[[Buffers, Operation, Sequence[Codes]], Sequence[Codes]]] = {
    "load": load,
    "store": store,
    "atomic_load": load,
    "atomic_store": store,
    "atomic_rmw": atomic_rmw,
    "atomic_cas": atomic_cas,
    "atomic_poll": atomic_poll,
}
