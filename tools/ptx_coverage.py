"""Which instructions of PTX the corpus uses, and whether the emulator has a row for each.

`python -m tools.ptx_coverage [--kernels 500] [--targets sm_80 sm_90a ...] [--sources rows tests ...]
[--opcodes]`: kernels of the benchmarks,
of the tests and of the digests, each row of the op tables with every type, and random kernels, compiled for every
target (a random kernel for one of them, by its seed). Where Triton is installed, its PTX for the benchmarks' kernels as
well. Prints a line for each source and names what has no row; the exit status is 1 if something is named.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import tilewright
from tests.compiler.building import row_kernel
from tests.compiler.kernels import SAMPLES, Sample
from tests.compiler.pipelined import KERNELS as PIPELINED
from tests.compiler.pipelined import sample as pipelined
from tests.compiler.test_selection import ELEMENTWISE, admitted, atomic_kernels
from tilewright.bench import cases, load_kernels
from tilewright.bench._lazy import systems
from tilewright.bench.compile_time import SUBJECTS, triton_ptx
from tilewright.compiler import TARGETS, LoweringError, compile_module
from tilewright.difftest.choices import RecordedChoices
from tilewright.difftest.generator import generate_kernel
from tilewright.difftest.kernels import compiler_options
from tilewright.difftest.launches import launched
from tilewright.interpreter.ptx import table
from tilewright.interpreter.ptx.parser import parse
from tilewright.interpreter.ptx.syntax import Instruction
from tilewright.lang import Module
from tilewright.runtime import compile_ahead, find_device, load_kernel

from .digests import KERNELS as DIGESTED
from .digests import SIGNATURES
from .options import natural

#: The PTX of the kernels of a source for a target, whose number among the targets comes next; then how many kernels
#: are wanted of a source that has any number.
Source = Callable[[str, int, int], Iterator[str]]
#: What pipelined kernels of the tests want beside the extents of tiles.
CONSTANTS: Mapping[str, Mapping[str, Any]] = {"masked": {"OTHER": 1.0}}
#: The generations for which Triton is asked, by our names.
TRITONS = {"sm_80": 80, "sm_90a": 90, "sm_120a": 120}
CASES = (
    cases.add, cases.gelu, cases.hash_bits, cases.scale_shift, cases.dropout, cases.softmax, cases.layernorm,
    cases.rmsnorm, cases.matmul, lambda: cases.matmul(blocks=True), cases.attention,
)  # fmt: skip


@dataclass(slots=True)
class Use:
    """How often each opcode stands in the texts of a source."""

    texts: int = 0
    opcodes: Counter[str] = field(default_factory=Counter[str])

    def add(self, text: str) -> None:
        self.texts += 1
        for function in parse(text).functions.values():
            if function.body is not None:
                self.opcodes.update(item.opcode for item in function.body if isinstance(item, Instruction))

    def unlisted(self) -> list[str]:
        """The opcodes for which the emulator has no row."""
        return [opcode for opcode in sorted(self.opcodes) if not is_listed(opcode)]


class Unlisted(Exception):
    """There is no row for an opcode."""


def is_listed(opcode: str) -> bool:
    """Whether the emulator has a row for an opcode with its modifiers."""

    def fail(message: str) -> NoReturn:
        raise Unlisted(message)

    try:
        table.find(opcode, fail)
    except Unlisted:
        return False
    return True


def ptx_of(module: Module, target: str, **options: Any) -> str:
    return str(compile_module(module, target, **options, until="ptx").stages["ptx"])


def benchmarks(target: str, position: int, count: int) -> Iterator[str]:
    for make in CASES:
        case = make()
        kernel = getattr(load_kernels(case.family, tilewright, tilewright.language), case.kernel)
        for warps in (1, 4):
            yield ptx_of(Sample(kernel, case.arguments, (1, 1, 1), case.constants).module(), target, num_warps=warps)


def tests(target: str, position: int, count: int) -> Iterator[str]:
    for make in (*SAMPLES.values(), *(partial(pipelined, name, 3, **CONSTANTS.get(name, {})) for name in PIPELINED)):
        yield ptx_of(make().module(), target, num_warps=4)


def digests(target: str, position: int, count: int) -> Iterator[str]:
    for name, (signature, options) in SIGNATURES.items():
        kernel = load_kernel(f"{DIGESTED}:{name}")
        yield compile_ahead(kernel, signature, find_device(f"emulator:{target}"), options).artifact.ptx


def rows(target: str, position: int, count: int) -> Iterator[str]:
    for row in ELEMENTWISE:
        for rounding in ("rtne", "rtz") if row.name == "cast_f" else ("",):
            attributes = {"rounding": rounding} if rounding else None
            yield ptx_of(row_kernel(row.name, admitted(row), 128, attributes), target, num_warps=4)
    for module in atomic_kernels(64).values():
        yield ptx_of(module, target, num_warps=4)


def random_kernels(target: str, position: int, count: int) -> Iterator[str]:
    for seed in range(position, count, len(TARGETS)):
        with launched(generate_kernel(RecordedChoices(seed))) as launch, suppress(LoweringError):
            yield ptx_of(launch.module, target, **compiler_options(launch.options))


def peers(target: str, position: int, count: int) -> Iterator[str]:
    """Triton's text; nothing where there is no Triton, or for a generation that is not asked for."""
    if target in TRITONS:
        with suppress(ImportError):
            known = systems(interpret=False)
            for subject in SUBJECTS:
                yield triton_ptx(subject, known["triton"], TRITONS[target])


SOURCES: dict[str, Source] = {
    "benchmarks": benchmarks, "tests": tests, "digests": digests, "rows": rows, "random": random_kernels,
    "Triton": peers,
}  # fmt: skip


def counted(sources: Sequence[str], targets: Sequence[str], kernels: int) -> dict[str, Use]:
    """What each source uses."""
    found = {name: Use() for name in sources}
    for target in targets:
        for name in sources:
            for text in SOURCES[name](target, list(TARGETS).index(target), kernels):
                found[name].add(text)
    return found


def main(*arguments: str) -> int:
    """Count. The exit status."""
    parser = argparse.ArgumentParser(prog="tools.ptx_coverage", description="what the emulator has rows for")
    parser.add_argument("--kernels", type=natural, default=500, help="random kernels, over all targets")
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--sources", nargs="+", default=list(SOURCES), choices=list(SOURCES))
    parser.add_argument("--opcodes", action="store_true", help="name every opcode and how often it stands there")
    chosen = parser.parse_args(arguments)
    found = counted(chosen.sources, chosen.targets, chosen.kernels)
    total = Counter[str]()
    for use in found.values():
        total.update(use.opcodes)
    print(f"{'source':<16}{'texts':>7}{'instructions':>14}{'opcodes':>9}{'without a row':>15}")
    for name, use in found.items():
        print(f"{name:<16}{use.texts:>7}{use.opcodes.total():>14}{len(use.opcodes):>9}{len(use.unlisted()):>15}")
    if chosen.opcodes:
        print("\n".join(f"{total[opcode]:>9} {opcode}" for opcode in sorted(total)))
    unlisted = [opcode for opcode in sorted(total) if not is_listed(opcode)]
    print(f"{len(total)} opcodes in all; without a row: {', '.join(unlisted) or 'none'}")
    return int(bool(unlisted))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
