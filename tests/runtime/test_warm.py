"""The short way of a call like an earlier one: it is taken, and it misses nothing that the key holds."""

import enum
import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.lang import constexpr, knobs
from tilewright.runtime import ArgumentError, CompiledKernel, CompileOptions, JITFunction, calls, kernel_key, warm
from tilewright.runtime.recent import Recent

BASE = np.zeros(256, np.float32)
assert BASE.ctypes.data % 16 == 0


@tilewright.jit
def fill(x_ptr, value, n: tl.int16, BLOCK: tl.constexpr = 16, MODE: tl.constexpr = None):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, value, mask=offsets < n)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The keys that were made: one for each call that went the full way."""
    made: list[str] = []

    def noted(*arguments: Any) -> str:
        made.append(kernel_key(*arguments))
        return made[-1]

    monkeypatch.setattr(calls, "kernel_key", noted)
    yield made


def fresh() -> JITFunction:
    return tilewright.jit(fill.function)


# --- what is a call like an earlier one ---

LIKE: dict[str, Callable[[JITFunction, Any], Any]] = {
    "the same": lambda k, x: k[(1,)](x, 2.5, 7),
    "another number of the kind": lambda k, x: k[(1,)](x, -1e30, 9),
    "another grid": lambda k, x: k[lambda a: (a["BLOCK"] // 8,)](x, 2.5, 7),
    "a default given": lambda k, x: k[(1,)](x, 2.5, 7, 16),
    "keywords, in any order": lambda k, x: k[(1,)](n=7, value=2.5, x_ptr=x),
    "a constexpr wrapped": lambda k, x: k[(1,)](x, 2.5, 7, BLOCK=constexpr(16)),
    "a number of NumPy": lambda k, x: k[(1,)](x, np.float64(2), np.int8(7)),
    "a view of the array": lambda k, x: k[(1,)](x[4:][::-1][::-1], 2.5, 7),
}


@pytest.mark.parametrize("what", LIKE)
def test_it_is_taken(what: str, full: list[str]) -> None:
    kernel, x = fresh(), np.zeros(64, np.float32)
    first = kernel[(1,)](x, 2.5, 7)
    assert len(full) == 1
    assert LIKE[what](kernel, x) is first
    assert len(full) == 1
    assert x.any()


def test_the_values_are_those_of_the_call() -> None:
    kernel, x, y = fresh(), np.zeros(64, np.float32), np.zeros(64, np.float32)
    for array, value, n in ((x, 2.5, 7), (y, 3.5, 9), (x[8:], 4.5, 2)):
        kernel[(1,)](array, value, n)
    assert (y[:9] == 3.5).all() and not y[9:].any()
    assert list(x[:10]) == [2.5] * 7 + [0, 4.5, 4.5]


UNLIKE: dict[str, Callable[[JITFunction, Any], Any]] = {
    "alignment": lambda k, x: k[(1,)](x[1:], 2.5, 7),
    "dtype": lambda k, x: k[(1,)](x.view(np.int32), 2.5, 7),
    "an integer for a float": lambda k, x: k[(1,)](x, 2, 7),
    "1": lambda k, x: k[(1,)](x, 1, 7),
    "True": lambda k, x: k[(1,)](x, True, 7),
    "a multiple of 16": lambda k, x: k[(1,)](x, 2.5, 16),
    "a constexpr": lambda k, x: k[(1,)](x, 2.5, 7, 32),
    "the type of a constexpr": lambda k, x: k[(1,)](x, 2.5, 7, MODE=False),
    "an option": lambda k, x: k[(1,)](x, 2.5, 7, num_warps=8),
    "an option that is a default": lambda k, x: k[(1,)](x, 2.5, 7, num_warps=4, debug=False),
    "the device": lambda k, x: k.on("emulator")[(1,)](x, 2.5, 7),
}


@pytest.mark.parametrize("what", UNLIKE)
def test_what_differs_goes_the_full_way_once(what: str, full: list[str], tmp_path: Path) -> None:
    kernel, x = fresh(), np.zeros(64, np.float32)
    first = kernel[(1,)](x, 2.5, 7)
    with knobs.scope(cache_dir=tmp_path):
        other = UNLIKE[what](kernel, x)
        assert (other is first) == (full[0] == full[1]) and len(full) == 2
        assert UNLIKE[what](kernel, x) is other and len(full) == 2
    assert kernel[(1,)](x, 2.5, 7) is first and len(full) == 2


@pytest.mark.parametrize(
    ("knob", "value"), [("debug", True), ("max_tile_numel", 1 << 19), ("device", "emulator:sm_80")]
)
def test_a_knob_is_seen_by_scope_assignment_and_environment(
    knob: str, value: Any, full: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, x = fresh(), np.zeros(64, np.float32)
    with knobs.scope(cache_dir=tmp_path):
        first = kernel[(1,)](x, 2.5, 7)
        with knobs.scope(**{knob: value}):
            other = kernel[(1,)](x, 2.5, 7)
        monkeypatch.setenv(f"TILEWRIGHT_{knob.upper()}", str(value))
        assert kernel[(1,)](x, 2.5, 7) is other is not first
        monkeypatch.delenv(f"TILEWRIGHT_{knob.upper()}")
        assert kernel[(1,)](x, 2.5, 7) is first


def test_a_value_that_no_longer_fits_its_annotation_is_an_error_still() -> None:
    kernel, x = fresh(), np.zeros(64, np.float32)
    kernel[(1,)](x, 2.5, 7)
    for bad in (1 << 15, np.int64(1 << 15)):
        with pytest.raises(ArgumentError, match="32768 does not fit the annotated int16"):
            kernel[(1,)](x, 2.5, bad)
    with pytest.raises(ArgumentError, match="fits no integer type of 64 bits"):
        kernel[(1,)](x, 1 << 64, 7)


def test_mistakes_after_a_good_call_are_what_they_are_before_one() -> None:
    kernel, x = fresh(), np.zeros(64, np.float32)
    wrong: list[Callable[[JITFunction], Any]] = [
        lambda k: k[(1,)](x, 2.5),
        lambda k: k[(1,)](x, 2.5, 7, 16, None, 3),
        lambda k: k[(1,)](x, 2.5, 7, x_ptr=x),
        lambda k: k[(1,)](x, 2.5, 7, num_warp=4),
        lambda k: k[(1,)](x, 2.5, 7, num_warps="4"),
        lambda k: k[(1,)]([1.0], 2.5, 7),
        lambda k: k[(1.5,)](x, 2.5, 7),
        lambda k: k[lambda a: a["N"]](x, 2.5, 7),
        lambda k: k.on("nowhere")[(1,)](x, 2.5, 7),
    ]
    before = [str(pytest.raises(tilewright.LaunchError, call, kernel).value) for call in wrong]
    kernel[(1,)](x, 2.5, 7)
    assert [str(pytest.raises(tilewright.LaunchError, call, kernel).value) for call in wrong] == before


class Color(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    a: int
    b: int


RUNTIME: list[Any] = [
    *(2**e + d for e in (0, 4, 15, 31, 32, 63) for d in (-1, 0, 1)), -(2**31), -(2**31) - 1, -(2**63), -16, -1,
    True, False, None, 0.0, -0.0, 1.0, 16.0, float("nan"), float("inf"), np.float32(1), np.float64(1), np.int8(1),
    np.int64(16), np.uint64(2**63), np.bool_(True), np.float16(1), (1, 16), (1.0,), BASE, BASE[1:], BASE[4:],
    BASE.view(np.uint32), BASE.view(np.int32), BASE.view(np.uint8), BASE.view(ml_dtypes.bfloat16),
    BASE.view(np.float16), np.zeros(0, np.float32), np.ma.masked_array(BASE), fill, constexpr(1), constexpr(2),
]  # fmt: skip
CONSTANT: list[Any] = [
    0, 1, True, False, 1.0, 0.0, -0.0, float("nan"), "1", "", None, (), (1,), (1.0,), (True,), ((1,), 2), [1],
    Color.RED, tl.float32, tl.int32, tl.pointer_type(tl.float32), fill, np.int32(1), np.float64(1), Pair(1, 2), (1, 2),
    10**30, constexpr(1), constexpr(1.0), constexpr((1, 2)), constexpr(fill), (fill,), sys.maxsize,
]  # fmt: skip


@tilewright.jit
def takes_anything(runtime, small: tl.int16, CONSTANT: tl.constexpr):
    pass


@tilewright.jit(do_not_specialize=["runtime"])
def takes_anything_as_it_is(runtime, small: tl.int16, CONSTANT: tl.constexpr):
    pass


@pytest.mark.parametrize("kernel", [takes_anything, takes_anything_as_it_is], ids=lambda kernel: kernel.name)
def test_calls_that_are_alike_have_one_key(kernel: JITFunction) -> None:
    """Over many values: what the short way holds for the same, the full way gives one key, and the same payload."""
    seen: dict[Any, str] = {}
    short = 0
    for arguments in [*((v, 7, 1) for v in RUNTIME), *((2, v, 1) for v in RUNTIME), *((2, 7, v) for v in CONSTANT)]:
        try:
            specialization = kernel.specialize(kernel.bind_launch(arguments, {}))
            key = kernel_key(kernel, specialization, CompileOptions(), "sm_90a")
        except ArgumentError:
            key = "refused"
        call = kernel.calls.plans.call(arguments, {}, "")
        if call is None or key == "refused":
            assert call is None or call.key not in seen
            continue
        short += 1
        assert seen.setdefault(call.key, key) == key, arguments
        compiled = SimpleNamespace(key=key, device=SimpleNamespace(name="interpreter"))
        kernel.calls.plans.remember(call, compiled, specialization, False)  # type: ignore[arg-type]
        plan = kernel.calls.plans.find(call)
        assert plan is not None
        assert repr(plan.payload(call.values)) == repr(specialization.payload), arguments
    assert short > 90 and len(set(seen.values())) > 30


# --- what the kernel reads from outside ---

READS = """
import tilewright
import tilewright.language as tl
import settings_under_test

N = tl.constexpr(4)
TABLE = tl.constexpr([1, 2])
K = 2


@tilewright.jit
def helper(x):
    return x + N


@tilewright.jit
def other(x):
    return x * 2


@tilewright.constexpr_function
def doubled(x):
    return x * K


def make():
    hidden = tl.constexpr(3)

    @tilewright.jit
    def inner(x_ptr, n, F: tl.constexpr = None, USE_LATE: tl.constexpr = False):
        value = helper(n) + hidden + TABLE[0] + doubled(1) + settings_under_test.WIDTH
        if F is not None:
            value = F(value)
        if USE_LATE:
            value += LATE
        tl.store(x_ptr, value)

    def rebind(value):
        nonlocal hidden
        hidden = value

    return inner, rebind


kernel, rebind = make()
"""


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The namespace of a module of kernels, run from a file."""
    settings = ModuleType("settings_under_test")
    settings.WIDTH = constexpr(100)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "settings_under_test", settings)
    path = tmp_path / "reads.py"
    path.write_text(READS)
    found: dict[str, Any] = {"__name__": "reads", "__file__": str(path), "settings": settings}
    exec(compile(READS, str(path), "exec"), found)
    return found


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a global": lambda s: s.update(N=constexpr(5)),
    "the value of a constexpr": lambda s: setattr(s["N"], "value", 5),
    "a list in a constexpr": lambda s: s["TABLE"].value.__setitem__(0, 9),
    "a device function": lambda s: s.update(helper=s["other"]),
    "what a function that runs at compile time reads": lambda s: s.update(K=7),
    "a closure": lambda s: s["rebind"](constexpr(8)),
    "what a module holds": lambda s: setattr(s["settings"], "WIDTH", constexpr(200)),
    "the module": lambda s: s.update(settings_under_test=_module(WIDTH=constexpr(300))),
}


def _module(**values: Any) -> ModuleType:
    made = ModuleType("another")
    vars(made).update(values)
    return made


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_outside_is_seen_at_once(what: str, space: dict[str, Any], full: list[str]) -> None:
    kernel, out = space["kernel"], np.zeros(1, np.int32)
    first = [kernel[(1,)](out, 2) for _ in range(3)][-1]
    value = int(out[0])
    assert len(full) == 1
    CHANGES[what](space)
    changed = kernel[(1,)](out, 2)
    assert changed is not first and int(out[0]) != value and len(full) == 2
    assert kernel[(1,)](out, 2) is changed and len(full) == 2


def test_a_function_that_is_passed_brings_what_it_reads(space: dict[str, Any], full: list[str]) -> None:
    kernel, out = space["kernel"], np.zeros(1, np.int32)
    kernel[(1,)](out, 2, F=space["helper"])
    plain = int(out[0])
    kernel[(1,)](out, 2, F=space["other"])
    assert int(out[0]) == 2 * (plain - 4)
    again = kernel[(1,)](out, 2, F=space["other"])
    space["N"] = constexpr(6)
    assert kernel[(1,)](out, 2, F=space["other"]) is not again


def test_a_name_that_means_something_later_is_seen(space: dict[str, Any]) -> None:
    kernel, out = space["kernel"], np.zeros(1, np.int32)
    kernel[(1,)](out, 2)
    before = int(out[0])
    for late in (50, 60):
        space["LATE"] = constexpr(late)
        kernel[(1,)](out, 2, USE_LATE=True)
        assert int(out[0]) == before + late


def test_what_it_was_again_is_the_kernel_it_was(space: dict[str, Any]) -> None:
    kernel, out, four = space["kernel"], np.zeros(1, np.int32), space["N"]
    first = kernel[(1,)](out, 2)
    space["N"] = constexpr(5)
    kernel[(1,)](out, 2)
    space["N"] = four
    assert kernel[(1,)](out, 2) is first


# --- bounds ---


def test_a_kernel_holds_the_specializations_used_last(monkeypatch: pytest.MonkeyPatch, full: list[str]) -> None:
    monkeypatch.setattr(calls, "HELD", 3)
    monkeypatch.setattr(warm, "REMEMBERED", 5)
    kernel, x = fresh(), np.zeros(64, np.float32)
    made = {n: kernel[(1,)](x, 2.5, 7, MODE=n) for n in range(4)}
    assert len(kernel.calls.compiled) == 3
    assert kernel[(1,)](x, 2.5, 7, MODE=2) is made[2] and len(full) == 4
    assert kernel[(1,)](x, 2.5, 7, MODE=0) is not made[0] and len(full) == 5  # it had to make room
    assert kernel[(1,)](x, 2.5, 7, MODE=1) is not made[1]
    assert kernel[(1,)](x, 2.5, 7, MODE=2) is made[2]
    for n in range(20):
        kernel[(1,)](x, 2.5, 7, MODE=n)
    assert len(kernel.calls.compiled) == 3 and len(kernel.calls.plans) == 5


def test_what_was_used_longest_ago_makes_room() -> None:
    kept: Recent[str, bytes] = Recent(10, len)
    for name in "abc":
        kept.put(name, bytes(3))
    assert kept.get("a") == bytes(3) and len(kept) == 3
    kept.put("d", bytes(4))
    assert kept.get("b") is None and kept.get("c") is not None and kept.get("a") is not None
    kept.put("d", bytes(1))  # in its own place
    kept.put("e", bytes(3))
    assert [kept.get(name) is not None for name in "abcde"] == [True, False, True, True, True]
    kept.put("f", bytes(99))  # however large
    assert len(kept) == 1 and kept.get("f") == bytes(99)
    kept.clear()
    assert len(kept) == 0 and kept.get("f") is None


def test_a_kernel_that_nobody_holds_is_gone_with_all_it_had() -> None:
    kernel, x = fresh(), np.zeros(64, np.float32)
    watched = [weakref.ref(kernel[(1,)](x, 2.5, 7)), weakref.ref(kernel)]
    del kernel
    gc.collect()
    assert [found() for found in watched] == [None, None]


def test_threads_that_call_one_kernel_get_their_own_results() -> None:
    kernel = fresh()
    wrong: list[object] = []

    def work(number: int) -> None:
        x = np.zeros(64, np.float32)
        for turn in range(30):
            kernel[(1,)](x, float(number), 7, MODE=turn % 3)
            if not (x[:7] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held: Recent[Any, CompiledKernel] = kernel.calls.compiled
    assert wrong == [] and len(held) == 3
