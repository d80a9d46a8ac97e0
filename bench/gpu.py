"""Compiled kernels on an NVIDIA GPU, beside the same sources under Triton, torch, and a copy of as many bytes.

`python -m tilewright.bench.gpu --store reports/data/gpu.jsonl`, where there are CUDA, torch and Triton 3.6. Results are
checked first, by the ops' contracts: one that is wrong is stored as wrong and has no time. Kernels run out of CUDA
graphs, in interleaved rounds, over enough sets of arguments that the L2 cache holds none from one use to the next. What
a launch costs the host is measured apart. Figures are medians.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import ceil, isfinite
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from tilewright.lang import BF16, CompilationError

from . import cases
from ._lazy import System, systems, torch_module
from .cases import Case
from .clock import Gpu
from .records import store, surroundings
from .rounds import interleaved
from .sources import load_kernels


def tuned(case: Case, **options: int) -> Case:
    """A case with launch options, which its name tells."""
    said = " ".join(f"{name.removeprefix('num_')} {value}" for name, value in options.items())
    return replace(case, name=f"{case.name}, {said}", constants={**case.constants, **options})


#: Kernels of a row a program.
ROWS: tuple[Callable[..., Case], ...] = (partial(cases.softmax, programs=8192), cases.layernorm, cases.rmsnorm)


def rows_of_bf16(case: Callable[..., Case], num_warps: int) -> Case:
    """8192 rows of 8192 numbers in bf16."""
    return tuned(case(8192, 8192, element=BF16), num_warps=num_warps)


def product(tiles: tuple[int, int, int], **options: int) -> Case:
    """A product of 4096x4096 matrices in f16, in tiles of this size along M, N and K."""
    case = cases.matmul(4096, 4096, 4096, *tiles)
    return tuned(replace(case, name=f"matmul 4096x4096x4096, tiles {'x'.join(map(str, tiles))}"), **options)


#: What is measured: every case runs under each system that compiles it.
CASES: tuple[Callable[[], Case], ...] = (
    lambda: cases.add(2**20),
    lambda: cases.add(2**24),
    lambda: cases.add(2**28),
    lambda: cases.gelu(2**25),
    lambda: cases.dropout(2**26),
    lambda: cases.hash_bits(2**26),
    lambda: cases.scale_shift(8192, 8192),
    lambda: tuned(cases.softmax(4096, 8192, 4096), num_warps=4),
    lambda: tuned(cases.layernorm(4096, 8192), num_warps=4),
    *(partial(rows_of_bf16, case, warps) for case in ROWS for warps in (4, 8, 16)),
    lambda: product((128, 128, 64), num_warps=4, num_stages=3),
    lambda: product((128, 256, 64), num_warps=8, num_stages=3),
    lambda: product((128, 256, 32), num_warps=8, num_stages=4),
    lambda: tuned(cases.attention(8, 4096, 64, 128, 64, False), num_warps=4, num_stages=2),
    lambda: tuned(cases.attention(8, 4096, 128, 128, 64, False), num_warps=8, num_stages=2),
)
#: torch's own operation for the work of a kernel, on that kernel's arguments.
LIBRARY: Mapping[str, Callable[[Any, Sequence[Any]], object]] = {
    "add_kernel": lambda torch, given: torch.add(given[0], given[1], out=given[2]),
    "gelu_kernel": lambda torch, given: torch.ops.aten.gelu.out(given[0], approximate="none", out=given[1]),
}
#: Sets of arguments take this many times the bytes of the L2 cache.
CACHES = 4
#: Seconds that one sample should take on the GPU; its clock ticks every half microsecond.
SAMPLE = 2e-3
#: Launches of one sample of the host's time; the driver queues about a thousand before it makes the host wait.
LAUNCHES = 200

Launch = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """What one contender did in one case. Times are seconds of one launch: the median, and every sample.

    `status`: `ok`, `wrong` (a result outside its bound), `refused` (it does not compile this kernel) or `failed`.
    `error`: the worst |result - reference| / allowed error, None where it is infinite or nothing was checked. `what`:
    `kernel` for time on the GPU, `launch` for the host's. `over`: other contenders' seconds / this one's.
    """

    status: str
    case: str
    contender: str
    what: str = "kernel"
    seconds: float | None = None
    bytes: int = 0
    flops: int = 0
    error: float | None = None
    problem: str = ""
    code: Mapping[str, Any] = field(default_factory=dict[str, Any])
    over: Mapping[str, float] = field(default_factory=dict[str, float])
    state: Mapping[str, str] = field(default_factory=dict[str, str])
    launches: int = 0
    samples: Sequence[float] = ()

    @property
    def rate(self) -> float:
        """Bytes that have to move, a second."""
        return self.bytes / self.seconds if self.seconds else 0.0


def contenders(case: Case, known: Mapping[str, System], torch: Any) -> dict[str, Launch]:
    """Everything that can do the work of a case, by name: called with the arguments, it launches."""
    found: dict[str, Launch] = {}
    for name, system in known.items():
        kernel = getattr(load_kernels(case.family, *system), case.kernel)
        found[name] = lambda given, kernel=kernel: kernel[case.grid](*given, **case.constants)
    if case.kernel in LIBRARY:
        found["torch"] = partial(LIBRARY[case.kernel], torch)
    return found


def upload(case: Case, gpu: Gpu) -> list[Any]:
    """The arguments of a case with its arrays on the GPU."""
    return [gpu.upload(part) if hasattr(part, "dtype") else part for part in case.arguments]


def digests(kernel: Any) -> dict[str, Any]:
    """What identifies the code of a compiled kernel: SHA-256 of its PTX and cubin, registers, spilled bytes."""
    asm: Mapping[str, Any] = getattr(kernel, "asm", {})
    made = {stage: asm[stage] for stage in ("ptx", "cubin") if stage in asm}
    named = {s: hashlib.sha256(t.encode() if isinstance(t, str) else t).hexdigest() for s, t in made.items()}
    return named | {name: getattr(kernel, name) for name in ("n_regs", "n_spills") if made and hasattr(kernel, name)}


def prove(case: Case, launch: Launch, sets: Sequence[Sequence[Any]], gpu: Gpu) -> tuple[float, Mapping[str, Any]]:
    """The error / allowed error of a contender, launched on every set out of a graph, and what identifies its code.

    The sets hold the same numbers: results with the same bits are checked once.
    """
    kernel = launch(sets[0])
    graph = gpu.capture([partial(launch, given) for given in sets])
    for given in sets:
        for index in case.outputs:
            gpu.poison(given[index])
    gpu.replay(graph)
    errors: dict[tuple[bytes, ...], float] = {}
    for given in sets:
        results = {index: gpu.download(given[index]) for index in case.outputs}
        bits = tuple(hashlib.sha256(result.tobytes()).digest() for result in results.values())
        if bits not in errors:
            errors[bits] = case.check(results)
    return max(errors.values()), digests(kernel)


def first_row(case: Case, name: str, launch: Launch, sets: Sequence[Sequence[Any]], gpu: Gpu) -> Row:
    """The row of a contender without its times, which only right results get."""
    row = Row("failed", case.name, name, bytes=case.bytes, flops=case.flops)
    try:
        error, code = prove(case, launch, sets, gpu)
    except Exception as problem:  # whatever a contender raises: the row says it, and the others go on
        refused = isinstance(problem, CompilationError)
        return replace(row, status="refused" if refused else "failed", problem=f"{type(problem).__name__}: {problem}")
    status = "ok" if error <= 1 else "wrong"
    return replace(row, status=status, error=error if isfinite(error) else None, code=code)


def batch(launches: Sequence[Callable[[], object]], gpu: Gpu) -> tuple[Any, int]:
    """A graph of the launches, repeated until it takes about a sample's time, and how many launches it holds."""
    graph = gpu.capture(launches)
    once = min(gpu.seconds(graph) for _ in range(3))
    repeated = [*launches] * max(1, ceil(SAMPLE / max(once, 1e-6)))
    return gpu.capture(repeated), len(repeated)


def measure(case: Case, known: Mapping[str, System], gpu: Gpu, rounds: int) -> list[Row]:
    """The rows of a case: every contender's, and that of a copy of as many bytes."""
    sets = [upload(case, gpu) for _ in range(max(1, ceil(CACHES * gpu.cache_bytes / case.bytes)))]
    launches = contenders(case, known, gpu.torch)
    rows = {name: first_row(case, name, launch, sets, gpu) for name, launch in launches.items()}
    right = [name for name, row in rows.items() if row.status == "ok"]
    work = {name: [partial(launches[name], given) for given in sets] for name in right}
    halves = [(gpu.noise(case.bytes // 2), gpu.noise(case.bytes // 2)) for _ in sets]
    work["copy"] = [partial(target.copy_, source) for target, source in halves]
    rows["copy"] = Row("ok", case.name, "copy", bytes=case.bytes)
    graphs = {name: batch(each, gpu) for name, each in work.items()}
    timers = {name: partial(gpu.seconds, graph) for name, (graph, _) in graphs.items()}
    samples = interleaved(timers, rounds, warm_up=10)
    state = gpu.state(graphs["copy"][0])
    for name, (_, count) in graphs.items():
        each = [sample / count for sample in samples[name]]
        rows[name] = replace(rows[name], seconds=median(each), samples=each, launches=count, state=state)
    return related(list(rows.values()))


def measure_launches(known: Mapping[str, System], gpu: Gpu, rounds: int) -> list[Row]:
    """What a warm launch of a small kernel with five arguments costs the host."""
    case = cases.add(1024)
    given = upload(case, gpu)
    launches = contenders(case, known, gpu.torch)
    rows = {name: first_row(case, name, launch, [given], gpu) for name, launch in launches.items()}

    def sample(launch: Launch) -> float:
        gpu.synchronize()
        start = perf_counter()
        for _ in range(LAUNCHES):
            launch(given)
        return (perf_counter() - start) / LAUNCHES

    timers = {name: partial(sample, launches[name]) for name, row in rows.items() if row.status == "ok"}
    for name, taken in interleaved(timers, rounds, warm_up=3).items():
        rows[name] = replace(rows[name], seconds=median(taken), samples=taken, launches=LAUNCHES)
    return related([replace(row, what="launch") for row in rows.values()])


def related(rows: Sequence[Row]) -> list[Row]:
    """The rows of one case with how much faster each is than the others."""
    times = {row.contender: row.seconds for row in rows if row.seconds}

    def over(row: Row) -> dict[str, float]:
        return {name: time / row.seconds for name, time in times.items() if row.seconds and name != row.contender}

    return [replace(row, over=over(row)) for row in rows]


HEADER = f"{'case':<30} {'contender':<11} {'':<7} {'us':>9} {'GB/s':>8} {'of Triton':>10} {'of copy':>8}  error/allowed"


def line(row: Row) -> str:
    """A row as a line of the table."""
    head = f"{row.case:<30} {row.contender:<11} {row.what:<7}"
    if row.seconds is None:
        return f"{head} {row.status}: {row.problem or f'error / allowed is {row.error}'}"
    over = [f"{row.over[name]:.3f}" if name in row.over else "" for name in ("triton", "copy")]
    error = "" if row.error is None else f"{row.error:.3f}"
    rate = f"{row.rate / 1e9:.0f}" if row.what == "kernel" else ""
    return f"{head} {row.seconds * 1e6:>9.2f} {rate:>8} {over[0]:>10} {over[1]:>8}  {error}".rstrip()


def run(
    known: Mapping[str, System], gpu: Gpu, rounds: int, only: str = "", keep: Callable[[list[Row]], None] | None = None
) -> list[Row]:
    """Measure every case whose name contains `only`. Rows are printed, and given to `keep`, as they come."""
    print(HEADER)
    rows: list[Row] = []

    def add(some: list[Row]) -> None:
        print("\n".join(map(line, some)), flush=True)
        rows.extend(some)
        if keep is not None:
            keep(some)

    for make in CASES:
        case = make()
        if only in case.name:
            add(measure(case, known, gpu, rounds))
    add(measure_launches(known, gpu, rounds))
    return rows


def main(arguments: list[str]) -> int:
    """Measure, and store the rows if a path is given. 1 if a row of Tilewright's is not ok, 2 if nothing runs here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="samples of each contender")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--store", type=Path, help="append the rows to this file as JSON lines")
    parser.add_argument("--commit", default="", help="the commit that is measured, where git does not know it")
    options = parser.parse_args(arguments)
    try:
        torch: Any = torch_module()
        known = systems(interpret=False)
    except (ImportError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("error: torch sees no CUDA device", file=sys.stderr)
        return 2
    gpu = Gpu(torch)
    facts = surroundings(options.commit) | gpu.facts()

    def keep(some: list[Row]) -> None:
        if options.store:
            store(options.store, (asdict(row) | facts for row in some))

    rows = run(known, gpu, options.rounds, options.only, keep)
    return int(any(row.status != "ok" for row in rows if row.contender == "tilewright"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
