"""Cold compilation beside Triton's, stage by stage: `python -m tilewright.bench.compile_time`.

Needs an environment with triton 3.6.0, llvmlite and nvJitLink, and no GPU (`make bench-compile`). The process is warm,
no cache is asked or filled, and every round compiles kernels that were loaded afresh. Stages that both systems have:

- `frontend`: from the Python function to tile IR;
- `ttir`, `ttgir`: the passes over tile IR, without and with layouts;
- `llir`: to optimised LLVM IR;
- `ptx`: LLVM's code generation;
- `cubin`: the assembler, `ptxas` as a program there, nvJitLink in the process here.

`--steps` shows each pass and each step of Tilewright's; stored rows always have them. A row also says how long the PTX
is: in lines, and in instructions.
"""

from __future__ import annotations

import argparse
import re
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
#: The pass of Tilewright's with which the stage `ttgir` begins.
FIRST_WITH_LAYOUTS = "expand_reductions"
#: An instruction of PTX text, from its predicate to its semicolon: what is neither a directive nor a label.
INSTRUCTION = re.compile(r"(?:^|(?<=[;{]))[ \t]*(?:@!?%\w+\s+)?[a-z][\w.:]*(?:\s[^;]*)?;", re.MULTILINE)

Seconds = dict[str, float]


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel of a family's source file, and its signature: types with an optional `:16`, and constants."""

    name: str
    family: str
    kernel: str
    signature: tuple[str, ...]
    num_warps: int = 4
    num_stages: int = 3


def _matmul(name: str, columns: int, num_warps: int) -> Subject:
    """A product of matrices that lie row by row, in f16."""
    signature = (*["*fp16:16"] * 3, *["i32:16"] * 4, "1", *["i32:16", "1"] * 2, "128", str(columns), "64", "8")
    return Subject(name, "matmul", "matmul_kernel", signature, num_warps)


def _attention(name: str, width: int, num_warps: int) -> Subject:
    """Attention of heads of this width, in f16, not causal."""
    signature = (*["*fp16:16"] * 4, "fp32", *["i32:16"] * 3, str(width), "128", "64", "0")
    return Subject(name, "attention", "attention_kernel", signature, num_warps, num_stages=2)


SUBJECTS = (
    Subject("add", "elementwise", "add_kernel", (*["*fp32:16"] * 3, "i32:16", "1024")),
    Subject("gelu", "elementwise", "gelu_kernel", (*["*fp32:16"] * 2, "i32:16", "1024")),
    Subject("softmax 4096", "softmax", "softmax_kernel", (*["*bf16:16"] * 2, *["i32:16"] * 4, "4096")),
    Subject(
        "layernorm 4096", "norms", "layernorm_kernel",
        (*["*bf16:16"] * 4, *["*fp32:16"] * 2, *["i32:16"] * 2, "fp32", "4096"),
    ),
    _matmul("matmul 128x128x64", 128, num_warps=4),
    _matmul("matmul 128x256x64", 256, num_warps=8),
    _attention("attention D64", 64, num_warps=4),
    _attention("attention D128", 128, num_warps=8),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sample:
    """One compilation: the seconds of each stage, those of Tilewright's steps, and the PTX."""

    stages: Seconds
    steps: Seconds
    ptx: str


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel under one system: the median seconds of each stage, of all together and of each step, all samples of
    the stages, and the lines and instructions of the PTX."""

    status: str
    case: str
    contender: str
    target: str
    num_warps: int
    num_stages: int
    seconds: Mapping[str, float]
    total: float
    steps: Mapping[str, float]
    samples: Mapping[str, Sequence[float]]
    lines: int
    instructions: int


def compile_ours(subject: Subject, system: System) -> Sample:
    """Compile under Tilewright."""
    kernel = getattr(load_kernels(subject.family, *system), subject.kernel)
    constants = frozenset(parameter.name for parameter in kernel.parameters if parameter.is_constexpr)
    chosen = specialize_text(", ".join(subject.signature), kernel.arg_names, constants)
    passes: list[tuple[str, float]] = []
    start = perf_counter()
    module = lang.generate(kernel, chosen.signature, chosen.constants, chosen.attributes, FrontendOptions())
    begun = perf_counter()
    made = compile_module(
        module,
        TARGET,
        subject.num_warps,
        num_stages=subject.num_stages,
        hook=lambda name, _: passes.append((name, perf_counter())),
    )
    frontend = {"frontend": begun - start}
    return Sample(
        frontend | stages(made.seconds, begun, passes), frontend | dict(made.seconds), str(made.stages["ptx"])
    )


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


def triton_ptx(subject: Subject, system: System, capability: int) -> str:
    """Triton's PTX of a kernel for a compute capability, such as 90."""
    return compile_theirs(subject, system, capability).ptx


def compile_theirs(subject: Subject, system: System, capability: int = 90) -> Sample:
    """Compile under Triton."""
    kernel = getattr(load_kernels(subject.family, *system), subject.kernel)
    options = {"num_warps": subject.num_warps, "num_stages": subject.num_stages}
    made = triton_texts(kernel, triton_signature(kernel.arg_names, subject.signature), capability, options)
    return Sample(made.stages, {}, made.ptx)


@dataclass(frozen=True, slots=True)
class Made:
    """A kernel that Triton has compiled: the seconds of each stage, the PTX, and what Triton says of it."""

    stages: Seconds
    ptx: str
    metadata: Mapping[str, Any]


def triton_texts(
    kernel: Any, signature: Mapping[str, Any], capability: int, chosen: Mapping[str, Any], last: str = "cubin"
) -> Made:
    """Compile under Triton, which is driven as its own `compile` does, without files.

    `signature`: the arguments of an `ASTSource`; `chosen`: options of a launch; `last`: the stage to end with.
    """
    parts = triton_compiler()
    source = parts.ASTSource(kernel, **signature)
    target = parts.GPUTarget("cuda", capability, 32)
    ends = [perf_counter()]
    backend = parts.make_backend(target)
    options = backend.parse_options(dict(chosen))
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
    texts: dict[str, Any] = {}
    for name in STAGES[1 : STAGES.index(last) + 1]:
        made = texts[name] = steps[name](made, metadata)
        ends.append(perf_counter())
    taken = {stage: end - begin for stage, begin, end in zip(STAGES, ends, ends[1:], strict=False)}
    return Made(taken, texts["ptx"], metadata)


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
        by_stage = {stage: [sample.stages[stage] for sample in samples] for stage in STAGES}
        last = samples[-1]
        rows.append(
            Row(
                status="ok", case=subject.name, contender=name, target=TARGET,
                num_warps=subject.num_warps, num_stages=subject.num_stages,
                seconds={stage: median(taken) for stage, taken in by_stage.items()},
                total=median(sum(sample.stages.values()) for sample in samples),
                steps={step: median(sample.steps[step] for sample in samples) for step in last.steps},
                samples=by_stage, lines=last.ptx.count("\n"), instructions=instructions(last.ptx),
            )
        )  # fmt: skip
    return rows


def instructions(ptx: str) -> int:
    """How many instructions PTX text has.

    >>> instructions(".reg .b32 %r1;\\n$L1:\\n  @%p1 bra $L1;\\n  // a comment;\\n  { mov.b32 %r1, 0; }\\n  ret;\\n")
    3
    """
    return len(INSTRUCTION.findall(ptx))


def line(row: Row) -> str:
    """A row as a line of the table, in milliseconds."""
    times = [*(row.seconds[stage] for stage in STAGES), sum(row.seconds[stage] for stage in STAGES[:-1]), row.total]
    cells = " ".join(f"{seconds * 1e3:>8.2f}" for seconds in times)
    return f"{row.case:<18} {row.contender:<11} {cells} {row.lines:>6} {row.instructions:>6}"


def heading() -> str:
    """The line above those of the rows."""
    columns = " ".join(f"{column:>8}" for column in (*STAGES, "to PTX", "total"))
    return f"{'kernel':<18} {'ms':<11} {columns} {'lines':>6} {'instr.':>6}"


def step_lines(rows: Sequence[Row]) -> list[str]:
    """The milliseconds of each step of the rows that have them, a step a line."""
    known = [row for row in rows if row.steps]
    names = dict.fromkeys(step for row in known for step in row.steps)
    shown = [f"{'step, ms':<20}" + "".join(f"{row.case:>19}" for row in known)]
    for name in names:
        cells = [f"{row.steps[name] * 1e3:>19.2f}" if name in row.steps else " " * 19 for row in known]
        shown.append(f"{name:<20}{''.join(cells)}")
    return shown


def main(arguments: list[str]) -> int:
    """Measure every kernel, and store the rows if a path is given. 2 if Triton is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="compilations of each kernel by each system")
    parser.add_argument("--steps", action="store_true", help="show each step of Tilewright's as well")
    parser.add_argument("--store", type=Path, help="append the rows to this file as JSON lines")
    options = parser.parse_args(arguments)
    try:
        known = systems(interpret=False)
    except (ImportError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(heading())
    rows: list[Row] = []
    for subject in SUBJECTS:
        rows += measure(subject, known, options.rounds)
        print("\n".join(map(line, rows[-len(known) :])), flush=True)
    if options.steps:
        print("\n".join(step_lines(rows)))
    if options.store:
        store(options.store, (asdict(row) | surroundings() for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
