"""The distributed executor: hand-written GPU IR gives what the layouts say, and wrong layouts are faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.interpreter.placing import Shape, blocked, both, loaded, module_of, pointers, ran, stored, tile
from tilewright.interpreter import DistributionError, MemoryAccessError, execute_distributed
from tilewright.interpreter.control import CONTROL
from tilewright.interpreter.distributed.meanings import DISTRIBUTED
from tilewright.interpreter.distributed.moves import collect, spread
from tilewright.interpreter.distributed.places import places_of
from tilewright.interpreter.distributed.shared import BlockBatch
from tilewright.interpreter.executor import DEFAULTS, BatchMaker
from tilewright.interpreter.meanings import MEANINGS
from tilewright.interpreter.memory import Memory
from tilewright.lang import OPS, LinearLayout, Module, Operation, TileType, tile_layouts

X = np.random.default_rng(1).integers(-(2**31), 2**31, 4096).astype(np.int32)
#: 64 elements in two registers of 32 lanes; 8 x 8 in the same way; 16 in replicas of two warps.
FLAT = blocked((64,), (2,), (32,), (1,))
SQUARE = blocked((8, 8), (1, 2), (8, 4), (1, 1))
FEW = blocked((16,), (1,), (32,), (2,))


def operation(module: Module, name: str) -> Operation:
    (found,) = (each for each in module.kernel.walk() if each.name == name)
    return found


def moved(source: Shape, have: LinearLayout, text: str, result: Shape, want: LinearLayout, warps: int = 1) -> Module:
    """A kernel that loads a tile, does one op, and stores the result."""
    op = f"  %r = {text} : {tile(result, 'i32', want)}"
    return module_of(loaded("a", source, have), op, stored("r", result, want), warps=warps, shared=1 << 14)


MOVES: dict[str, tuple[Shape, LinearLayout, str, Shape, LinearLayout]] = {
    "reshape": ((64,), FLAT, "reshape %a {shape = (8, 8)}", (8, 8), tile_layouts.reshape(FLAT, (8, 8))),
    "permute": ((8, 8), SQUARE, "permute %a {order = (1, 0)}", (8, 8), tile_layouts.permute(SQUARE, (1, 0))),
    "expand_dims": ((8, 8), SQUARE, "expand_dims %a {axis = 1}", (8, 1, 8), tile_layouts.expand_dims(SQUARE, 1)),
    "broadcast": (
        (8, 1), tile_layouts.expand_dims(tile_layouts.sliced(SQUARE, 1), 1), "broadcast %a {shape = (8, 8)}", (8, 8),
        SQUARE,
    ),
    "convert_layout": (
        (8, 8), SQUARE, "convert_layout %a {scratch = 0}", (8, 8), blocked((8, 8), (2, 1), (4, 8), (1, 1), (0, 1)),
    ),
    "abs_i": ((8, 8), SQUARE, "abs_i %a", (8, 8), SQUARE),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_each_op_does_what_it_means(name: str) -> None:
    assert len(set(both(moved(*MOVES[name]), X, 64).tolist())) > 7


def test_a_permutation_of_three_dimensions() -> None:
    layout = blocked((4, 8, 2), (1, 1, 2), (4, 8, 1), (1, 1, 1))
    order = (1, 2, 0)
    want = tile_layouts.permute(layout, order)
    got = both(moved((4, 8, 2), layout, f"permute %a {{order = {order}}}", (8, 2, 4), want), X, 64)
    assert (got == X[:64].reshape(4, 8, 2).transpose(order).reshape(-1)).all()


def test_halves_are_split_and_joined_in_registers_and_in_lanes() -> None:
    half = blocked((32,), (1,), (32,), (1,))
    pair = LinearLayout.from_bases(
        {"register": [(0, 1)], "lane": [(1 << bit, 0) for bit in range(5)], "warp": []}, {"dim0": 32, "dim1": 2}
    )
    few = blocked((16,), (1,), (32,), (1,))
    across = LinearLayout.from_bases(
        {"register": [], "lane": [*((1 << bit, 0) for bit in range(4)), (0, 1)], "warp": []}, {"dim0": 16, "dim1": 2}
    )
    split = f"  %b, %c = split %a : {tile((32,), 'i32', half)}, {tile((32,), 'i32', half)}"
    join = f"  %d = join %c, %b : {tile((32, 2), 'i32', pair)}"
    got = both(module_of(loaded("a", (32, 2), pair), split, join, stored("d", (32, 2), pair)), X, 64)
    assert (got.reshape(32, 2) == X[:64].reshape(32, 2)[:, ::-1]).all()
    join = f"  %d = join %a, %e : {tile((16, 2), 'i32', across)}"
    twice = f"  %e = add_i %a, %a : {tile((16,), 'i32', few)}"
    got = both(module_of(loaded("a", (16,), few), twice, join, stored("d", (16, 2), across)), X, 32)
    assert (got.reshape(16, 2)[:, 1] == 2 * got.reshape(16, 2)[:, 0]).all()


def test_scalars_become_tiles_and_tiles_scalars() -> None:
    one = LinearLayout.from_bases({"register": [], "lane": [(0,)] * 5, "warp": [(0,)]}, {"dim0": 1})
    lines = f"""
  %five = constant {{value = 5}} : i32
  %t = reshape %five {{shape = (1,)}} : {tile((1,), "i32", one)}
  %s = reshape %t {{shape = ()}} : i32
  %many = splat %s {{shape = (16,)}} : {tile((16,), "i32", FEW)}"""
    assert (both(module_of(lines, stored("many", (16,), FEW), warps=2), X, 16) == 5).all()


def test_every_op_has_a_meaning() -> None:
    assert DISTRIBUTED.keys() == MEANINGS.keys()
    assert {name for name in OPS if name not in DISTRIBUTED} == {*CONTROL, "yield", "return", "condition"} & OPS.keys()


# --- wrong places ---


@pytest.mark.parametrize("name", ["reshape", "permute", "broadcast", "expand_dims"])
def test_an_element_of_another_thread_takes_an_exchange(name: str) -> None:
    source, have, text, result, _ = MOVES[name]
    rank = len(result)
    turned = blocked(result, (1,) * rank, (*(1,) * (rank - 2), 8, 4), (1,) * rank, tuple(range(rank)))
    what = rf"{name} needs element \(.*\) of %a for warp 0, lane \d+, register \d+, and its thread does not hold it"
    with pytest.raises(DistributionError, match=what):
        ran(execute_distributed, moved(source, have, text, result, turned), X, 64)


def test_a_split_wants_both_halves_in_the_thread() -> None:
    half = blocked((32,), (1,), (32,), (1,))
    pair = blocked((32, 2), (2, 1), (16, 2), (1, 1))
    split = f"  %b, %c = split %a : {tile((32,), 'i32', half)}, {tile((32,), 'i32', half)}"
    with pytest.raises(DistributionError, match="split needs element"):
        ran(execute_distributed, module_of(loaded("a", (32, 2), pair), split, stored("b", (32,), half)), X, 32)


def test_operands_that_meet_lie_alike() -> None:
    module = moved(*MOVES["abs_i"])
    place_anew(module, operation(module, "abs_i").result, blocked((8, 8), (2, 1), (4, 8), (1, 1)))
    with pytest.raises(DistributionError, match="abs_i: %a and %r meet, but lie in other places") as raised:
        ran(execute_distributed, module, X, 64)
    assert raised.value.location.line == operation(module, "abs_i").location.line


def test_a_store_wants_its_values_where_its_pointers_are() -> None:
    other = blocked((8, 8), (2, 1), (8, 4), (1, 1))
    module = moved(*MOVES["convert_layout"])
    place_anew(module, operation(module, "convert_layout").result, other)
    with pytest.raises(DistributionError, match="store: %r_to and %r meet"):
        ran(execute_distributed, module, X, 64)


def place_anew(module: Module, value: Any, layout: LinearLayout) -> None:
    """Give a value another layout, which nobody else hears of."""
    assert isinstance(value.type, TileType)
    value.type = replace(value.type, layout=layout)


def test_replicas_must_agree_bit_for_bit() -> None:
    places = places_of(FEW)
    module = module_of(loaded("a", (16,), FEW), stored("a", (16,), FEW), warps=2)
    value = operation(module, "load").result
    batch = next(iter(BatchMaker((3, 1, 1), Memory(), DEFAULTS).batches(3)))
    batch = BlockBatch.of(batch, 0)
    tiles = np.arange(48, dtype=np.float32).reshape(3, 16)
    held = spread(tiles, value.type)
    assert (collect(batch, operation(module, "store"), value, held) == tiles).all()
    assert places.slot_name(places.elements.size - 1) == "warp 1, lane 31, register 0"
    held[2, :, :, 0][places.elements[:, :, 0] == 1] = 0.0
    held[2, 1, 17, 0] = -0.0
    what = (
        r"replicas of element \(1,\) of %a differ: 0.0 in warp 0, lane 1, register 0, "
        r"-0.0 in warp 1, lane 17, register 0 \(program \(2, 0, 0\)\)"
    )
    with pytest.raises(DistributionError, match=what):
        collect(batch, operation(module, "store"), value, held)


def test_tiles_need_places_in_all_threads() -> None:
    module = moved(*MOVES["abs_i"])
    module.attributes["num_warps"] = 2
    with pytest.raises(DistributionError, match="has places in 1 warps of 32 lanes, not in 2 of 32"):
        ran(execute_distributed, module, X, 64)
    value = operation(module, "abs_i").result
    value.type = replace(value.type, layout=None)  # type: ignore[arg-type]
    module.attributes["num_warps"] = 1
    with pytest.raises(DistributionError, match="abs_i: tile<8x8xi32> has no layout"):
        ran(execute_distributed, module, X, 64)
    missing = LinearLayout.from_bases({"register": [], "lane": [(1, 0)] * 5, "warp": []}, {"dim0": 8, "dim1": 8})
    place_anew(module, value, missing)
    with pytest.raises(DistributionError, match="leaves elements out"):
        ran(execute_distributed, module, X, 64)


def test_warps_exchange_through_shared_memory_only() -> None:
    have, want = (blocked((128,), (own,), (32,), (2,)) for own in (1, 2))
    for scratch, fits in ((0, True), (-1, False)):
        text = f"convert_layout %a {{scratch = {scratch}}}"
        module = moved((128,), have, text, (128,), want, warps=2)
        if fits:
            assert (both(module, X, 128) == X[:128]).all()
            continue
        with pytest.raises(DistributionError, match=r"convert_layout: warp 0 needs element \(32,\), which it does not"):
            ran(execute_distributed, module, X, 128)


# --- memory ---


def test_an_atomic_acts_once_an_element_and_all_replicas_know_what_it_found() -> None:
    add = f"""{pointers("p", "out", (16,), FEW)}
  %one = splat %three {{shape = (16,)}} : {tile((16,), "i32", FEW)}
  %old = atomic_rmw %p, %one {{kind = "add_i", sem = "relaxed", scope = "gpu"}} : {tile((16,), "i32", FEW)}"""
    module = module_of("  %three = constant {value = 3} : i32", add, stored("old", (16,), FEW, 16), warps=2)
    got = both(module, X, 32)
    assert (got[:16] == 2).all() and (got[16:] == -1).all()


def test_programs_each_have_their_own() -> None:
    lines = f"""
  %pid = program_id {{axis = 0}} : i32
  %size = constant {{value = 64}} : i32
  %first = mul_i %pid, %size : i32
  %o = splat %first {{shape = (64,)}} : {tile((64,), "i32", FLAT)}"""
    to = f"""{pointers("p", "out", (64,), FLAT)}
  %q = add_ptr %p, %o : {tile((64,), "ptr<i32>", FLAT)}
  %odd = and %pid, %one : i32
  %is = cmp_eq_i %odd, %one : i1
  if %is {{
  ^then:
    store %q, %a
    yield
  ^else:
    yield
  }}"""
    one = "  %one = constant {value = 1} : i32"
    got = both(module_of(one, lines, loaded("a", (64,), FLAT), to), X, 256, programs=4).reshape(4, 64)
    assert (got[1::2] == X[:64]).all() and (got[::2] == -1).all()


def test_an_access_out_of_bounds_is_one() -> None:
    module = module_of(loaded("a", (64,), FLAT), stored("a", (64,), FLAT))
    with pytest.raises(MemoryAccessError, match=r"at index \(60,\) of the tile"):
        ran(execute_distributed, module, X, 60)
