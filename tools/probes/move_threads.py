"""Cases of what threads do with each other and by themselves: barriers, fences, hints, moves, addresses, branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.ptx.table import FORMS

from .move_cases import BLOCKS, SPAN, THREADS, Move, Octets, Want, put
from .spellings import Valid, spellings


def opcodes(base: str, start: str, valid: Valid = lambda modifiers: True) -> list[str]:
    """The opcodes of the rows whose syntax begins so, or as many as `spellings` takes of them."""
    return [opcode for form in FORMS[base] if form.syntax.startswith(start) for opcode in spellings(form, valid)]


def words(octets: Octets) -> NDArray[np.uint32]:
    """A thread's bytes as words, [threads, words], where they lie."""
    return octets.view(np.uint32)


def column(number: int, value: Callable[[NDArray[np.uint32], NDArray[Any]], Any]) -> Want:
    """What puts a word into all rows, 8 bytes apart: of the words that are read, and of the threads' numbers."""

    def want(read: Octets, out: Octets) -> None:
        words(out)[:, 2 * number] = value(words(read), np.arange(len(read)))

    return want


def both(*wants: Want) -> Want:
    """Several columns."""

    def want(read: Octets, out: Octets) -> None:
        for each in wants:
            each(read, out)

    return want


FIRST = column(0, lambda read, t: read[:, 0])
"""The thread's first word, as it was read."""

# --- fences and hints, which are seen to do no harm ---


_POLICIES = {
    "fractional": ("", ", 0.5"), "range": (", [%a], 64, 4096", ", [%a+128], %x4, 65536"),
    "cvt": (", 0x10f0000000000000",),
}  # fmt: skip
"""The operands of each kind of policy behind its register; the last is what the runtime calls normal."""


def _harmless() -> Iterator[Move]:
    carried = "ld.global.b32 %x4, [%a]; st.global.b32 [%o+32], %x4; {0} ld.global.b32 %x5, [%o+32];"
    carried += f" st.global.b32 [%o+32], %z; {put('%x5')}"
    want = both(FIRST, column(4, lambda read, t: 0))
    fences = [*opcodes("membar", ""), *(f for f in opcodes("fence", "fence") if "tensormap" not in f)]
    for opcode in fences:
        yield Move(opcode, carried.format(f"{opcode};"), want)
    for opcode in opcodes("fence", "fence.proxy.tensormap"):
        size = ", 128" if "acquire" in opcode else ""
        at = f" [%d21]{size}" if size else ""
        aligned = f"and.b64 %d21, %o, -128; {opcode}{at};"
        yield Move(opcode, carried.format(aligned), want)
    for base in ("prefetch", "prefetchu", "applypriority"):
        for opcode in opcodes(base, base):
            yield from _hint(opcode, carried, want)
    for opcode in opcodes("discard", ""):
        rewritten = f"and.b64 %d21, %o, -128; {opcode} [%d21], 128; bar.sync 0; " \
            + " ".join(f"st.global.v4.b32 [%o+{at}], {{%z, %z, %z, %z}};" for at in range(0, SPAN, 16))  # fmt: skip
        yield Move(opcode, rewritten, lambda read, out: out.fill(0), "(written again)")
    for start, operands in _POLICIES.items():
        for opcode, given in product(opcodes("createpolicy", f"createpolicy.{start}"), operands):
            line = f"add.u32 %x4, %z, 256; {opcode} %d20{given}; ld.global.L2::cache_hint.b32 %x5, [%a], %d20;"
            yield Move(opcode, f"{line} {put('%x5')}", FIRST, given[2:])
    for opcode, number in (("pmevent", "3"), ("pmevent.mask", "5")):
        yield Move(opcode, carried.format(f"{opcode} {number};"), want)


def _hint(opcode: str, carried: str, want: Want) -> Iterator[Move]:
    """One that is told an address."""
    if "tensormap" in opcode:
        place = "m" if ".param" in opcode else "%d21"
        lines = "" if ".param" in opcode else "mov.b64 %d21, m; cvta.param.u64 %d21, %d21;"
        if ".const" not in opcode:
            yield Move(opcode, carried.format(f"{lines} {opcode} [{place}];"), want, needs=frozenset({"tensor"}))
        else:
            yield Move(opcode, carried.format(f"{opcode} [table];"), want, needs=frozenset({"constant"}))
        return
    place = "%c" if ".local" in opcode else "%d21"
    size = ", 128" if opcode.startswith("applypriority") else ""
    lines = "" if ".local" in opcode else "and.b64 %d21, %a, -128;"
    yield Move(opcode, carried.format(f"{lines} {opcode} [{place}]{size};"), want)


# --- barriers ---

_EXCHANGE = "ld.shared.b32 %x4, [%s]; add.u32 %x5, %x4, 1; bar.sync 0; st.shared.b32 [%s], %x5; {0}" \
    " xor.b32 %x6, %t, {1}; mov.u32 %x7, s; mad.lo.u32 %x7, %x6, 64, %x7; ld.shared.b32 %x8, [%x7]; {2}"  # fmt: skip
"""Each thread leaves a word in shared memory, and takes that of another thread."""


def other_by(mask: int) -> Want:
    """What another thread has left: the number of a thread, XORed."""
    return column(0, lambda read, t: read[t ^ mask, 0] + np.uint32(1))


def _barriers() -> Iterator[Move]:
    for base in ("bar", "barrier"):
        for opcode in opcodes(base, f"{base}[.cta].sync"):
            for operands in ("0", "1, 64", "%x9", "%x9, %x10"):
                body = f"add.u32 %x9, %z, 3; add.u32 %x10, %z, 64; {_EXCHANGE}"
                body = body.format(f"{opcode} {operands};", 33, put("%x8"))
                yield Move(opcode, body, other_by(33), operands)
        for opcode in opcodes(base, f"{base}[.cta].arrive"):
            wait = opcode.replace("arrive", "sync")
            body = f"setp.lt.u32 %p0, %t, 32; @!%p0 bra TAKE; st.shared.b32 [%s], %t; {opcode} 2, 64; bra END; TAKE:"
            body += f" {wait} 2, 64; ld.shared.b32 %x4, [%s+{-32 * SPAN}]; {put('%x4')} END:"
            yield Move(opcode, body, _second_warp)
        for opcode in opcodes(base, f"{base}[.cta].red"):
            yield from _counted(opcode)
    exchange = _EXCHANGE.format("bar.warp.sync 0xffffffff;", 5, put("%x8"))
    yield Move("bar.warp.sync", exchange, other_by(5))
    yield Move("bar.warp.sync", _halves(), _lower_half, "half a warp")
    yield from _cluster_barriers()


def _counted(opcode: str) -> Iterator[Move]:
    """How many predicates hold, whether all do, whether one does, at a barrier of all threads."""
    popc = ".popc" in opcode
    for operands, low, sign in product(("0", "1, 64", "%x9, %x10"), (0, 40, THREADS), ("", "!")):
        body = f"add.u32 %x9, %z, 3; add.u32 %x10, %z, 64; setp.lt.u32 %p1, %t, {low};"
        body += (
            f" {opcode} {'%x8' if popc else '%p2'}, {operands}, {sign}%p1;{'' if popc else ' selp.b32 %x8, 1, 2, %p2;'}"
        )
        holds = THREADS - low if sign else low
        found = holds if popc else 2 - (holds == THREADS if ".and" in opcode else holds > 0)
        yield Move(opcode, body + put("%x8"), column(0, lambda read, t, found=found: found), f"{operands}, {sign}{low}")


def _halves() -> str:
    """Lanes that exchange by pairs, while the other half of the warp has left."""
    return "setp.ge.u32 %p0, %l, 16; @%p0 exit; " + _EXCHANGE.replace("bar.sync 0;", "").format(
        "bar.warp.sync 0xffff;", 5, put("%x8")
    )


def _lower_half(read: Octets, out: Octets) -> None:
    t = np.arange(len(read))
    low = t % 32 < 16
    words(out)[low, 0] = words(read)[t[low] ^ 5, 0] + np.uint32(1)


def _second_warp(read: Octets, out: Octets) -> None:
    t = np.arange(len(read)) % THREADS
    words(out)[t >= 32, 0] = t[t >= 32] - 32


def _cluster_barriers() -> Iterator[Move]:
    """Blocks exchange words through each other's shared memory."""
    take = "xor.b32 %x6, %w, 1; mapa.shared::cluster.u32 %x7, %s, %x6; ld.shared::cluster.b32 %x8, [%x7]; " + put("%x8")
    arrivals, waits = opcodes("barrier", "barrier.cluster.arrive"), opcodes("barrier", "barrier.cluster.wait")
    for arrive, wait in product(arrivals, waits):
        fence = "fence.acq_rel.cluster;" if "relaxed" in arrive else ""
        meet = f"{fence} {arrive}; {wait}; {fence}"
        if arrive == arrivals[0] or wait == waits[0]:
            name = wait if arrive == arrivals[0] else arrive
            want = column(0, lambda read, t: read[t ^ THREADS, 0])
            note = "(and the other)" if arrive == arrivals[0] and wait == waits[0] else ""
            yield Move(name, f"{meet} {take} {meet}", want, note, cluster=2)


# --- moves and addresses ---

_MOVES = {"pred": "p", "16": "h", "32": "x", "64": "d"}


def _moves() -> Iterator[Move]:
    for opcode in opcodes("mov", "mov", lambda m: m["type"] != "b128"):
        kind = _MOVES[opcode.removeprefix("mov.").lstrip("busf") if "pred" not in opcode else "pred"]
        width = {"p": 32, "h": 16, "x": 32, "d": 64}[kind]
        if kind == "p":
            body = f"and.b32 %x4, %t, 5; setp.eq.u32 %p0, %x4, 1; {opcode} %p1, %p0; selp.b32 %x5, 7, 9, %p1;"
            yield Move(opcode, f"{body} {put('%x5')}", column(0, lambda read, t: np.where(t & 5 == 1, 7, 9)))
            continue
        body = f"ld.global.b{width} %{kind}4, [%a]; {opcode} %{kind}5, %{kind}4; {put(f'%{kind}5')}"
        yield Move(opcode, body, _copied(width // 8))
    for wide, parts in ((16, 2), (32, 2), (32, 4), (64, 2), (64, 4)):
        yield from _packed(wide, wide // parts, parts)
    body = "mov.u32 %x4, s+20; mov.u32 %x5, s; sub.u32 %x6, %x4, %x5; ld.shared.b32 %x7, [%s]; " + put("%x6", "%x7")
    want = both(column(0, lambda read, t: 20), column(1, lambda read, t: read[:, 0]))
    yield Move("mov.u32", body, want, "of addresses")


def _copied(size: int, count: int = 1, step: int = 8) -> Want:
    def want(read: Octets, out: Octets) -> None:
        for n in range(count):
            out[:, step * n : step * n + size] = read[:, size * n : size * n + size]

    return want


def _packed(wide: int, narrow: int, parts: int) -> Iterator[Move]:
    if narrow < 16:  # the assembler takes them from registers of 8 bits alone
        names, declared = [f"%y{n}" for n in range(parts)], f".reg .b8 %y<{parts}>;"
        if wide == 16:
            return
    else:
        kind = {16: "h", 32: "x"}[narrow]
        names, declared = [f"%{kind}{n + 4}" for n in range(parts)], ""
    whole, size = {16: "%h1", 32: "%x1", 64: "%d1"}[wide], narrow // 8
    listed = f"{{{', '.join(names)}}}"
    stores = " ".join(f"st.global.b{narrow} [%o+{8 * n}], {name};" for n, name in enumerate(names))
    loads = " ".join(f"ld.global.b{narrow} {name}, [%a+{size * n}];" for n, name in enumerate(names))
    yield Move(f"mov.b{wide}", f"{declared} ld.global.b{wide} {whole}, [%a]; mov.b{wide} {listed}, {whole}; {stores}",
               _copied(size, parts), f"to {parts} of {narrow}")  # fmt: skip
    yield Move(f"mov.b{wide}", f"{declared} {loads} mov.b{wide} {whole}, {listed}; {put(whole)}",
               _copied(wide // 8), f"of {parts} of {narrow}")  # fmt: skip


_PER_THREAD: dict[str, Callable[[NDArray[Any]], Any]] = {
    "%tid.x": lambda t: t % THREADS, "%ctaid.x": lambda t: t // THREADS, "%laneid": lambda t: t % 32,
    "%lanemask_eq": lambda t: 1 << t % 32, "%lanemask_lt": lambda t: (1 << t % 32) - 1,
    "%lanemask_le": lambda t: (2 << t % 32) - 1, "%lanemask_gt": lambda t: -(2 << t % 32) & 0xFFFF_FFFF,
    "%lanemask_ge": lambda t: -(1 << t % 32) & 0xFFFF_FFFF,
}  # fmt: skip
_FIXED = {
    "%tid.y": 0, "%tid.z": 0, "%ctaid.y": 0, "%ctaid.z": 0, "%ntid.x": THREADS, "%ntid.y": 1, "%ntid.z": 1,
    "%nctaid.x": BLOCKS, "%nctaid.y": 1, "%nctaid.z": 1, "WARP_SZ": 32, "%dynamic_smem_size": 0,
}  # fmt: skip
_CLUSTER: dict[str, Callable[[NDArray[Any]], Any]] = {
    "%cluster_ctaid.x": lambda t: t // THREADS, "%cluster_ctarank": lambda t: t // THREADS,
    **{f"%{name}.{axis}": lambda t, name=name, axis=axis: int(name[0] == "n" or name == "cluster_nctaid")
       for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid") for axis in "yz"},
    "%clusterid.x": lambda t: 0, "%nclusterid.x": lambda t: 1, "%cluster_nctaid.x": lambda t: 2,
    "%cluster_nctarank": lambda t: 2,
}  # fmt: skip
FREE_REGISTERS = {
    "%warpid": "a warp may have any number", "%nwarpid": "what the machine has", "%smid": "any multiprocessor",
    "%nsmid": "what the machine has", "%gridid": "counts launches", "%total_smem_size": "the system's part is its own",
    **dict.fromkeys(("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"), "time"),
}  # fmt: skip
"""Special registers whose values are free, and why; that they can be read is all that is probed."""


def _special(name: str, value: Callable[[NDArray[Any]], Any], cluster: int) -> Move:
    want = column(0, lambda read, t: value(t))
    return Move("mov.u32", f"mov.u32 %x4, {name}; {put('%x4')}", want, name, cluster=cluster)


def _specials() -> Iterator[Move]:
    for name, fixed in _FIXED.items():
        yield _special(name, lambda t, fixed=fixed: fixed, 0)
    for cluster, some in ((0, _PER_THREAD), (2, _CLUSTER)):
        for name, value in some.items():
            yield _special(name, value, cluster)
    for cluster in (0, 2):
        explicit = "mov.pred %p0, %is_explicit_cluster; selp.b32 %x4, 1, 0, %p0; " + put("%x4")
        want = column(0, lambda read, t, cluster=cluster: int(cluster > 0))
        yield Move("mov.pred", explicit, want, f"%is_explicit_cluster {cluster}".rstrip(" 0"), cluster=cluster)
    for name in FREE_REGISTERS:
        wide = "64" if name in ("%clock64", "%globaltimer", "%gridid") else "32"
        register = "%d4" if wide == "64" else "%x4"
        body = f"mov.u{wide} {register}, {name}; xor.b{wide} {register}, {register}, {register}; {put(register)}"
        yield Move(f"mov.u{wide}", body, _copied_zero(int(wide) // 8), f"{name} (read alone)")


def _copied_zero(size: int) -> Want:
    def want(read: Octets, out: Octets) -> None:
        out[:, :size] = 0

    return want


# --- branches ---

_COLLATZ = "mov.u32 %x5, 0; AGAIN: setp.ge.u32 %p0, %x5, %l; {0} add.u32 %x5, %x5, 3; bra AGAIN; DONE: " + put("%x5")


def _control() -> Iterator[Move]:
    rounds = column(0, lambda read, t: -(-(t % 32) // 3) * 3)
    yield Move("bra", _COLLATZ.format("@%p0 bra DONE;"), rounds, "out of a loop")
    yield Move("bra.uni", f"bra.uni OVER; {put('%t')} OVER: {put('%z')}", column(0, lambda read, t: 0))
    for opcode in opcodes("brx", "brx"):
        body = "and.b32 %x4, %l, 3; mov.u32 %x5, 9;"
        if opcode.endswith("uni"):
            body = "add.u32 %x4, %z, 2; mov.u32 %x5, 9;"
        body += f" TABLE: .branchtargets ZERO, ONE, TWO, THREE; {opcode} %x4, TABLE; ZERO: mov.u32 %x5, 100; bra END;"
        body += f" ONE: mov.u32 %x5, 101; bra END; TWO: mov.u32 %x5, 102; THREE: END: {put('%x5')}"
        chosen = np.array([102] * 4 if opcode.endswith("uni") else [100, 101, 102, 9])
        yield Move(opcode, body, column(0, lambda read, t, chosen=chosen: chosen[t & 3]))
    for opcode in ("exit", "ret", "ret.uni"):
        when = "@%p0 " if "uni" not in opcode else ""
        body = f"setp.lt.u32 %p0, %l, 7; {put('%t')} {when}{opcode}; {put('%t', first=1)}"
        yield Move(opcode, body, both(column(0, lambda read, t: t % THREADS), _stayed("uni" in opcode)))
    double = ".func (.param .b32 r) twice(.param .b32 y) { .reg .b32 %u; ld.param.b32 %u, [y]; add.u32 %u, %u, %u;" \
        " st.param.b32 [r], %u; ret; }"  # fmt: skip
    for opcode in opcodes("call", "call"):
        body = "ld.global.b32 %x4, [%a]; { .param .b32 y; .param .b32 r; st.param.b32 [y], %x4;"
        body += f" {opcode} (r), twice, (y); ld.param.b32 %x5, [r]; }} {put('%x5')}"
        yield Move(opcode, body, column(0, lambda read, t: read[:, 0] * np.uint32(2)), before=double)
    for operand in ("0", "100", "%l"):
        yield Move("nanosleep.u32", f"nanosleep.u32 {operand}; {put('%t')}", column(0, lambda read, t: t % THREADS),
                   operand)  # fmt: skip
    for opcode in opcodes("griddepcontrol", "griddepcontrol"):
        yield Move(opcode, f"{opcode}; {put('%t')}", column(0, lambda read, t: t % THREADS))
    body = ""
    for opcode, count in (("setmaxnreg.dec.sync.aligned.u32", 40), ("setmaxnreg.inc.sync.aligned.u32", 96)):
        body += f"{opcode} {count};"  # which the linking assembler leaves out
        yield Move(opcode, f"{body} {put('%t')}", column(0, lambda read, t: t % 128), threads=128)


def _stayed(none: bool) -> Want:
    def want(read: Octets, out: Octets) -> None:
        t = np.arange(len(read))
        if not none:
            words(out)[t % 32 >= 7, 2] = t[t % 32 >= 7] % THREADS

    return want


def _lop3() -> Iterator[Move]:
    for opcode, table, negated in product(opcodes("lop3", "lop3.<op"), (0x00, 0x80, 0x96, 0xE8, 0xFF), ("", "!")):
        body = "ld.global.v2.b32 {%x4, %x5}, [%a]; and.b32 %x4, %x4, 3; and.b32 %x5, %x5, 3; and.b32 %x6, %t, 3;"
        body += f" setp.eq.u32 %p0, %x6, 1; {opcode} %x7|%p1, %x4, %x5, %x6, {table:#04x}, {negated}%p0;"
        body += f" selp.b32 %x8, 1, 0, %p1; {put('%x7', '%x8')}"
        yield Move(opcode, body, _by_table(opcode.split(".")[1], table, bool(negated)), f"{table:#04x} {negated}")


def _by_table(combine: str, table: int, negated: bool) -> Want:
    def want(read: Octets, out: Octets) -> None:
        t = np.arange(len(read), dtype=np.uint32)
        a, b, c = words(read)[:, 0] & 3, words(read)[:, 1] & 3, t & 3
        bits = np.arange(32, dtype=np.uint32)[:, None]
        row = (a >> bits & 1) * 4 + (b >> bits & 1) * 2 + (c >> bits & 1)
        result = np.bitwise_or.reduce((table >> row & 1).astype(np.uint32) << bits)
        other = (c == 1) != negated
        words(out)[:, 0] = result
        words(out)[:, 2] = (result != 0) | other if combine == "or" else (result != 0) & other

    return want


PARTS: Sequence[Callable[[], Iterator[Move]]] = (_harmless, _barriers, _moves, _specials, _control, _lop3)


def thread_cases() -> Iterator[Move]:
    """All of them."""
    for part in PARTS:
        yield from part()
