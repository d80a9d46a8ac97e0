"""What stands in the stages of compiled kernels: vectors, locations, determinism, cubins, refusals."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from functools import partial
from typing import Any

import pytest

import tilewright
from tests.compiler.building import Kernel
from tests.compiler.children import outcome
from tests.compiler.kernels import SAMPLES, Sample
from tilewright import lang, language
from tilewright.bench import cases
from tilewright.bench.sources import load_kernels
from tilewright.compiler import (
    STAGES,
    TARGETS,
    BadOption,
    NotOnTarget,
    UnknownTarget,
    compile_module,
)
from tilewright.compiler.lower import registry
from tilewright.compiler.targets import Needs
from tilewright.lang import BF16, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F16, F32, I32, OPS, FloatType, TileType, Value


def ptx_of(name: str, target: str = "sm_90a", num_warps: int = 4) -> str:
    return str(compile_module(SAMPLES[name]().module(), target, num_warps, until="ptx").stages["ptx"])


def test_an_aligned_add_moves_16_bytes_at_a_time() -> None:
    ptx = ptx_of("add, aligned")
    assert ptx.count("ld.global.v4.b32") == 4 and ptx.count("st.global.v4.b32") == 2
    assert not re.search(r"(ld|st)\.global\.b32", ptx)


def test_an_add_without_alignment_does_not() -> None:
    assert ".v4" not in ptx_of("add")  # 1000 is no multiple of 16, so a mask may end inside a vector
    assert "ld.global.b32" in ptx_of("add")


def test_neighbours_of_16_bits_share_words() -> None:
    kernel = Kernel()
    f16 = OPS["add_f"].signatures[5][1]
    x, out = kernel.pointer(f16), kernel.pointer(f16)
    offsets = kernel.offsets(2048)
    value = kernel.make("load", [kernel.at(x, offsets)])
    kernel.do("store", [kernel.at(out, offsets), kernel.make("add_f", [value, value])])
    ptx = str(compile_module(kernel.module(), "sm_90a", 4, until="ptx").stages["ptx"])
    assert "ld.global.v4.b32" in ptx and "st.global.v4.b32" in ptx


def narrow(name: str, element: FloatType, target: str, result: FloatType | None = None, **attributes: str) -> str:
    """The PTX of a row on 1024 elements of a float type, in 128 threads."""
    kernel, operands = Kernel(), len(OPS[name].operands)
    pointers = [kernel.pointer(element) for _ in range(operands)]
    out, offsets = kernel.pointer(result or element), kernel.offsets(1024)
    loaded = [kernel.make("load", [kernel.at(pointer, offsets)]) for pointer in pointers]
    made = kernel.make(name, loaded, TileType((1024,), result or element), attributes)
    kernel.do("store", [kernel.at(out, offsets), made])
    return str(compile_module(kernel.module(), target, 4, until="ptx").stages["ptx"])


@pytest.mark.parametrize(
    ("name", "element", "target", "code"),
    [
        ("add_f", F16, "sm_80", "add.rn.f16x2"),
        ("sub_f", F16, "sm_90a", "sub.rn.f16x2"),
        ("fma", F16, "sm_80", "fma.rn.f16x2"),
        ("add_f", BF16, "sm_90a", "add.rn.bf16x2"),
        ("mul_f", BF16, "sm_90a", "mul.rn.bf16x2"),
        ("mul_f", BF16, "sm_80", "fma.rn.bf16x2"),  # where nothing else rounds once
        ("minimum", BF16, "sm_80", "min.NaN.bf16x2"),
        ("maxnum", F16, "sm_80", "max.f16x2"),
        ("neg_f", F16, "sm_80", "xor.b32"),
    ],
)
def test_two_floats_of_16_bits_share_a_register_from_load_to_store(
    name: str, element: FloatType, target: str, code: str
) -> None:
    ptx = narrow(name, element, target)
    operations = re.findall(rf"{re.escape(code)}\s+\S+, .*;", ptx)
    assert len(operations) == 4 and "%rs" not in ptx


def test_two_f32_become_narrow_at_once() -> None:
    for element in (F16, BF16):
        ptx = narrow("cast_f", F32, "sm_80", element)
        assert len(re.findall(rf"cvt\.rn\.{element}x2\.f32", ptx)) == 4
        assert not re.search(rf"cvt\.rn\.{element}\.f32", ptx)


@pytest.mark.parametrize("target", TARGETS)
def test_8_bit_floats_are_converted_by_instructions_where_there_are_some(target: str) -> None:
    """Two at a time; toward zero, and in the formats that they do not know, by arithmetic everywhere."""
    has = TARGETS[target].sm >= 89
    for element, name in ((F8E5M2, "e5m2"), (F8E4M3FN, "e4m3")):
        assert narrow("cast_f", F32, target, element).count(f"cvt.rn.satfinite.{name}x2.f32") == 4 * has
        assert narrow("cast_f", F16, target, element).count(f"cvt.rn.satfinite.{name}x2.f16x2") == 4 * has
        assert narrow("cast_f", element, target, F32).count(f"cvt.rn.f16x2.{name}x2") == 4 * has
        assert narrow("cast_f", F32, target, element, rounding="rtz").count("satfinite") == 0
    assert "satfinite" not in narrow("cast_f", F32, target, F8E4M3FNUZ)


def test_elements_that_must_be_the_same_are_computed_once() -> None:
    """Rows whose bound is a multiple of 16 share their comparison; 32 rows in two runs, and one for the columns."""
    kernel = Kernel()
    out, rows, columns = kernel.pointer(I32), kernel.number(I32, "m", 16), kernel.number(I32, "n", 16)
    shape = (32, 64)
    masks = [
        kernel.make("cmp_lt_s", [along(kernel, axis, shape), kernel.splat(bound, shape)])
        for axis, bound in enumerate((rows, columns))
    ]
    inside = kernel.make("and", masks)
    start = kernel.make("mul_i", [along(kernel, 0, shape), kernel.splat(kernel.constant(64), shape)])
    place = kernel.make("add_i", [start, along(kernel, 1, shape)])
    kernel.do("store", [kernel.at(out, place), place, inside])
    ptx = str(compile_module(kernel.module(), "sm_90a", 4, until="ptx").stages["ptx"])
    assert ptx.count("setp.") == 3 and ptx.count("and.pred") == 2
    assert ptx.count("st.global.v4.b32") == 4


def along(kernel: Kernel, axis: int, shape: tuple[int, int]) -> Value:
    """The index along an axis of each element of a tile."""
    line = kernel.make("arange", attributes={"start": 0, "end": shape[axis]})
    spread = kernel.make("expand_dims", [line], attributes={"axis": 1 - axis})
    return kernel.make("broadcast", [spread], attributes={"shape": shape})


def test_high_halves_and_known_shifts_stay_short() -> None:
    ptx = str(compile_module(bench_modules()["dropout_kernel"], "sm_90a", 4, until="ptx").stages["ptx"])
    assert "mul.hi.u32" in ptx and "mul.lo.s64" not in ptx and "shr.u64" not in ptx


def test_llvm_and_the_assembler_fuse_nothing() -> None:
    """They see roundings written out; what is fused stands in the IR (see test_contract.py)."""
    kernel = Kernel()
    pointer = kernel.pointer(F32)
    x = kernel.make("load", [kernel.at(pointer, kernel.offsets(128))])
    total = kernel.make("add_f", [kernel.make("mul_f", [x, x]), x])
    kernel.do("store", [kernel.at(pointer, kernel.offsets(128)), total])
    module = kernel.module()
    ptx = str(compile_module(module, "sm_90a", 4, until="ptx", fp_fusion=False).stages["ptx"])
    assert "mul.rn.f32" in ptx and "add.rn.f32" in ptx and "fma" not in ptx
    assert "fma.rn.f32" in str(compile_module(module, "sm_90a", 4, until="ptx").stages["ptx"])


def test_a_kernel_is_held_to_a_number_of_registers() -> None:
    module = bench_modules()["dropout_kernel"]
    free, held = compile_module(module, "sm_90a", 4), compile_module(module, "sm_90a", 4, maxnreg=32)
    assert free.metadata.maxnreg is None and ".maxnreg" not in free.stages["ptx"]
    assert held.metadata.maxnreg == 32 and ".maxnreg 32" in held.stages["ptx"]
    assert held.metadata.registers <= 32 < free.metadata.registers
    for bad in (0, 7, 256, -1):
        with pytest.raises(BadOption, match=f"maxnreg={bad}"):
            compile_module(module, "sm_90a", 4, maxnreg=bad)


def test_every_instruction_has_a_line_of_the_source() -> None:
    ptx = ptx_of("gelu")
    assert not re.search(r"\.loc\s+\d+ 0 ", ptx)
    files = dict(re.findall(r'\.file\s+(\d+) "([^"]*)"', ptx))
    assert {name.rpartition(".")[2] for name in files.values()} >= {"gelu", "half_of"}
    lines = {int(line) for line in re.findall(r"\.loc\s+\d+ (\d+)", ptx)}
    assert len(lines) >= 5
    assert ".target sm_90a\n" in ptx  # and not `, debug`, under which the assembler does not optimise


def test_the_same_module_gives_the_same_bytes_in_another_process() -> None:
    """Under another hash seed, and twice in one process."""
    program = (
        "import hashlib; from tests.compiler.kernels import SAMPLES; from tilewright.compiler import compile_module\n"
        "for name in ('add', 'gelu', 'counted', 'transposed'):\n"
        "    for _ in range(2):\n"
        "        stages = compile_module(SAMPLES[name]().module(), 'sm_90a').stages\n"
        "        print(hashlib.sha256(repr(sorted(stages.items())).encode()).hexdigest())\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment(seed)
        )
        for seed in ("1", "2")
    ]
    first = runs[0].stdout.split()
    assert first == runs[1].stdout.split()
    assert first[0::2] == first[1::2] and len(set(first)) == 4


def environment(seed: str) -> dict[str, str]:
    return {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed}


def bench_modules() -> dict[str, Any]:
    """The kernels of the bench's elementwise family, and the sample with an error function."""
    kernels = load_kernels("elementwise", tilewright, language)
    made = {"gelu": SAMPLES["gelu"]().module()}
    for case in (cases.add(), cases.dropout()):
        made[case.kernel] = Sample(getattr(kernels, case.kernel), case.arguments, (1, 1, 1), case.constants).module()
    return made


def check_cubin(name: str, target: str) -> None:
    compiled = compile_module(bench_modules()[name], target, 4)
    assert tuple(compiled.stages) == STAGES
    assert compiled.stages["cubin"][:4] == b"\x7fELF"
    used = compiled.metadata
    assert used.name == name and used.target == target and 8 <= used.registers <= 128
    assert used.stack == used.spills == used.shared == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["add_kernel", "dropout_kernel", "gelu"])
def test_elementwise_kernels_assemble_for_every_target(name: str, target: str) -> None:
    assert outcome(partial(check_cubin, name, target)) == ""


def test_shared_memory_shows_where_replicas_exchange() -> None:
    kernel = Kernel()
    counter, out = kernel.pointer(I32), kernel.pointer(I32)
    old = kernel.make("atomic_rmw", [counter, kernel.constant(1)], None, {"kind": "add_i"})
    kernel.do("store", [out, old])
    compiled = compile_module(kernel.module(), "sm_80", 4)
    assert compiled.metadata.shared == 4 * 32 * 8
    assert str(compiled.stages["ptx"]).count("atom.") == 1


def test_stages_stop_where_asked_and_time_is_told() -> None:
    compiled = compile_module(SAMPLES["add"]().module(), "sm_80", 4, until="ttgir")
    assert tuple(compiled.stages) == ("ttir", "ttgir") and compiled.metadata.registers == 0
    assert {"inline", "fold", "cse", "assign_layouts", "barriers", "ttgir"} <= set(compiled.seconds)
    with pytest.raises(FrozenInstanceError):
        compiled.metadata = None  # type: ignore[misc, assignment]
    with pytest.raises(TypeError):
        compiled.stages["ptx"] = ""  # type: ignore[index]


def test_every_tile_of_ttgir_has_a_layout_and_of_ttir_none() -> None:
    for name in SAMPLES:
        stages = compile_module(SAMPLES[name]().module(), "sm_90a", 2, until="ttgir").stages
        for stage, placed in (("ttir", False), ("ttgir", True)):
            module = lang.parse_module(stages[stage])
            lang.verify(module)
            tiles = [v for op in module.walk() for v in (*op.results, *op.operands) if isinstance(v.type, TileType)]
            assert all((tile.type.layout is not None) == placed for tile in tiles)  # type: ignore[union-attr]


def test_what_is_wanted_in_two_layouts_is_converted_or_made_twice() -> None:
    """The result of an atomic is moved, and not asked for twice."""
    kernel = Kernel()
    counters, out = kernel.pointer(I32), kernel.pointer(I32)
    rows, columns = (kernel.make("arange", attributes={"start": 0, "end": 32}) for _ in range(2))
    across = kernel.make(
        "broadcast", [kernel.make("expand_dims", [rows], attributes={"axis": 1})], attributes={"shape": (32, 32)}
    )
    along = kernel.make(
        "broadcast", [kernel.make("expand_dims", [columns], attributes={"axis": 0})], attributes={"shape": (32, 32)}
    )
    width = kernel.constant(32, TileType((32, 32), I32))
    place = kernel.make("add_i", [kernel.make("mul_i", [across, width]), along])
    old = kernel.make("atomic_rmw", [kernel.at(counters, place), place], None, {"kind": "add_i"})
    kernel.do("store", [kernel.at(out, place), kernel.make("permute", [old], attributes={"order": (1, 0)})])
    text = str(compile_module(kernel.module(), "sm_90a", until="ttgir").stages["ttgir"])
    assert text.count("convert_layout") == 1 and text.count("atomic_rmw") == 1


def test_bad_targets_and_options_are_told() -> None:
    module = SAMPLES["add"]().module()
    with pytest.raises(UnknownTarget, match=r"(?s)'sm_70'.*sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a, sm_120a"):
        compile_module(module, "sm_70")
    for bad in (0, 3, 64):
        with pytest.raises(BadOption, match="num_warps"):
            compile_module(module, "sm_80", bad)
    with pytest.raises(BadOption, match="until"):
        compile_module(module, "sm_80", until="sass")


def test_needs_are_checked_before_llvm_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    row = registry.LOWERINGS["add_f"]
    monkeypatch.setitem(registry.LOWERINGS, "add_f", registry.LoweringRow(row.lower, Needs(100, 86)))
    module = SAMPLES["add"]().module()
    with pytest.raises(NotOnTarget, match="add_f needs sm_100 and PTX 8.6; sm_90a has less"):
        compile_module(module, "sm_90a", until="llir")
    compile_module(module, "sm_100a", until="llir")
