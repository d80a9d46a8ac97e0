"""The text form: every module round-trips, one of everything prints as written, and bad text is refused."""

from __future__ import annotations

import math
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lang.ir_strategies import MAKERS, ROWS, attribute_values, locations, modules, types
from tilewright.lang import (
    F32,
    I32,
    OPS,
    Block,
    Builder,
    Function,
    Location,
    Module,
    Operation,
    ParseError,
    fingerprint,
    parse_module,
    print_function,
    print_module,
    print_operation,
    structurally_equal,
    verify,
)
from tilewright.lang.equality import canonical
from tilewright.lang.printer import print_attribute, print_location

EVERYTHING = """\
module {arch = "sm_90", "odd name" = (), kinds = (f32, true, (1,))} {
kernel @mod.kernel(%x: ptr<f32> {divisibility = 16}, %n: i32, %0: i1) {noinline = true} loc("mod.kernel":3:1) {
  %1 = program_id {axis = 0} : i32 loc("mod.kernel":4:11 at "mod.caller":3:4)
  barrier
  %c = constant {value = 1024} : i32
  %c.1 = constant {value = -0.0} : f32
  %"na\\u00efve" = poison : tile<4xptr<f32>, #linear<lane=[[1], [2]] -> [dim0:4]>>
  %acc = for %1, %n, %c, %c.1 {num_stages = 3} : f32 {
  ^body(%iv: i32, %acc.1: f32):
    %r, %i = if %0 : f32, i32 {
    ^then:
      yield %acc.1, %iv
    ^else:
      %s = call {callee = "helper (1)"} : f32
      yield %s, %n
    }
    yield %r
  }
  while {
  ^before:
    condition %0
  ^after:
    yield
  }
  store %x, %acc, %0 {cache = "cg"} loc("mod.kernel":9:5)
  print %n {prefix = "n \\"=\\"\\n", signed = (true,)}
  return
}
func @"helper (1)"() -> (f32) {
  %0 = constant {value = nan} : f32
  return %0
}
}
"""


def assert_round_trip(module: Module) -> None:
    text = print_module(module)
    parsed = parse_module(text)
    assert print_module(parsed) == text
    assert fingerprint(parsed) == fingerprint(module)
    assert text.isascii()
    verify(parsed)


@given(modules())
def test_drawn_modules_round_trip(module: Module) -> None:
    assert_round_trip(module)


@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=5)
@given(data=st.data())
def test_every_row_round_trips(name: str, data: st.DataObject) -> None:
    module = data.draw(modules(rows=[name], size=1))
    assert any(operation.name == name for operation in module.walk())
    assert_round_trip(module)


def test_the_strategies_reach_every_row() -> None:
    by_hand = {name for name, row in OPS.items() if not row.is_elementwise and not row.is_terminator}
    assert set(MAKERS) == by_hand
    assert {name for name, row in OPS.items() if row.is_terminator} == {"yield", "condition", "return"}


@given(modules())
def test_without_locations_only_they_are_lost(module: Module) -> None:
    text = print_module(module, locations=False)
    assert "loc(" not in text
    parsed = parse_module(text)
    assert structurally_equal(parsed, module, locations=False)
    assert structurally_equal(parsed, module) == all(op.location.line == 0 for op in [*module.walk(), *parents(module)])


def parents(module: Module) -> list[Function]:
    return list(module.functions.values())


def test_one_of_everything() -> None:
    module = parse_module(EVERYTHING)
    assert print_module(module) == EVERYTHING
    assert [value.name for value in module.kernel.arguments] == ["x", "n", ""]
    assert module.kernel.argument_attributes == [{"divisibility": 16}, {}, {}]
    assert module.attributes == {"arch": "sm_90", "odd name": (), "kinds": (F32, True, (1,))}
    first = module.kernel.body.operations[0]
    assert first.location == Location("mod.kernel", 4, 11, Location("mod.caller", 3, 4))
    loop = module.kernel.body.operations[5]
    assert loop.attributes["num_stages"] == 3 and loop.attributes["unroll"] == 0
    assert loop.regions[0].arguments[1].name == "acc"
    verify(parse_module(print_module(module, locations=False)))


def test_comments_and_free_spacing() -> None:
    text = """
    module { // the module
      kernel @f ( %a : i32 , %b
        : tile<2x4xptr<i8>> ) {  // "no string
        %0
          = add_i %a,
              %a : i32 return }
    }   // the end"""
    expected = """\
        module {
        kernel @f(%a: i32, %b: tile<2x4xptr<i8>>) {
          %0 = add_i %a, %a : i32
          return
        }
        }
    """
    assert print_module(parse_module(text)) == dedent(expected)


def test_names_are_free_again_after_a_region() -> None:
    text = """\
        module {
        kernel @f(%c: i1) {
          if %c {
          ^then:
            %x = poison : i32
            yield
          ^else:
            %x = poison : f32
            yield
          }
          return
        }
        }
    """
    assert "%x.1 = poison : f32" in print_module(parse_module(text))


def test_an_empty_module() -> None:
    assert print_module(Module()) == "module {\n}\n"
    assert parse_module("module {}").functions == {}


# Parts


@given(attribute_values())
def test_attribute_values_round_trip(value: object) -> None:
    parsed = parse_module(f"module {{a = {print_attribute(value)}}} {{}}").attributes["a"]  # type: ignore[arg-type]
    assert canonical(parsed) == canonical(value)  # type: ignore[arg-type]


@given(types())
def test_types_round_trip(type_: object) -> None:
    assert parse_module(f"module {{a = {type_}}} {{}}").attributes == {"a": type_}


@given(locations())
def test_locations_round_trip(location: Location) -> None:
    module = parse_module(f"module {{ kernel @f() loc({print_location(location)}) {{ return }} }}")
    assert module.kernel.location == location


@given(st.text(), st.text())
def test_any_name_round_trips(function: str, value: str) -> None:
    module = Module()
    body = Block([I32, I32], [value, value])
    module.add(Function(function, body))
    Builder(body).create(OPS["return"])
    assert_round_trip(module)


def test_attribute_values_print_plainly() -> None:
    value = (True, -3, 1.5, -0.0, math.inf, -math.inf, math.nan, 1e300, 1e-07, 'é "q"\n', F32, (), (1,))
    expected = r'(true, -3, 1.5, -0.0, inf, -inf, nan, 1e+300, 1e-07, "\u00e9 \"q\"\n", f32, (), (1,))'
    assert print_attribute(value) == expected


def test_one_operation_prints_with_the_names_of_its_function() -> None:
    module = parse_module(EVERYTHING)
    loop = module.kernel.body.operations[5]
    head = "%acc = for %1, %n, %c, %c.1 {num_stages = 3} : f32 {"
    assert print_operation(loop, regions=False) == head + "...}"
    assert print_operation(loop).splitlines()[:3] == [
        head,
        "^body(%iv: i32, %acc.1: f32):",
        "  %r, %i = if %0 : f32, i32 {",
    ]
    store = module.kernel.body.operations[7]
    assert print_operation(store) == 'store %x, %acc, %0 {cache = "cg"} loc("mod.kernel":9:5)'
    assert print_operation(store, locations=False) == 'store %x, %acc, %0 {cache = "cg"}'


def test_an_operation_outside_of_any_function_prints() -> None:
    block = Block([I32], ["a"])
    operation = Builder(block).create(OPS["add_i"], block.arguments * 2)
    operation.results[0].name = "a"
    assert print_operation(operation) == "%a = add_i %a.1, %a.1 : i32"
    loose = Operation(OPS["barrier"], (), {}, (), (), operation.location)
    assert print_operation(loose) == "barrier"


def test_an_operation_inside_itself_prints_its_head() -> None:
    module = parse_module(EVERYTHING)
    loop = module.kernel.body.operations[5]
    loop.block = loop.regions[0]
    assert print_operation(loop, regions=False) == "%acc = for %0, %n, %c, %c.1 {num_stages = 3} : f32 {...}"


def test_one_function_prints_as_in_its_module() -> None:
    module = parse_module(EVERYTHING)
    helper = print_function(module.functions["helper (1)"])
    assert helper.splitlines()[0] == 'func @"helper (1)"() -> (f32) {'
    assert helper in EVERYTHING


# Equality

DIFFERENT = {
    "an operand": ("%x, %acc, %0", "%x, %c.1, %0"),
    "an attribute": ("num_stages = 3", "num_stages = 4"),
    "a default": ("{num_stages = 3} ", ""),
    "the sign of zero": ("-0.0", "0.0"),
    "a value's name": ("%r, %i =", "%r, %j ="),
    "an argument's attribute": ("divisibility = 16", "divisibility = 8"),
    "a function's attribute": ("noinline = true", "noinline = 1"),
    "a module's attribute": ("(1,)", "(1.0,)"),
    "a location": (":9:5)", ":9:6)"),
    "a caller": (' at "mod.caller":3:4', ""),
    "an operation": ("  barrier\n", ""),
    "an op": ("program_id", "num_programs"),
    "a function's name": ("@mod.kernel", "@kernel"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_equality_sees(what: str) -> None:
    old, new = DIFFERENT[what]
    assert EVERYTHING.count(old) == 1
    one, other = parse_module(EVERYTHING), parse_module(EVERYTHING.replace(old, new))
    assert not structurally_equal(one, other)
    assert structurally_equal(one, other, names=False) == (what == "a value's name")
    assert structurally_equal(one, other, locations=False) == (what in ("a location", "a caller"))


# Bad text

HEAD = "module {\nkernel @f(%a: i32, %x: f32) {\n"
#: name: (text, message with the line and the caret)
BAD: dict[str, tuple[str, str]] = {
    "nothing": ("", "1:1: expected 'module', found the end of the text\n\n^"),
    "no end": (
        HEAD + "  return\n",
        "3:9: expected an operation or '}', found the end of the text\n  return\n        ^",
    ),
    "more after the end": ("module {} }", "1:11: expected the end of the text, found '}'\nmodule {} }\n          ^"),
    "no kernel": (
        "module { func @f() {} }",
        "1:10: expected 'kernel', found 'func'\nmodule { func @f() {} }\n         ^^^^",
    ),
    "no name": (
        "module {\nkernel f() {} }",
        "2:8: expected the name of a function, such as @add, found 'f'\nkernel f() {} }\n       ^",
    ),
    "a name taken": (
        "module {\nkernel @f() {\nreturn }\nfunc @f() {} }",
        "4:6: expected a new name, found '@f'\nfunc @f() {} }\n     ^^",
    ),
    "unknown op": (
        HEAD + "  %0 = ad_i %a, %a : i32\n",
        "3:8: expected the name of an op, found 'ad_i'\n  %0 = ad_i %a, %a : i32\n       ^^^^",
    ),
    "unknown value": (
        HEAD + "  %0 = add_i %a, %b : i32\n",
        "3:18: expected a value defined above, found '%b'\n  %0 = add_i %a, %b : i32\n                 ^^",
    ),
    "a value of an inner region": (
        "module {\nkernel @f(%c: i1) {\nif %c {\n^then:\n%x = poison : i32\nyield\n^else:\nyield %x\n}\nreturn\n}\n}",
        "8:7: expected a value defined above, found '%x'\nyield %x\n      ^^",
    ),
    "a value's name taken": (
        HEAD + "\t%a = poison : i32\n",
        "3:2: expected a new name, found '%a'\n\t%a = poison : i32\n\t^^",
    ),
    "unknown type": (
        HEAD + "  %0 = poison : i31\n",
        "3:17: expected a type, found 'i31'\n  %0 = poison : i31\n                ^^^",
    ),
    "a tile of nothing": (
        HEAD + "  %0 = poison : tile<4x>\n",
        "3:24: expected a type, found '>'\n  %0 = poison : tile<4x>\n                       ^",
    ),
    "no type": (
        HEAD + "  %0 = add_i %a, %a\n",
        "3:8: expected a result type for each of 1 results, found 0\n  %0 = add_i %a, %a\n       ^^^^^",
    ),
    "a row refuses": (
        HEAD + "  %0 = add_i %a, %x : i32\n",
        "3:8: add_i does not take (i32, f32)\n  %0 = add_i %a, %x : i32\n       ^^^^^",
    ),
    "another result type": (
        HEAD + "  %0 = add_i %a, %a : i64\n",
        "3:8: add_i yields (i32), not (i64)\n  %0 = add_i %a, %a : i64\n       ^^^^^",
    ),
    "unknown attribute": (
        HEAD + "  barrier {scope = 1}\n",
        "3:3: barrier has no attribute scope\n  barrier {scope = 1}\n  ^^^^^^^",
    ),
    "an attribute twice": (
        "module {a = 1, a = 2} {}",
        "1:16: expected a new name, found 'a'\nmodule {a = 1, a = 2} {}\n               ^",
    ),
    "no name after a comma": (
        "module {a = 1, } {}",
        "1:16: expected the name of an attribute, found '}'\nmodule {a = 1, } {}\n               ^",
    ),
    "no value": (
        "module {a = } {}",
        "1:13: expected the value of an attribute, found '}'\nmodule {a = } {}\n            ^",
    ),
    "no such token": (
        HEAD + "  %0 = add_i %a; %a\n",
        "3:16: expected a token, found ';'\n  %0 = add_i %a; %a\n               ^",
    ),
    "an open string": (
        'module {a = "x} {}',
        "1:13: expected a token, found a string without end\nmodule {a = \"x} {}\n            ^",
    ),
    "a bad escape": (
        r'module {a = "\q"} {}',
        '1:13: bad string: Invalid \\escape\nmodule {a = "\\q"} {}\n            ^^^^',
    ),
    "no regions": (
        HEAD + "  for %a, %a, %a\n  return\n",
        "4:3: expected '{', found 'return'\n  return\n  ^^^^^^",
    ),
    "another region": (
        HEAD + "  for %a, %a, %a {\n  ^before:\n",
        "4:3: expected the region '^body', found '^before'\n  ^before:\n  ^^^^^^^",
    ),
    "a bad location": (
        HEAD + "  barrier loc(3:4)\n",
        "3:15: expected the source of a location, a string, found '3'\n  barrier loc(3:4)\n              ^",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_text_is_refused(what: str) -> None:
    text, message = BAD[what]
    with pytest.raises(ParseError) as caught:
        parse_module(text, "bad.tile")
    assert str(caught.value) == f"bad.tile:{message}"
    assert (caught.value.line, caught.value.column) == tuple(map(int, message.split(":")[:2]))


def test_a_bad_layout_is_refused_with_its_column() -> None:
    text = "module {\nkernel @f(%a: tile<4xf32, #linear<lane=[[1],[2 -> [dim0:4]>>) {}\n}"
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    line = text.splitlines()[1]
    first, *shown = str(caught.value).splitlines()
    assert first == f"<text>:2:27: layout text, column {line.index('->') + 1}: expected ']', found '->'"
    assert shown == [line, " " * 26 + "^"]


PIECES = ("", "{", "}", "(", ",", "%x", "1", "-1", '"s"', "f32", "tile<2x", "^then", "= (true,)", "#linear<")


@given(st.data())
def test_damaged_text_gives_a_module_or_a_parse_error(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(EVERYTHING)))
    stop = data.draw(st.integers(start, min(start + 12, len(EVERYTHING))))
    pieces = st.sampled_from(PIECES)
    text = EVERYTHING[:start] + data.draw(pieces) + EVERYTHING[stop:]
    try:
        module = parse_module(text)
    except ParseError as error:
        assert 1 <= error.line <= text.count("\n") + 1
    else:
        assert print_module(parse_module(print_module(module))) == print_module(module)


CONSTANT = "module {{\nkernel @k() {{\n  %c = constant {{value = {}}} : i32\n  return\n}}\n}}\n"


@pytest.mark.parametrize(
    "text, message",
    [
        (CONSTANT.format("(" * 9000 + ")" * 9000), "nested too deeply to be read"),
        ("module {\nkernel @k(%a: i1) {\n" + "  if %a {\n^then:\n" * 9000, "nested too deeply to be read"),
        (
            'module {\nkernel @k() loc("a":1:1' + ' at "b":1:1' * 9000 + ") {\n  return\n}\n}\n",
            "nested too deeply to be read",
        ),
        (CONSTANT.format("1" * 5000), "an integer of 5000 characters fits no type"),
        (CONSTANT.format("1e999"), "a number beyond f64; infinity is written inf"),
        (CONSTANT.format("\u0663"), "expected a token, found '\u0663'"),
        (CONSTANT.format("tile<" + "9" * 5000 + "xf32>"), "a tile with more elements than can be"),
    ],
)
def test_monstrous_texts_are_refused_like_others(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    assert str(caught.value).split("\n")[0].endswith(message)
