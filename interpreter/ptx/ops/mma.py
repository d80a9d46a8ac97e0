"""Matrix products of a warp: `mma.sync.aligned`, dense, of every shape and type. `products` says what they compute.

All warps that stand at the instruction are multiplied in one call.
"""

from __future__ import annotations

from collections.abc import Callable

from ..collective import aligned_gate, vector, warps_of
from ..frame import Frame, Index
from ..products import Shape, products_of
from ..site import Site, bits_type
from ..table import Step, gated
from ..targets import generation, needs


def _mma(least: int) -> Callable[[Site], Step]:
    """The rows that need a generation."""

    def build(site: Site) -> Step:
        site.arity(4)
        needs(site, least)
        m = site.modifiers
        if m["d"] != m["c"]:
            site.fail(f"`{site.instruction.opcode}`: accumulator and result must be of one type")
        products = products_of(m, generation(site.program.module.target))
        a, b, c = Shape.of(m).fragments
        names = ("result", "left operand", "right operand", "accumulator")
        parts = [
            vector(site, operand, fragment.registers, fragment.bits, name)
            for operand, fragment, name in zip(site.operands, (c, a, b, c), names, strict=True)
        ]
        writes = [site.write(op, bits_type(c.bits)) for op in parts[0]]
        reads = [
            [site.read_bits(op, bits_type(fragment.bits)) for op in operands]
            for operands, fragment in zip(parts[1:], (a, b, c), strict=True)
        ]

        def run(frame: Frame, index: Index) -> None:
            threads = frame.size(index)
            matrices = [
                fragment.matrices(warps_of([read(frame, index) for read in some], threads))
                for fragment, some in zip((a, b, c), reads, strict=True)
            ]
            result = c.spread(products[frame.launch.mma](*matrices))
            for number, write in enumerate(writes):
                write(frame, index, result[:, number].reshape(threads))

        return run

    return build


def _volta(site: Site) -> Step:
    site.fail(
        f"`{site.instruction.opcode}` of f16 is the product of sm_70 and is not supported; use m16n8k8 or m16n8k16"
    )


_HALVES = "<d:f16|f32>.<a:f16>.<b:f16>.<c:f16|f32>"
_BYTES = "<d:s32>.<a:s8|u8>.<b:s8|u8>.<c:s32>"
_NIBBLES = "<d:s32>.<a:s4|u4>.<b:s4|u4>.<c:s32>"
_SINGLE_BITS = "<d:s32>.<a:b1>.<b:b1>.<c:s32>.<bit:xor|and>.popc"
_F64 = "[.<rnd:rn|rz|rm|rp>].<d:f64>.<a:f64>.<b:f64>.<c:f64>"
for _least, _syntax in (
    (75, f"<shape:m16n8k8>.row.col.{_HALVES}"),
    (80, f"<shape:m16n8k16>.row.col.{_HALVES}"),
    (80, "<shape:m16n8k8|m16n8k16>.row.col.<d:f32>.<a:bf16>.<b:bf16>.<c:f32>"),
    (80, "<shape:m16n8k4|m16n8k8>.row.col.<d:f32>.<a:tf32>.<b:tf32>.<c:f32>"),
    (89, "<shape:m16n8k16|m16n8k32>.row.col.<d:f16|f32>.<a:e4m3|e5m2>.<b:e4m3|e5m2>.<c:f16|f32>"),
    (75, f"<shape:m8n8k16>.row.col[.satfinite].{_BYTES}"),
    (80, f"<shape:m16n8k16|m16n8k32>.row.col[.satfinite].{_BYTES}"),
    (75, f"<shape:m8n8k32>.row.col[.satfinite].{_NIBBLES}"),
    (80, f"<shape:m16n8k32|m16n8k64>.row.col[.satfinite].{_NIBBLES}"),
    (80, f"<shape:m8n8k128|m16n8k128|m16n8k256>.row.col.{_SINGLE_BITS}"),
    (80, f"<shape:m8n8k4>.row.col{_F64}"),
    (90, f"<shape:m16n8k4|m16n8k8|m16n8k16>.row.col{_F64}"),
):
    gated(f"mma.sync.aligned.{_syntax}", "mma", aligned_gate)(_mma(_least))

gated("mma.sync.aligned.m8n8k4.<left:row|col>.<right:row|col>.<d:f16|f32>.f16.f16.<c:f16|f32>", "mma", aligned_gate)(
    _volta
)
