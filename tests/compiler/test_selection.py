"""LLVM selects instructions for every row, on every type that its rule admits, on every target; and what is refused
is refused before LLVM is asked. Each compilation is a child process, for LLVM ends the process when it cannot."""

from __future__ import annotations

import os
from functools import partial

import pytest

from tests.compiler.building import Kernel, row_kernel
from tests.compiler.children import outcome
from tilewright.compiler import NOT_LOWERED, TARGETS, compile_module
from tilewright.compiler.lower.registry import LOWERINGS
from tilewright.compiler.passes.reductions import ORDERS, STEPS
from tilewright.lang import OPS, Module, OpDef, ScalarType
from tilewright.lang.opdef import Signature
from tilewright.lang.ops.memory import ACCESS_TYPES, CAS_TYPES, POLL_TYPES, RMW_TYPES

#: Done by a pass, or part of the operation that holds them.
EXPANDED = {"call", "yield", "condition", "return", *STEPS, *ORDERS}
ELEMENTWISE = [row for row in OPS.values() if row.is_elementwise]


def admitted(row: OpDef) -> list[Signature]:
    """The signatures that have a lowering."""
    refused = LOWERINGS[row.name].refused
    return [signature for signature in row.signatures if signature[0][0] not in refused]


def test_every_op_is_lowered_or_stands_in_the_list() -> None:
    assert set(OPS) == {*LOWERINGS, *EXPANDED, *NOT_LOWERED}
    assert not {*LOWERINGS, *EXPANDED} & NOT_LOWERED


def test_no_type_of_a_lowered_row_is_left_out() -> None:
    assert not {(name, str(t)) for name, row in LOWERINGS.items() for t in row.refused}


def compile_all(modules: list[Module], target: str) -> None:
    for module in modules:
        compile_module(module, target, 4, until="ptx")


@pytest.mark.parametrize("target", TARGETS)
def test_every_elementwise_row_selects(target: str) -> None:
    """One child for all rows; when it dies, one for each row says which."""
    modules: dict[str, Module] = {}
    for row in ELEMENTWISE:
        for rounding in ("rtne", "rtz") if row.name == "cast_f" else ("",):
            modules[f"{row.name} {rounding}"] = row_kernel(
                row.name, admitted(row), 128, {"rounding": rounding} if rounding else None
            )
    if outcome(partial(compile_all, list(modules.values()), target)):
        said = {name: outcome(partial(compile_all, [module], target)) for name, module in modules.items()}
        assert not {name: text for name, text in said.items() if text}


def atomic_kernels(extent: int) -> dict[str, Module]:
    """A kernel for each atomic, kind and type, with every ordering and scope in it; extent 0 is a scalar."""
    made: dict[str, Module] = {}
    for kind, types in RMW_TYPES.items():
        for element in types:
            made[f"{kind} {element}"] = atomic_kernel("atomic_rmw", element, extent, 1, {"kind": kind})
    for name, types, values in (
        ("atomic_cas", CAS_TYPES, 2), ("atomic_load", ACCESS_TYPES, 0), ("atomic_store", ACCESS_TYPES, 1),
        ("atomic_poll", POLL_TYPES, 1),
    ):  # fmt: skip
        made |= {f"{name} {element}": atomic_kernel(name, element, extent, values, {}) for element in types}
    return made


def atomic_kernel(name: str, element: ScalarType, extent: int, values: int, attributes: dict[str, str]) -> Module:
    kernel = Kernel()
    pointer, source = kernel.pointer(element), kernel.pointer(element)
    offsets = kernel.offsets(extent) if extent else kernel.make("program_id", attributes={"axis": 0})
    value = kernel.make("load", [kernel.at(source, offsets)])
    choices = {attribute.name: attribute.choices for attribute in OPS[name].attributes}
    for sem in choices["sem"]:
        for scope in choices["scope"]:
            given = {**attributes, "sem": sem, "scope": scope}
            made = kernel.builder.create(OPS[name], [kernel.at(pointer, offsets), *[value] * values], given)
            if made.results and made.result.type == value.type:
                kernel.do("store", [kernel.at(source, offsets), made.result])
    return kernel.module()


def check_atomics(modules: dict[str, Module], target: str) -> None:
    """Every ordering and scope of an atomic stands in its instruction, and nothing is left bare."""
    for name, module in modules.items():
        ptx = str(compile_module(module, target, 4, until="ptx").stages["ptx"])
        words = {word for line in ptx.splitlines() for word in line.split() if word.startswith(("atom", "ld.", "st."))}
        row = OPS[name.split()[0] if name.startswith("atomic") else "atomic_rmw"]
        choices = {attribute.name: attribute.choices for attribute in row.attributes}
        for sem in choices["sem"]:
            for scope in choices["scope"]:
                assert any(f".{sem}.{scope}.global." in word for word in words), (name, target, sem, scope)
        assert all(word.split(".")[1] in choices["sem"] for word in words if word.startswith("atom")), (name, words)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extent", [64, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 512))])
def test_every_atomic_selects_with_its_ordering_and_scope(target: str, extent: int) -> None:
    assert outcome(partial(check_atomics, atomic_kernels(extent), target)) == ""


def test_a_dead_child_is_told_from_a_failed_one() -> None:
    assert "signal 9" in outcome(lambda: os.kill(os.getpid(), 9))
    assert "ZeroDivisionError" in outcome(lambda: 1 // 0)
    assert outcome(lambda: None) == ""
