"""Cold compilation beside Triton's, stage by stage: `python -m tilewright.bench.compile_time`.

Needs an environment with triton 3.6.0, llvmlite and nvJitLink, and no GPU (`make bench-compile`). The process is warm,
no cache is asked or filled, and every round compiles kernels that were loaded afresh. Stages that both systems have:

- `frontend`: from the Python function to tile IR;
- `ttir`, `ttgir`: the passes over tile IR, without and with layouts;
- `llir`: to optimised LLVM IR;
- `ptx`: LLVM's code generation;
- `cubin`: the assembler, `ptxas` as a program there, nvJitLink in the process here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

# What `lang` imports late is reached through it.
from tilewright import lang
from tilewright.compiler import compile_module
from tilewright.lang import FrontendOptions
from tilewright.runtime import specialize_text

from ._lazy import System, systems, triton_compiler
from .records import store, surroundings
from .rounds import interleaved
from .sources import load_kernels

STAGES = ("frontend", "ttir", "ttgir", "llir", "ptx", "cubin")
TARGET = "sm_90a"  # Triton's for capability 9.0 as well
NUM_WARPS = 4
#: The pass of Tilewright's with which the stage `ttgir` begins.
FIRST_WITH_LAYOUTS = "assign_layouts"

Seconds = dict[str, float]


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel of a family's source file, and its signature: types with an optional `:16`, and constants."""

    name: str
    family: str
    kernel: str
    signature: tuple[str, ...]


SUBJECTS = (
    Subject("add", "elementwise", "add_kernel", ("*fp32:16", "*fp32:16", "*fp32:16", "i32:16", "1024")),
    Subject("gelu", "elementwise", "gelu_kernel", ("*fp32:16", "*fp32:16", "i32:16", "1024")),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel under one system: the median seconds of each stage, of all of them together, and all samples."""

    status: str
    case: str
    contender: str
    target: str
    seconds: Mapping[str, float]
    total: float
    samples: Mapping[str, Sequence[float]]


def compile_ours(subject: Subject, system: System) -> Seconds:
    """The seconds of each stage under Tilewright."""
    kernel = getattr(load_kernels(subject.family, *system), subject.kernel)
    constants = frozenset(parameter.name for parameter in kernel.parameters if parameter.is_constexpr)
    chosen = specialize_text(", ".join(subject.signature), kernel.arg_names, constants)
    passes: list[tuple[str, float]] = []
    start = perf_counter()
    module = lang.generate(kernel, chosen.signature, chosen.constants, chosen.attributes, FrontendOptions())
    begun = perf_counter()
    made = compile_module(module, TARGET, NUM_WARPS, hook=lambda name, _: passes.append((name, perf_counter())))
    return {"frontend": begun - start} | stages(made.seconds, begun, passes)


def stages(steps: Mapping[str, float], begun: float, passes: Sequence[tuple[str, float]]) -> Seconds:
    """The seconds of the stages, from those of the compiler's steps and from when each pass ended.

    A step `ttir` or `ttgir` is the printing of that text alone; it stands after the last pass of its stage.
    """
    first = next(place for place, (name, _) in enumerate(passes) if name == FIRST_WITH_LAYOUTS)
    tile, end = passes[first - 1][1], passes[-1][1]
    return {
        "ttir": tile - begun + steps["ttir"],
        "ttgir": end - tile - steps["ttir"] + steps["ttgir"],
        "llir": steps["llir"] + steps["parse"] + steps["optimise"],
        "ptx": steps["ptx"],
        "cubin": steps["cubin"],
    }


def compile_theirs(subject: Subject, system: System) -> Seconds:
    """The seconds of each stage under Triton, which is driven as its own `compile` does, without files."""
    parts = triton_compiler()
    kernel = getattr(load_kernels(subject.family, *system), subject.kernel)
    source = parts.ASTSource(kernel, **triton_signature(kernel.arg_names, subject.signature))
    target = parts.GPUTarget("cuda", 90, 32)
    ends = [perf_counter()]
    backend = parts.make_backend(target)
    options = backend.parse_options({"num_warps": NUM_WARPS})
    steps: dict[str, Callable[[Any, dict[str, Any]], Any]] = {}
    backend.add_stages(steps, options, source.language)
    context = parts.ir.context()
    parts.ir.load_dialects(context)
    backend.load_dialects(context)
    made = source.make_ir(
        target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    ends.append(perf_counter())
    metadata: dict[str, Any] = {"target": target, **vars(options)}
    for step in steps.values():
        made = step(made, metadata)
        ends.append(perf_counter())
    return {stage: end - begin for stage, begin, end in zip(("frontend", *steps), ends, ends[1:], strict=False)}


def triton_signature(names: Sequence[str], signature: Sequence[str]) -> dict[str, Any]:
    """A signature as Triton's `ASTSource` takes it.

    >>> triton_signature(["x", "BLOCK"], ["*fp32:16", "64"])["constexprs"]
    {'BLOCK': 64}
    """
    constants = {name: int(text) for name, text in zip(names, signature, strict=True) if text.isdigit()}
    types = {name: text.removesuffix(":16") for name, text in zip(names, signature, strict=True)}
    return {
        "signature": types | dict.fromkeys(constants, "constexpr"),
        "constexprs": constants,
        "attrs": {(i,): [["tt.divisibility", 16]] for i, text in enumerate(signature) if text.endswith(":16")},
    }


def measure(subject: Subject, known: Mapping[str, System], rounds: int) -> list[Row]:
    """The rows of a kernel, one a system."""
    compilers = {"tilewright": compile_ours, "triton": compile_theirs}
    takers = {name: partial(compilers[name], subject, system) for name, system in known.items()}
    rows: list[Row] = []
    for name, samples in interleaved(takers, rounds, warm_up=2).items():
        by_stage = {stage: [sample[stage] for sample in samples] for stage in STAGES}
        total = median(sum(sample.values()) for sample in samples)
        middle = {stage: median(taken) for stage, taken in by_stage.items()}
        rows.append(Row("ok", subject.name, name, TARGET, middle, total, by_stage))
    return rows


def line(row: Row) -> str:
    """A row as a line of the table, in milliseconds."""
    cells = " ".join(f"{row.seconds[stage] * 1e3:>9.2f}" for stage in STAGES)
    return f"{row.case:<8} {row.contender:<11} {cells} {row.total * 1e3:>9.2f}"


def main(arguments: list[str]) -> int:
    """Measure every kernel, and store the rows if a path is given. 2 if Triton is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="compilations of each kernel by each system")
    parser.add_argument("--store", type=Path, help="append the rows to this file as JSON lines")
    options = parser.parse_args(arguments)
    try:
        known = systems(interpret=False)
    except (ImportError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{'kernel':<8} {'ms':<11} " + " ".join(f"{stage:>9}" for stage in (*STAGES, "total")))
    rows = [row for subject in SUBJECTS for row in measure(subject, known, options.rounds)]
    print("\n".join(map(line, rows)))
    if options.store:
        store(options.store, (asdict(row) | surroundings() for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
