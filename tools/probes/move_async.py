"""Cases of asynchronous copies with every modifier, of mbarriers, and of stores and atomics that signal them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.interpreter.ptx.table import Modifiers

from .move_atomics import COMBINED
from .move_cases import BLOCKS, SPAN, THREADS, Move, Octets, Want, bits_of, put, taken
from .move_memory import POLICY
from .move_threads import column, opcodes, words

_AHEAD = taken("shared", "%s")
_ONE = "setp.ne.u32 %p7, %t, 0;"
_INIT = f"{_ONE} @!%p7 mbarrier.init.shared::cta.b64 [%b], {{0}}; fence.proxy.async; bar.sync 0;"
_WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p6, [%b], 0; @!%p6 bra WAIT;"
_MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


def _hinted(opcode: str) -> tuple[str, str]:
    """PTX before an instruction, and its last operand, where it takes a policy."""
    return (POLICY, ", %d20") if "cache_hint" in opcode else ("", "")


# --- cp.async ---


def _cut(size: int, nbytes: int | None = None, odd: int | None = None) -> Want:
    """A piece of shared memory replaced: by so many bytes and zeros, in odd threads by another number of them."""

    def want(read: Octets, out: Octets) -> None:
        out[:] = read
        t = np.arange(len(read))
        for parity, count in ((0, nbytes), (1, nbytes if odd is None else odd)):
            rows = t % 2 == parity
            out[rows, 16 : 16 + size] = 0
            count = size if count is None else count
            out[rows, 16 : 16 + count] = read[rows, 32 : 32 + count]

    return want


def _small(opcode: str, size: int, extra: str = "", done: str = "cp.async.wait_all;") -> str:
    """16 bytes of the array, or fewer, into shared memory."""
    before, policy = _hinted(opcode)
    return f"{before} {opcode} [%s+16], [%a+32], {size}{extra}{policy}; {done} {_AHEAD}"


def _small_copies() -> Iterator[Move]:
    odd = "and.b32 %x4, %t, 1; setp.ne.u32 %p0, %x4, 0;"
    for opcode in opcodes("cp", "cp.async.<cop"):
        for size in (4, 8, 16) if ".ca" in opcode else (16,):
            yield Move(opcode, _small(opcode, size), _cut(size), f"of {size}")
        size = 4 if ".ca" in opcode else 16
        fewer = f"{odd} selp.b32 %x5, {size - 1}, {size}, %p0; {_small(opcode, size, ', %x5')}"
        yield Move(opcode, fewer, _cut(size, size, size - 1), "of fewer bytes")
        yield Move(opcode, f"{odd} {_small(opcode, size, ', %p0')}", _cut(size, size, 0), "with sources ignored")
    plain = "cp.async.ca.shared.global"
    first = f"{plain} [%s+16], [%a+32], 8;"
    yield Move("cp.async.wait_all", f"{first} cp.async.wait_all; {_AHEAD}", _cut(8))
    yield Move("cp.async.commit_group", f"{first} cp.async.commit_group; cp.async.wait_group 0; {_AHEAD}", _cut(8))
    later = f"{first} cp.async.commit_group; {plain} [%s], [%a], 8; cp.async.commit_group;"
    for left in (0, 1):
        body = f"{later} cp.async.wait_group {left}; ld.shared.b32 %x4, [%s+16]; {put('%x4')} cp.async.wait_all;"
        yield Move("cp.async.wait_group", body, column(0, lambda read, t: read[:, 8]), f"that leaves {left}")
    for opcode in opcodes("cp", "cp.async.mbarrier"):
        arrive = "" if "noinc" in opcode else "mbarrier.arrive.shared::cta.b64 _, [%b];"
        body = f"{_INIT.format(THREADS)} {_place(opcode)} {first} {opcode} [{_at(opcode)}]; {arrive}"
        yield Move(opcode, f"{body} {_WAIT} {_AHEAD}", _cut(8))


# --- bulk copies ---

_BYTES = 1024


def _block(octets: Octets, block: int) -> Octets:
    """A block's bytes, as it sees them: the first thread's first."""
    return octets[block * THREADS : (block + 1) * THREADS].reshape(-1)


def _bulk_loaded(source: int) -> Want:
    """Shared memory, whose first bytes come from the array's: the block's own, or those of block `source`."""

    def want(read: Octets, out: Octets) -> None:
        out[:] = read
        for block in range(BLOCKS):
            place = out[block * THREADS : (block + 1) * THREADS].reshape(-1)
            place[:_BYTES] = _block(read, block if source < 0 else source)[2048 : 2048 + _BYTES]

    return want


def _bulk_loads() -> Iterator[Move]:
    for opcode in opcodes("cp", "cp.async.bulk.<to"):
        before, policy = _hinted(opcode)
        arrive = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {_BYTES};"
        if "multicast" not in opcode:
            copy = f"{opcode} [%s], [%a+2048], {_BYTES}, [%b]{policy};"
            body = f"{before} {_INIT.format(1)} @%p7 bra WAIT; {arrive} {copy} {_WAIT} {_AHEAD}"
            yield Move(opcode, body, _bulk_loaded(-1))
        elif "shared::cluster" in opcode:
            copy = f"{opcode} [%s], [%a+2048], {_BYTES}, [%b], %h4{policy};"
            body = f"{before} mov.b16 %h4, 3; {_INIT.format(1)} fence.mbarrier_init.release.cluster;"
            body += f" setp.ne.u32 %p5, %i, 0; @!%p7 {arrive} {_MEET} @%p5 bra WAIT; {copy} {_WAIT} {_AHEAD} {_MEET}"
            yield Move(opcode, body, _bulk_loaded(0), cluster=2)


def _bulk_stored(op: str, type_: str) -> Want | None:
    """The array, into which shared memory was copied, or combined with it; None where floats are added."""
    if "f" in type_:
        return None

    def want(read: Octets, out: Octets) -> None:
        for block in range(BLOCKS):
            source, target = _block(read, block)[:_BYTES], _block(out, block)[:_BYTES]
            if not op:
                target[:] = source
                continue
            kind = np.dtype(f"{'i' if type_[0] == 's' else 'u'}{bits_of(type_) // 8}")
            target[:] = COMBINED[op](target.view(kind), source.view(kind)).view(np.uint8)

    return want


def _bulk_stores() -> Iterator[Move]:
    done = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"
    start = f"{_ONE} fence.proxy.async; bar.sync 0; @%p7 bra END;"
    stores = [*opcodes("cp", "cp.async.bulk.global"), *opcodes("cp", "cp.reduce.async.bulk.global")]
    for opcode in stores:
        before, policy = _hinted(opcode)
        op, type_ = "", "b8"
        if ".reduce" in opcode:
            *_, op, type_ = opcode.replace(".noftz", "").split(".")
        body = f"add.u32 %x4, %s, 0; {before} {start} {opcode} [%o], [%x4], {_BYTES}{policy}; {done}"
        yield Move(opcode, body, _bulk_stored(op, type_))
    copy = "cp.async.bulk.global.shared::cta.bulk_group [%o], [%x4], 1024;"
    yield Move("cp.async.bulk.commit_group", f"add.u32 %x4, %s, 0; {start} {copy} {done}", _bulk_stored("", "b8"))
    for read in ("", ".read"):
        wait = f"cp.async.bulk.wait_group{read} 0; st.shared.b32 [%x4], %z;"
        body = f"add.u32 %x4, %s, 0; {start} {copy} {done.replace('cp.async.bulk.wait_group 0;', wait)}"
        yield Move(f"cp.async.bulk.wait_group{read}", body, _bulk_stored("", "b8"), "and written again")


def _near_copies() -> Iterator[Move]:
    """Between two places of a block's shared memory."""
    copies = [*opcodes("cp", "cp.async.bulk.shared::cluster"), *opcodes("cp", "cp.reduce.async.bulk.shared::cluster")]
    for opcode in copies:
        op, type_ = "", "b8"
        if ".reduce" in opcode:
            *_, op, type_ = opcode.split(".")

        def want(read: Octets, out: Octets, op: str = op, type_: str = type_) -> None:
            out[:] = read
            kind = np.dtype(f"{'i' if type_[0] == 's' else 'u'}{bits_of(type_) // 8}")
            for block in range(BLOCKS):
                target = _block(out, block)[:_BYTES]
                source = _block(read, block)[2048 : 2048 + _BYTES].copy()
                if op:
                    source = COMBINED[op](target.view(kind), source.view(kind)).view(np.uint8)
                target[:] = source

        arrive = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {_BYTES};"
        copy = f"{opcode} [%s], [%s+2048], {_BYTES}, [%b];"
        yield Move(opcode, f"{_INIT.format(1)} @%p7 bra WAIT; {arrive} {copy} {_WAIT} {_AHEAD}", want, cluster=1)


def _prefetches() -> Iterator[Move]:
    """Which change nothing."""
    want = column(0, lambda read, t: read[:, 0])
    for opcode in opcodes("cp", "cp.async.bulk.prefetch.L2"):
        before, policy = _hinted(opcode)
        body = f"{before} {opcode} [%a], {SPAN}{policy}; ld.global.b32 %x4, [%a]; {put('%x4')}"
        yield Move(opcode, body, want)
    for opcode in opcodes("cp", "cp.async.bulk.prefetch.tensor.<dim:1d|2d|3d|4d|5d>.L2"):
        if ".1d." in opcode:
            before, policy = _hinted(opcode)
            body = f"mov.b64 %d21, m; cvta.param.u64 %d21, %d21; {before} {opcode} [%d21, {{%z}}]{policy};"
            yield Move(opcode, f"{body} ld.global.b32 %x4, [%a]; {put('%x4')}", want, needs=frozenset({"tensor"}))


# --- to another block ---


def _sent(own: bool, size: int, op: str, type_: str) -> Want:
    """Shared memory, to whose words the other block's thread has stored or added its own, or the thread itself."""
    first = 32

    def want(read: Octets, out: Octets) -> None:
        out[:] = read
        other = read[np.arange(len(read)) ^ (0 if own else THREADS), :size]
        if op:
            kind = np.dtype(f"{'i' if type_[0] == 's' else 'u'}{size}")
            mine = np.ascontiguousarray(read[:, first : first + size]).view(kind)
            other = COMBINED[op](mine, np.ascontiguousarray(other).view(kind)).view(np.uint8)
        out[:, first : first + size] = other

    return want


def _narrow(m: Modifiers) -> bool:
    return bits_of(m["type"]) * int(m.get("vec", "")[1:] or 1) <= 128


def _remote() -> Iterator[Move]:
    for base in ("st", "red"):
        for opcode in opcodes(base, f"{base}.async", _narrow):
            op, type_ = ("", opcode.rpartition(".")[2]) if base == "st" else (*opcode.split(".")[-2:],)
            count = int(opcode.partition("bytes.v")[2][:1] or 1) if base == "st" else 1
            own, size, kind = "shared::cta" in opcode, bits_of(type_) // 8, "d" if bits_of(type_) == 64 else "x"
            names = [f"%{kind}{n + 4}" for n in range(count)]
            listed = names[0] if count == 1 else f"{{{', '.join(names)}}}"
            loads = " ".join(f"ld.global.b{8 * size} {name}, [%a+{n * size}];" for n, name in enumerate(names))
            expect = f"@!%p7 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {THREADS * size * count};"
            body = f"{_INIT.format(1)} fence.mbarrier_init.release.cluster; {expect} {_MEET}"
            body += f" xor.b32 %x20, %w, {int(not own)};"
            body += f" mapa.shared::cluster.u32 %x21, %s, %x20; mapa.shared::cluster.u32 %x22, %b, %x20; {loads}"
            body += f" {opcode} [%x21+32], {listed}, [%x22]; {_WAIT} {_AHEAD} {_MEET}"
            yield Move(opcode, body, _sent(own, size * count, op, type_), cluster=2)


# --- mbarriers ---

_STATES = "mbarrier.test_wait.shared::cta.b64 %p{0}, [%b], %d4; "
_TOLD = "selp.b32 %x4, 1, 0, %p0; selp.b32 %x5, 1, 0, %p1; "
_ARRIVE = "mbarrier.arrive.shared::cta.b64 %d4, [%b]; "


def _signals(start: str) -> list[str]:
    """Opcodes of mbarriers; the assembler wants semantics and scope together."""
    return opcodes("mbarrier", start, lambda m: bool(m.get("sem")) == bool(m.get("scope")))


def _by_one(body: str) -> str:
    return f"{_ONE} @%p7 bra END; {body} END:"


def _found(*values: int) -> Want:
    def want(read: Octets, out: Octets) -> None:
        for n, value in enumerate(values):
            words(out)[::THREADS, 2 * n] = value

    return want


def _mbarriers() -> Iterator[Move]:
    made = "mbarrier.init.shared::cta.b64 [%b], {0}; "
    told = _TOLD + put("%x4", "%x5")
    for opcode in _signals("mbarrier.init"):
        body = f"{_place(opcode)} {opcode} [{_at(opcode)}], 2; {_ARRIVE}{_STATES.format(0)}"
        yield Move(opcode, _by_one(f"{body} {_ARRIVE}{_STATES.format(1)}{told}"), _found(0, 1))
    for opcode in _signals("mbarrier.inval"):
        body = f"{made.format(1)} {_place(opcode)} {opcode} [{_at(opcode)}]; st.shared.b32 [%b], %w;"
        yield Move(opcode, _by_one(f"{body} ld.shared.b32 %x4, [%b]; sub.u32 %x4, %x4, %w; {put('%x4')}"), _found(0))
    for name, other in (("expect_tx", "complete_tx"), ("complete_tx", "expect_tx")):
        for opcode in _signals(f"mbarrier.{name}["):
            own, plain = f"{opcode} [{_at(opcode)}], 16;", f"mbarrier.{other}.relaxed.cta.shared::cta.b64 [%b], 16;"
            first, last = (own, plain) if name == "expect_tx" else (plain, own)
            body = f"{made.format(1)} {_place(opcode)} {first} {_ARRIVE}{_STATES.format(0)}{last}{_STATES.format(1)}"
            yield Move(opcode, _by_one(body + told), _found(0, 1))
    yield from _arrivals(made, told)
    body = f"{made.format(5)} {_ARRIVE} {_ARRIVE} mbarrier.pending_count.b64 %x4, %d4; {put('%x4')}"
    yield Move("mbarrier.pending_count.b64", _by_one(body), _found(4))
    for opcode in [*_signals("mbarrier.test_wait"), *_signals("mbarrier.try_wait")]:
        phase = "%z" if "parity" in opcode else "%d4"
        before = "" if "try_wait" in opcode else f"{opcode} %p0, [{_at(opcode)}], {phase};"
        body = f"{made.format(2)} {_place(opcode)} setp.ne.u32 %p0, %t, %t; {_ARRIVE}{before}"
        body += f" mbarrier.arrive.shared::cta.b64 %d5, [%b]; {opcode} %p1, [{_at(opcode)}], {phase}; {told}"
        yield Move(opcode, _by_one(body), _found(0, 1))


def _arrivals(made: str, told: str) -> Iterator[Move]:
    """An arrival, which is not the last, and another one: the phase is complete. Where some drop out, the next too."""
    starts = ("mbarrier.<op:arrive|arrive_drop>.noComplete", "mbarrier.<op:arrive|arrive_drop>[")
    for opcode in (opcode for start in starts for opcode in _signals(start)):
        far, dropped, expects = "shared::cluster" in opcode, "drop" in opcode, "expect_tx" in opcode
        operand = ", 16" if expects else ", 1" if "noComplete" in opcode else ""
        state = "_" if far else "%d5"
        own = f"{opcode} {state}, [{_at(opcode)}]{operand};"
        body = f"{made.format(2)} {_place(opcode)} mbarrier.test_wait.parity.shared::cta.b64 %p0, [%b], 1; {own}"
        body += " mbarrier.test_wait.parity.shared::cta.b64 %p1, [%b], 0; selp.b32 %x6, 1, 0, %p1;"
        body += " mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 16;" * expects
        body += f" {_ARRIVE} mbarrier.test_wait.parity.shared::cta.b64 %p1, [%b], 0; {told}"
        body += f" {_ARRIVE} mbarrier.test_wait.parity.shared::cta.b64 %p2, [%b], 1; selp.b32 %x7, 1, 0, %p2;"
        yield Move(opcode, _by_one(f"{body} {put('%x6', '%x7', first=2)}"), _found(1, 1, 0, int(dropped)))


def _at(opcode: str) -> str:
    """The mbarrier's address: in shared memory, or the generic one."""
    return "%b" if ".shared" in opcode else "%d21"


def _place(opcode: str) -> str:
    return "" if ".shared" in opcode else "cvt.u64.u32 %d21, %b; cvta.shared.u64 %d21, %d21;"


def async_cases() -> Iterator[Move]:
    """All of them."""
    for part in (_small_copies, _bulk_loads, _bulk_stores, _near_copies, _prefetches, _remote, _mbarriers):
        yield from part()
