"""Refuse kernels with tiles that take far more registers of a thread than it has.

A tile that is somewhat too large works: the assembler keeps what does not fit in local memory. But the code has an
instruction for every register, and the time of the assembler grows with the square of their number.
"""

from __future__ import annotations

from tilewright.lang import Module, Operation, PointerType, TileType, bit_width, element_of

from ..analysis.coalesce import WARP_SIZE
from ..analysis.placement import REGISTER, layout_of
from ..errors import RegistersExceeded

#: The registers of 32 bits that a thread has, and the most that one tile may ask of it.
AVAILABLE = 255
MOST = 4 * AVAILABLE


def refuse_large_tiles(module: Module) -> bool:
    """Look at every tile that an operation makes, but for pointers, which are mostly one base and offsets.

    Raises RegistersExceeded.
    """
    num_warps = module.attributes["num_warps"]
    assert isinstance(num_warps, int)
    for operation in module.kernel.walk():
        _check(operation, WARP_SIZE * num_warps)
    return False


def _check(operation: Operation, threads: int) -> None:
    for result in operation.results:
        layout, element = layout_of(result.type), element_of(result.type)
        if layout is None or isinstance(element, PointerType) or REGISTER not in layout.bases:
            continue
        words = (1 << len(layout.bases[REGISTER])) * max(1, bit_width(element) // 8) // 4
        if words > MOST:
            raise RegistersExceeded(
                operation,
                type=TileType(result.type.shape, element),  # pyright: ignore[reportAttributeAccessIssue]
                words=words,
                threads=threads,
                available=AVAILABLE,
                most=MOST,
            )
