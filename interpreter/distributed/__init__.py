"""The distributed executor: GPU IR with every tile held by threads, in the registers that its layout says.

A tile is an array [program, warp, lane, register]. What works element by element works register by register; what only
changes the shape must find each element in the thread that wants it; conversions are real permutations, and reductions
go by registers, lanes and warps. Wherever elements are brought together, replicas must agree. Buffers are bytes of one
shared memory, into which asynchronous copies land as late as they may.

So a wrong layout, a missing conversion, wait or barrier, or a buffer that is used too late, is a DistributionError
here, or another result than that of `execute`, which ignores layouts.
"""

from .execute import execute_distributed

__all__ = ["execute_distributed"]
