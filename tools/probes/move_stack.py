"""Cases of local memory that threads ask for while they run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .move_cases import SPAN, Move, Octets, Want, put
from .move_threads import column

_ALL = "%x0, %x1, %x2, %x3"


def _copied(read: Octets, out: Octets) -> None:
    out[:] = read


def _through(places: tuple[str, ...], space: str = ".local") -> str:
    """All of a thread's bytes into local memory, a quarter to each place, and from there to where it writes."""
    quarter = SPAN // 4
    into = (f"ld.global.v4.b32 {{{_ALL}}}, [%a+{quarter * n}]; st{space}.v4.b32 [{place}], {{{_ALL}}};"
            for n, place in enumerate(places))  # fmt: skip
    out = (f"ld{space}.v4.b32 {{{_ALL}}}, [{place}]; st.global.v4.b32 [%o+{quarter * n}], {{{_ALL}}};"
           for n, place in enumerate(places))  # fmt: skip
    return f"{' '.join(into)} bar.sync 0; {' '.join(out)}"


def _summed(rounds: int) -> Want:
    """The thread's first word, and the number of each round."""
    return column(0, lambda read, t: read[:, 0] + np.uint32(rounds * (rounds - 1) // 2))


_ZERO = column(0, lambda read, t: 0)
_SUMS = """
.func (.param .b32 r) f(.param .b32 n, .param .b32 x)
{ .reg .b32 %n, %x, %y; .reg .b64 %p; ld.param.b32 %n, [n]; ld.param.b32 %x, [x]; alloca.u64 %p, 64;
  st.local.b32 [%p+60], %x; ld.local.b32 %y, [%p+60]; add.u32 %y, %y, %n; st.param.b32 [r], %y; ret; }"""
_CALLED = """ld.global.b32 %x5, [%a]; mov.b32 %x4, 0;
LOOP: { .param .b32 n; .param .b32 x; .param .b32 r; st.param.b32 [n], %x4; st.param.b32 [x], %x5;
call.uni (r), f, (n, x); ld.param.b32 %x5, [r]; } add.u32 %x4, %x4, 1; setp.lt.u32 %p0, %x4, 100; @%p0 bra LOOP; """
_AGAIN = """mov.b32 %x4, 0; ld.global.b32 %x5, [%a];
LOOP: stacksave.{0} {1}8; alloca.u64 %d20, 64, 16; st.local.b32 [%d20+60], %x4; ld.local.b32 %x6, [%d20+60];
add.u32 %x5, %x5, %x6; stackrestore.{0} {1}8; add.u32 %x4, %x4, 1; setp.lt.u32 %p0, %x4, {2}; @%p0 bra LOOP; """


def stack_cases() -> Iterator[Move]:
    """All of them."""
    some = "alloca.u64 %d20, 32, 16; alloca.u64 %d21, 32, 16;"
    places = ("%d20", "%d21+16", "%d21", "%d20+16")
    yield Move("alloca.u64", f"{some} {_through(places)}", _copied)
    narrow = some.replace("u64 %d2", "u32 %x2")
    yield Move("alloca.u32", f"{narrow} {_through(tuple(p.replace('%d', '%x') for p in places))}", _copied)
    generic = f"{some} cvta.local.u64 %d20, %d20; cvta.local.u64 %d21, %d21;"
    yield Move("alloca.u64", f"{generic} {_through(places, '')}", _copied, "(generic)")
    sized = "and.b32 %x8, %t, 3; mad.lo.u32 %x8, %x8, 16, 32; cvt.u64.u32 %d8, %x8;"
    yield Move("alloca.u64", f"{sized} {some.replace('32,', '%d8,')} {_through(places)}", _copied, "(of a register)")
    for align in (1, 8, 64, 256):
        line = f"alloca.u64 %d20, 5, 1; alloca.u64 %d21, 8, {align}; and.b64 %d21, %d21, {align - 1};"
        yield Move("alloca.u64", f"{line} cvt.u32.u64 %x5, %d21; {put('%x5')}", _ZERO, f"(aligned to {align})")
    yield Move("alloca.u64", _CALLED + put("%x5"), _summed(100), "(in a function)", before=_SUMS)
    for base, rounds in (("stacksave", 11), ("stackrestore", 1000)):
        for kind, register in (("u64", "%d"), ("u32", "%x")):
            yield Move(f"{base}.{kind}", _AGAIN.format(kind, register, rounds) + put("%x5"), _summed(rounds))
