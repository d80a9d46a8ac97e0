"""Refuse kernels with tiles that take far more registers of a thread than it has.

A tile that is somewhat too large works: the assembler keeps what does not fit in local memory. But the code has an
instruction for every register, and the time of the assembler grows with the square of their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tilewright.lang import Module, Operation, PointerType, Value, bit_width, element_of, shape_of

from ..analysis.coalesce import WARP_SIZE
from ..analysis.placement import REGISTER, layout_of
from ..errors import RegistersExceeded

#: The registers of 32 bits that a thread has, and the most that one tile may ask of it.
AVAILABLE = 255
MOST = 4 * AVAILABLE
#: The most warps of a block.
MOST_WARPS = 32


def refuse_large_tiles(module: Module) -> bool:
    """Look at every tile that an operation makes, but for pointers, which are mostly one base and offsets.

    Raises RegistersExceeded for the largest.
    """
    num_warps, target = module.attributes["num_warps"], module.attributes["target"]
    assert isinstance(num_warps, int) and isinstance(target, str)
    large = [need for operation in module.kernel.walk() for need in _needs(operation)]
    if large:
        words, _, result = max(large, key=lambda need: need[:2])
        assert isinstance(result.owner, Operation)
        raise RegistersExceeded(
            result.owner,
            shape=shape_of(result.type),
            bits=bit_width(element_of(result.type)),
            words=words,
            threads=WARP_SIZE * num_warps,
            target=target,
            available=AVAILABLE,
            most=MOST,
            advice=_more_warps(words, num_warps),
        )
    return False


def _needs(operation: Operation) -> Iterator[tuple[int, int, Value]]:
    """Results that are too large: the registers of 32 bits in each thread, the elements, and the value."""
    for result in operation.results:
        layout, element = layout_of(result.type), element_of(result.type)
        if layout is None or isinstance(element, PointerType) or REGISTER not in layout.bases:
            continue
        words = (1 << len(layout.bases[REGISTER])) * max(1, bit_width(element) // 8) // 4
        if words > MOST:
            yield words, prod(shape_of(result.type)), result


def _more_warps(words: int, num_warps: int) -> str:
    """The number of warps with which a tile that is spread over all of them fits; "" where there is none."""
    enough = num_warps
    while words > MOST:
        enough, words = 2 * enough, words // 2
    return f", or more warps: num_warps={enough}" if enough <= MOST_WARPS else ""
