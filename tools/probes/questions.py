"""Questions that the ISA leaves open, and how a machine answers them: some operands for some instructions each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.interpreter.ptx.types import Array

from .cases import THREADS, Case, octets_of, results, text
from .instruction_rows import cases
from .machines import Machine
from .patterns import register


@dataclass(frozen=True, slots=True)
class Question:
    """Some operands (a row for each execution; negative ones in two's complement) for some instructions."""

    title: str
    names: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]


_WIDTHS = ("16", "32", "64")
_INTEGERS = tuple(f"{kind}{bits}" for bits in _WIDTHS for kind in "us")
_TARGETS = ("u8", "s8", *_INTEGERS)


def _codes(dtype: type, *values: float) -> tuple[tuple[int, ...], ...]:
    codes = np.array(values, dtype).view(f"u{np.dtype(dtype).itemsize}")
    return tuple((int(code),) for code in codes)


_NAN32 = ((0x7FC00000,), (0xFFC00000,), (0x7F812345,), (0xFFC12345,))
_NAN32_PAIRS = ((0x7FC12345, 0x3F800000), (0x3F800000, 0xFFC12345), (0x7F812345, 0x7FC54321), (0x7F800000, 0xFF800000))
_NAN64_PAIRS = (
    (0x7FF8000000012345, 0x3FF0000000000000), (0x3FF0000000000000, 0xFFF8000000012345),
    (0x7FF0000000012345, 0x7FF8000000054321), (0x7FF0000000000000, 0xFFF0000000000000),
)  # fmt: skip
_NAN16_PAIRS = ((0x7FC5, 0x3C00), (0x3C00, 0xFFC5), (0x7F81, 0x7FC1), (0x7C00, 0xFC00))
_TINY = ((0x400000, 0), (0x400000, 0x400000), (0x80400000, 0), (0x800000, 0x80400000), (0x3F800000, 1))
_BIG = (31, 32, 33, 255)
_VALUE = 0x8001_8001_8001_8001


def _floats_to_integers() -> Iterator[Question]:
    values = (np.nan, -np.nan, np.inf, -np.inf, 2.0**15, 2.0**31, -1.5, 300.0)
    names = "NaN -NaN inf -inf 2**15 2**31 -1.5 300"
    for dtype, name in ((np.float16, "f16"), (np.float32, "f32"), (np.float64, "f64")):
        with np.errstate(over="ignore"):
            rows = _codes(dtype, *values)
        opcodes = tuple(f"cvt.rzi.{target}.{name}" for target in _TARGETS)
        yield Question(f"{name} to integers: {names}", opcodes, rows)
    rows = tuple((code,) for code in (0x7FC0, 0xFFC0, 0x7F80, 0xFF80, 0x4700, 0x4F00, 0xBFC0, 0x4396))
    yield Question(f"bf16 to integers: {names}", tuple(f"cvt.rzi.{t}.bf16" for t in _TARGETS[2:]), rows)


def _shifts() -> Iterator[Question]:
    shifts = (*(f"shl.b{n}" for n in _WIDTHS), *(f"shr.{t}" for t in _INTEGERS))
    yield Question("shifts of 8001..8001 by 31, 32, 33, 255", shifts, tuple((_VALUE, n) for n in _BIG))
    names = tuple(f"shf.{way}.{mode}.b32" for way in "lr" for mode in ("clamp", "wrap"))
    yield Question(
        "shf of (80018001, 12345678) by 31, 32, 33, 255", names, tuple((_VALUE, 0x1234_5678, n) for n in _BIG)
    )
    fields = ((0, 0), (31, 1), (32, 1), (255, 8), (0, 33), (8, 255), (256, 8))
    title = "fields of 8001..8001 at 0+0 31+1 32+1 255+8 0+33 8+255 256+8"
    yield Question(title, ("bfe.u32", "bfe.s32", "bfe.u64", "bfe.s64"), tuple((_VALUE, *field) for field in fields))
    yield Question(f"{title} of bfi", ("bfi.b32", "bfi.b64"), tuple((_VALUE, 0, *field) for field in fields))
    yield Question("masks, the same", ("bmsk.clamp.b32", "bmsk.wrap.b32"), fields)


def _nans() -> Iterator[Question]:
    title = "NaNs 7fc00000 ffc00000 7f812345 ffc12345 to"
    names = ("cvt.rn.f16.f32", "cvt.rz.f16.f32", "cvt.rn.bf16.f32", "cvt.rz.bf16.f32", "cvt.f64.f32")
    names += ("cvt.rn.tf32.f32", "cvt.rna.tf32.f32", "cvt.ftz.f32.f32", "cvt.rni.f32.f32", "cvt.rn.relu.bf16.f32")
    yield Question(title, names, _NAN32)
    packed = ("cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32", "cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e5m2x2.f32")
    packed += ("cvt.rn.satfinite.relu.e4m3x2.f32", "cvt.rn.relu.f16x2.f32", "cvt.rn.relu.bf16x2.f32")
    yield Question("pairs of them to", packed, ((0x7FC00000, 0xFFC00000), (0x7F812345, 0xFFC12345)))
    halves = ("cvt.rn.satfinite.e4m3x2.f16x2", "cvt.rn.satfinite.e5m2x2.f16x2", "cvt.rn.satfinite.relu.e4m3x2.f16x2")
    yield Question(
        "f16 NaNs and infinities fe007e00 7d01fd01 fc007c00 to", halves, ((0xFE007E00,), (0x7D01FD01,), (0xFC007C00,))
    )
    yield Question(
        "fp8 7fff 7cfc 7eff to f16x2", ("cvt.rn.f16x2.e4m3x2", "cvt.rn.f16x2.e5m2x2"), ((0x7FFF,), (0x7CFC,), (0x7EFF,))
    )
    yield Question(
        "f16 and bf16 7fc5 ffc5 7f81 to",
        ("cvt.f32.f16", "cvt.f32.bf16", "cvt.f64.f16"),
        ((0x7FC5,), (0xFFC5,), (0x7F81,)),
    )
    title = "NaN 7fc12345 and 1, 1 and ffc12345, 7f812345 and 7fc54321, inf and -inf"
    two = ("add", "sub", "mul", "min", "max", "min.NaN", "max.NaN", "min.xorsign.abs", "div.rn", "copysign", "div.full")
    yield Question(f"f32 {title}", tuple(f"{op}.f32" for op in two), _NAN32_PAIRS)
    yield Question(f"f32 {title}, 1", ("fma.rn.f32", "fma.rn.sat.f32"), tuple((*p, 0x3F800000) for p in _NAN32_PAIRS))
    yield Question("f64, the same", tuple(f"{op}.f64" for op in ("add", "mul", "min", "max", "div.rn")), _NAN64_PAIRS)
    title = "7fc5 and 3c00, 3c00 and ffc5, 7f81 and 7fc1, 7c00 and fc00"
    names = tuple(f"{op}.{t}" for t in ("f16", "bf16") for op in ("add", "mul", "min", "max", "min.NaN"))
    yield Question(title, names, _NAN16_PAIRS)
    one = ("neg", "abs", "neg.ftz", "abs.ftz", "rcp.rn", "sqrt.rn")
    yield Question("NaNs 7fc00000 ffc00000 7f812345 ffc12345 through", tuple(f"{op}.f32" for op in one), _NAN32)
    yield Question(
        "f64 NaN 7ff0000000012345 and 1e-40 to", ("cvt.rn.f32.f64",), ((0x7FF0000000012345,), (0x37A16C262777579C,))
    )


def _questions() -> Iterator[Question]:
    yield Question("x / 0 of 7, -7, 0", tuple(f"div.{t}" for t in _INTEGERS), ((7, 0), (-7, 0), (0, 0)))
    yield Question("x % 0 of 7, -7, 0", tuple(f"rem.{t}" for t in _INTEGERS), ((7, 0), (-7, 0), (0, 0)))
    for bits in _WIDTHS:
        yield Question(f"s{bits} least / -1", (f"div.s{bits}", f"rem.s{bits}"), ((-1 << int(bits) - 1, -1),))
    yield Question("-7 by 2 and 7 by -2", ("div.s32", "rem.s32"), ((-7, 2), (7, -2)))
    yield from _floats_to_integers()
    yield from _nans()
    title = "400000 and 0, 400000 and 400000, 80400000 and 0, 800000 and 80400000, 1.0 and 1"
    places = tuple(f"{kind}.{space}.add.f32" for space in ("global", "shared") for kind in ("atom", "red"))
    yield Question(f"f32 subnormals: {title}", (*places, "atom.global.add.v2.f32", "add.f32", "add.ftz.f32"), _TINY)
    names = tuple(f"{op}.f32" for op in ("min", "max", "min.NaN", "max.ftz"))
    yield Question("zeros 0 and -0, -0 and 0", names, ((0, 0x80000000), (0x80000000, 0)))
    yield from _shifts()


QUESTIONS: tuple[Question, ...] = tuple(_questions())
"""All of them, in the order of the answers."""


def case_named(name: str) -> Case:
    """The case of that name."""
    return _by_name()[name]


def _by_name() -> dict[str, Case]:
    return {case.name: case for case in cases()}


def execute(machine: Machine, case: Case, operands: Sequence[Array]) -> Array:
    """What the kernel of a case writes for operands whose number is a multiple of `THREADS`."""
    count = len(operands[0])
    octets = octets_of(case, count)
    machine.run(text(case, machine.target, count), count // THREADS, THREADS, [*operands, octets])
    return octets


def answer(machine: Machine, question: Question, name: str) -> str:
    """The results of one instruction, in hexadecimal: of each row, joined by `/` where there are several."""
    case = case_named(name)
    columns = [
        np.array([row[n] & 0xFFFF_FFFF_FFFF_FFFF for row in question.rows], np.uint64) for n in range(len(case.inputs))
    ]
    operands = [np.resize(x, THREADS).astype(register(kind)) for x, kind in zip(columns, case.inputs, strict=True)]
    octets = execute(machine, case, operands)
    parts = [result.of(octets)[: len(question.rows)].tolist() for result in results(case, THREADS)]
    return " ".join("/".join(f"{x:x}" for x in row) for row in zip(*parts, strict=True))


def answers(machine: Machine) -> dict[str, dict[str, str]]:
    """All answers, by question and instruction; an error is an answer too."""
    found: dict[str, dict[str, str]] = {}
    for question in QUESTIONS:
        found[question.title] = own = {}
        for name in question.names:
            try:
                own[name] = answer(machine, question, name)
            except Exception as error:  # the answer of this machine: the others are asked all the same
                own[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return found


def lines(found: dict[str, dict[str, str]]) -> list[str]:
    """The answers as text, a line for each question; instructions with the same answer together."""
    written: list[str] = []
    for title, own in found.items():
        alike: dict[str, list[str]] = {}
        for name, text_ in own.items():
            alike.setdefault(text_, []).append(name)
        written.append(f"{title}: " + "; ".join(f"{', '.join(names)} = {text_}" for text_, names in alike.items()))
    return written
