"""Tensor maps that kernels change or make: every field, what hands them on, and what is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interpreter.ptx.programs import Array, aligned, module_text, run
from tilewright.compiler import AssemblerError, assemble
from tilewright.interpreter import BarrierError, LaunchError, MemoryAccessError, RaceError, UninitializedError
from tilewright.interpreter.ptx import PtxError, decode_tensor_map, encode_tensor_map, load_ptx, run_ptx
from tilewright.interpreter.ptx.hopper.map_rules import FILLS, SWIZZLES, TYPES_OF
from tilewright.interpreter.ptx.hopper.maps import ELEMENTS, replaced
from tools.probes import moves as probe
from tools.probes.machines import Emulator
from tools.probes.move_tensormap import tensormap_cases

EMULATOR = Emulator("sm_90a")
CASES = {move.name: move for move in tensormap_cases()}
ZEROS = "tensormap.replace.tile.global_address.shared::cta.b1024.b64 (of zeros)"
HOSTS = "tensormap.replace.tile.global_address.shared::cta.b1024.b64"


def left(name: str, change: Callable[[str], str] = lambda text: text) -> Array:
    """What a case of the probe leaves, its text changed."""
    move = replace(CASES[name], body=change(CASES[name].body))
    return probe.left_by(EMULATOR, move)


@pytest.mark.parametrize("name", CASES)
def test_all_cases_leave_what_numpy_says(name: str) -> None:
    want = probe.expected(CASES[name])
    assert want is not None and np.array_equal(left(name), want)


def test_types_have_the_names_that_ptx_gives_their_numbers() -> None:
    types = ["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32", "f64", "bf16", "tf32", "tf32"]
    assert [TYPES_OF[name] for name in ELEMENTS] == types and sorted(ELEMENTS) == sorted(TYPES_OF)
    assert [name for name in ELEMENTS if name.endswith("ftz")] == ["float32_ftz", "tfloat32_ftz"]


@given(st.data())
def test_a_map_of_zeros_becomes_any_other(data: st.DataObject) -> None:
    """In any order of its fields."""
    rank = data.draw(st.integers(1, 5))
    each = st.integers(1, 1 << 20)
    fields = {
        "shape": data.draw(st.lists(each, min_size=rank, max_size=rank)),
        "strides": [16 * n for n in data.draw(st.lists(each, min_size=rank - 1, max_size=rank - 1))],
        "box": [4, *data.draw(st.lists(st.integers(1, 8), min_size=rank - 1, max_size=rank - 1))],
        "element_strides": data.draw(st.lists(st.integers(1, 8), min_size=rank, max_size=rank)),
    }
    address, swizzle, fill = (
        16 * data.draw(each),
        data.draw(st.sampled_from([*SWIZZLES])),
        data.draw(st.sampled_from(FILLS)),
    )
    want = encode_tensor_map("float32", address, *fields.values(), swizzle=swizzle, fill=fill)
    steps = [("global_address", 0, address), ("rank", 0, rank - 1), ("elemtype", 0, 7), ("interleave_layout", 0, 0),
             ("swizzle_mode", 0, [*SWIZZLES].index(swizzle)), ("fill_mode", 0, FILLS.index(fill))]  # fmt: skip
    names = {"global_dim": "shape", "global_stride": "strides", "box_dim": "box", "element_stride": "element_strides"}
    steps += [(name, n, value) for name, field in names.items() for n, value in enumerate(fields[field])]
    found: bytes | None = bytes(128)
    for name, number, value in data.draw(st.permutations(steps)):
        assert found is not None
        found = replaced(found, name, number, value)
    assert found is not None and len(found) == 128 and prod(fields["box"]) * 4 <= 227 << 10
    assert decode_tensor_map(found) == decode_tensor_map(want)


@pytest.mark.parametrize(("field", "number", "value", "what"), [
    ("box_dim", 0, 300, "1 to 256 elements along dimension 0, found 300"), ("rank", 0, 6, "1 to 5 dimensions, found 7"),
    ("box_dim", 0, 1 << 20, "found 65535"), ("element_stride", 0, 9, "the element stride of dimension 0 is 1 to 8"),
    ("global_dim", 0, 0, "dimension 0 has 1 to"), ("global_address", 0, 8, "no multiple of 16"),
    ("fill_mode", 0, 1, "fill `nan` needs floats"), ("swizzle_mode", 0, 1, "more than the 32 that the swizzle mixes"),
    ("interleave_layout", 0, 1, "3 to 5 dimensions, found 1"),
])  # fmt: skip
def test_rules_that_a_change_breaks(field: str, number: int, value: int, what: str) -> None:
    changed = replaced(encode_tensor_map("uint32", 64, (64,), (), (16,)), field, number, value)
    assert changed is not None
    with pytest.raises(LaunchError, match=what):
        decode_tensor_map(changed)


def test_bytes_that_are_no_map_are_none_to_change() -> None:
    good = encode_tensor_map("uint32", 64, (64,), (), (16,))
    assert replaced(good[:9] + b"\7" + good[10:], "rank", 0, 1) is None


AFTER = "FILLED: fence.proxy.async;"
SMALL = "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%x16], 0, 3; "
WRONG: dict[str, tuple[str, str, str]] = {
    "rules": (AFTER, f"{SMALL} {AFTER}", "changed by the kernel: tensor map: the box's rows have 12 bytes"),
    "place": (AFTER, f"add.u32 %x16, %x16, 32; {SMALL} {AFTER}", "a tensor map at 0x1420, no multiple of 64"),
    "garbage": (AFTER, f"st.shared.b32 [%x16+4], 5; {AFTER}", "no tensor map at"),
    "changed bytes": (AFTER, f"st.shared.b32 [%x16], 5; {SMALL} {AFTER}", "neither a tensor map nor 128 zeros"),
    "another rank": ("[%d16, {0}]", "[%d16, {0, 0}]", "2 coordinates for a tensor map of 1 dim"),
    "lanes": ("KEPT", "KEPT", "the lanes of a warp name different places"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told(name: str) -> None:
    old, new, message = WRONG[name]

    def change(text: str) -> str:
        if name == "another rank":
            text = text.replace("tensor.1d", "tensor.2d")
        if name == "lanes":
            return text.replace("aligned [%d16]", "aligned [%d23]").replace("bar.sync 0; @%p1", "and.b32 %x21, %t, 1;"
                " mul.wide.u32 %d23, %x21, 64; add.u64 %d23, %d16, %d23; bar.sync 0; @%p1")  # fmt: skip
        assert old in text
        return text.replace(old, new)

    with pytest.raises(MemoryAccessError, match=message):
        left(HOSTS, change)


def test_an_address_of_64_bits_is_told_as_others_are() -> None:
    far = "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%x16], 0x8000000000000000;"
    with pytest.raises(MemoryAccessError, match="byte address 0x8000000000000000, which is in no argument"):
        left(HOSTS, lambda text: text.replace(AFTER, f"{far} {AFTER}"))


def test_a_map_that_nobody_wrote_is_not_handed_on() -> None:
    body = f"""{HEAD} and.b64 %a, %a, -128; {COPY}.release.gpu.sync.aligned [%a], [%s], 128; ret;"""
    out = aligned(np.zeros(64, np.uint32), 128)
    with pytest.raises(UninitializedError, match="of shared memory that nobody wrote"):
        run(body, out, out)


def test_who_hands_a_map_on_waits_for_who_changed_it() -> None:
    with pytest.raises(RaceError, match="tensor map"):  # by thread 0, taken on by the second warp
        left(HOSTS, lambda text: text.replace("fence.proxy.async; bar.sync 0; @%p1", "fence.proxy.async; @!%p1"))
    with pytest.raises(RaceError):
        left(HOSTS, lambda text: text.replace("KEPT: bar.sync 0;", "KEPT: st.global.b32 [%o+4], 7;"))


def test_a_warp_hands_it_on_as_one() -> None:
    with pytest.raises(BarrierError):
        left(HOSTS, lambda text: text.replace("@%p1 bra KEPT;", "@%p1 bra KEPT; setp.eq.u32 %p3, %t, 3; @%p3 exit;"))


HEAD = ".reg .b64 %a, %b; .reg .b32 %s, %n; .shared .align 128 .b8 s[128]; mov.u32 %s, s; ld.param.u64 %a, [a];"
REFUSED = (
    "rank.shared::cta.b1024.b64 [%s], %a;", "global_address.shared::cta.b1024.b32 [%s], %n;",
    "rank.shared::cluster.b1024.b32 [%s], %n;", "rank.shared::cta.b1024.b32 [%s], 0, %n;",
    "box_dim.shared::cta.b1024.b32 [%s], %n;", "box_dim.shared::cta.b1024.b32 [%s], 5, %n;",
    "box_dim.shared::cta.b1024.b32 [%s], %n, %n;", "elemtype.shared::cta.b1024.b32 [%s], 13;",
    "elemtype.shared::cta.b1024.b32 [%s], %n;", "swizzle_mode.shared::cta.b1024.b32 [%s], 4;",
    "fill_mode.shared::cta.b1024.b32 [%s], 2;", "interleave_layout.shared::cta.b1024.b32 [%s], 3;",
    "swizzle_atomicity.shared::cta.b1024.b32 [%s], 0;",
)  # fmt: skip
COPY = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic"


@pytest.mark.parametrize("line", [
    *(f"tensormap.replace.tile.{rest}" for rest in REFUSED), f"{COPY}.release.gpu.sync.aligned [%a], [%s], 64;",
    f"{COPY}.acquire.gpu.sync.aligned [%a], [%s], 128;", f"{COPY}.release.gpu.sync.aligned [%a], [%s];",
])  # fmt: skip
def test_what_the_assembler_refuses(line: str) -> None:
    with pytest.raises(AssemblerError):
        assemble("k", module_text(f"{HEAD} {line} ret;", "a"), "sm_90a")
    with pytest.raises(PtxError):
        run(f"{HEAD} {line} ret;", np.zeros(64))


def test_older_gpus_have_none() -> None:
    text = module_text(f"{HEAD} tensormap.replace.tile.rank.shared::cta.b1024.b32 [%s], 1; ret;", "a")
    with pytest.raises(AssemblerError):
        assemble("k", text.replace("sm_90a", "sm_90"), "sm_90")
    with pytest.raises(PtxError, match="is an instruction of sm_90a, the module is for sm_90"):
        run_ptx(load_ptx(text.replace("sm_90a", "sm_90")), "k", (1,), (1,), [0])
