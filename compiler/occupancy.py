"""How many blocks a multiprocessor holds at a time, and the registers with which it holds more.

While the warps of a block wait for each other, other blocks have to keep memory busy. The assembler does not see to
that: it takes as many registers as help one thread, and often a few more than another block would leave it. So what has
several reductions over its warps, and no dot, is made again with a limit, if few blocks fit and another one then does,
and taken if nothing more spills. On an H200 (rows of 8192 numbers in bf16, beside Triton in one run each) layernorm
went from 0.96, 0.80 and 0.70 of its speed to 1.03, 0.99 and 0.97 with 4, 8 and 16 warps, softmax from 0.92, 1.00 and
0.87 to 1.00, 1.00 and 0.97. What has fewer reductions lost by it: rmsnorm, with one, up to 1.5 %, dropout, with none,
1.4 %.
"""

from __future__ import annotations

import re

from tilewright.lang import Module

from .analysis.natural import is_reduction
from .cubin import Resources, resources
from .nvjitlink import assemble
from .targets import Target, target_named

#: A multiprocessor is four partitions with so many registers, which warps get for all lanes, in eights a lane.
PARTITIONS, PARTITION_REGISTERS, WARP_SIZE, UNIT = 4, 16_384, 32, 8
#: Shared memory that each block takes beside its own.
RESERVED_BYTES = 1024
#: The least part of a kernel's registers that a limit is: with fewer it spills or waits for what it would have held.
LEAST = 0.75
#: How many blocks may fit without a limit; beside more of them another one matters little.
FEW_BLOCKS = 4
#: As many reductions are several.
SEVERAL = 2
#: How often a kernel is assembled anew, and up to which size in bytes: a large one takes long, and computes.
TRIES, MOST_CODE = 2, 1 << 16

_THREADS = re.compile(r"^\.reqntid (\d+).*$", re.MULTILINE)
_HELD = re.compile(r"^\.maxnreg ", re.MULTILINE)


def resident_blocks(target: Target, threads: int, registers: int, shared: int) -> int:
    """How many blocks a multiprocessor has room for, each of so many threads with so many registers, and of so many
    bytes of shared memory. Source: the CUDA programming guide, compute capabilities."""
    warps = -(-threads // WARP_SIZE)
    in_partition = PARTITION_REGISTERS // (WARP_SIZE * UNIT * -(-max(registers, 1) // UNIT))
    by_shared = (target.shared_bytes + RESERVED_BYTES) // (shared + RESERVED_BYTES)
    return min(
        target.resident_blocks,
        target.resident_threads // (WARP_SIZE * warps),
        in_partition * PARTITIONS // warps,
        by_shared,
    )


def register_limits(target: Target, threads: int, registers: int, shared: int) -> list[int]:
    """Numbers of registers below a kernel's own, each the most with which another block fits; the fewest first. None if
    more than a few blocks fit already.

    >>> register_limits(target_named("sm_90a"), 256, 82, 256)
    [64, 80]
    """
    found: list[int] = []
    best = resident_blocks(target, threads, registers, shared)
    if best > FEW_BLOCKS:
        return found
    for limit in range((registers - 1) // UNIT * UNIT, 0, -UNIT):
        if limit < LEAST * registers:
            break
        if (blocks := resident_blocks(target, threads, limit, shared)) > best:
            best = blocks
            found.insert(0, limit)
    return found


def waits_for_warps(module: Module) -> bool:
    """Whether the warps of a block wait for each other in several reductions of a kernel whose shared memory is given
    out, and none of its operations is a dot, whose registers are what it computes with."""
    operations = list(module.kernel.walk())
    over_warps = sum(is_reduction(each) and each.attributes.get("scratch", -1) != -1 for each in operations)
    return over_warps >= SEVERAL and not any(each.name == "dot" for each in operations)


def assemble_kernel(name: str, ptx: str, target: str, dynamic_shared: int, waits: bool) -> tuple[bytes, Resources]:
    """The cubin of a kernel's PTX, and what the kernel uses; `waits`: see `waits_for_warps`.

    One that waits is held to registers with which more blocks fit, if that spills nothing more, unless `maxnreg` holds
    it already. Raises NoAssembler and AssemblerError.
    """
    made = assemble(name, ptx, target)
    first = resources(made.cubin, name, made.log)
    threads = _THREADS.search(ptx)
    if not waits or threads is None or first.code > MOST_CODE or _HELD.search(ptx):
        return made.cubin, first
    for limit in register_limits(target_named(target), int(threads[1]), first.registers, dynamic_shared)[:TRIES]:
        held = f"{ptx[: threads.end()]}\n.maxnreg {limit}{ptx[threads.end() :]}"
        again = assemble(name, held, target)
        used = resources(again.cubin, name, again.log)
        if used.registers <= limit and used.spills <= first.spills and used.stack <= first.stack:
            return again.cubin, used
    return made.cubin, first
