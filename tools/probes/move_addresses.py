"""Cases of addresses between state spaces and blocks, and of matrices between shared memory and a warp's registers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from .move_cases import CONSTANTS, SPAN, THREADS, Move, Octets, Want, put, taken
from .move_threads import FIRST, column, opcodes, words

_WARP = 32
_NEAR = {
    "global": "mov.b64 %d20, %a;", "shared": "cvt.u64.u32 %d20, %s;", "local": "cvt.u64.u32 %d20, %c;",
    "const": "mov.u64 %d20, table;", "param": "mov.b64 %d20, m;",
}  # fmt: skip
"""PTX that puts an address in a state space into %d20: of the thread's bytes, of constants, of a tensor map."""
_NEEDS = {"const": frozenset({"constant"}), "param": frozenset({"tensor"})}
_LOAD = {"param": "ld.param::entry.b32", "const": "ld.const.b32"}


def _root(space: str) -> str:
    return space.partition("::")[0]


def _conversions() -> Iterator[Move]:
    """The word at a generic address, and at the address that it is turned back into."""
    for opcode in [*opcodes("cvta", "cvta.<"), *opcodes("cvta", "cvta.to")]:
        space = opcode.removeprefix("cvta.").removeprefix("to.").removesuffix(".u64")
        root = _root(space)
        there = f"{_NEAR[root]} cvta.{space}.u64 %d21, %d20;"
        back = f"{opcode} %d22, %d21; {_LOAD.get(root, f'ld.{root}.b32')} %x5, [%d22];"
        load = back if ".to." in opcode else "ld.b32 %x5, [%d21];"
        if root == "param":  # whose bytes are each device's own
            body, want = f"ld.param.b32 %x6, [m]; {there} {load} xor.b32 %x5, %x5, %x6;", column(0, lambda read, t: 0)
        else:
            body, want = f"{there} {load}", _constant if root == "const" else FIRST
        yield Move(opcode, f"{body} {put('%x5')}", want, needs=_NEEDS.get(root, frozenset()))


def _constant(read: Octets, out: Octets) -> None:
    words(out)[:, 0] = CONSTANTS.view(np.uint32)[0]


def _spaces() -> Iterator[Move]:
    """Whether an address lies in a space; on hardware parameters lie in global memory, constants do not."""
    for opcode, root in product(opcodes("isspacep", ""), _NEAR):
        space = opcode.removeprefix("isspacep.")
        body = f"{_NEAR[root]} cvta.{root}.u64 %d21, %d20; {opcode} %p0, %d21; selp.b32 %x5, 1, 0, %p0; {put('%x5')}"
        inside = int(_root(space) == root or (space, root) == ("global", "param"))
        want = column(0, lambda read, t, inside=inside: inside)
        yield Move(opcode, body, want, f"of {root}", needs=_NEEDS.get(root, frozenset()))
    for space in ("shared::cta", "shared::cluster", "shared"):
        body = "cvt.u64.u32 %d20, %s; cvta.shared.u64 %d21, %d20; xor.b32 %x4, %w, 1; mapa.u64 %d22, %d21, %x4;"
        body += f" isspacep.{space} %p0, %d22; selp.b32 %x5, 1, 0, %p0; {put('%x5')}"
        want = column(0, lambda read, t, space=space: int(space == "shared::cluster"))
        yield Move(f"isspacep.{space}", body, want, "of another block", cluster=2)


_MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


def _blocks() -> Iterator[Move]:
    """A word of the other block of a cluster, and which block an address belongs to."""
    for base, opcode in [
        *(("mapa", o) for o in opcodes("mapa", "")),
        *(("rank", o) for o in opcodes("getctarank", "")),
    ]:
        inside, wide = "shared::cluster" in opcode, opcode.endswith("u64")
        width, kind = (64, "d") if wide else (32, "x")
        own = "cvt.u64.u32 %d20, %s;" if wide else "mov.b32 %x20, %s;"
        if not inside:  # a generic address
            own = "cvt.u64.u32 %d20, %s; cvta.shared.u64 %d20, %d20;" + ("" if wide else " cvt.u32.u64 %x20, %d20;")
        if not inside and not wide:
            continue  # generic addresses have 64 bits
        load = "ld.shared::cluster.b32" if inside else "ld.b32"
        if base == "mapa":
            body = f"{own} xor.b32 %x4, %w, 1; {opcode} %{kind}21, %{kind}20, %x4; {load} %x5, [%{kind}21];"
            want: Want = column(0, lambda read, t: read[t ^ THREADS, 0])
        else:
            there = f"mapa{'.shared::cluster' if inside else ''}.u{width} %{kind}21, %{kind}20, %x4;"
            body = f"{own} xor.b32 %x4, %w, 1; {there} {opcode} %x5, %{kind}21;"
            want = column(0, lambda read, t: t // THREADS ^ 1)
        yield Move(opcode, f"{_MEET} {body} {put('%x5')} {_MEET}", want, cluster=2)


# --- matrices ---


def _rows() -> NDArray[np.intp]:
    """Where the 32 rows of 16 bytes lie that a warp's lanes name: at their own distance, round the warp's bytes."""
    first = 80 * np.arange(_WARP) % (_WARP * SPAN)
    return first[:, None] + np.arange(16)


_ADDRESSED = f"mul.lo.u32 %x16, %l, 80; and.b32 %x16, %x16, {_WARP * SPAN - 1}; mul.lo.u32 %x17, %l, {SPAN};" \
    " sub.u32 %x17, %s, %x17; add.u32 %x16, %x16, %x17;"  # fmt: skip


def _held(matrices: NDArray[np.uint16], turned: bool) -> NDArray[np.uint16]:
    """What lanes hold of matrices [n, 8, 8]: [lane, n, 2]."""
    lane = np.arange(_WARP)
    row, column_ = lane // 4, 2 * (lane % 4)
    pairs = [(row, column_ + k) if not turned else (column_ + k, row) for k in range(2)]
    return np.stack([matrices[:, i, j].T for i, j in pairs], axis=-1)


def _gathered(count: int, turned: bool) -> Want:
    def want(read: Octets, out: Octets) -> None:
        for first in range(0, len(read), _WARP):
            warp = read[first : first + _WARP].reshape(-1)
            matrices = warp[_rows()[: 8 * count]].view(np.uint16).reshape(count, 8, 8)
            held = np.ascontiguousarray(_held(matrices, turned)).view(np.uint32)[..., 0]
            words(out)[first : first + _WARP, : 2 * count : 2] = held

    return want


def _scattered(count: int, turned: bool) -> Want:
    def want(read: Octets, out: Octets) -> None:
        out[:] = read
        for first in range(0, len(read), _WARP):
            held = read[first : first + _WARP, : 4 * count].view(np.uint16).reshape(_WARP, count, 2)
            matrices = np.zeros((count, 8, 8), np.uint16)
            lane = np.arange(_WARP)
            for k in range(2):
                i, j = lane // 4, 2 * (lane % 4) + k
                matrices[:, i if not turned else j, j if not turned else i] = held[:, :, k].T
            warp = out[first : first + _WARP].reshape(-1)
            warp[_rows()[: 8 * count]] = matrices.reshape(-1, 8).view(np.uint8)
            out[first : first + _WARP] = warp.reshape(_WARP, SPAN)

    return want


def _matrices() -> Iterator[Move]:
    for base in ("ldmatrix", "stmatrix"):
        for opcode in opcodes(base, ""):
            count, turned, wide = int(opcode.partition(".m8n8.x")[2][0]), ".trans" in opcode, ".shared" not in opcode
            names = [f"%x{n + 4}" for n in range(count)]
            listed, place = f"{{{', '.join(names)}}}", "%d21" if wide else "%x16"
            address = _ADDRESSED + " cvt.u64.u32 %d21, %x16; cvta.shared.u64 %d21, %d21;" * wide
            if base == "ldmatrix":
                body = f"{address} {opcode} {listed}, [{place}]; {put(*names)}"
                yield Move(opcode, body, _gathered(count, turned))
            else:
                loads = " ".join(f"ld.global.b32 {name}, [%a+{4 * n}];" for n, name in enumerate(names))
                take = f"bar.warp.sync 0xffffffff; {taken('shared', '%s')}"
                yield Move(opcode, f"{loads} {address} {opcode} [{place}], {listed}; {take}",
                           _scattered(count, turned))  # fmt: skip


def address_cases() -> Iterator[Move]:
    """All of them."""
    for part in (_conversions, _spaces, _blocks, _matrices):
        yield from part()
