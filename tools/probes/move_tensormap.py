"""Cases of tensor maps that a kernel changes or makes: a copy by the map shows what it says.

Each block has a map of the host's (64 words of 32 bits, a box of 16) or zeros in shared memory, replaces fields, takes
it to global memory, loads a box by it over the first rows of shared memory, and leaves all of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .move_cases import SPAN, THREADS, Move, Octets, Want

_FIRST = 5
"""The row of the block from which on the arrays lie that maps describe."""
_REPLACE = "tensormap.replace.tile"
_NAN = np.frombuffer(bytes.fromhex("f77f"), np.uint8)
"""What an H200 fills with, again and again."""


@dataclass(frozen=True, slots=True)
class _Box:
    """What is replaced (field, dimension if it has several, value), and bytes and coordinates of the copy."""

    fields: Sequence[tuple[str, int | None, int | str]]
    nbytes: int = SPAN
    rank: int = 1
    zeros: bool = False
    space: str = ".shared::cta"
    scope: str = "gpu"


def _replaced(box: _Box) -> str:
    place = {".shared::cta": "%x16", ".global": "%d16", "": "%d18"}[box.space]
    lines = list[str]()
    for field, number, value in (("global_address", None, "%d17"), *box.fields):
        type_ = "b64" if field in ("global_address", "global_stride") else "b32"
        which = "" if number is None else f"{number}, "
        lines.append(f"{_REPLACE}.{field}{box.space}.b1024.{type_} [{place}], {which}{value};")
    return " ".join(lines)


def _filled(zeros: bool, to: str) -> str:
    """The map as it is at first."""
    lines = list[str]()
    for at in range(0, 128, 16):
        source = "mov.b64 %d4, 0; mov.b64 %d5, 0;" if zeros else f"ld.param.v2.b64 {{%d4, %d5}}, [m+{at}];"
        lines.append(f"{source} st.v2.b64 [{to}+{at}], {{%d4, %d5}};")
    return " ".join(lines)


_PLACES = f"""
.shared .align 1024 .b8 image[{THREADS * SPAN}]; .shared .align 128 .b8 map[128]; mul.wide.u32 %d15, %t, {SPAN};
sub.u64 %d16, %o, %d15; sub.u64 %d17, %a, %d15; add.u64 %d17, %d17, {_FIRST * SPAN}; mov.u32 %x16, map;
cvt.u64.u32 %d18, %x16; cvta.shared.u64 %d18, %d18; mov.u32 %x17, image; mad.lo.u32 %x20, %t, {SPAN}, %x17;
add.u32 %x18, %z, 2; add.u32 %x19, %z, 1; cvt.u64.u32 %d19, %z; add.u64 %d19, %d19, 128;"""
"""Where the map and its array lie, shared memory for a box, and some numbers in registers."""


def _rows(load: str, source: str, store: str, to: str) -> str:
    """All of a thread's bytes."""
    return " ".join(
        f"{load}.v4.b32 {{%x0, %x1, %x2, %x3}}, [{source}+{at}]; {store}.v4.b32 [{to}+{at}], {{%x0, %x1, %x2, %x3}};"
        for at in range(0, SPAN, 16)
    )


def _body(box: _Box) -> str:
    near = box.space != ".global"
    publish = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release"
    publish += f".{box.scope}.sync.aligned [%d16], [%x16], 128;"
    into = _filled(box.zeros, "%d18" if near else "%d16")
    release, coordinates = "fence.proxy.tensormap::generic.release.gpu;", ", ".join(["0"] * box.rank)
    return f"""{_PLACES}
{_rows("ld.global", "%a", "st.shared", "%x20")}
setp.ne.u32 %p0, %t, 0; setp.ge.u32 %p1, %t, 32; @%p0 bra FILLED;
mbarrier.init.shared.b64 [%b], 1; {into} {_replaced(box)} {"" if near else release}
FILLED: fence.proxy.async; bar.sync 0; @%p1 bra KEPT; {publish if near else ""}
KEPT: bar.sync 0; @%p0 bra LOADED; fence.proxy.tensormap::generic.acquire.{box.scope} [%d16], 128;
mbarrier.arrive.expect_tx.shared.b64 _, [%b], {box.nbytes};
cp.async.bulk.tensor.{box.rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%x17],
[%d16, {{{coordinates}}}], [%b];
LOADED: mbarrier.try_wait.parity.shared.b64 %p2, [%b], 0; @!%p2 bra LOADED;
{_rows("ld.shared", "%x20", "st.global", "%o")}"""


def _loaded(*pieces: tuple[int, int] | bytes) -> Want:
    """The first bytes of each block: some from a place behind the array's begin (first, count), some given."""

    def want(read: Octets, out: Octets) -> None:
        out[:] = read
        for first in range(0, len(read), THREADS):
            block, target = read[first : first + THREADS].reshape(-1), out[first : first + THREADS].reshape(-1)
            array, at = block[_FIRST * SPAN :], 0
            for piece in pieces:
                octets = np.frombuffer(piece, np.uint8) if isinstance(piece, bytes) else array[piece[0] :][: piece[1]]
                target[at : at + len(octets)] = octets
                at += len(octets)

    return want


def _swizzled(span: int, rows: int) -> Want:
    """Rows of so many bytes, whose pieces of 16 change places with others."""
    place = np.arange(span * rows)
    source = place ^ ((place >> 7 & (span // 16 - 1)) << 4)

    def want(read: Octets, out: Octets) -> None:
        out[:] = read
        for first in range(0, len(read), THREADS):
            block, target = read[first : first + THREADS].reshape(-1), out[first : first + THREADS].reshape(-1)
            target[: len(place)] = block[_FIRST * SPAN :][source]

    return want


def _rounded(read: Octets, out: Octets) -> None:
    """A row of tf32, to the nearest, ties to even: none of these is special."""
    out[:] = read
    bits = read[_FIRST::THREADS].view(np.uint32)
    assert (bits >> np.uint32(23) & np.uint32(0xFF) != 0xFF).all()
    kept = bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1)) & ~np.uint32(0x1FFF)
    out[::THREADS] = kept.view(np.uint8)


_PLAIN = _loaded((0, SPAN))
_ELEMENTS = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4)
"""Bytes of the element types, by PTX's numbers; the last two are tf32."""


def _matrix(stride: int, rows: int) -> list[tuple[str, int | None, int | str]]:
    """Two dimensions: rows of 16 words."""
    return [("rank", None, 1), ("global_dim", 1, rows), ("global_stride", 0, stride), ("box_dim", 1, rows),
            ("element_stride", 1, 1)]  # fmt: skip


def _fields() -> Iterator[tuple[str, _Box, Want, str]]:
    """The field, the box, and what is loaded by it."""
    for space in (".shared::cta", ".global", ""):
        yield "global_address", _Box([], space=space), _PLAIN, ""
        two = _Box([("box_dim", 0, 32)], 2 * SPAN, space=space)
        yield "box_dim", two, _loaded((0, 2 * SPAN)), ""
    yield "global_dim", _Box([("global_dim", 0, 7)]), _loaded((0, 28), bytes(36)), ""
    yield "rank", _Box(_matrix(128, 3), 3 * SPAN, 2), _loaded((0, SPAN), (128, SPAN), (256, SPAN)), ""
    yield "global_stride", _Box(_matrix(192, 2), 2 * SPAN, 2), _loaded((0, SPAN), (192, SPAN)), ""
    steps = [*_matrix(64, 4), ("element_stride", 1, 2)]
    yield "element_stride", _Box(steps, 2 * SPAN, 2), _loaded((0, SPAN), (128, SPAN)), ""
    for number, size in enumerate(_ELEMENTS):
        want = _rounded if number > 10 else _loaded((0, 16 * size))
        yield "elemtype", _Box([("elemtype", None, number)], 16 * size), want, f"({number})"
    yield "interleave_layout", _Box([("interleave_layout", None, 0)]), _PLAIN, ""
    yield "swizzle_mode", _Box([("swizzle_mode", None, 0)]), _PLAIN, "(0)"
    for number, span in ((1, 32), (2, 64), (3, 128)):
        fields = [*_matrix(span, 8), ("global_dim", 0, span // 4), ("box_dim", 0, span // 4)]
        box = _Box([*fields, ("swizzle_mode", None, number)], 8 * span, 2)
        yield "swizzle_mode", box, _swizzled(span, 8), f"({number})"
    for number, fill in enumerate((bytes(48), _NAN.tobytes() * 24)):
        box = _Box([("elemtype", None, 7), ("global_dim", 0, 4), ("fill_mode", None, number)])
        yield "fill_mode", box, _loaded((0, 16), fill), f"({number})"
    every = [*_matrix(128, 3), *((name, 0, n) for name, n in (("global_dim", 16), ("box_dim", 16),
             ("element_stride", 1))), *((name, None, n) for name, n in (("elemtype", 2), ("interleave_layout", 0),
             ("swizzle_mode", 0), ("fill_mode", 0)))]  # fmt: skip
    box = _Box(every, 3 * SPAN, 2, zeros=True)
    yield "global_address", box, _loaded((0, SPAN), (128, SPAN), (256, SPAN)), "(of zeros)"
    given = [*_matrix(128, 3), ("global_dim", 1, "%x18"), ("box_dim", 1, "%x18"), ("global_stride", 0, "%d19")]
    yield "rank", _Box([("rank", None, "%x19"), *given[1:]], 2 * SPAN, 2), \
        _loaded((0, SPAN), (128, SPAN)), "(of registers)"  # fmt: skip


def tensormap_cases() -> Iterator[Move]:
    """All of them."""
    needs = frozenset({"tensor"})
    for field, box, want, note in _fields():
        type_ = "b64" if field in ("global_address", "global_stride") else "b32"
        yield Move(f"{_REPLACE}.{field}{box.space}.b1024.{type_}", _body(box), want, note, needs=needs)
    for scope in ("cta", "cluster", "gpu", "sys"):
        opcode = f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{scope}.sync.aligned"
        yield Move(opcode, _body(_Box([], scope=scope)), _PLAIN, needs=needs)
