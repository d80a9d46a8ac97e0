"""Every elementwise row and every atomic, on every type, compiled for 1, 2, 4 and 8 warps, against the reference.

On a GPU all of it runs, on arrays of 65,616 elements. The emulator runs all of it among the slow tests, on shorter
arrays, and some of it always: a few cells of each row, with the numbers of warps and the targets in turn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pytest

from tests.compiler.building import Kernel
from tests.compiler.sweep_atomics import run_atomic
from tests.compiler.sweep_cells import (
    ATOMICS,
    ELEMENTWISE,
    WARPS,
    Cell,
    Chosen,
    atomic_cells,
    elementwise_cells,
    everywhere,
    some,
)
from tests.compiler.sweep_device import run_case_on, run_on
from tests.compiler.sweep_elementwise import alone, run_cell
from tests.compiler.sweep_report import PROPERTY, Judgement, Tally, as_property, table
from tilewright.compiler import NOT_LOWERED, NotCompiledYet
from tilewright.compiler.lower.registry import LOWERINGS
from tilewright.difftest import LEVELS, STRATEGIES, CaseText, RecordedChoices, check
from tilewright.lang import F64, I32, OPS, Module
from tilewright.lang.ops.memory import RMW_TYPES
from tilewright.runtime import Device, find_device

#: Elements of an elementwise kernel, and programs of one with atomics: in the emulator and on a GPU.
SHORT, LONG = 2_064, 65_616
FEW, MANY = 5, 32
#: How many cells of a row run always at most, and how many cases of the harness on a GPU.
SOME, CASES = 3, 24

#: (device, cell, number of warps, elements or programs) -> how it went.
Run: TypeAlias = Callable[[Device, Cell, int, int], Judgement]


@pytest.fixture
def sweep(record_property: Callable[[str, Any], None]) -> Callable[[Chosen, Run, int], None]:
    """Runs cells of one row, and fails when one is wrong; what they were goes into the table at the end of the run."""

    def run(chosen: Chosen, judged: Run, size: int) -> None:
        cells = list(chosen)
        tally = Tally(cells[0][0].row)
        try:
            for cell, num_warps, device in cells:
                tally.run(cell, num_warps, partial(judged, find_device(device), cell, num_warps, size))
        finally:
            record_property(PROPERTY, as_property(tally))
        assert tally.wrong == []

    return run


def on_gpu(cells: Sequence[Cell], num_warps: int) -> Chosen:
    return ((cell, num_warps, "cuda:0") for cell in cells)


@pytest.mark.parametrize("row", ELEMENTWISE)
def test_some_cells_of_a_row_agree_with_the_reference(row: str, sweep: Callable[..., None]) -> None:
    sweep(some(elementwise_cells(row), SOME), run_cell, SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("row", ELEMENTWISE)
def test_every_cell_of_a_row_agrees_with_the_reference(row: str, sweep: Callable[..., None]) -> None:
    sweep(everywhere(elementwise_cells(row)), run_cell, SHORT)


@pytest.mark.gpu
@pytest.mark.parametrize("num_warps", WARPS)
@pytest.mark.parametrize("row", ELEMENTWISE)
def test_every_cell_of_a_row_agrees_with_the_reference_on_a_gpu(
    row: str, num_warps: int, sweep: Callable[..., None]
) -> None:
    sweep(on_gpu(elementwise_cells(row), num_warps), run_cell, LONG)


@pytest.mark.parametrize("row", ATOMICS)
def test_some_order_explains_some_atomics(row: str, sweep: Callable[..., None]) -> None:
    sweep(some(atomic_cells(row), SOME), run_atomic, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("row", ATOMICS)
def test_some_order_explains_every_atomic(row: str, sweep: Callable[..., None]) -> None:
    sweep(everywhere(atomic_cells(row)), run_atomic, FEW)


@pytest.mark.gpu
@pytest.mark.parametrize("num_warps", WARPS)
@pytest.mark.parametrize("row", ATOMICS)
def test_some_order_explains_every_atomic_on_a_gpu(row: str, num_warps: int, sweep: Callable[..., None]) -> None:
    sweep(on_gpu(atomic_cells(row), num_warps), run_atomic, MANY)


# The harness's own cases, and messages


@pytest.mark.gpu
@pytest.mark.parametrize("row", sorted(set(STRATEGIES) - NOT_LOWERED - {"print"}))
def test_the_cases_of_a_row_on_a_gpu(row: str) -> None:
    """Those that the emulator runs, and more."""
    for seed in range(CASES):
        case = STRATEGIES[row](RecordedChoices(seed))
        if LEVELS["ttir"](case).stopped:
            continue
        try:
            outcome = run_case_on(find_device("cuda:0"), case, WARPS[seed % len(WARPS)])
        except NotCompiledYet as refused:
            assert LOWERINGS[refused.operation].refused
        else:
            assert check(case, outcome, strict=False) == [], (seed, str(CaseText.of(case)))


#: How a program says that its data are there: a row, its attributes, and its values, all ones (for a swap, of a zero).
RELEASES: dict[str, tuple[str, dict[str, str], tuple[int, ...]]] = {
    "store": ("atomic_store", {"sem": "release"}, (1,)),
    "exchange": ("atomic_rmw", {"kind": "xchg", "sem": "release"}, (1,)),
    "add": ("atomic_rmw", {"kind": "add_i", "sem": "acq_rel"}, (1,)),
    "swap": ("atomic_cas", {"sem": "release"}, (0, 1)),
}


def relay(release: str, scope: str, extent: int) -> Module:
    """Program i waits for flag i, adds 1 to tile i backwards, which is tile i + 1, and sets flag i + 1."""
    kernel = Kernel("relay")
    flags, data = kernel.pointer(I32, "flags"), kernel.pointer(I32, "data")
    here = kernel.make("program_id", attributes={"axis": 0})
    one = kernel.constant(1)
    kernel.make("atomic_poll", [kernel.at(flags, here), one], None, {"sem": "acquire", "scope": scope})
    places = kernel.places((extent,))
    ahead = kernel.make("add_i", [places, kernel.splat(kernel.constant(extent), (extent,))])
    lanes = kernel.make("arange", attributes={"start": 0, "end": extent})
    start = kernel.make("sub_i", [places, lanes])
    last = kernel.splat(kernel.constant(extent - 1), (extent,))
    backwards = kernel.make("add_i", [start, kernel.make("sub_i", [last, lanes])])
    loaded = kernel.make("load", [kernel.at(data, backwards)])
    more = kernel.make("add_i", [loaded, kernel.splat(one, (extent,))])
    kernel.do("store", [kernel.at(data, ahead), more])
    row, attributes, values = RELEASES[release]
    flag = kernel.at(flags, kernel.make("add_i", [here, one]))
    given = {**attributes, "scope": scope}
    kernel.builder.create(OPS[row], [flag, *(kernel.constant(value) for value in values)], given)
    return kernel.module()


def check_relay(device: Device, release: str, scope: str, num_warps: int, programs: int) -> None:
    """What a program wrote before its release is there for the one that acquires it, whichever threads do either."""
    extent = 64 * num_warps
    flags, data = np.zeros(programs + 1, np.int32), np.zeros((programs + 1, extent), np.int32)
    flags[0], data[0] = 1, 1000 * np.arange(extent)
    run_on(device, relay(release, scope, extent), num_warps, [flags, data.reshape(-1)], (programs, 1, 1))
    assert flags.tolist() == [1] * (programs + 1)
    for place, row in enumerate(data):
        assert (row == data[0][:: -1 if place % 2 else 1] + place).all(), place


@pytest.mark.parametrize("release", RELEASES)
def test_a_message_comes_with_its_data(release: str) -> None:
    for num_warps in (1, 4):
        check_relay(find_device("emulator:sm_90a"), release, "gpu", num_warps, 3)


@pytest.mark.gpu
@pytest.mark.parametrize("scope", ["gpu", "sys"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_message_comes_with_its_data_on_a_gpu(release: str, scope: str) -> None:
    for num_warps in WARPS:
        check_relay(find_device("cuda:0"), release, scope, num_warps, 100)


# The sweeps themselves


def test_the_rules_admit_what_the_rows_declare() -> None:
    """The sweeps ask the rules; where a row lists what it takes, these are the answers."""
    for name in ELEMENTWISE:
        asked = {(cell.operands, cell.result) for cell in elementwise_cells(name)}
        assert asked == set(OPS[name].signatures), name
    kinds = {(dict(cell.attributes)["kind"], cell.operands[0]) for cell in atomic_cells("atomic_rmw")}
    assert kinds == {(kind, element) for kind, elements in RMW_TYPES.items() for element in elements}


def cell_named(name: str) -> Cell:
    row = name.split()[0]
    cells = atomic_cells(row) if row in ATOMICS else elementwise_cells(row)
    return next(cell for cell in cells if str(cell) == name)


@pytest.mark.parametrize(
    ("name", "argument", "byte"),
    [
        ("add_f f32", -4, 3), ("add_f f32", -3, 3), ("add_f f32", -4, -1), ("exp f32", -4, 4 * 1000 + 2),
        ("neg_f f16", -4, 1), ("cmp_lt_s i8, i1", -4, 0),
        ("atomic_rmw add_i i32", 0, 0), ("atomic_rmw add_f f64", -1, 5), ("atomic_cas i64", -1, 7),
        ("atomic_load f32", -1, 0), ("atomic_store i32", 0, 3), ("atomic_poll i16", -1, 0),
    ],
)  # fmt: skip
def test_a_wrong_bit_is_found(name: str, argument: int, byte: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bit of what a kernel wrote, a moment later."""

    def spoiled(device: Device, module: Module, num_warps: int, arguments: Sequence[Any], grid: Any) -> None:
        run_on(device, module, num_warps, arguments, grid)
        arguments[argument].view(np.uint8)[byte] ^= 1

    device, cell = find_device("emulator:sm_90a"), cell_named(name)
    run, size = (run_atomic, FEW) if cell.row in ATOMICS else (run_cell, SHORT)
    assert not run(device, cell, 4, size).wrong
    monkeypatch.setattr(sys.modules[run.__module__], "run_on", spoiled)
    assert run(device, cell, 4, size).wrong


def test_the_table_counts_and_names_what_ran_and_what_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal must be one by the table of lowerings, else it is wrong."""
    cell, device = cell_named("add_f f64"), find_device("emulator:sm_90a")
    monkeypatch.setitem(LOWERINGS, "add_f", replace(LOWERINGS["add_f"], refused=frozenset((F64,))))
    ran, refused, surprising = (Tally(cell.row) for _ in range(3))
    ran.run(cell, 4, lambda: Judgement(2, 100, 3, 0.25, ()))
    refused.run(cell, 8, partial(run_cell, device, cell, 8, SHORT))
    assert (ran.wrong, refused.wrong, refused.refused) == ([], [], ["add_f f64"])
    monkeypatch.undo()
    surprising.run(cell, 1, partial(refuse, cell))
    assert len(surprising.wrong) == 1 and "add_f is not compiled yet" in surprising.wrong[0]
    lines = list(table((PROPERTY, as_property(each)) for each in (ran, refused, surprising)))
    assert lines[1].split() == ["add_f", "1", "2", "100", "3", "25%", "1"]
    assert lines[-1] == "refused: 2 of add_f f64"


def refuse(cell: Cell) -> Judgement:
    raise NotCompiledYet(alone(cell), form="")
