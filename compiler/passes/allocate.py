"""Give every operation that needs shared memory while it runs its place there.

    %b = convert_layout %a         ->     %b = convert_layout %a {scratch = 0}
    %d = convert_layout %c                %d = convert_layout %c {scratch = 4096}

Such an operation leaves nothing behind, so that all of them could have the same bytes; but the next one would have to
wait until all threads are done with the last. They take turns in a window instead, which is as large as the largest
asks for, and at least as large as costs no occupancy.
"""

from __future__ import annotations

from tilewright.lang import Module

from ..analysis.scratch import scratch_bytes

ALIGNMENT = 128
#: What a block may use without keeping another from its multiprocessor: the smallest has 100 KB for 1536 threads.
WINDOW = 16 * 1024


def allocate(module: Module) -> bool:
    """Set `scratch` where it is needed, and the module's attribute `shared`: the bytes that a block needs."""
    num_warps = module.attributes["num_warps"]
    assert isinstance(num_warps, int)
    needs = [(op, rounded(size)) for op in module.kernel.walk() if (size := scratch_bytes(op, num_warps))]
    window = max([WINDOW, *(size for _, size in needs)])
    offset = top = 0
    for operation, size in needs:
        if offset + size > window:
            offset = 0
        operation.attributes["scratch"] = offset
        offset += size
        top = max(top, offset)
    module.attributes["shared"] = top
    return bool(needs)


def rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
