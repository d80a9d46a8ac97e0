"""Compare bulk and tensor copies on a machine with the emulator's, byte by byte, and tensor maps with the driver's.

    python -m tools.probes.tensor_copies --device cuda --freeze tests/runtime/data/copies-sm_90a.json

Each of `copy_cases.COPIES` copies boxes between an array and shared memory, which is then compared whole, as the array
is after a store. A GPU's driver makes the tensor maps; of `copy_cases.MAPS` it should refuse those that the emulator
refuses. What is frozen the tests replay on the emulator.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter import MemoryAccessError

from ..options import new_file
from .command import parsed, probe_parser
from .copy_cases import COPIES, GOOD, MAPS, At, Copy
from .machines import Argument, Machine, Map, aligned, kept_machine
from .workers import Failure, answers

Array = NDArray[Any]

SIZE, THREADS = 16384, 128
"""Shared memory that is looked at, and the threads of a block."""
_STATUS = 16
"""Bytes behind the image of shared memory, of which the first four say how many times 16 bytes a load was short."""
_SEED = 7
_SHOWN, _ELEMENTS = 2, 4
"""How many cases of a kind that differ are printed, and how many elements of each."""


@dataclass(frozen=True, slots=True)
class Found:
    """The bytes that one case left, and how many loads had other numbers of bytes than expected."""

    octets: Array
    short: int

    @property
    def digest(self) -> str:
        """Of the bytes."""
        return hashlib.sha256(self.octets.tobytes()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Compared:
    """A case on a machine beside the emulator: bytes, how many differ, which first, and what `Found` says."""

    nbytes: int
    differ: int
    example: str
    short: int
    digest: str


_SIGNAL = "mbarrier::complete_tx::bytes"


def _action(copy: Copy) -> tuple[str, bool]:
    """The instruction, and whether it signals the mbarrier."""
    words, rank = copy.action.split(), len(copy.box)
    names = ", ".join(f"%c{n}" for n in range(rank))
    if words[0] == "bulk":
        what, near = words[-1], "near" in words
        if near:
            reduces = f"cp.reduce.async.bulk.shared::cluster.shared::cta.{_SIGNAL}.{what}"
            opcode = f"cp.async.bulk.shared::cluster.shared::cta.{_SIGNAL}" if what == "near" else reduces
            return f"{opcode} [%x], [%s+{SIZE // 2}], %nb, [%b];", True
        if what == "load":
            return f"cp.async.bulk.shared::cluster.global.{_SIGNAL} [%x], [%pm], %nb, [%b];", True
        opcode = "cp.async.bulk.global.shared::cta.bulk_group"
        if what != "store":
            opcode = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{what}"
        return f"{opcode} [%pm], [%x], %nb;", False
    if copy.action == "load":
        opcode = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.{_SIGNAL}"
        return f"{opcode} [%x], [%pm, {{{names}}}], [%b];", True
    opcode = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    if copy.action != "store":
        opcode = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{copy.action}.tile.bulk_group"
    return f"{opcode} [%pm, {{{names}}}], [%x];", False


def kernel_text(copy: Copy, target: str) -> str:
    """A module with the entry `k(m, a, b, c)`: block w makes the copy of row w of a.

    m: the tensor map, or the array of a bulk copy; a: coordinates, then from word 5 on bytes and start; b: what shared
    memory holds at first; c: for loads what it holds afterwards, with a status, else the array. A load that is not
    done after a while is short of bytes: they are counted until it is.
    """
    instruction, signals = _action(copy)
    bulk, near = copy.action.startswith("bulk"), copy.action.startswith("bulk near")
    return f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry k({".param .u64 m" if bulk else ".param .align 64 .b8 m[128]"},
    .param .u64 a, .param .u64 b, .param .u64 c)
.reqntid {THREADS}, 1, 1 {".reqnctapercluster 1, 1, 1" if near else ""}
{{
.shared .align 1024 .b8 s[{SIZE}]; .shared .align 8 .b8 bar[8];
.reg .b32 %t, %w, %i, %x, %y, %s, %b, %n, %nb, %v<4>, {", ".join(f"%c{n}" for n in range(5))};
.reg .b64 %pm, %pa, %pb, %pc, %o; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %w, %ctaid.x; mov.u32 %s, s; mov.u32 %b, bar; setp.ne.u32 %p, %t, 0;
{"ld.param.u64 %pm, [m];" if bulk else "mov.b64 %pm, m; cvta.param.u64 %pm, %pm;"}
ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %pc, [c]; mad.wide.u32 %pa, %w, 32, %pa;
{" ".join(f"ld.global.b32 %c{n}, [%pa+{4 * n}];" for n in range(5))}
ld.global.b32 %nb, [%pa+20]; ld.global.b32 %y, [%pa+24];
{"cvt.u64.u32 %o, %c0; add.u64 %pm, %pm, %o;" if bulk else ""}
mov.u32 %i, %t;
FILL: mul.wide.u32 %o, %i, 16; add.u64 %o, %o, %pb; ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%o];
shl.b32 %x, %i, 4; add.u32 %x, %x, %s; st.shared.v4.b32 [%x], {{%v0, %v1, %v2, %v3}};
add.u32 %i, %i, {THREADS}; setp.lt.u32 %q, %i, {SIZE // 16}; @%q bra FILL;
@%p bra READY; mbarrier.init.shared::cta.b64 [%b], 1;
READY: fence.proxy.async; bar.sync 0; add.u32 %x, %s, %y; mov.u32 %n, 0;
@%p bra {"LOADED" if signals else "END"};
{_loaded(instruction, copy) if signals else f"{instruction} {_STORED}"}
END: ret;
}}
"""


_STORED = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"


def _loaded(instruction: str, copy: Copy) -> str:
    """A load, what waits for it, and the bytes afterwards."""
    return f"""mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], %nb;
{instruction}
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0, 1000; @%q bra DONE;
add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 5000; @%q bra WAIT;
mov.u32 %n, 0;
SHORT: mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 16; add.u32 %n, %n, 1;
mbarrier.test_wait.parity.shared::cta.b64 %q, [%b], 0; @%q bra TOLD; setp.lt.u32 %q, %n, 4096; @%q bra SHORT;
bra TOLD;
DONE: mov.u32 %n, 0;
TOLD:
LOADED: bar.sync 0; mul.wide.u32 %o, %w, {SIZE + _STATUS}; add.u64 %pc, %pc, %o;
@!%p st.global.b32 [%pc+{SIZE}], %n; mov.u32 %i, %t;
TAKE: shl.b32 %x, %i, 4; add.u32 %x, %x, %s; ld.shared.v4.b32 {{%v0, %v1, %v2, %v3}}, [%x];
mul.wide.u32 %o, %i, 16; add.u64 %o, %o, %pc; st.global.v4.b32 [%o], {{%v0, %v1, %v2, %v3}};
add.u32 %i, %i, {THREADS}; setp.lt.u32 %q, %i, {SIZE // 16}; @%q bra TAKE;"""


def _map(copy: Copy, array: Array) -> Map:
    return Map(
        array, copy.dtype, copy.shape, copy.strides[:-1], copy.box, copy.steps or (1,) * len(copy.box),
        swizzle=copy.swizzle, l2_promotion=copy.promotion, fill=copy.fill,
    )  # fmt: skip


def _numbers(copy: Copy, ats: Sequence[At]) -> Array:
    out = np.zeros((len(ats), 8), np.int32)
    for row, at in zip(out, ats, strict=True):
        row[: len(at)] = at
        row[5:7] = copy.copied, copy.start
    return out


def performed(machine: Machine, copy: Copy) -> Found:
    """The bytes that a case leaves on a machine: shared memory after loads, the array after each store."""
    bulk = copy.action.startswith("bulk")
    text, image = kernel_text(copy, machine.target), aligned(copy.octets(SIZE, _SEED))
    before = copy.octets(copy.nbytes, _SEED + 1)
    if _action(copy)[1]:
        array, out = aligned(before), np.zeros((len(copy.ats), SIZE + _STATUS), np.uint8)
        first: Argument = array if bulk else _map(copy, array)
        machine.run(text, len(copy.ats), THREADS, [first, _numbers(copy, copy.ats), image, out])
        status = out[:, SIZE : SIZE + 4].copy().view(np.uint32)
        return Found(out[:, :SIZE], int(np.count_nonzero(status)))
    after: list[Array] = []
    for at in copy.ats:
        array = aligned(before)
        first = array if bulk else _map(copy, array)
        machine.run(text, 1, THREADS, [first, _numbers(copy, [at]), image, array])
        after.append(array)
    return Found(np.stack(after), 0)


def compared(case: tuple[str, int]) -> Compared:
    """One case on a device and on the emulator."""
    device, number = case
    copy = COPIES[number]
    if copy.refused:
        return _taken(kept_machine(device), copy)
    found = performed(kept_machine(device), copy)
    want = performed(_emulator(), copy)
    wrong = np.argwhere(found.octets != want.octets)
    return Compared(found.octets.size, len(wrong), _example(copy, wrong, found, want), found.short, found.digest)


def _taken(machine: Machine, copy: Copy) -> Compared:
    """A case that was to be refused and is not, by the emulator or the machine; if it is, the error is the answer."""
    try:
        performed(_emulator(), copy)
    except MemoryAccessError:
        performed(machine, copy)
        return Compared(0, 1, "the machine takes it", 0, "")
    return Compared(0, 1, "the emulator takes it", 0, "")


@cache
def _emulator() -> Machine:
    return kept_machine("emulator:sm_90a")


def _example(copy: Copy, wrong: Array, found: Found, want: Found) -> str:
    """The first elements that differ: where, and what they are on both."""
    size, told = copy.itemsize, list[str]()
    for row, element in np.unique(wrong // [1, size], axis=0)[:_ELEMENTS].tolist():
        place = slice(element * size, element * size + size)
        got, expected = (x.octets[row, place][::-1].tobytes().hex() for x in (found, want))
        told.append(f"at {copy.ats[row]} byte {element * size}: {got}, emulator {expected}")
    return "; ".join(told)


# --- tensor maps ---


def refusals(machine: Any) -> list[str]:
    """The maps of `MAPS` that the machine's driver and the emulator do not both take or refuse."""
    lines: list[str] = []
    for name, changed in MAPS.items():
        offset = int(changed.get("offset", 0))
        fields = {**GOOD, **{key: value for key, value in changed.items() if key != "offset"}}
        tensor = Map(np.zeros(1, np.uint8), **fields)
        theirs, ours = machine.refusal(tensor, offset), _emulator_refusal(tensor, offset)
        if bool(theirs) != bool(ours):
            lines.append(f"{name}: {theirs or 'taken'}; emulator: {ours or 'taken'}")
    return lines


def _emulator_refusal(tensor: Map, offset: int) -> str:
    emulator: Any = _emulator()
    return emulator.refusal(tensor, offset)


def maps_compared(device: str) -> list[str]:
    """`refusals` of a device by name."""
    return refusals(kept_machine(device))


# --- the command ---


def report(chosen: Sequence[int], found: Sequence[Any], shown: int = _SHOWN) -> list[str]:
    """The lines to print: a kind each, with some of its cases that differ or failed."""
    lines: list[str] = []
    for kind in dict.fromkeys(COPIES[number].kind for number in chosen):
        some = [(COPIES[n], answer) for n, answer in zip(chosen, found, strict=True) if COPIES[n].kind == kind]
        whole = [answer for _, answer in some if isinstance(answer, Compared)]
        nbytes, boxes = sum(answer.nbytes for answer in whole), sum(len(copy.ats) for copy, _ in some)
        bad = [(copy, answer) for copy, answer in some if not _right(copy, answer)]
        verdict = f"{len(bad)} cases differ" if bad else "equal"
        lines.append(f"{kind:<24} {len(some):>3} cases {boxes:>5} boxes {nbytes:>11,} bytes {verdict}")
        lines += [f"    {copy.label}: {_what(answer)}" for copy, answer in bad[:shown]]
    return lines


_UNSUPPORTED = " are not supported by the emulator"
_REFUSALS = ("MemoryAccessError", "CUDA_ERROR_ILLEGAL_INSTRUCTION")


def _right(copy: Copy, answer: Any) -> bool:
    if copy.refused:
        return isinstance(answer, Failure) and any(name in answer.what for name in _REFUSALS)
    return isinstance(answer, Compared) and not answer.differ and not answer.short


def _what(answer: Any) -> str:
    if isinstance(answer, Failure):
        return f"FAILED: {answer.what}"
    short = f"; {answer.short} loads of other lengths" if answer.short else ""
    return f"{answer.differ:,} bytes, {answer.example}{short}"


def digests(device: str, copies: Sequence[Copy] = COPIES) -> dict[str, str]:
    """What cases leave on a device, by label: to be compared later without a GPU."""
    return {copy.label: performed(kept_machine(device), copy).digest for copy in copies if not copy.refused}


def main(words: Sequence[str] | None = None) -> int:
    """The number of cases that differ or failed, and of maps that differ although the emulator supports them."""
    parser = probe_parser(__doc__, "the kinds to take")
    parser.add_argument("--freeze", type=new_file, help="write digests of the results to a file")
    parser.add_argument("--details", type=new_file, help="write all cases that differ to a file")
    arguments = parsed(parser, words)
    started = time.perf_counter()
    chosen = [n for n, copy in enumerate(COPIES) if re.search(arguments.rows, copy.kind)]
    found = list(answers(compared, [(arguments.device, n) for n in chosen], arguments.jobs))
    print(f"copies on {arguments.device}: {len(chosen)} cases")
    print("\n".join(report(chosen, found)))
    (maps,) = answers(maps_compared, [arguments.device], 1 if arguments.jobs == 1 else 2)
    different = [maps.what] if isinstance(maps, Failure) else maps
    wrong = [line for line in different if _UNSUPPORTED not in line]
    print(f"{len(MAPS)} tensor maps, {len(wrong)} of which the driver takes or refuses otherwise")
    print("".join(f"    {line}\n" for line in different), end="")
    if arguments.details:
        arguments.details.write_text("\n".join([*report(chosen, found, len(COPIES)), *different]) + "\n")
    if arguments.freeze:
        whole = [(COPIES[n].label, a) for n, a in zip(chosen, found, strict=True) if isinstance(a, Compared)]
        kept = {label: answer.digest for label, answer in whole}
        arguments.freeze.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{time.perf_counter() - started:.0f} s", flush=True)
    return sum(not _right(COPIES[n], answer) for n, answer in zip(chosen, found, strict=True)) + len(wrong)


if __name__ == "__main__":
    sys.exit(main())
