"""The verifier: it accepts what is well formed, and each of its invariants is broken here in each way it can be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given

from tests.lang.ir_strategies import modules
from tests.lang.module_breaks import BREAKS, GOOD, end_with, good, named
from tilewright.lang import OPS, UNKNOWN_LOCATION, CompilerBug, Module, VerifyError, parse_module, verifier, verify


def test_the_sound_module_is_sound() -> None:
    verify(good())


@given(modules())
def test_drawn_modules_are_sound(module: Module) -> None:
    verify(module)


@pytest.mark.parametrize("name", BREAKS)
def test_each_break_is_caught(name: str) -> None:
    module = good()
    BREAKS[name](module)
    with pytest.raises(VerifyError) as caught:
        verify(module)
    assert caught.value.invariant == name.split(":")[0], str(caught.value)
    assert f"kernel: {caught.value.invariant}: " in str(caught.value)


def test_every_invariant_is_broken() -> None:
    listed = re.findall(r"^  (V\d+) ", verifier.__doc__ or "", re.MULTILINE)
    assert listed == [f"V{number}" for number in range(1, len(listed) + 1)]
    assert {name.split(":")[0] for name in BREAKS} == set(listed)


def test_every_row_with_regions_has_a_rule() -> None:
    assert set(verifier.REGION_RULES) == {name for name, row in OPS.items() if row.regions}


def test_recursion_through_others_is_found() -> None:
    text = """\
        module {
        kernel @k() {
          call {callee = "a"}
          return
        }
        func @a() {
          call {callee = "b"}
          return
        }
        func @b() {
          call {callee = "a"}
          return
        }
        }
    """
    with pytest.raises(VerifyError, match="V21: recursion: @k -> @a -> @b -> @a\n  in @b at"):
        verify(parse_module(text))


def test_two_calls_of_one_function_are_no_recursion() -> None:
    text = """\
        module {
        kernel @k() {
          call {callee = "a"}
          call {callee = "b"}
          return
        }
        func @a() {
          call {callee = "b"}
          return
        }
        func @b() {
          return
        }
        }
    """
    module = parse_module(text)
    verify(module)
    assert list(module.functions) == ["k", "a", "b"]


def test_text_without_locations_is_sound() -> None:
    module = parse_module(re.sub(r" loc\([^)]*\)", "", GOOD))
    assert module.kernel.location == UNKNOWN_LOCATION
    verify(module)


def test_the_error_names_the_invariant_the_place_and_the_operation() -> None:
    module = good()
    loop = named(module, "for")
    end_with(loop.regions[0], "yield")
    with pytest.raises(CompilerBug) as caught:
        verify(module)
    assert isinstance(caught.value, VerifyError)
    assert caught.value.operation is loop.regions[0].terminator
    assert caught.value.function is module.kernel
    assert str(caught.value) == (
        "this is a bug in Tilewright, not in your kernel: V13: ^body passes on () instead of (f32)\n"
        '  in @kernel at "mod.kernel":5:1\n'
        "  yield"
    )
