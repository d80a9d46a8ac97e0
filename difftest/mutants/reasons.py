"""Why nothing shows that a barrier, a commit or something else is missing: kinds of reasons, each found by runs.

Flags are put into the kernel's text, a predicate for each thread, and a trap where a flag must not be set. So it is
known, of the launches that were tried, whether anything is accessed since the last barrier and until the next one, by
which threads, and whether a wait comes behind a commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.interpreter import InterpreterError, TrapError, load_ptx

from .sites import ACCESSES, BARRIER, COMMIT, WAIT, Instruction, Site, instructions_of, replaced, sites_of

if TYPE_CHECKING:
    from .deletion import Base, Placement

#: No launch comes to it.
UNREACHED = "not reached"
#: It has no two accesses to order: masks are false on one side of it.
IDLE = "nothing to order"
#: In these launches the threads access different bytes of shared memory on its two sides, which is not known when the
#: kernel is compiled: loops have no next round, or stages of a buffer lie apart.
OTHER_BYTES = "other bytes of shared memory"
#: What is accessed on both sides of it is accessed by the first thread alone, since tiles have one element.
ONE = "one thread alone"
#: Arrays lie over each other only where the first program is launched alone, and that one has nothing to order there.
OTHERS_ONLY = "other programs only"
#: A small tile cannot meet another's elements where arrays begin at multiples of 16 bytes, as was promised.
ALIGNED = "aligned arrays only"
#: It is there for an atomic that acquires or releases: it orders for other programs, of which none looks.
NOBODY_LOOKS = "for other programs"
#: No wait comes behind a commit.
NOT_WAITED = "no wait behind it"

_SYNCHRONISES = re.compile(r"bar\.|barrier\.")
_STRONG = re.compile(r"fence\.|membar\.|(atom|red|ld|st)\b.*\.(acquire|release|acq_rel)\b")
_STORES = frozenset(("st", "atom", "red", "stmatrix"))
_SPACES = ("global", "shared")
_DECLARED = """
    .reg .pred %flag, %hit; .reg .b32 %who;
    mov.u32 %who, %tid.x; setp.ne.u32 %flag, 0, 0;
"""
_SET, _CLEARED = "setp.eq.u32 %flag, 0, 0;", "setp.ne.u32 %flag, 0, 0;"
_ALL, _OTHERS = "setp.eq.u32 %hit, 0, 0;", "setp.ne.u32 %hit, %who, 0;"
#: What is looked at: an instruction, and whether it is one of these.
Chosen = Callable[[Instruction], bool]


def reason(base: Base, site: Site) -> str:
    """The first of the reasons that holds for a site that nothing shows; "" if none does, or if it is a barrier right
    beside another."""
    if _unreached(base, site):
        return UNREACHED
    if site.kind == BARRIER and _doubled(base.subject.ptx, site):
        return ""
    return next((each for each, holds in _HOLDS.items() if holds(base, site)), "")


def _doubled(ptx: str, site: Site) -> bool:
    """Whether nothing stands in the text between a barrier and the next one."""
    behind = [each for each in instructions_of(ptx) if each.line > site.line]
    first = next((each for each in behind if _is_access(each) or _SYNCHRONISES.match(each.opcode)), None)
    return first is not None and _SYNCHRONISES.match(first.opcode) is not None


def _unreached(base: Base, site: Site) -> bool:
    return not _traps(base, replaced(base.subject.ptx, replace(site, instead="trap;")), base.subject.apart)


def _idle(base: Base, site: Site) -> bool:
    return site.kind == BARRIER and not _orders(base, site, base.subject.apart)


def _other_bytes(base: Base, site: Site) -> bool:
    return site.kind == BARRIER and not _orders(base, site, base.subject.apart, ("global",))


def _one(base: Base, site: Site) -> bool:
    """Whether no other thread accesses anything between the barriers before and behind this one."""
    placements = base.subject.apart
    return site.kind == BARRIER and not any(
        _accessed(base, site, placements, behind, lambda _: True, _OTHERS) for behind in (False, True)
    )


def _others_only(base: Base, site: Site) -> bool:
    return site.kind == BARRIER and not _orders(base, site, _some(base.subject.overlaps()))


def _aligned(base: Base, site: Site) -> bool:
    return base.caught(site, base.subject.overlaps(unaligned=True)) is not None


def _nobody_looks(base: Base, site: Site) -> bool:
    return site.kind == BARRIER and any(
        _accessed(base, site, base.subject.apart, behind, lambda each: bool(_STRONG.match(each.opcode)))
        for behind in (False, True)
    )


def _not_waited(base: Base, site: Site) -> bool:
    ptx = base.subject.ptx
    put = {each.line: "@%flag trap;" for each in sites_of(ptx) if each.kind == WAIT}
    return site.kind == COMMIT and not _traps(base, _with(ptx, put | {site.line: _SET}), base.subject.apart)


_HOLDS: dict[str, Callable[[Base, Site], bool]] = {
    IDLE: _idle, OTHER_BYTES: _other_bytes, ONE: _one, NOT_WAITED: _not_waited, OTHERS_ONLY: _others_only,
    ALIGNED: _aligned, NOBODY_LOOKS: _nobody_looks,
}  # fmt: skip


def _orders(base: Base, site: Site, placements: Iterable[Placement], spaces: Sequence[str] = _SPACES) -> bool:
    """Whether a barrier stands between two accesses to one of the spaces, one of them a write."""
    tried = list(placements)
    for space in spaces:
        for writes_behind in (False, True):
            before, behind = _touching(space, not writes_behind), _touching(space, writes_behind)
            if _accessed(base, site, tried, False, before) and _accessed(base, site, tried, True, behind):
                return True
    return False


def _touching(space: str, writes: bool) -> Chosen:
    """Whether something accesses a space, or writes there; copies do both when they are waited for, at the latest."""

    def chosen(each: Instruction) -> bool:
        parts = each.opcode.split(".")
        if parts[0] == "cp":
            return space == "shared" or not writes
        named = [known for known in _SPACES if known in parts] or ["shared"] * parts[0].endswith("matrix") or _SPACES
        return space in named and (not writes or parts[0] in _STORES)

    return chosen


def _accessed(
    base: Base, site: Site, placements: Iterable[Placement], behind: bool, chosen: Chosen, by: str = _ALL
) -> bool:  # fmt: skip
    """Whether any of the chosen instructions is executed between a barrier and the next one, or the one before."""
    put: dict[int, str] = {}
    for each in instructions_of(base.subject.ptx):
        if _SYNCHRONISES.match(each.opcode):
            put[each.line] = _CLEARED
        elif _is_access(each) and chosen(each):
            act = "and.pred %hit, %hit, %flag; @%hit trap;" if behind else f"@%hit {_SET}"
            guarded = f"setp.ne.u32 %hit, 0, 0; {each.guard} {by}" if each.guard else by
            put[each.line] = f"{guarded} {act}"
    put[site.line] = _SET if behind else "@%flag trap;"
    return _traps(base, _with(base.subject.ptx, put), placements)


def _is_access(each: Instruction) -> bool:
    parts = each.opcode.split(".")
    return (parts[0] in ACCESSES and "param" not in parts and "commit_group" not in parts) or _STRONG.match(
        each.opcode
    ) is not None


def _with(ptx: str, put: Mapping[int, str]) -> str:
    """Text with something in front of some lines, and the flags declared where the body begins."""
    lines = [f"{put[at]} {line}" if at in put else line for at, line in enumerate(ptx.split("\n"))]
    lines[lines.index("{")] += _DECLARED.replace("\n", " ")
    return "\n".join(lines)


def _some(placements: Iterator[Placement], most: int = 4) -> Iterator[Placement]:
    """The first few: all arrays over each other, for each launch."""
    yield from (each for each, _ in zip(placements, range(most), strict=False))


def _traps(base: Base, text: str, placements: Iterable[Placement]) -> bool:
    """Whether a launch comes to a trap."""
    stopped = load_ptx(text)
    for placement in placements:
        try:
            base.subject.launch(stopped, placement, _PATIENCE * base.fuel)
        except TrapError:
            return True
        except InterpreterError:
            continue  # an overlap in which the kernel goes wrong as it is
    return False


#: The fuel of a run with flags, in those of the kernel's own.
_PATIENCE = 4
