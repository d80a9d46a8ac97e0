"""Which bytes of results count as unwritten, beside what the values of unwritten bits can change: no fewer, no more.

Each form is run with operands some of whose bits nobody wrote, which come from local memory; its result goes there,
and one byte of it is stored where others see it. The book runs the same instruction on many values of those bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from tests.interpreter.ptx.programs import evaluate, module_text, run
from tilewright.interpreter import Buffer, UninitializedError, load_ptx, run_ptx

ALL = (1 << 64) - 1
SPECIAL = (0, 1, 8, 16, 0x1F, 0xFF, 0x3240, 0x7531, 0x0408, 0x7F007F00, 0x80008000, 0xFFFF_FFFF, ALL)
LIMITS = (0x7FFF, 0x8000, 0x7FFF_FFFF, 0x8000_0000)
KINDS = {".b16": np.uint16, ".b32": np.uint32, ".b64": np.uint64, ".pred": np.bool_}


@dataclass(frozen=True)
class Form:
    """One instruction: types of its result and operands. known: the operands that are wholly written."""

    text: str
    result: str
    operands: tuple[str, ...]
    known: frozenset[int]


def form(line: str) -> Form:
    """`text | result <- operands`, types by their width; operands behind a `!` are written."""
    text, types = line.split(" | ")
    result, operands = types.split(" <- ")
    parts = operands.split()
    known = frozenset(n for n, each in enumerate(parts) if each[0] == "!")
    return Form(text, f".b{result}", tuple(f".b{each.lstrip('!')}" for each in parts), known)


def forms(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if not line.startswith("//")]


EXACT = forms("""
and.b32 %d0, %a0, %a1; | 32 <- 32 32
or.b32 %d0, %a0, %a1; | 32 <- 32 32
or.b64 %d0, %a0, 0xff00ff; | 64 <- 64
and.b16 %d0, %a0, %a0; | 16 <- 16
xor.b32 %d0, %a0, %a1; | 32 <- 32 32
xor.b32 %d0, %a0, %a0; | 32 <- 32
xor.b64 %d0, %a0, 5; | 64 <- 64
not.b32 %d0, %a0; | 32 <- 32
lop3.b32 %d0, %a0, %a1, %a2, 0xe8; | 32 <- 32 32 32
lop3.b32 %d0, %a0, %a1, %a2, 0xca; | 32 <- 32 32 32
lop3.b32 %d0, %a0, 0xff00, %a1, %a2; | 32 <- 32 32 !32
lop3.b32 %d0, %a0, %a1, %a0, 0x5a; | 32 <- 32 32
lop3.b32 %d0, %a0, %a1, %a0, 0x3c; | 32 <- 32 32
shl.b32 %d0, %a0, %a1; | 32 <- 32 !32
shl.b64 %d0, %a0, %a1; | 64 <- 64 !32
shl.b16 %d0, %a0, 3; | 16 <- 16
shr.u32 %d0, %a0, %a1; | 32 <- 32 !32
shr.s32 %d0, %a0, %a1; | 32 <- 32 !32
shr.s64 %d0, %a0, 40; | 64 <- 64
shr.b16 %d0, %a0, %a1; | 16 <- 16 !32
shf.l.wrap.b32 %d0, %a0, %a1, %a2; | 32 <- 32 32 !32
shf.r.clamp.b32 %d0, %a0, %a1, %a2; | 32 <- 32 32 !32
shf.r.wrap.b32 %d0, %a0, %a0, 8; | 32 <- 32
prmt.b32 %d0, %a0, %a1, %a2; | 32 <- 32 32 !32
prmt.b32 %d0, %a0, %a1, 0x9b30; | 32 <- 32 32
prmt.b32 %d0, 0x12345678, %a0, 0x5140; | 32 <- 32
prmt.b32.f4e %d0, %a0, %a1, %a2; | 32 <- 32 32 !32
bfe.u32 %d0, %a0, %a1, %a2; | 32 <- 32 !32 !32
bfe.s32 %d0, %a0, 4, %a1; | 32 <- 32 !32
bfe.s64 %d0, %a0, %a1, 12; | 64 <- 64 !32
bfi.b32 %d0, %a0, %a1, %a2, 12; | 32 <- 32 32 !32
bfi.b64 %d0, %a0, %a1, 8, %a2; | 64 <- 64 64 !32
brev.b32 %d0, %a0; | 32 <- 32
mov.b32 %d0, %a0; | 32 <- 32
mov.b64 %d0, {%a0, %a1}; | 64 <- 32 32
mov.b32 {%h0, %h1}, %a0; mov.b32 %d0, {%h1, %h0}; | 32 <- 32
mov.b64 {_, %d0}, %a0; | 32 <- 64
cvt.u32.u64 %d0, %a0; | 32 <- 64
cvt.u64.u32 %d0, %a0; | 64 <- 32
cvt.s64.s32 %d0, %a0; | 64 <- 32
cvt.s32.s8 %d0, %a0; | 32 <- 32
cvt.u32.u8 %d0, %a0; | 32 <- 32
cvt.s8.s32 %d0, %a0; | 32 <- 32
cvt.u16.u32 %d0, %a0; | 16 <- 32
selp.b32 %d0, %a0, %a1, %true; | 32 <- 32 32
selp.b64 %d0, %a0, %a1, %false; | 64 <- 64 64
slct.b32.s32 %d0, %a0, %a1, %a2; | 32 <- 32 32 !32
add.u32 %d0, %a0, %a1; | 32 <- 32 32
add.s64 %d0, %a0, 0x100; | 64 <- 64
add.u32 %d0, %a0, %a0; | 32 <- 32
sub.u32 %d0, %a0, %a1; | 32 <- 32 32
sub.u32 %d0, %a0, %a0; | 32 <- 32
sub.s32 %d0, 0, %a0; | 32 <- 32
neg.s32 %d0, %a0; | 32 <- 32
mul.lo.u32 %d0, %a0, 0; | 32 <- 32
mul.hi.u32 %d0, %a0, 0; | 32 <- 32
mul.wide.u32 %d0, %a0, 0; | 64 <- 32
setp.eq.u32 %p, %a0, %a1; selp.b32 %d0, 1, 0, %p; | 32 <- 32 32
setp.ne.b64 %p, %a0, 0x8000; selp.b32 %d0, 1, 0, %p; | 32 <- 64
setp.eq.u32 %p, %a0, %a0; selp.b32 %d0, 1, 0, %p; | 32 <- 32
setp.lt.u32 %p, %a0, %a1; selp.b32 %d0, 1, 0, %p; | 32 <- 32 32
setp.ge.s32 %p, %a0, %a1; selp.b32 %d0, 1, 0, %p; | 32 <- 32 32
setp.gt.s16 %p, %a0, 0; selp.b32 %d0, 1, 0, %p; | 32 <- 16
setp.le.u64 %p, %a0, 0xffffff; selp.b32 %d0, 1, 0, %p; | 32 <- 64
setp.hi.u32 %p, %a0, %a1; selp.b32 %d0, 1, 0, %p; | 32 <- 32 32
setp.ne.u32 %p, %a1, 0; setp.eq.and.u32 %p, %a0, 1, %p; selp.b32 %d0, 1, 0, %p; | 32 <- 32 !32
setp.ne.u32 %p, %a1, 0; setp.ne.u32 %q, %a0, 0; and.pred %p, %p, %q; selp.b32 %d0, 1, 0, %p; | 32 <- 32 !32
""")

SOUND = forms("""
shl.b32 %d0, %a0, %a1; | 32 <- 32 32
prmt.b32 %d0, %a0, %a1, %a2; | 32 <- 32 32 32
bfe.u32 %d0, %a0, %a1, %a2; | 32 <- 32 32 32
bfi.b32 %d0, %a0, %a1, %a2, %a2; | 32 <- 32 32 32
lop3.b32 %d0, %a0, %a1, %a2, 0x96; | 32 <- 32 32 32
shf.l.clamp.b32 %d0, %a0, %a1, %a0; | 32 <- 32 32
mul.lo.u32 %d0, %a0, %a1; | 32 <- 32 32
mul.lo.u32 %d0, %a0, 3; | 32 <- 32
mul.lo.u64 %d0, %a0, %a1; | 64 <- 64 64
mul.hi.u32 %d0, %a0, %a1; | 32 <- 32 32
mul.wide.s32 %d0, %a0, %a1; | 64 <- 32 32
mul.wide.u16 %d0, %a0, %a1; | 32 <- 16 16
mad.lo.u32 %d0, %a0, %a1, %a2; | 32 <- 32 32 32
mad.lo.u32 %d0, %a0, 0, %a1; | 32 <- 32 32
mul.lo.u32 %d0, %a0, 0x10000; | 32 <- 32
mad.wide.u32 %d0, %a0, 0x1000, %a1; | 64 <- 32 64
mad.hi.u32 %d0, %a0, %a1, %a2; | 32 <- 32 32 32
add.sat.s32 %d0, %a0, %a1; | 32 <- 32 32
min.u32 %d0, %a0, %a1; | 32 <- 32 32
max.s64 %d0, %a0, %a1; | 64 <- 64 64
abs.s32 %d0, %a0; | 32 <- 32
cvt.sat.u8.u32 %d0, %a0; | 32 <- 32
cvt.rn.f16.f32 %d0, %a0; | 16 <- 32
cvt.rn.f16x2.f32 %d0, %a0, %a1; | 32 <- 32 32
add.rn.f16x2 %d0, %a0, %a1; | 32 <- 32 32
add.u16x2 %d0, %a0, %a1; | 32 <- 32 32
min.s16x2 %d0, %a0, %a1; | 32 <- 32 32
fma.rn.f32 %d0, %a0, %a1, %a2; | 32 <- 32 32 32
popc.b32 %d0, %a0; | 32 <- 32
clz.b32 %d0, %a0; | 32 <- 32
cnot.b32 %d0, %a0; | 32 <- 32
bmsk.clamp.b32 %d0, %a0, %a1; | 32 <- 32 32
sad.u32 %d0, %a0, %a1, %a2; | 32 <- 32 32 32
div.u32 %d0, %a0, %a1; | 32 <- 32 !32
dp4a.u32.u32 %d0, %a0, %a1, %a2; | 32 <- 32 32 32
add.cc.u32 %x, %a0, %a1; addc.u32 %d0, %a2, 0; | 32 <- 32 32 32
sub.u32 %x, %a0, %a1; xor.b32 %d0, %x, %a0; | 32 <- 32 32
setp.lt.f32 %p, %a0, %a1; selp.b32 %d0, 1, 0, %p; | 32 <- 32 32
setp.eq.u32 %p, %a0, 7; selp.b32 %d0, %a1, %a2, %p; | 32 <- 32 32 32
setp.ne.u32 %p, %a1, 0; setp.lt.or.s32 %p, %a0, 1, %p; selp.b32 %d0, 1, 0, %p; | 32 <- 32 32
set.lt.u32.u32 %d0, %a0, %a1; | 32 <- 32 32
slct.b32.s32 %d0, %a0, %a1, %a2; | 32 <- 32 32 32
""")

LOCALS = ".reg .b16 %h<2>; .reg .b32 %x; .reg .pred %p, %q, %true, %false; mov.u32 %x, 1;"
LOCALS += "setp.eq.u32 %true, %x, 1; setp.eq.u32 %false, %x, 0;\n"


def bits(type_: str) -> int:
    return int(type_[2:])


@cache
def module(line: str) -> object:
    """A kernel whose operands come by way of local memory: values, which of their bytes are written, which bits stay,
    and the byte of the result that counts, all in `a`."""
    given = form(line)
    text = [".reg .b64 %g, %w, %o, %at; .reg .b32 %m, %b; .reg .b16 %t; .reg .pred %s; .local .align 8 .b8 l[40];"]
    text.append("ld.param.u64 %g, [a]; ld.param.u64 %o, [b]; mov.u64 %at, l;" + LOCALS)
    for n, type_ in enumerate(given.operands):
        text.append(f".reg {type_} %a{n}, %k{n}; ld.global.b64 %w, [%g+{8 * n}]; ld.global.b32 %m, [%g+{32 + 4 * n}];")
        for at in range(bits(type_) // 8):
            text.append(f"shr.u32 %b, %m, {at}; and.b32 %b, %b, 1; setp.ne.u32 %s, %b, 0;")
            text.append(f"@%s st.local.u8 [l+{8 * n + at}], %w; shr.u64 %w, %w, 8;")
        text.append(f"ld.local{type_} %a{n}, [l+{8 * n}]; ld.global{type_} %k{n}, [%g+{56 + 8 * n}];")
        text.append(f"and{type_} %a{n}, %a{n}, %k{n};")
    text.append(f".reg {given.result} %d0; {given.text} st.local{given.result} [l+32], %d0;")
    text.append("ld.global.b64 %w, [%g+48]; add.u64 %at, %at, %w;")
    text.append("ld.local.u8 %t, [%at+32]; st.global.u8 [%o], %t; ret;")
    return load_ptx(module_text("\n".join(text), "ab"))


def told(line: str, values: list[int], unwritten: list[int]) -> int:
    """The bytes of the result, a bit each, that the emulator takes for unwritten."""
    given, found = form(line), 0
    room = np.zeros(12, np.uint64)
    for n, (value, loose) in enumerate(zip(values, unwritten, strict=True)):
        octets = np.array([loose], np.uint64).view(np.uint8) != 0
        room[n], room[7 + n] = value, value | loose
        room.view(np.uint32)[8 + n] = sum(1 << at for at in range(8) if not octets[at])
    for at in range(bits(given.result) // 8):
        room[6] = at
        try:
            buffers = [Buffer.of("a", room), Buffer.of("b", np.zeros(1, np.uint8))]
            run_ptx(module(line), "k", (1,), (1,), buffers)  # pyright: ignore[reportArgumentType]
        except UninitializedError:
            found |= 1 << at
    return found


def octets(changed: int) -> int:
    return sum(1 << at for at in range(8) if changed >> 8 * at & 0xFF)


def draw(line: str, rng: np.random.Generator, count: int) -> list[tuple[list[int], list[int]]]:
    """Values of operands, and which of their bits are unwritten; in bytes of which some are, the others are 0."""
    given, found = form(line), list[tuple[list[int], list[int]]]()
    while len(found) < count:
        values, loose = list[int](), list[int]()
        for n, type_ in enumerate(given.operands):
            full = (1 << bits(type_)) - 1
            value = int(rng.choice(np.array(SPECIAL, np.uint64))) if rng.random() < 0.6 else int(rng.integers(ALL >> 1))
            mask = 0 if n in given.known or rng.random() < 0.2 else int.from_bytes(
                bytes(int(rng.choice([0, 0, 0xFF, 0xFF, 0x0F, 0x80, 1])) for _ in range(8)), "little")  # fmt: skip
            touched = sum(0xFF << 8 * at for at in range(8) if mask >> 8 * at & 0xFF)
            values.append(value & full & ~touched)
            loose.append(mask & full)
        if any(loose):
            found.append((values, loose))
    return found


def book(line: str, cases: list[tuple[list[int], list[int]]], rng: np.random.Generator) -> list[int]:
    """The bytes of the result that some values of the unwritten bits change, among many."""
    given, tries = form(line), 200
    rows: list[list[np.ndarray]] = [[] for _ in given.operands]
    for values, loose in cases:
        same = rng.integers(0, ALL, 40, np.uint64, endpoint=True)
        for n, row in enumerate(rows):
            others = [k for k in range(len(values)) if k != n]
            pool = np.array([0, ALL, 1, *LIMITS, *(values[k] for k in others)], np.uint64)
            guess = rng.integers(0, ALL, tries, np.uint64, endpoint=True)
            guess = np.where(rng.random(tries) < 0.7, rng.choice(pool, tries), guess)
            for k in others[:1]:  # as equal as can be
                guess[:40] = same & np.uint64(loose[k]) | np.uint64(values[k])
            row.append(guess & np.uint64(loose[n]) | np.uint64(values[n]))
    columns = [np.concatenate(row).astype(KINDS[type_]) for row, type_ in zip(rows, given.operands, strict=True)]
    (out,) = evaluate(LOCALS + given.text, *columns, results=(KINDS[given.result],))
    table = out.reshape(len(cases), tries)
    return [octets(int(np.bitwise_or.reduce(row ^ row[0]))) for row in table]


def differences(line: str, seed: int, count: int) -> list[str]:
    """Cases where too much is told (+) or too little (-)."""
    rng = np.random.default_rng(seed)
    cases = draw(line, rng, count)
    found = list[str]()
    for (values, loose), right in zip(cases, book(line, cases, rng), strict=True):
        mine = told(line, values, loose)
        sign = ("+" if mine & ~right else "") + ("-" if right & ~mine else "")
        if sign:
            found.append(f"{sign} {[hex(v) for v in values]} unwritten {[hex(u) for u in loose]}: {mine:#b} {right:#b}")
    return found


COUNTS = [(0, 2), pytest.param(1, 30, marks=pytest.mark.slow)]
"""Where to start, and how many cases of each form."""


@pytest.mark.parametrize(("seed", "count"), COUNTS)
@pytest.mark.parametrize("line", EXACT)
def test_what_depends_on_unwritten_bits_and_no_more(line: str, seed: int, count: int) -> None:
    assert differences(line, seed, count) == []


@pytest.mark.parametrize(("seed", "count"), COUNTS)
@pytest.mark.parametrize("line", SOUND)
def test_what_depends_on_unwritten_bits_is_told(line: str, seed: int, count: int) -> None:
    assert [each for each in differences(line, seed, count) if "-" in each.split()[0]] == []


STEPS = (
    "and.b32 R, A, B;", "or.b32 R, A, B;", "xor.b32 R, A, B;", "not.b32 R, A;", "add.u32 R, A, B;", "sub.u32 R, A, B;",
    "and.b32 R, A, K;", "shl.b32 R, A, N;", "shr.u32 R, A, N;", "shr.s32 R, A, N;", "shf.l.wrap.b32 R, A, B, N;",
    "prmt.b32 R, A, B, K;", "lop3.b32 R, A, B, C, L;", "bfe.s32 R, A, N, 9;", "bfi.b32 R, A, B, N, 9;", "neg.s32 R, A;",
    "mul.lo.u32 R, A, K;", "mad.lo.u32 R, A, B, C;", "mul.hi.u32 R, A, B;", "min.s32 R, A, B;", "popc.b32 R, A;",
    "setp.lt.s32 %p, A, B; selp.b32 R, B, C, %p;", "setp.eq.u32 %p, A, K; @%p mov.b32 R, B;", "cvt.s32.s8 R, A;",
    "setp.ne.u32 %p, A, 0; setp.gt.or.u32 %q, B, K, %p; @!%q add.u32 R, A, R;", "brev.b32 R, A;",
    "shr.u32 %x, A, 27; shl.b32 R, B, %x;", "mov.b32 {%h0, %h1}, A; mov.b32 R, {%h1, %h0};",
)  # fmt: skip


def chain(seed: int) -> str:
    """A program of a few steps on what is in part unwritten."""
    rng = np.random.default_rng(seed)
    names = [f"%r{n}" for n in range(5)]
    text = ".reg .b32 %r<5>; mov.b32 %r0, %a0; mov.b32 %r1, %a1; mov.b32 %r2, %a2; mov.b32 %r3, 0xff00; mov.b32 %r4, 6;"
    result = ""
    for _ in range(5):
        result = str(rng.choice(names))
        given = {"R": result, "A": rng.choice(names), "B": rng.choice(names), "C": rng.choice(names)}
        given |= {"K": rng.choice(SPECIAL[:11]), "N": rng.integers(32), "L": rng.integers(256)}
        step = str(rng.choice(np.array(STEPS)))
        text += " " + "".join(str(given.get(letter, letter)) for letter in step)
    return f"{text} mov.b32 %d0, {result}; | 32 <- 32 32 32"


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.slow) for n in range(8, 300))])
def test_what_depends_on_unwritten_bits_after_several_steps_is_told(seed: int) -> None:
    line = chain(seed)
    assert [each for each in differences(line, seed, 3) if "-" in each.split()[0]] == [], line


def test_bytes_that_nobody_needs_may_be_unwritten() -> None:
    """A 16-bit number is packed with nothing, worked on with 32-bit instructions, and taken out again."""
    start = """
        .reg .b16 %h, %none; .reg .b32 %w, %x<4>;
        mov.b16 %h, 0x1234; mov.b32 %w, {%h, %none};
        and.b32 %x0, %w, 0x7fff7fff; mad.lo.u32 %x1, %x0, 2, 0x00800080; lop3.b32 %x2, %w, 0x80008000, %x1, 0xea;
    """
    out = np.zeros(1, np.uint32)
    run(f"{start} .reg .b64 %p; ld.param.u64 %p, [a]; cvt.u16.u32 %h, %x2; st.global.b16 [%p], %h; ret;", out, block=1)
    assert out[0] == 2 * 0x1234 + 0x80
    with pytest.raises(UninitializedError, match="depends on `%none`"):
        run(f"{start} .reg .b64 %p; ld.param.u64 %p, [a]; st.global.b32 [%p], %x2; ret;", out, block=1)
