"""How far orderings reach: a message orders two threads only where its scopes contain both, over whatever chain."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
import tilewright.language as tl
from tests.interpreter.ptx.litmus import Data, Fence, Machine, Meet, Send, Step, Wait, mixing, racing, reported
from tilewright.interpreter.ptx import RaceError
from tilewright.lang import knobs

SEEDS = (1, 2, 3)
SCOPES = ("cta", "cluster", "gpu")
PLACES = {"cta": Machine(1, 2), "cluster": Machine(2, 1, 2), "gpu": Machine(2)}
"""Where two threads have just that scope in common: a block, a cluster, the grid."""


def releases(scope: str, thread: int = 0, flag: int = 0) -> dict[str, list[Step]]:
    """Ways to release in a scope."""
    fences = [("fence.acq_rel", scope), ("fence.sc", scope)] + [("membar", scope)] * (scope != "cluster")
    return {
        **{form: [Send(thread, "release", scope, flag, form)] for form in ("st", "red", "atom")},
        **{kind: [Fence(thread, scope, kind), Send(thread, "relaxed", "gpu", flag)] for kind, scope in fences},
        "narrow write": [Fence(thread, "gpu"), Send(thread, "relaxed", scope, flag, "red")],
    }


def acquires(scope: str, thread: int = 1, flag: int = 0) -> dict[str, list[Step]]:
    """Ways to acquire in a scope."""
    return {
        **{form: [Wait(thread, "acquire", scope, flag, form)] for form in ("ld", "atom")},
        "fence": [Wait(thread, "relaxed", "gpu", flag), Fence(thread, scope)],
        "narrow read": [Wait(thread, "relaxed", scope, flag, "atom"), Fence(thread, "gpu")],
    }


def judged(machine: Machine, program: Sequence[Step]) -> bool:
    """Whether a program races: the emulator says the same at every schedule, and the memory model does."""
    found = {bool(reported(machine, program, seed)) for seed in SEEDS}
    assert found == {bool(racing(machine, program))}
    return found.pop()


@pytest.mark.parametrize("place", SCOPES)
@pytest.mark.parametrize("second", SCOPES)
@pytest.mark.parametrize("first", SCOPES)
def test_a_message_orders_whom_both_its_scopes_contain(first: str, second: str, place: str) -> None:
    """For all ways to release and acquire in these scopes."""
    reaches = SCOPES.index(place) <= min(SCOPES.index(first), SCOPES.index(second))
    ways = [(r, a) for r in releases(first).values() for a in acquires(second).values()]
    for number, (send, wait) in enumerate(ways):
        program = [Data(0, "st"), *send, *wait, Data(1, "ld")]
        found = reported(PLACES[place], program, number % 5)
        assert found == racing(PLACES[place], program) == (set() if reaches else {(0, len(program) - 1)}), program


@pytest.mark.parametrize("chunk", [1 << 21, 1])
def test_blocks_that_run_one_after_the_other_are_no_better_off(chunk: int) -> None:
    def found(sem: str, scope: str) -> set[tuple[int, int]]:
        message = Send(0, "release", scope, 0, "red"), Wait(1, sem, scope, 0, "atom")
        return reported(Machine(2), [Data(0, "st"), *message, Data(1, "ld")], chunk=chunk)

    others = [Data(0, "st"), Send(1, "release", "gpu", 0, "red"), Wait(2, "acquire", "gpu", 0, "atom"), Data(2, "ld")]
    assert reported(Machine(3), others, chunk=chunk) == {(0, 3)}
    assert found("acquire", "gpu") == set()
    assert found("acquire", "cta") == found("acquire", "cluster") == found("relaxed", "gpu") == {(0, 3)}


@pytest.mark.parametrize("chunk", [1 << 21, 1])
def test_what_another_thread_of_an_ended_block_published_is_its_own(chunk: int) -> None:
    program = [Data(0, "st"), Send(1, "release", "gpu", 0, "red"), Wait(2, "acquire", "gpu"), Data(2, "ld")]
    assert reported(Machine(2, 2), program, chunk=chunk) == racing(Machine(2, 2), program) == {(0, 3)}
    met = [program[0], Meet(0), *program[1:]]
    assert reported(Machine(2, 2), met, chunk=chunk) == racing(Machine(2, 2), met) == set()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_an_ended_block_published_after_a_message_is_not_in_it(threads: int) -> None:
    """Block 1 tells; then block 0 does, to nobody; block 2, which comes when they have ended, hears of block 1."""
    machine, last = Machine(4, threads), threads - 1
    before = [Data(0, "st"), *[Meet(0)] * last, Send(threads, "release", "gpu", 0, "red")]
    after = [Send(threads, "relaxed", "gpu", 2, "red"), Wait(last, "relaxed", "gpu", 2),
             Send(last, "release", "gpu", 1, "red")]  # fmt: skip
    far, both = 2 * threads, 4096 * threads
    hears = [Wait(far, "acquire", "gpu", 0), Data(far, "ld")]
    program = [*before, *after, *hears]
    assert reported(machine, program, chunk=both) == racing(machine, program) == {(0, len(program) - 1)}
    told = [*before, *after, Wait(far, "acquire", "gpu", 1), *hears]
    assert reported(machine, told, chunk=both) == racing(machine, told) == set()


# --- chains: what was learned over one distance is passed on over another ---

BLOCKS = Machine(4, 2, 2)
"""Threads 0 and 1 are a block, 0 to 3 a cluster; 4 to 7 the other one."""


def relay(*hops: tuple[int, str]) -> list[Step]:
    """Thread 0 stores, and a message goes from thread to thread, each hop in its scope; the last one stores as well."""
    steps: list[Step] = [Data(0, "st")]
    for flag, ((sender, _), (thread, scope)) in enumerate(zip([(0, ""), *hops], hops, strict=False)):
        steps += [Send(sender, "release", scope, flag), Wait(thread, "acquire", scope, flag)]
    return [*steps, Data(hops[-1][0], "st")]


@pytest.mark.parametrize(
    ("hops", "races"),
    [
        ([(1, "cta"), (4, "gpu")], False),
        ([(4, "gpu"), (5, "cta")], False),
        ([(4, "gpu"), (5, "cta"), (2, "gpu"), (3, "cta")], False),
        ([(1, "cta"), (2, "cluster"), (3, "cta"), (4, "gpu"), (5, "cta"), (6, "cluster"), (7, "cta")], False),
        ([(2, "cluster"), (4, "gpu"), (6, "cluster")], False),
        ([(4, "gpu"), (1, "gpu")], False),
        ([(4, "cluster"), (5, "cta")], True),
        ([(1, "cta"), (4, "cluster")], True),
        ([(1, "cta"), (2, "cta"), (3, "cta")], True),
        ([(4, "gpu"), (6, "cta")], True),
        ([(2, "cta"), (4, "gpu")], True),
        ([(4, "cta"), (2, "gpu"), (3, "cta")], True),
    ],
)
def test_chains_of_mixed_scope(hops: list[tuple[int, str]], races: bool) -> None:
    assert judged(BLOCKS, relay(*hops)) == races
    fenced = [step for hop in relay(*hops) for step in _with_fences(hop)]
    assert judged(BLOCKS, fenced) == races


def _with_fences(step: Step) -> list[Step]:
    """The same by relaxed accesses and fences."""
    if isinstance(step, Send):
        return [Fence(step.thread, step.scope), Send(step.thread, "relaxed", step.scope, step.flag)]
    if isinstance(step, Wait):
        return [Wait(step.thread, "relaxed", step.scope, step.flag), Fence(step.thread, step.scope)]
    return [step]


def test_who_has_heard_nothing_new_learns_nothing_new() -> None:
    """Thread 1 hears from afar, and tells its block; thread 0 comes later by a flag that tells nothing, and fences."""
    news = [Data(4, "st"), Send(4, "release", "gpu", 1), Wait(1, "acquire", "gpu", 1), Send(1, "release", "cta", 2),
            Send(1, "relaxed", "gpu", 3), Wait(0, "relaxed", "gpu", 3)]  # fmt: skip
    assert judged(BLOCKS, [*news, Fence(0, "cta"), Data(0, "ld")])
    old = [Send(1, "release", "cta", 0), Wait(0, "relaxed", "cta", 0), Fence(0, "cta")]
    assert judged(BLOCKS, [*old, *news, Fence(0, "cta"), Data(0, "ld")])
    assert not judged(BLOCKS, [*old, *news, Wait(0, "relaxed", "cta", 2), Fence(0, "cta"), Data(0, "ld")])


def test_barriers_pass_on_messages_and_messages_barriers() -> None:
    near = [Data(0, "st"), Meet(0), Send(1, "release", "gpu"), Wait(4, "acquire", "gpu"), Meet(4), Data(5, "ld")]
    assert not judged(BLOCKS, near)
    assert judged(BLOCKS, [step for step in near if step != Meet(0)])
    assert judged(BLOCKS, [step for step in near if step != Meet(4)])
    cluster = [Data(0, "st"), Meet(0, "cluster"), Send(3, "release", "gpu"), Wait(4, "acquire", "gpu")]
    assert not judged(BLOCKS, [*cluster, Meet(4, "cluster"), Data(6, "ld")])
    assert not judged(BLOCKS, [Data(0, "st"), Send(0, "release", "cta"), Wait(1, "acquire", "cta"), Meet(1, "cluster"),
                               Data(3, "st")])  # fmt: skip
    assert not judged(BLOCKS, [part for step in cluster for part in _with_fences(step)] + [Data(4, "ld")])
    inner = [Data(0, "st"), Meet(0, "cluster"), Send(2, "release", "cta"), Wait(3, "acquire", "cta"), Data(3, "ld")]
    assert not judged(BLOCKS, inner)


def test_a_counter_tells_the_last_of_all_the_others() -> None:
    """Blocks count on one flag; whoever waits has another thread of its own block as the last to count."""
    program = [*(Data(t, "st", t) for t in (0, 1, 4)), *(Send(t, "release", "gpu", 0, "red") for t in (4, 0, 1)),
               Wait(1, "acquire", "gpu", 0, "ld")]  # fmt: skip
    assert not judged(BLOCKS, [*program, Data(1, "ld", 4), Data(1, "ld", 0)])
    narrow = [Send(step.thread, "release", "cta", 0, "red") if step == program[5] else step for step in program]
    assert racing(BLOCKS, [*narrow, Data(1, "ld", 4)])


def test_a_relaxed_count_does_not_hide_a_message() -> None:
    """Thread 1 has a narrow fence behind it and counts, relaxed, where thread 0 released to all."""
    program = [Data(0, "st"), Send(0, "release", "gpu", 0, "red"), Fence(1, "cta"), Send(1, "relaxed", "gpu", 0, "red"),
               Wait(4, "acquire", "gpu"), Data(4, "ld")]  # fmt: skip
    assert not judged(BLOCKS, program)


def test_an_old_fence_reaches_as_far_as_it_did() -> None:
    program = [Data(0, "st", 0), Fence(0, "gpu"), Data(0, "st", 1), Fence(0, "cta"), Send(0, "relaxed", "gpu")]
    heard = [*program, Wait(4, "relaxed", "gpu"), Fence(4, "gpu"), Data(4, "ld", 0), Data(4, "ld", 1)]
    assert [reported(BLOCKS, heard, seed) for seed in SEEDS] == [{(2, 8)}] * 3 and racing(BLOCKS, heard) == {(2, 8)}
    late = [Data(0, "st"), Send(0, "release", "gpu"), Wait(4, "relaxed", "gpu"), Fence(4, "cta"), Data(4, "ld")]
    assert judged(BLOCKS, late)
    assert not judged(BLOCKS, [*late[:4], Fence(4, "gpu"), Data(4, "ld")])


# --- against the memory model ---

_MACHINES = (Machine(1, 2), Machine(2), Machine(2, 1, 2), Machine(2, 2), Machine(2, 2, 2), Machine(4, 1, 2), BLOCKS)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(_MACHINES), st.integers(1, 4))
def test_nothing_is_reported_that_the_memory_model_orders(number: int, machine: Machine, seed: int) -> None:
    program = drawn(random.Random(number), machine)
    assert reported(machine, program, seed) <= racing(machine, program)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from((Machine(3), Machine(3, 2), Machine(4, 1, 2), Machine(4, 2, 2))))
def test_nothing_is_reported_of_ended_blocks_that_the_memory_model_orders(number: int, machine: Machine) -> None:
    """Each cluster hears of earlier ones alone."""
    each, rng = machine.cluster * machine.threads, random.Random(number)
    parts = [range(first, first + each) for first in range(0, machine.count, each)]
    program = drawn(rng, machine, [part for part in parts for _ in range(rng.randrange(2, 8))])
    expected = racing(machine, program)
    for chunk in (1, 4096 * each, 1 << 21):
        assert reported(machine, program, number % 5, chunk) <= expected


def drawn(rng: random.Random, machine: Machine, among: Sequence[range] = ()) -> list[Step]:
    """A program of a few flags; no sends come after the first wait for one. `among`: of which threads each step is."""
    steps: list[Step] = []
    sent: list[int] = []
    closed: set[int] = set()
    for threads in among or [range(machine.count)] * rng.randrange(4, 22):
        thread, scope = rng.choice(threads), rng.choice(SCOPES)
        kind = rng.choices(("data", "send", "wait", "fence", "bar", "cluster"), (40, 20, 20, 13, 4, 3))[0]
        if kind == "data":
            steps.append(Data(thread, rng.choice(("ld", "st", "st")), rng.randrange(2)))
        elif kind == "send" and (flag := rng.randrange(3)) not in closed:
            steps.append(Send(thread, rng.choice(("relaxed", "release")), scope, flag, rng.choice(("red", "atom"))))
            sent.append(flag)
        elif kind == "wait" and sent:
            closed.add(flag := rng.choice(sent))
            steps.append(Wait(thread, rng.choice(("relaxed", "acquire")), scope, flag, rng.choice(("ld", "atom"))))
        elif kind == "fence":
            steps.append(Fence(thread, scope, rng.choice(("fence.acq_rel", "fence.sc"))))
        elif kind in ("bar", "cluster"):
            steps.append(Meet(thread, kind))
    return steps


@settings(max_examples=120, deadline=None)
@given(st.data(), st.sampled_from(SCOPES), st.integers(0, 4))
def test_two_threads_with_one_flag_are_judged_exactly(data: st.DataObject, place: str, seed: int) -> None:
    scopes, semantics = st.sampled_from(SCOPES), st.sampled_from(("relaxed", "strong"))

    def some(thread: int) -> st.SearchStrategy[list[Step]]:
        touch = st.builds(Data, st.just(thread), st.sampled_from(("ld", "st")), st.integers(0, 1))
        return st.lists(st.one_of(touch, st.builds(Fence, st.just(thread), scopes)), max_size=4)

    how = data.draw(st.tuples(semantics, scopes, semantics, scopes))
    send = Send(0, how[0].replace("strong", "release"), how[1], 0, data.draw(st.sampled_from(("st", "red"))))
    wait = Wait(1, how[2].replace("strong", "acquire"), how[3], 0, data.draw(st.sampled_from(("ld", "atom"))))
    before, after = [*data.draw(some(0)), send, *data.draw(some(0))], [*data.draw(some(1)), wait, *data.draw(some(1))]
    program = [*before, *after]
    found, expected = reported(PLACES[place], program, seed), racing(PLACES[place], program)
    assert found <= expected and bool(found) == bool(expected)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from((Machine(1, 2), Machine(2), Machine(1, 3), Machine(2, 2))), st.integers(0, 4))
def test_strong_accesses_of_other_widths_are_judged_exactly(data: st.DataObject, machine: Machine, seed: int) -> None:
    """What is told is so by the book, and something is told of each program that races by it.

    Threads have one width each, as of several accesses of one thread the last counts, and those that wait only read, as
    otherwise whom they hear of hangs on who came first.
    """
    threads = st.integers(0, machine.count - 1)
    widths = data.draw(st.lists(st.sampled_from((4, 8)), min_size=machine.count, max_size=machine.count))
    touches = st.builds(Data, threads, st.sampled_from(("ld", "st")))
    fences, meetings = st.builds(Fence, threads, st.just("gpu")), st.builds(Meet, threads)

    def sends(thread: int) -> st.SearchStrategy[Step]:
        semantics, forms = st.sampled_from(("relaxed", "release")), st.sampled_from(("red", "atom"))
        return st.builds(Send, st.just(thread), semantics, st.just("gpu"), st.just(0), forms, st.just(widths[thread]))

    def waits(thread: int) -> st.SearchStrategy[Step]:
        semantics, form = st.sampled_from(("relaxed", "acquire")), st.just("ld")
        return st.builds(Wait, st.just(thread), semantics, st.just("gpu"), st.just(0), form, st.just(widths[thread]))

    sending, waiting = (st.one_of(touches, threads.flatmap(kind), fences, meetings) for kind in (sends, waits))
    program = data.draw(st.lists(sending, min_size=1, max_size=6)) + data.draw(st.lists(waiting, max_size=6))
    found, expected = reported(machine, program, seed), racing(machine, program) | mixing(machine, program)
    assert found <= expected and bool(found) == bool(expected)


def test_a_message_tells_no_more_of_a_thread_than_that_has_published() -> None:
    """Thread 1 hears from 2, and 3 from 1; what thread 0 of the block of 1 stored is not in it."""
    program = [
        Data(0, "st"),
        Send(2, "release", "cta", 0),
        Wait(1, "acquire", "cta", 0),
        Send(1, "release", "gpu", 1),
        Wait(3, "acquire", "gpu", 1),
        Data(3, "ld"),
    ]
    for seed in range(5):
        assert reported(Machine(2, 3), program, seed) == racing(Machine(2, 3), program) == {(0, 5)}


# --- compiled ---


@tilewright.jit
def locked(data, lock, scope: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1, sem="acquire", scope=scope) == 1:
        pass
    value = tl.load(data)
    tl.store(data, value + 1)
    tl.atomic_xchg(lock, 0, sem="release", scope=scope)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scope", ["cta", "gpu", "sys"])
def test_a_compiled_lock_must_reach_other_programs(scope: str, seed: int, tmp_path: Path) -> None:
    data, lock = np.zeros(1, np.int32), np.zeros(1, np.int32)
    with knobs.scope(cache_dir=tmp_path / "cache", seed=seed):
        if scope != "cta":
            locked.on("emulator")[(5,)](data, lock, scope)
            assert (data[0], lock[0]) == (5, 0)
            return
        with pytest.raises(RaceError, match="at element 0 of data") as caught:
            locked.on("emulator")[(5,)](data, lock, scope)
    start = locked.fn.__code__.co_firstlineno
    lines = {end.location.line - start for race in caught.value.races for end in (race.first, race.second)}
    assert lines == {4, 5}
