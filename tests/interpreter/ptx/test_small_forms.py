"""Forms that few write and the assembler takes: modifiers in any order, lop3 with a predicate, numbers of groups."""

from __future__ import annotations

from itertools import permutations, product
from typing import NoReturn

import numpy as np
import pytest

from tests.interpreter.ptx.kernels import START
from tests.interpreter.ptx.programs import Array, aligned, evaluate, module_text, run
from tilewright.compiler import AssemblerError, assemble
from tilewright.interpreter import Buffer
from tilewright.interpreter.ptx import PtxError, RaceError, load_ptx, run_ptx
from tilewright.interpreter.ptx.table import find


def taken(body: str, names: str = "ab") -> None:
    """Both the assembler and the emulator take a body."""
    text = module_text(body, names)
    assert assemble("k", text, "sm_90a").cubin and load_ptx(text).entries


# --- modifiers in any order ---

ORDERED = {
    "atom": ("atom", ("relaxed", "gpu", "global", "add"), ".u32 %w, [%a], %v;"),
    "atom of a cluster": ("atom", ("acq_rel", "cluster", "shared::cta", "add"), ".u32 %w, [%s], %v;"),
    "red": ("red", ("release", "cta", "global", "add"), ".u32 [%a], %v;"),
    "ld": ("ld", ("acquire", "sys", "global"), ".b32 %w, [%a];"),
    "st": ("st", ("release", "gpu", "global"), ".b32 [%a], %v;"),
    "fence": ("fence", ("acq_rel", "cluster"), ";"),
}
PLACES = """.shared .align 8 .b8 s[64]; .reg .b32 %s, %v, %w; .reg .b64 %a, %b;
mov.u32 %s, s; mov.u32 %v, 5; ld.param.u64 %a, [a]; ld.param.u64 %b, [b];"""


@pytest.mark.parametrize("name", ORDERED)
def test_the_order_of_modifiers_means_nothing(name: str) -> None:
    base, words, rest = ORDERED[name]
    kind = rest.split()[0].removesuffix(";")

    def found(order: tuple[str, ...]) -> object:
        return find(f"{base}.{'.'.join(order)}{kind}", fail)

    orders = [*permutations(words)]
    assert all(found(order) == found(words) for order in orders)
    taken(PLACES + "\n".join(f"{base}.{'.'.join(order)}{rest}" for order in orders))


def fail(what: str) -> NoReturn:
    raise LookupError(what)


@pytest.mark.parametrize("opcode", ["atom.cta.relaxed.global.add.u32", "atom.global.add.relaxed.cta.u32"])
def test_an_atomic_with_its_scope_first(opcode: str) -> None:
    old, cell = np.zeros(64, np.uint32), np.full(1, 7, np.uint32)
    body = START + "ld.param.u64 %c, [b]; mul.wide.u32 %o1, %t, 4; ld.param.u64 %a, [a];" \
        f" add.u64 %a, %a, %o1; {opcode} %w, [%c], 2; st.global.u32 [%a], %w;"  # fmt: skip
    run(body, old, cell, block=64)
    assert cell[0] == 7 + 2 * 64 and sorted(old.tolist()) == list(range(7, 7 + 128, 2))
    assert assemble("k", module_text(body, "ab"), "sm_90a").cubin


@pytest.mark.parametrize(
    ("opcode", "what"),
    [
        ("red.gpu.acquire.global.add.u32", "unknown modifier `.acquire` of `red`"),
        ("red.acq_rel.gpu.global.add.u32", "unknown modifier `.acq_rel` of `red`"),
        ("atom.gpu.gpu.global.add.u32", "is not a form of `atom`"),
        ("atom.gpu.add.global.relaxed.or.u32", "is not a form of `atom`"),
        ("ld.global.relaxed.b32", "is not a form of `ld`"),
        ("mbarrier.shared.arrive.b64", "is not a form of `mbarrier`"),
    ],
)
def test_modifiers_that_do_not_go_together(opcode: str, what: str) -> None:
    with pytest.raises(LookupError, match=what):
        find(opcode, fail)


# --- lop3 with a predicate ---


@pytest.mark.parametrize(("combine", "table"), [*product(("or", "and"), (0x96, 0x80, 0xE8, 0x00, 0xFF))])
def test_lop3_with_a_predicate(combine: str, table: int) -> None:
    """The predicate says whether the result is not 0, or / and another one."""
    some = np.array([0, 1, 0xFFFF_FFFF, 0x8000_0000, 0x1234_5678, 0xEDCB_A987], np.uint32)
    a, b, c = (x.ravel() for x in np.meshgrid(some, some, some))
    q = np.arange(len(a)) % 3 == 0
    bits = np.arange(32, dtype=np.uint32)[:, None]
    row = (a >> bits & 1) * 4 + (b >> bits & 1) * 2 + (c >> bits & 1)
    want = np.bitwise_or.reduce((table >> row & 1).astype(np.uint32) << bits)
    operation = f"lop3.{combine}.b32 %d0|%d1, %a0, %a1, %a2, {table:#x}, %a3;"
    result, predicate = evaluate(operation, a, b, c, q, results=(np.uint32, np.bool_))
    assert np.array_equal(result, want)
    assert np.array_equal(predicate, (want != 0) | q if combine == "or" else (want != 0) & q)
    (alone,) = evaluate(operation.replace("%d0|%d1", "_|%d0").replace("%a3", "!%a3"), a, b, c, q, results=(np.bool_,))
    assert np.array_equal(alone, (want != 0) | ~q if combine == "or" else (want != 0) & ~q)


def test_lop3_as_the_assembler_takes_it() -> None:
    registers = ".reg .pred %p, %q; .reg .b32 %d, %a, %b, %c;\nmov.b32 %a, 1; mov.b32 %b, 2; mov.b32 %c, 3; "
    registers += "setp.eq.u32 %q, %a, 1;\n"
    taken(registers + "lop3.or.b32 %d|%p, %a, %b, %c, 0x96, %q; lop3.and.b32 _|%p, %a, %b, %c, 0xe8, !%q;")
    for bad in ("lop3.or.b32 %d, %a, %b, %c, 0x96, %q;", "lop3.or.b32 %d|%p, %a, %b, %c, 0x96;",
                "lop3.b32 %d|%p, %a, %b, %c, 0x96;", "lop3.xor.b32 %d|%p, %a, %b, %c, 0x96, %q;"):  # fmt: skip
        with pytest.raises(PtxError):
            load_ptx(module_text(registers + bad))


# --- how many groups a wait leaves ---

GROUPS, LEFT = 70, 63
"""Groups of a thread, and those that a wait leaves at most: all larger numbers and the negative ones mean that."""
COPIES = f"""
.shared .align 16 .b8 s[{16 * GROUPS}]; .reg .b32 %s, %w; .reg .b64 %a, %c; .reg .pred %p; mov.u32 %w, %tid.x;
setp.ne.u32 %p, %w, 0; @%p exit; ld.param.u64 %a, [a]; ld.param.u64 %c, [b]; mov.u32 %s, s;
"""
COPY = "cp.async.cg.shared.global [%s+{0}], [%a+{0}], 16; cp.async.commit_group;"
BULK = "cp.async.bulk.global.shared::cta.bulk_group [%c+{0}], [%s+{0}], 16; cp.async.bulk.commit_group;"


def left_by(wait: str, group: int) -> Array:
    """What a thread finds that has started 70 copies into shared memory, waits, and reads what a group copied."""
    body = COPIES + "".join(COPY.format(16 * n) for n in range(GROUPS))
    body += f"{wait} ld.shared.u32 %w, [%s+{16 * group}]; st.global.u32 [%c], %w; cp.async.wait_all;"
    given, out = aligned(np.arange(4 * GROUPS, dtype=np.uint32)), np.zeros(1, np.uint32)
    run(body, given, out)
    assert assemble("k", module_text(body, "ab"), "sm_90a").cubin
    return out


@pytest.mark.parametrize("number", ["63", "64", "-1", "-2", "100", "4294967295"])
def test_a_wait_for_copies_leaves_63_groups_at_most(number: str) -> None:
    wait, last = f"cp.async.wait_group {number};", GROUPS - LEFT - 1
    assert left_by(wait, last)[0] == 4 * last
    with pytest.raises(RaceError, match="without a wait for the copy"):
        left_by(wait, last + 1)


def test_a_wait_for_copies_that_leaves_62() -> None:
    assert left_by("cp.async.wait_group 62;", GROUPS - LEFT)[0] == 4 * (GROUPS - LEFT)


@pytest.mark.parametrize("number", ["63", "-1", "100", "2147483647"])
@pytest.mark.parametrize("read", ["", ".read"])
def test_a_wait_for_bulk_copies_leaves_63_groups_at_most(number: str, read: str) -> None:
    """The source of a copy may be written once the wait covers its group."""
    body = COPIES + "mov.u32 %w, 9;"
    body += "".join(f"st.shared.v4.u32 [%s+{16 * n}], {{%w, %w, %w, %w}};" for n in range(GROUPS))
    body += "fence.proxy.async;" + "".join(BULK.format(16 * n) for n in range(GROUPS))
    body += f"cp.async.bulk.wait_group{read} {number}; st.shared.u32 [%s+{{}}], 1; cp.async.bulk.wait_group 0;"
    last = GROUPS - LEFT - 1
    given, out = np.zeros(1, np.uint32), aligned(np.zeros(4 * GROUPS, np.uint32))
    run(body.replace("{}", str(16 * last)), given, out)
    assert (out == 9).all()
    with pytest.raises(RaceError):
        run(body.replace("{}", str(16 * last + 16)), given, out)
    assert assemble("k", module_text(body.replace("{}", "0"), "ab"), "sm_90a").cubin


# --- what the emulator cannot have ---

MULTIMEM = (
    "multimem.ld_reduce.relaxed.gpu.global.add.u32 %w, [%a];", "multimem.red.relaxed.gpu.global.add.u32 [%a], %v;",
    "multimem.st.relaxed.gpu.global.u32 [%a], %v;",
)  # fmt: skip


@pytest.mark.parametrize("instruction", MULTIMEM)
def test_multimem_is_refused_by_name(instruction: str) -> None:
    text = module_text(PLACES + instruction, "ab")
    assert assemble("k", text, "sm_90a").cubin
    with pytest.raises(PtxError, match="`multimem` .* is not supported: the emulator is one GPU, with no multicast"):
        load_ptx(text)


# --- generic addresses ---


def test_a_generic_address_of_local_memory_is_each_threads_own() -> None:
    """One address, which all threads share, leads each to its own variable."""
    body = (
        START
        + """.local .align 4 .b8 v[8]; ld.param.u64 %a, [a]; mul.wide.u32 %o1, %t, 4; add.u64 %a, %a, %o1;
        mov.u64 %d, v; cvta.local.u64 %d, %d; st.u32 [%d+4], %t; ld.u32 %x, [%d+4]; st.global.u32 [%a], %x;"""
    )
    out = np.zeros(64, np.uint32)
    run(body, out, block=64)
    assert out.tolist() == list(range(64))
    assert assemble("k", module_text(body, "a"), "sm_90a").cubin


def test_a_generic_address_of_shared_memory_is_each_blocks_own() -> None:
    body = (
        START
        + """.shared .align 4 .b8 v[8]; ld.param.u64 %a, [a]; mul.wide.u32 %o1, %b, 4; add.u64 %a, %a, %o1;
        mov.u64 %d, v; cvta.shared.u64 %d, %d; st.u32 [%d+4], %b; ld.u32 %x, [%d+4]; st.global.u32 [%a], %x;"""
    )
    out = np.full(3, 9, np.uint32)
    run(body, out, block=1, grid=3)
    assert out.tolist() == [0, 1, 2]


@pytest.mark.parametrize("base", ["atom", "red"])
def test_sums_through_generic_addresses_are_those_of_the_memory_there(base: str) -> None:
    """Global memory flushes subnormal numbers of f32, shared memory does not."""
    result = "%w, " if base == "atom" else ""
    body = (
        START
        + f""".shared .align 4 .b8 v[4]; ld.param.u64 %a, [a]; mov.u64 %d, v; cvta.shared.u64 %d, %d;
        st.shared.u32 [v], 3; {base}.add.f32 {result}[%d], 0f00000004; {base}.add.f32 {result}[%a], 0f00000004;
        ld.shared.u32 %x, [v]; st.global.u32 [%a+4], %x;"""
    )
    out = np.array([3, 0], np.uint32)
    run(body, out, block=1)
    assert out.tolist() == [0, 7]
    assert assemble("k", module_text(body, "a"), "sm_90a").cubin


# --- hints ---

HINTS = """ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; .reg .b64 %p; .reg .b32 %n; mov.u32 %n, 64;"""
PRIMARY = ("evict_last", "evict_normal", "evict_first", "evict_unchanged")


def test_policies_and_hints_change_nothing() -> None:
    lines = [f"createpolicy.range{space}.L2::{first}{second}.b64 %p, [%a], %n, 128;"
             for space, first, second in product(("", ".global"), PRIMARY, ("", ".L2::evict_first"))]  # fmt: skip
    lines += ["createpolicy.cvt.L2.b64 %p, %a;", "applypriority.L2::evict_normal [%b], 128;", "pmevent 15;"]
    lines += ["discard.L2 [%b], 128;", "discard.global.L2 [%b], 128;", "pmevent.mask 0xffff;", "membar.proxy.alias;"]
    for way, space in (("acquire", "cluster"), ("release", "cta")):
        restricted = f"{way}.sync_restrict::shared::{space}.cluster;"
        lines += [f"fence.{restricted}", f"fence.proxy.async::generic.{restricted}"]
    body = f".reg .b64 %a, %b; {HINTS} {' '.join(lines)} mov.u64 %p, 5; st.global.b64 [%b], %p; ret;"
    taken(body)
    out = aligned(np.zeros(32, np.uint64), 128)
    run(body, out, out)
    assert out.tolist() == [5] + [0] * 31


@pytest.mark.parametrize("line", [
    "discard.L2 [%a], 64;", "discard.L2 [%a];", "discard.L2 [%a], %n;", "applypriority.L2::evict_last [%a], 128;",
    "applypriority.global.L2::evict_normal [%a];", "pmevent 16;", "pmevent %n;", "pmevent.mask 65536;",
    "createpolicy.range.L2::evict_last.b64 %p, [%a], 64;", "createpolicy.range.L2::evict_last.b64 %p, %a, 64, 128;",
    "createpolicy.range.L2::evict_last.b64 %p, [%a], %a, 128;", "createpolicy.cvt.L2.b64 %n, %a;",
    "createpolicy.cvt.b64 %p, %a;", "fence.acquire.sync_restrict::shared::cta.cluster;",
    "szext.u32 %n, %n, %n;", "szext.clamp.u64 %p, %p, %n;", "dp2a.u32.u32 %n, %n, %n, %n;",
    "dp2a.lo.u16.u32 %n, %n, %n, %n;", "mad24.lo.sat.s32 %n, %n, %n, %n;", "vadd.s32.s32.s32 %n, %n, %n;",
    "vset4.s32.s32.lt %n, %n, %n, %n;", "fence.acq_rel.cta %n;", "membar.gl 1;", "fence.proxy.async %a;",
    "fence.proxy.tensormap::generic.acquire.gpu [%a];", "fence.proxy.tensormap::generic.acquire.gpu [%a], 64;",
    "fence.proxy.tensormap::generic.acquire.gpu %a, 128;", "fence.proxy.tensormap::generic.release.gpu [%a], 128;",
    "add.s64 %p, 32, !%q;", "cvt.sat.u8.s32 %n, !%q;",
])  # fmt: skip
def test_forms_that_are_none(line: str) -> None:
    text = module_text(f".reg .b64 %a, %b; .reg .pred %q; {HINTS} {line} ret;", "ab")
    with pytest.raises(PtxError, match=line.partition(".")[0].partition(" ")[0]):
        run_ptx(load_ptx(text), "k", (1,), (1,), [Buffer.of("a", np.zeros(32)), Buffer.of("b", np.zeros(32))])
    if not line.startswith("v"):
        with pytest.raises(AssemblerError):
            assemble("k", text, "sm_90a")
