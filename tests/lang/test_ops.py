"""The op tables: every row is documented and sound, and its type rule takes what it says and refuses the rest."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from tilewright.lang import (
    BF16,
    F8E5M2,
    F16,
    F32,
    F64,
    FLOATS,
    FP8,
    I1,
    I8,
    I16,
    I32,
    I64,
    INTS,
    NUMBERS,
    OPS,
    POINTERS,
    Attribute,
    Block,
    Builder,
    Effect,
    FloatType,
    OpDef,
    OpTypeError,
    PointerType,
    ScalarType,
    TileType,
    Trait,
    Type,
    with_shape,
)
from tilewright.lang.layout import LinearLayout
from tilewright.lang.opdef import register, rows
from tilewright.lang.ops.memory import ACCESS_TYPES, CAS_TYPES, POLL_TYPES, RMW_TYPES

SCALARS: tuple[ScalarType, ...] = (*NUMBERS, *POINTERS)
LAYOUT = LinearLayout.identity(4, "lane", "dim0")
ELEMENTWISE = [name for name, row in OPS.items() if row.is_elementwise]
REDUCTIONS = [name for name in OPS if name.startswith(("reduce_", "argmin_", "argmax_"))]
P32 = PointerType(F32)


def tile(element: ScalarType, *shape: int) -> TileType:
    return TileType(shape, element)


def infer(name: str, *types: Type, give: tuple[Type, ...] | None = None, **attributes: Any) -> tuple[Type, ...]:
    """The result types of an operation, made as the builder makes it."""
    row = OPS[name]
    return row.infer(types, row.fill(attributes), give)


# All rows


@pytest.mark.parametrize("name", OPS)
def test_the_row_is_documented_and_sound(name: str) -> None:
    row = OPS[name]
    assert row.name == name and re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert row.doc == row.doc.strip() and row.doc.endswith(".") and row.doc[0] not in " ."
    assert len(set(row.operands)) == len(row.operands)
    assert re.fullmatch(r"([a-z]+ )*([a-z]+\? )*([a-z]+\* )?", "".join(f"{operand} " for operand in row.operands))
    assert row.required <= row.fixed
    for attribute in row.attributes:
        assert_attribute_is_sound(attribute)
    assert len({attribute.name for attribute in row.attributes}) == len(row.attributes)


def assert_attribute_is_sound(attribute: Attribute) -> None:
    if attribute.default is not ...:
        assert isinstance(attribute.default, attribute.kind)
        assert not attribute.choices or attribute.default in attribute.choices
    assert all(isinstance(choice, attribute.kind) for choice in attribute.choices)


@pytest.mark.parametrize("name", OPS)
def test_traits_effect_and_contract_agree(name: str) -> None:
    row = OPS[name]
    if row.is_pure:
        assert row.effect is Effect.NONE and not row.is_terminator
    if row.is_elementwise:
        assert row.is_pure and row.signatures and not row.regions
    else:
        assert not row.signatures
    if Trait.COMMUTATIVE in row.traits:
        assert len(row.operands) == 2
    if Trait.YIELDS in row.traits:
        assert row.effect in (Effect.READ, Effect.WRITE, Effect.READ_WRITE)
    if row.contracts is not None:
        assert all(name in {t.name for t in FLOATS} for name in row.contracts.by_type)


def test_float_results_that_are_computed_have_a_contract() -> None:
    exact_by_nature = {"select", "bitcast"}
    without = {
        name
        for name in ELEMENTWISE
        if OPS[name].contracts is None and any(isinstance(result, FloatType) for _, result in OPS[name].signatures)
    }
    assert without == exact_by_nature


def test_pure_rows_and_the_rest() -> None:
    impure = {name for name, row in OPS.items() if not row.is_pure}
    assert impure == {
        *("load", "store", "atomic_rmw", "atomic_cas", "atomic_load", "atomic_store", "atomic_poll"),
        *("for", "while", "if", "call", "yield", "condition", "return", "print", "assert", "assume", "barrier"),
        *("local_alloc", "async_copy", "async_commit", "async_wait", "local_store", "local_load"),
    }


def test_a_row_is_declared_once_and_documented() -> None:
    row = OPS["add_i"]
    with pytest.raises(ValueError, match="op add_i is declared twice"):
        register(OpDef("add_i", row.operands, row.rule, row.doc))
    with pytest.raises(ValueError, match="op undocumented has no doc"):
        register(OpDef("undocumented", (), row.rule, " "))
    assert "undocumented" not in OPS
    assert rows(["store", "add_i"]) == (OPS["store"], row)


def test_operands_by_name() -> None:
    load = OPS["load"]
    assert [load.operand_index(name) for name in ("pointer", "mask", "other")] == [0, 1, 2]
    assert (load.required, load.fixed, load.is_variadic) == (1, 3, False)
    loop = OPS["for"]
    assert (loop.required, loop.fixed, loop.is_variadic) == (3, 3, True)
    with pytest.raises(KeyError, match="load has no operand value"):
        load.operand_index("value")


# Attributes


def test_attributes_are_filled_in_the_order_of_the_row() -> None:
    filled = OPS["load"].fill({"volatile": True, "cache": "cg"})
    assert list(filled.items()) == [("cache", "cg"), ("eviction", ""), ("volatile", True), ("scratch", -1)]


ATTRIBUTE_FAULTS = {
    "load has no attribute colour": ("load", {"colour": 1}),
    "constant needs the attribute value": ("constant", {}),
    "load: attribute volatile must be bool, not 1": ("load", {"volatile": 1}),
    "arange: attribute start must be int, not True": ("arange", {"start": True, "end": 4}),
    "program_id: attribute axis is 3; one of 0, 1, 2 is allowed": ("program_id", {"axis": 3}),
    "cast_f: attribute rounding is 'up'; one of rtne, rtz is allowed": ("cast_f", {"rounding": "up"}),
    "splat: attribute shape must be tuple of int, not [4]": ("splat", {"shape": [4]}),
    "constant: attribute value must be int | float, not 'x'": ("constant", {"value": "x"}),
}


@pytest.mark.parametrize("message", ATTRIBUTE_FAULTS)
def test_bad_attributes_are_refused(message: str) -> None:
    name, attributes = ATTRIBUTE_FAULTS[message]
    with pytest.raises(OpTypeError) as caught:
        OPS[name].fill(attributes)
    assert str(caught.value) == message


# Elementwise rows


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_rows_take_their_signatures(name: str) -> None:
    for operands, result in OPS[name].signatures:
        assert infer(name, *operands, give=(result,)) == (result,)
        for shape, layout in (((2, 4), None), ((4,), LAYOUT)):
            types = [TileType(shape, t, layout) for t in (*operands, result)]
            assert infer(name, *types[:-1], give=(types[-1],)) == (types[-1],)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_rows_refuse_every_other_element(name: str) -> None:
    row = OPS[name]
    admitted = {operands for operands, _ in row.signatures}
    alike = {(t,) * len(row.operands) for t in SCALARS}
    near = {(*some[:i], t, *some[i + 1 :]) for some in list(admitted)[:3] for i in range(len(some)) for t in SCALARS}
    for operands in (alike | near) - admitted:
        with pytest.raises(OpTypeError, match=re.escape(f"{name} does not take")):
            infer(name, *operands)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_rows_refuse_every_other_result(name: str) -> None:
    row = OPS[name]
    for operands in {operands for operands, _ in row.signatures}:
        results = {result for have, result in row.signatures if have == operands}
        for result in set(SCALARS) - results:
            with pytest.raises(OpTypeError, match=f"{name} (of|yields)"):
                infer(name, *operands, give=(result,))
        if len(results) > 1:
            with pytest.raises(OpTypeError, match="needs a result type among"):
                infer(name, *operands)
        else:
            assert infer(name, *operands) == tuple(results)


@pytest.mark.parametrize("name", [name for name in ELEMENTWISE if len(OPS[name].operands) > 1])
def test_elementwise_rows_refuse_mixed_shapes(name: str) -> None:
    operands, result = OPS[name].signatures[0]
    for last in (operands[-1], tile(operands[-1], 8), tile(operands[-1], 1, 4)):
        types = [*(tile(t, 4) for t in operands[:-1]), last]
        with pytest.raises(OpTypeError, match="differ in shape"):
            infer(name, *types, give=(tile(result, 4),))
    placed = [TileType((4,), t, LAYOUT) for t in operands]
    with pytest.raises(OpTypeError, match="differ in layout"):
        infer(name, *placed[:-1], tile(operands[-1], 4), give=(placed[0],))


@pytest.mark.parametrize("name", ["add_i", "abs_f", "select", "load", "barrier", "dot"])
def test_the_number_of_operands_is_checked(name: str) -> None:
    row = OPS[name]
    for count in {row.required - 1, row.fixed + 1} - {-1}:
        with pytest.raises(OpTypeError, match=re.escape(f"{name} takes operands ({', '.join(row.operands)})")):
            infer(name, *[I32] * count)


def test_which_elements_arithmetic_takes() -> None:
    for name in ("add_i", "shr_u", "max_s", "xor"):
        assert [operands[0] for operands, _ in OPS[name].signatures] == list(INTS)
    for name in ("add_f", "fma", "minimum"):
        assert [operands[0] for operands, _ in OPS[name].signatures] == list(FLOATS)
    for name in ("exp", "div_f", "floor", "sqrt_rn"):
        assert [operands[0] for operands, _ in OPS[name].signatures] == [F32, F64]
    assert all(result == I1 for name in ELEMENTWISE if name.startswith("cmp_") for _, result in OPS[name].signatures)


def test_which_casts_exist() -> None:
    pairs = {name: {(a, b) for (a,), b in OPS[name].signatures} for name in ELEMENTWISE if len(OPS[name].operands) == 1}
    assert pairs["trunc_i"] == {(a, b) for a, b in product(INTS, INTS) if b.width < a.width}
    assert pairs["ext_s"] == pairs["ext_u"] == {(b, a) for a, b in pairs["trunc_i"]}
    assert pairs["s_to_f"] == pairs["u_to_f"] == set(product(INTS, FLOATS))
    assert pairs["f_to_s"] == pairs["f_to_u"] == set(product(FLOATS, INTS[1:]))
    assert pairs["cast_f"] == {(a, b) for a, b in product(FLOATS, FLOATS) if a != b}
    assert {(I32, F32), (F16, BF16), (I8, F8E5M2), (P32, PointerType(I8))} <= pairs["bitcast"]
    assert not {(I32, I64), (I64, P32), (I32, I32)} & pairs["bitcast"]


# The other rows: what each gives

GIVES: list[tuple[str, tuple[Type, ...], dict[str, Any], tuple[Type, ...]]] = [
    ("arange", (), {"start": -2, "end": 2}, (tile(I32, 4),)),
    ("program_id", (), {"axis": 2}, (I32,)),
    ("num_programs", (), {"axis": 0}, (I32,)),
    ("splat", (F32,), {"shape": (2, 4)}, (tile(F32, 2, 4),)),
    ("splat", (F32,), {"shape": ()}, (F32,)),
    ("broadcast", (tile(P32, 1, 4),), {"shape": (8, 4)}, (tile(P32, 8, 4),)),
    ("expand_dims", (tile(I8, 4),), {"axis": 0}, (tile(I8, 1, 4),)),
    ("expand_dims", (tile(I8, 4),), {"axis": 1}, (tile(I8, 4, 1),)),
    ("expand_dims", (I8,), {"axis": 0}, (tile(I8, 1),)),
    ("reshape", (tile(I8, 4, 2),), {"shape": (8,)}, (tile(I8, 8),)),
    ("reshape", (I8,), {"shape": (1, 1)}, (tile(I8, 1, 1),)),
    ("reshape", (tile(I8, 1),), {"shape": ()}, (I8,)),
    ("permute", (tile(I8, 1, 2, 4),), {"order": (2, 0, 1)}, (tile(I8, 4, 1, 2),)),
    ("join", (tile(F16, 4), tile(F16, 4)), {}, (tile(F16, 4, 2),)),
    ("join", (F16, F16), {}, (tile(F16, 2),)),
    ("split", (tile(F16, 4, 2),), {}, (tile(F16, 4),) * 2),
    ("split", (tile(F16, 2),), {}, (F16, F16)),
    ("add_ptr", (tile(P32, 4), tile(I64, 4)), {}, (tile(P32, 4),)),
    ("hint", (I32,), {"divisibility": (16,)}, (I32,)),
    ("convert_layout", (tile(F32, 4),), {}, (tile(F32, 4),)),
    ("async_copy", (tile(P32, 4), tile(F32, 2, 4), I32, I1), {}, (tile(F32, 2, 4),)),
    ("async_copy", (tile(P32, 4), tile(F32, 2, 4), I32, I1, tile(I1, 4)), {}, (tile(F32, 2, 4),)),
    ("async_commit", (), {}, ()),
    ("async_wait", (tile(F32, 2, 4), tile(I8, 1, 2)), {"pending": 1}, (tile(F32, 2, 4), tile(I8, 1, 2))),
    ("local_store", (tile(F32, 2, 4, 8), I32, tile(F32, 4, 8)), {}, (tile(F32, 2, 4, 8),)),
    ("local_load", (tile(F32, 2, 4, 8), I32), {}, (tile(F32, 4, 8),)),
    ("load", (P32,), {}, (F32,)),
    ("load", (tile(P32, 4), tile(I1, 4), tile(F32, 4)), {}, (tile(F32, 4),)),
    ("store", (tile(P32, 4), tile(F32, 4), tile(I1, 4)), {}, ()),
    ("atomic_load", (tile(P32, 4), tile(I1, 4)), {}, (tile(F32, 4),)),
    ("atomic_store", (P32, F32), {}, ()),
    ("atomic_cas", (tile(P32, 4), tile(F32, 4), tile(F32, 4)), {}, (tile(F32, 4),)),
    ("atomic_rmw", (tile(P32, 4), tile(F32, 4), tile(I1, 4)), {"kind": "add_f"}, (tile(F32, 4),)),
    ("atomic_poll", (tile(PointerType(I32), 4), tile(I32, 4), I64), {}, (tile(I1, 4),)),
    ("reduce", (tile(F32, 2, 4), tile(I32, 2, 4)), {"axis": 1}, (tile(F32, 2), tile(I32, 2))),
    ("reduce", (tile(F32, 4),), {"axis": 0}, (F32,)),
    ("dot", (tile(F16, 2, 4), tile(F16, 4, 8), tile(F32, 2, 8)), {}, (tile(F32, 2, 8),)),
    ("dot", (tile(I8, 2, 2, 4), tile(I8, 2, 4, 8), tile(I32, 2, 2, 8)), {}, (tile(I32, 2, 2, 8),)),
    ("for", (I64, I64, I64, F32, tile(I8, 4)), {}, (F32, tile(I8, 4))),
    ("while", (F32, I32), {}, (F32, I32)),
    ("if", (I1,), {}, ()),
    ("call", (F32,), {"callee": "f"}, ()),
    ("yield", (F32, I32), {}, ()),
    ("condition", (I1, I32), {}, ()),
    ("return", (F32,), {}, ()),
    ("print", (F32, tile(I32, 4)), {"prefix": "x"}, ()),
    ("assert", (tile(I1, 4), tile(I1, 4)), {"message": ""}, ()),
    ("assume", (I1,), {}, ()),
    ("barrier", (), {}, ()),
]


@pytest.mark.parametrize("case", GIVES, ids=lambda case: case[0])
def test_what_each_row_gives(case: tuple[str, tuple[Type, ...], dict[str, Any], tuple[Type, ...]]) -> None:
    name, types, attributes, results = case
    assert infer(name, *types, **attributes) == results
    assert infer(name, *types, give=results, **attributes) == results


def test_every_row_that_is_not_elementwise_is_tried() -> None:
    tried = {case[0] for case in GIVES} | {"constant", "poison", "local_alloc", *REDUCTIONS}
    assert tried == {name for name, row in OPS.items() if not row.is_elementwise}


@pytest.mark.parametrize(("stages", "extent"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8)])
def test_a_buffer_has_a_power_of_two_of_stages(stages: int, extent: int) -> None:
    assert infer("local_alloc", give=(tile(F16, extent, 4),), stages=stages) == (tile(F16, extent, 4),)
    with pytest.raises(OpTypeError, match=f"local_alloc: {stages} stages do not make tile<16x4xf16>"):
        infer("local_alloc", give=(tile(F16, 16, 4),), stages=stages)


def test_a_part_of_a_stage_is_aligned_and_inside() -> None:
    buffer = tile(F16, 2, 8, 16)
    for shape, first in (((8, 16), (0, 0)), ((4, 16), (4, 0)), ((1, 2), (7, 14)), ((8, 4), (0, 8))):
        assert infer("local_load", buffer, I32, give=(tile(F16, *shape),), first=first) == (tile(F16, *shape),)
    for shape, first in (((4, 16), (2, 0)), ((4, 16), (8, 0)), ((4, 16), (-4, 0)), ((8, 16), (0,)), ((16, 16), (0, 0))):
        with pytest.raises(OpTypeError, match=r"local_load: tile<.*> at .* is no aligned part of tile<8x16xf16>"):
            infer("local_load", buffer, I32, give=(tile(F16, *shape),), first=first)
    for part in (tile(F32, 8, 16), tile(F16, 16), F16):
        with pytest.raises(OpTypeError, match="local_load: part of tile<8x16xf16> is not"):
            infer("local_load", buffer, I32, give=(part,), first=(0, 0))


@pytest.mark.parametrize("name", ["call", "if", "while"])
def test_rows_whose_results_stand_in_the_text(name: str) -> None:
    attributes = {"callee": "f"} if name == "call" else {}
    assert infer(name, I1, give=(F32, I32), **attributes) == (F32, I32)


# The other rows: what each refuses

REFUSES: list[tuple[str, tuple[Type, ...], dict[str, Any], str]] = [
    ("arange", (), {"start": 4, "end": 4}, "arange(4, 4): the range must be ascending and fit i32"),
    ("arange", (), {"start": 0, "end": 2**31 + 1}, "arange(0, 2147483649): the range must be ascending and fit i32"),
    ("splat", (tile(F32, 4),), {"shape": (4,)}, "splat takes a scalar, not tile<4xf32>"),
    ("broadcast", (tile(F32, 2),), {"shape": (4,)}, "broadcast: tile<2xf32> does not stretch to (4,)"),
    ("broadcast", (tile(F32, 1),), {"shape": (1, 1)}, "broadcast: tile<1xf32> does not stretch to (1, 1)"),
    ("broadcast", (F32,), {"shape": ()}, "broadcast: f32 does not stretch to ()"),
    ("expand_dims", (tile(F32, 4),), {"axis": 2}, "expand_dims: axis 2 of tile<4xf32>"),
    ("convert_layout", (F32,), {}, "convert_layout takes a tile, not f32"),
    ("expand_dims", (tile(F32, 4),), {"axis": -1}, "expand_dims: axis -1 of tile<4xf32>"),
    ("reshape", (tile(F32, 4),), {"shape": (8,)}, "reshape: tile<4xf32> has 4 elements, (8,) has 8"),
    ("permute", (tile(F32, 4),), {"order": (0, 0)}, "permute: (0, 0) does not permute the dimensions of tile<4xf32>"),
    ("join", (tile(F32, 4), tile(I32, 4)), {}, "join: tile<4xf32> and tile<4xi32> differ in element type"),
    ("join", (tile(F32, 4), tile(F32, 8)), {}, "join: operands tile<4xf32> and tile<8xf32> differ in shape"),
    ("split", (tile(F32, 4),), {}, "split: the last dimension of tile<4xf32> must be 2"),
    ("split", (F32,), {}, "split: the last dimension of f32 must be 2"),
    ("add_ptr", (I64, I64), {}, "add_ptr takes a pointer and an integer, not i64 and i64"),
    ("add_ptr", (P32, I1), {}, "add_ptr takes a pointer and an integer, not ptr<f32> and i1"),
    ("add_ptr", (P32, tile(I32, 4)), {}, "add_ptr: operands ptr<f32> and tile<4xi32> differ in shape"),
    ("async_copy", (tile(P32, 4), tile(F32, 2, 8), I32, I1), {}, "async_copy: a stage is tile<8xf32>, not tile<4xf32>"),
    ("async_copy", (tile(P32, 4), tile(F32, 2, 4), I64, I1), {}, "async_copy: the index is a scalar i32, not i64"),
    ("async_copy", (tile(P32, 4), tile(F32, 2, 4), I32, I8), {}, "async_copy: `enabled` is a scalar i1, not i8"),
    (
        "async_copy",
        (tile(P32, 4), tile(F32, 4), I32, I1),
        {},
        "async_copy takes a buffer of at least two dimensions, not tile<4xf32>",
    ),
    (
        "async_copy",
        (tile(P32, 4), tile(F32, 2, 4), I32, I1, I1),
        {},
        "async_copy: the mask must be i1 of the shape of tile<4xptr<f32>>, not i1",
    ),
    ("local_store", (tile(F32, 2, 4), I32, tile(F16, 4)), {}, "local_store: a stage is tile<4xf32>, not tile<4xf16>"),
    ("local_load", (F32, I32), {}, "local_load takes a buffer of at least two dimensions, not f32"),
    ("local_load", (tile(F32, 2, 4), I32), {"first": (0,)}, "local_load needs its result type to be given"),
    ("load", (F32,), {}, "load takes a pointer, not f32"),
    ("load", (P32, tile(I1, 4)), {}, "load: the mask must be i1 of the shape of ptr<f32>, not tile<4xi1>"),
    ("load", (P32, I8), {}, "load: the mask must be i1 of the shape of ptr<f32>, not i8"),
    ("load", (P32, I1, F64), {}, "load: `other` must be f32, not f64"),
    ("store", (P32, I32), {}, "store: a value of f32 goes there, not i32"),
    ("store", (tile(P32, 4), F32), {}, "store: a value of tile<4xf32> goes there, not f32"),
    ("store", (P32, F32, I32), {}, "store: the mask must be i1 of the shape of ptr<f32>, not i32"),
    ("atomic_load", (I64,), {}, "atomic_load takes a pointer, not i64"),
    ("atomic_rmw", (P32, I32), {"kind": "add_f"}, "atomic_rmw add_f: a value of f32 goes there, not i32"),
    ("atomic_cas", (P32, F32, I32), {}, "atomic_cas: a value of f32 goes there, not i32"),
    ("atomic_poll", (P32, F32), {}, "atomic_poll does not exist for f32"),
    (
        *("atomic_poll", (PointerType(I32), I32, I32), {}),
        "atomic_poll: the timeout must be a scalar i64, not i32",
    ),
    ("reduce", (tile(F32, 4), tile(F32, 8)), {"axis": 0}, "reduce: the operands differ in shape"),
    ("reduce", (F32,), {"axis": 0}, "reduce: f32 has no axis 0"),
    (
        "dot",
        (tile(F16, 4), tile(F16, 4), tile(F32, 4)),
        {},
        "dot takes three tiles of rank 2 or 3, not tile<4xf16>, tile<4xf16>, tile<4xf32>",
    ),
    (
        "dot",
        (tile(F16, 2, 4), tile(F16, 2, 4), tile(F32, 2, 4)),
        {},
        "dot: shapes (2, 4), (2, 4) and (2, 4) do not fit together",
    ),
    (
        "dot",
        (tile(F16, 1, 1), tile(BF16, 1, 1), tile(F32, 1, 1)),
        {},
        "dot does not exist for tile<1x1xf16>, tile<1x1xbf16>, tile<1x1xf32>",
    ),
    ("for", (I32, I32, I64), {}, "for: bounds and step must be one integer type, not i32, i32, i64"),
    ("for", (F32, F32, F32), {}, "for: bounds and step must be one integer type, not f32, f32, f32"),
    ("if", (I32,), {}, "if takes a scalar i1, not i32"),
    ("if", (tile(I1, 1),), {}, "if takes a scalar i1, not tile<1xi1>"),
    ("condition", (I8,), {}, "condition takes a scalar i1, not i8"),
    ("assert", (I8,), {"message": ""}, "assert takes an i1, not i8"),
    ("assert", (I1, tile(I1, 4)), {"message": ""}, "assert: the mask must be i1 of the shape of i1, not tile<4xi1>"),
    ("assume", (tile(I1, 4),), {}, "assume takes a scalar i1, not tile<4xi1>"),
    ("poison", (), {}, "poison needs its result type to be given"),
]


@pytest.mark.parametrize("case", REFUSES, ids=lambda case: case[0])
def test_what_each_row_refuses(case: tuple[str, tuple[Type, ...], dict[str, Any], str]) -> None:
    name, types, attributes, message = case
    with pytest.raises(OpTypeError) as caught:
        infer(name, *types, **attributes)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["store", "barrier", "yield", "for", "load"])
def test_no_row_gives_other_results_than_its_own(name: str) -> None:
    types = {"store": (P32, F32), "for": (I32, I32, I32), "load": (P32,)}.get(name, ())
    with pytest.raises(OpTypeError, match=rf"{name} yields \(.*\), not \(i16\)"):
        infer(name, *types, give=(I16,))


# Constants

CONSTANTS: list[tuple[Type, Any, bool]] = [
    *((I8, value, True) for value in (-128, 0, 127, 255)),
    *((I8, value, False) for value in (-129, 256, 1.0, True)),
    *((I1, value, True) for value in (-1, 0, 1)),
    *((I1, value, False) for value in (-2, 2, True)),
    (I64, 2**64 - 1, True),
    (I64, 2**64, False),
    (F32, 1.0, True),
    (F32, float("nan"), True),
    (F32, 1, False),
    (tile(F16, 4), -0.0, True),
    (tile(I32, 4), 7, True),
    (P32, 0, True),
    (P32, 4, False),
    (P32, 0.0, False),
]


@pytest.mark.parametrize(("type_", "value", "good"), CONSTANTS, ids=lambda value: str(value))
def test_constants_fit_their_type(type_: Type, value: Any, good: bool) -> None:
    if good:
        assert infer("constant", give=(type_,), value=value) == (type_,)
    else:
        with pytest.raises(OpTypeError, match="constant"):
            infer("constant", give=(type_,), value=value)


def test_constants_need_a_type() -> None:
    for give in (None, (), (I32, I32)):
        with pytest.raises(OpTypeError, match="constant needs its result type to be given"):
            infer("constant", give=give, value=0)


# Reductions, atomics and the matrix product, over all elements


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_take_integers_or_floats(name: str) -> None:
    row = OPS[name]
    floats = name.endswith(("_f", "num"))
    for element in SCALARS:
        types = tile(element, 2, 4)
        if element in (FLOATS if floats else INTS):
            index = (tile(I32, 2),) if name.startswith("arg") else ()
            assert infer(name, types, axis=1) == (tile(element, 2), *index)
            assert infer(name, tile(element, 8), axis=0)[0] == element
        else:
            with pytest.raises(OpTypeError, match=f"{name} does not take"):
                infer(name, types, axis=1)
    for axis in (-1, 2):
        with pytest.raises(OpTypeError, match="has no axis"):
            infer(name, tile(F32 if floats else I32, 2, 4), axis=axis)
    assert row.is_pure


def takes(name: str, *types: Type, **attributes: Any) -> bool:
    try:
        infer(name, *types, **attributes)
    except OpTypeError:
        return False
    return True


@pytest.mark.parametrize("kind", RMW_TYPES)
def test_atomics_exist_for_the_listed_types(kind: str) -> None:
    for shape in ((), (4,)):
        for element in NUMBERS:
            types = [with_shape(t, shape) for t in (PointerType(element), element)]
            assert takes("atomic_rmw", *types, kind=kind) == (element in RMW_TYPES[kind])


@pytest.mark.parametrize(
    ("name", "values", "admitted"),
    [
        ("atomic_cas", 2, CAS_TYPES),
        ("atomic_poll", 1, POLL_TYPES),
        ("atomic_load", 0, ACCESS_TYPES),
        ("atomic_store", 1, ACCESS_TYPES),
    ],
)
def test_other_atomics_exist_for_the_listed_types(name: str, values: int, admitted: tuple[ScalarType, ...]) -> None:
    for element in NUMBERS:
        assert takes(name, PointerType(element), *[element] * values) == (element in admitted)


def test_the_matrix_product_exists_for_the_listed_types() -> None:
    same = {(F16, F16), (F16, F32), (BF16, F32), (F32, F32), (F64, F64), (I8, I32)}
    wanted = {(a, a, acc) for a, acc in same} | set(product(FP8, FP8, (F16, F32)))
    found = {
        elements
        for elements in product(NUMBERS, repeat=3)
        if takes("dot", *(tile(element, 2, 2) for element in elements))
    }
    assert found == wanted


# The builder


def test_the_builder_makes_checked_operations() -> None:
    block = Block([I32, P32], ["n", "p"])
    builder = Builder(block)
    number, pointer = block.arguments
    total = builder.value(OPS["add_i"], [number, number])
    builder.create(OPS["return"])
    builder.at(block.terminator)
    load = builder.create(OPS["load"], [pointer], {"cache": "cg"})
    assert [operation.name for operation in block.operations] == ["add_i", "load", "return"]
    assert load.attributes == {"cache": "cg", "eviction": "", "volatile": False, "scratch": -1}
    assert (total.type, load.result.type) == (I32, F32)
    assert load.operand("pointer") is pointer and load.operand("mask") is None
    assert list(number.uses) == [(total.producer, 0), (total.producer, 1)]
    with pytest.raises(OpTypeError, match="add_i does not take"):
        builder.create(OPS["add_i"], [number, pointer])
    assert len(block.operations) == 3 and len(number.uses) == 2
    with pytest.raises(ValueError, match="no insertion point"):
        Builder().create(OPS["barrier"])


def test_erasing_and_replacing_keep_the_use_lists() -> None:
    block = Block([I32, I32], ["a", "b"])
    first, second = block.arguments
    builder = Builder(block)
    total = builder.create(OPS["add_i"], [first, first])
    double = builder.create(OPS["add_i"], [total.result, first])
    with pytest.raises(ValueError, match="add_i: a result is still used"):
        total.erase()
    total.result.replace_uses(second)
    assert double.operands == [second, first] and list(second.uses) == [(double, 0)] and not total.result.uses
    total.erase()
    assert block.operations == [double] and list(first.uses) == [(double, 1)] and total.block is None
