"""Whether the emulator complains about kernels that are right: `python -m tools.false_alarms`.

    --parts ours/random Triton/tests ...    some parts of the corpus; all if not given
    --random 500 --schedules 5              how many random kernels, and how many orders of threads and copies each

The corpus: kernels of the benchmarks and of the demo, the first example, kernels of the tests, those of the deletion
test with all its launches, the hand-written matrix product, and random kernels of the seeds from 0 on; where Triton is
installed, its PTX for the same kernels and arguments too, as far as it compiles them. A table says for each part how
many kernels there are, how many of them are refused, and how many launches ended in a report; the reports follow, one
for each kernel. The exit status is 1 if there is a report that nothing explains.

Two kinds of reports about Triton's code are no false alarms (`genuine`). Where a program loads from global memory what
it has stored, or arrays share memory, Triton makes no barrier and leaves that to the kernel, while our language orders
a program's accesses. And its quotients by zero and shifts by more than the width are undefined, so that registers are
stored that nothing has written.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

import tilewright
from tests.compiler.kernels import SAMPLES, Sample
from tests.compiler.pipelined import KERNELS as PIPELINED
from tests.compiler.pipelined import sample as pipelined
from tests.difftest.deletion_kernels import SPECIMENS, Sourced
from tilewright import lang
from tilewright.bench import cases, load_kernels
from tilewright.compiler import LoweringError, compile_module
from tilewright.difftest.choices import RecordedChoices
from tilewright.difftest.generator import generate_kernel
from tilewright.difftest.kernels import TARGETS, compiler_options
from tilewright.difftest.launches import launched
from tilewright.difftest.mutants.deletion import APART, READS, WRITES, placed, touched
from tilewright.difftest.storage import dtype_of
from tilewright.interpreter import (
    Buffer,
    InterpreterError,
    Options,
    PtxError,
    PtxModule,
    RaceError,
    UninitializedError,
    load_ptx,
    run_ptx,
)
from tilewright.lang import Module, PointerType, element_of
from tilewright.runtime import JITFunction, Specialization, load_kernel

from .options import natural, positive
from .peers import Peer, Refused

_FUEL = 3_000_000
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "first_kernel.py"


@dataclass(eq=False)
class Subject:
    """A kernel in source, what is assumed of its arguments, and launches, each of which gives new arguments."""

    name: str
    kernel: JITFunction
    chosen: Specialization
    launches: Sequence[Callable[[], Sequence[Any]]]
    grid: tuple[int, int, int]
    target: str = "sm_90a"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @cached_property
    def module(self) -> Module:
        chosen = self.chosen
        return lang.generate(self.kernel, chosen.signature, chosen.constants, chosen.attributes, lang.FrontendOptions())

    def packed(self, values: Sequence[Any]) -> list[Any]:
        """Arguments as a launcher passes them: buffers, and the bytes of numbers."""
        pairs = zip(self.module.kernel.arguments, values, strict=True)
        return [
            Buffer.of(each.name, value)
            if isinstance(each.type, PointerType)
            else np.array([value]).astype(dtype_of(element_of(each.type))).tobytes()
            for each, value in pairs
        ]


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel as PTX, and what a launch of it needs."""

    module: PtxModule
    entry: str
    warps: int
    shared: int


# --- systems ---


def ours(subject: Subject) -> Code:
    """Raises Refused."""
    try:
        made = compile_module(subject.module, subject.target, **compiler_options(subject.options), until="ptx")
    except LoweringError as error:
        raise Refused(error.text.splitlines()[0]) from error
    described = made.metadata
    return Code(load_ptx(str(made.stages["ptx"])), described.name, described.num_warps, described.shared)


def theirs(peer: Peer, subject: Subject) -> Code:
    """Raises Refused."""
    made = peer.compile(subject.kernel, subject.chosen, subject.target, subject.options)
    said = made.metadata
    return Code(load_ptx(made.ptx), said["name"], said["num_warps"], said["shared"])


def run(code: Code, subject: Subject, values: Sequence[Any], seed: int) -> None:
    """Launch under one of the schedules. Raises what the emulator reports."""
    given, options = subject.packed(values), Options(fuel=_FUEL, seed=seed)
    scratch = [bytes(8)] * (len(code.module.entry(code.entry).parameters) - len(given))  # Triton's, which is not used
    threads = (32 * code.warps,)
    run_ptx(code.module, code.entry, subject.grid, threads, [*given, *scratch], options, code.shared, io.StringIO())


# --- the corpus ---


def of_sample(name: str, sample: Sample, target: str = "sm_90a", **options: Any) -> Subject:
    bound = sample.kernel.bind_launch(sample.arguments, dict(sample.constants))
    chosen = sample.kernel.specialize(bound)
    values = [bound[each] for each in chosen.signature]
    return Subject(name, sample.kernel, chosen, [partial(placed, values, APART)], sample.grid, target, options)


def benchmarks(count: int) -> Iterator[Subject]:
    """The kernels of the benchmarks and the demo, on little work."""
    small = (
        cases.add(3000), cases.gelu(3000), cases.hash_bits(3000), cases.scale_shift(40, 100), cases.dropout(3000),
        cases.softmax(7, 781, 4), cases.layernorm(3, 1500), cases.rmsnorm(3, 1500),
        cases.matmul(64, 96, 80, 32, 32, 16),
        cases.matmul(70, 90, 50, 32, 32, 16, blocks=True), cases.attention(1, 128, 32, 32, 32),
        cases.attention(1, 128, 32, 32, 32, causal=False),
    )  # fmt: skip
    for case in small:
        kernel = getattr(load_kernels(case.family, tilewright, tilewright.language), case.kernel)
        x, y, z = (*case.grid, 1, 1)[:3]
        sample = Sample(kernel, case.arguments, (x, y, z), case.constants)
        for target in TARGETS:
            for warps in (1, 4):
                yield of_sample(f"{case.name}, {warps} warps, {target}", sample, target, num_warps=warps)


def example(count: int) -> Iterator[Subject]:
    """The first example; to load it is to run it."""
    with redirect_stdout(io.StringIO()):
        kernel = load_kernel(f"{EXAMPLE}:softmax")
    x = cases.normal((5, 300), np.float32, 0)
    yield of_sample("first kernel", Sample(kernel, (x, np.zeros_like(x), 300), (5, 1, 1), {"BLOCK": 512}))


def tests(count: int) -> Iterator[Subject]:
    """The kernels in source that the tests run."""
    for name, make in SAMPLES.items():
        for target in TARGETS:
            yield of_sample(f"{name}, {target}", make(), target)
    for name in PIPELINED:
        more = {"OTHER": 1.0} if name == "masked" else {}
        for stages in (1, 2, 4):
            yield of_sample(f"{name}, {stages} stages", pipelined(name, 5, **more), num_stages=stages)


def deletion(count: int) -> Iterator[Subject]:
    """Those of the deletion test."""
    for name, make in SPECIMENS.items():
        made = make()
        if isinstance(made, Sourced):
            kernel, chosen = made.kernel, made.chosen
            launches = [partial(placed, each, APART) for each in made.launches]
            yield Subject(name, kernel, chosen, launches, made.grid, made.target, made.options)


def random_kernels(count: int) -> Iterator[Subject]:
    for seed in range(count):
        with launched(generate_kernel(RecordedChoices(seed))) as each:
            values = each.values()
            chosen = each.function.specialize(each.function.bind_launch((), {**values, **each.constants}))
            names = list(chosen.signature)

            def fresh(make: Callable[[], Mapping[str, Any]] = each.values, names: Sequence[str] = names) -> list[Any]:
                made = make()
                return [made[name] for name in names]

            target = TARGETS[seed % len(TARGETS)]
            yield Subject(f"seed {seed}", each.function, chosen, [fresh], each.grid, target, each.options)


#: What makes the kernels of each part; how many, where there is any number.
PARTS: dict[str, Callable[[int], Iterator[Subject]]] = {
    "benchmarks": benchmarks, "example": example, "tests": tests, "deletion": deletion, "random": random_kernels,
}  # fmt: skip


# --- verdicts ---


#: What Triton leaves undefined for some operands.
_UNDEFINED = frozenset(("div_s", "div_u", "rem_s", "rem_u", "shl", "shr_s", "shr_u"))
_SHARED = "shared address"


def is_genuine(error: InterpreterError, subject: Subject) -> bool:
    """Whether a report about Triton's code is about what Triton does not promise."""
    if isinstance(error, UninitializedError):
        return any(operation.name in _UNDEFINED for operation in subject.module.walk())
    if not isinstance(error, RaceError):
        return False
    arguments = subject.module.kernel.arguments
    both = {arguments[at].name for at in touched(subject.module, READS) & touched(subject.module, WRITES)}
    return all(race.first.block == race.second.block and _own(race.address, both) for race in error.races)


def _own(address: str, both: set[str]) -> bool:
    """Whether an address is in global memory, and in an array that is loaded from and stored to, or in several."""
    if _SHARED in address or " of " not in address:
        return False
    names = address.partition(" of ")[2].partition(" (")[0].split(", ")
    return len(names) > 1 or names[0] in both


@dataclass(frozen=True, slots=True)
class Report:
    """What the emulator says of a launch. `genuine`: rightly."""

    subject: str
    seed: int
    kind: str
    told: str
    genuine: bool = False

    def __str__(self) -> str:
        about = "genuine, " if self.genuine else ""
        return f"    {about}{self.subject}, schedule {self.seed}: {self.kind}: {self.told.splitlines()[0]}"


@dataclass(slots=True)
class Row:
    """What came of a part of the corpus under a system. `refused`: by reason."""

    name: str
    kernels: int = 0
    runs: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    reports: list[Report] = field(default_factory=list[Report])

    def add(self, subject: Subject, compile_: Callable[[Subject], Code], schedules: int) -> None:
        try:
            code = compile_(subject)
        except Refused as reason:
            self.refused[str(reason)] += 1
            return
        except PtxError as error:
            self.reports.append(Report(subject.name, 0, type(error).__name__, str(error)))
            return
        self.kernels += 1
        for make in subject.launches:
            for seed in range(schedules):
                self.runs += 1
                try:
                    run(code, subject, make(), seed)
                except InterpreterError as error:
                    genuine = compile_ is not ours and is_genuine(error, subject)
                    self.reports.append(Report(subject.name, seed, type(error).__name__, str(error), genuine))

    @property
    def alarms(self) -> list[Report]:
        """The reports that nothing explains."""
        return [each for each in self.reports if not each.genuine]

    def __str__(self) -> str:
        kinds = Counter(each.kind for each in self.alarms)
        race, unwritten = kinds.pop("RaceError", 0), kinds.pop("UninitializedError", 0)
        genuine = len(self.reports) - len(self.alarms)
        cells = (self.kernels, self.refused.total(), self.runs, race, unwritten, kinds.total(), genuine)
        return f"{self.name:<18}" + "".join(f"{cell:>10}" for cell in cells)


HEADING = f"{'corpus':<18}" + "".join(
    f"{each:>10}" for each in ("kernels", "refused", "runs", "race", "unwritten", "other", "genuine")
)


def systems() -> dict[str, Callable[[Subject], Code]]:
    """Ours, and Triton where it is installed."""
    found: dict[str, Callable[[Subject], Code]] = {"ours": ours}
    try:
        found["Triton"] = partial(theirs, Peer())
    except ImportError:
        pass
    return found


def main(*arguments: str) -> int:
    """Run the corpus. The exit status."""
    known = systems()
    names = [f"{system}/{part}" for system in known for part in PARTS]
    parser = argparse.ArgumentParser(prog="tools.false_alarms", description="complaints about right kernels")
    parser.add_argument("--parts", nargs="+", default=names, choices=names)
    parser.add_argument("--random", type=natural, default=500, help="random kernels")
    parser.add_argument("--schedules", type=positive, default=5, help="orders of threads and copies")
    parser.add_argument("--refused", action="store_true", help="name what is refused, and why")
    chosen = parser.parse_args(arguments)
    print(HEADING)
    rows: list[Row] = []
    for name in chosen.parts:
        system, _, part = name.partition("/")
        rows.append(Row(name))
        for subject in PARTS[part](chosen.random):
            rows[-1].add(subject, known[system], chosen.schedules)
        print(rows[-1], flush=True)
        if chosen.refused:
            print("\n".join(f"    {count} {why}" for why, count in rows[-1].refused.most_common()), flush=True)
    first = {(row.name, each.subject): each for row in rows for each in reversed(row.reports)}
    for (name, _), report in first.items():
        print(f"{name}{report}")
    return int(any(row.alarms for row in rows))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
