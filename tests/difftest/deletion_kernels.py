"""The fixed sample of 60 kernels for the deletion test. `python -m tests.difftest.deletion_kernels` prints the table.

Kernels in source, with launches that need all that is in them; the hand-written matrix product for Hopper; and random
kernels of fixed seeds, the first ones with pipelined loops, with atomics, and with reductions, conversions or products,
but for those that take long.

Arrays end where a kernel's last access does, so that one access too many is out of bounds; extents are odd, so that no
mask holds everywhere; and loops are launched with fewer rounds than stages too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tilewright
import tilewright.language as tl
from tests.compiler import kernels, pipelined, test_dot, test_reduce
from tests.compiler.kernels import Sample, f32, i32, zeros
from tests.interpreter.ptx.programs import aligned
from tilewright.bench.cases import normal
from tilewright.bench.sources import load_kernels
from tilewright.difftest.choices import RecordedChoices
from tilewright.difftest.generator import generate_kernel
from tilewright.difftest.kernels import TARGETS
from tilewright.difftest.launches import launched
from tilewright.difftest.mutants import reasons
from tilewright.difftest.mutants.deletion import APART, Placement, Report, Run, Specimen, Verdict, examine
from tilewright.difftest.mutants.generated import score, specimen_of
from tilewright.difftest.mutants.sites import ORDERING
from tilewright.interpreter import Buffer, Options, PtxModule, encode_tensor_map, run_ptx
from tilewright.runtime import JITFunction, Specialization
from tools.probes import gemm_kernel as gemm

Array = np.ndarray[Any, Any]


@dataclass(eq=False, kw_only=True)
class Sourced(Specimen):
    """A kernel in source, and the assumptions under which its module was made."""

    kernel: JITFunction
    chosen: Specialization


def specimen(name: str, sample: Sample, *more: tuple[Any, ...], **options: Any) -> Sourced:
    """A sample, and the arguments of further launches of what it is compiled to."""
    bound = [sample.kernel.bind_launch(each, dict(sample.constants)) for each in (sample.arguments, *more)]
    chosen = sample.kernel.specialize(bound[0])
    launches = [[each[name] for name in chosen.signature] for each in bound]
    target = options.pop("target", "sm_90a")
    return Sourced(name, sample.module(), launches, sample.grid, target, options, kernel=sample.kernel, chosen=chosen)


def bench(family: str, kernel: str, arguments: tuple[Any, ...], grid: tuple[int, int, int], **constants: Any) -> Sample:
    found = getattr(load_kernels(family, tilewright, tilewright.language), kernel)
    return Sample(found, arguments, grid, constants)


def looping(name: str, **options: Any) -> Specimen:
    """A loop of eight rounds, of two, of one and of none, on arrays that have no more than these need."""
    constants: dict[str, Any] = {"OTHER": 1.0} if name == "masked" else {}
    sample = pipelined.sample(name, 8, **constants)
    a, b, *rest = sample.arguments
    drawn = (normal(a.shape, np.float16, 1), normal(b.shape, np.float16, 2), *rest)  # sums depend on the order
    sample = replace(sample, arguments=drawn)
    return specimen(name, sample, *(rounds_of(sample, name, rounds) for rounds in (1, 2, 0)), **options)


def rounds_of(sample: Sample, name: str, rounds: int) -> tuple[Any, ...]:
    """The arguments for a loop of so many rounds."""
    a, b, *rest, out, start, _ = sample.arguments
    stop = rounds * pipelined.STEP
    rows = pipelined.ROWS - (3 if name == "masked" else 0)
    columns = {"two_dots": max(stop, pipelined.STEP), "storing": stop + pipelined.STEP}.get(name, stop)
    needed = (rows - 1) * pipelined.MOST + columns if columns else 0
    index = [np.arange(each[:stop].size, dtype=np.int32) for each in rest]
    return (a.reshape(-1)[:needed].copy(), b[:stop].copy(), *index, out, start, stop)


def masked() -> Specimen:
    """The loop under a mask also where this begins to bite: past the last 40 rows of the right operand."""
    made = looping("masked")
    a, b, out, *_ = made.launches[0]
    late = [[a, b[: pipelined.MOST - 40], out, start, pipelined.MOST] for start in (64, 80, 96)]
    return replace(made, launches=[*made.launches, *late])


def chained() -> Specimen:
    """Three rounds, the second of them without its second product; one, and none."""
    sample = test_dot.chained_sample()
    q, k, v, out, _ = sample.arguments
    return specimen("chained", sample, *((q, k[: 32 * n], v[: 32 * n], out, n) for n in (1, 0)))


def matmul(blocks: bool, m: int, n: int, k: int, tile: tuple[int, int, int], **options: Any) -> Specimen:
    """A product of f16 matrices of which no extent is a multiple of the tile's."""
    a, b, c = normal((m, k), np.float16, 1), normal((k, n), np.float16, 2), np.zeros((m, n), np.float16)
    tiles = dict(zip(("BM", "BN", "BK"), tile, strict=True)) | ({} if blocks else {"GROUP": 2})
    across = -(-m // tile[0]), -(-n // tile[1])
    kernel = "matmul_block_kernel" if blocks else "matmul_kernel"
    grid = (*across, 1) if blocks else (across[0] * across[1], 1, 1)
    flat = a.reshape(-1)
    given = [
        (flat[: (m - 1) * k + deep if deep else 0], b[:deep], c, m, n, deep, k, 1, n, 1, n, 1)
        for deep in (k, tile[2], 0)
    ]
    return specimen(kernel, bench("matmul", kernel, given[0], grid, **tiles), *given[1:], **options)


def attention(causal: bool) -> Specimen:
    """Two blocks of keys; and where the number of rounds does not follow from the program's own, none."""
    q, k, v = (normal((64, 32), np.float16, seed) for seed in (3, 4, 5))
    given = (q, k, v, np.zeros_like(q), 0.2, 64 * 32, 32, 64)
    constants = {"D": 32, "BM": 32, "BN": 32, "CAUSAL": causal}
    sample = bench("attention", "attention_kernel", given, (2, 1, 1), **constants)
    none = (q, k[:0], v[:0], np.zeros_like(q), 0.2, 64 * 32, 32, 0)
    return specimen("attention", sample, *(() if causal else (none,)), num_stages=2)


def layernorm() -> Specimen:
    rows, columns = 3, 200
    x, w, b = (normal(shape, np.float16, 6) for shape in ((rows, columns), (columns,), (columns,)))
    given = (x, w, b, np.zeros_like(x), zeros(rows), zeros(rows), columns, columns, 1e-5)
    return specimen("layernorm", bench("norms", "layernorm_kernel", given, (rows, 1, 1), BLOCK=256), num_warps=2)


def layernorm_backward() -> Specimen:
    rows, columns, groups = 2, 100, 1
    x, dy = normal((rows, columns), np.float32, 7), normal((rows, columns), np.float32, 8)
    w, mean, rstd = normal((columns,), np.float32, 9), f32(rows), np.abs(f32(rows, 2))
    dw, db, locks = zeros(groups * columns), zeros(groups * columns), zeros(2 * groups, np.int32)
    given = (np.zeros_like(x), dy, dw, db, x, w, mean, rstd, locks, columns, columns)
    sample = bench("norms", "layernorm_backward_kernel", given, (rows, 1, 1), GROUPS=groups, BLOCK=128)
    later = np.array([0] * groups + [1] * groups, np.int32)  # each group has a sum to add to
    return specimen("layernorm_backward", sample, (*given[:8], later, columns, columns), num_warps=2)


def softmax() -> Specimen:
    x = f32(7 * 50).reshape(7, 50)
    given = (np.zeros_like(x), x, 50, 50, 7, 50)
    return specimen("softmax", bench("softmax", "softmax_kernel", given, (3, 1, 1), BLOCK=128), num_warps=2)


def scale_shift() -> Specimen:
    m, n = 17, 50
    given = (f32(m * n), f32(n, 2), f32(m, 3), zeros(m * n), m, n, n)
    sample = bench("elementwise", "scale_shift_kernel", given, (2, 1, 1), BM=16, BN=64)
    return specimen("scale_shift", sample)


def transposed(kind: Any, m: int, n: int, **options: Any) -> Specimen:
    x = f32(m * n).astype(kind)
    sample = Sample(kernels.transposed, (x, np.zeros_like(x)), (1, 1, 1), {"M": m, "N": n})
    return specimen(f"transposed {np.dtype(kind)}", sample, **options)


def of_samples(name: str, **options: Any) -> Callable[[], Specimen]:
    return lambda: specimen(name, kernels.SAMPLES[name](), **options)


def product(kind: Any, result: Any, shape: tuple[int, int, int], step: int, *more: Any) -> Specimen:
    return specimen("product", test_dot.product_sample(kind, result, shape, step, *more))


@tilewright.jit
def branch(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    v = tl.load(x + offsets)
    if n > 2:
        v = v + 1
    else:
        v = v * 2
        tl.store(out + offsets, v)
    tl.store(out + offsets, v + tl.load(out + offsets))


def branching() -> Specimen:
    """Both ways through a branch of which one stores."""
    x, out = f32(256), f32(256, 3)
    return specimen("branching", Sample(branch, (x, out, 3), (1, 1, 1), {"BLOCK": 256}), (x, out, 2))


def extremes() -> Specimen:
    """Results that are not aligned to 16 bytes: a row may be the next result's in another thread."""
    x = f32(8 * 128).reshape(8, 128)
    results = (zeros(9)[1:], zeros(9)[1:], zeros(9, np.int32)[1:], zeros(9, np.int32)[1:])
    return specimen("extremes", Sample(test_reduce.extremes, (x, *results), (1, 1, 1), {"M": 8, "N": 128}))


SPECIMENS: dict[str, Callable[[], Specimen]] = {
    "add": of_samples("add"),
    "counted": of_samples("counted"),
    "branching": branching,
    "shifted_in_place": of_samples("shifted_in_place"),
    "shifted_in_place, one warp": of_samples("shifted_in_place", num_warps=1),
    "pairs": of_samples("pairs"),
    "rows_in_a_loop": of_samples("rows_in_a_loop"),
    "scale_shift": scale_shift,
    "transposed f32": lambda: transposed(np.float32, 32, 64),
    "transposed f16": lambda: transposed(np.float16, 64, 64, target="sm_80"),
    "transposed f64": lambda: transposed(np.float64, 16, 32, num_warps=2),
    "fold of rows": lambda: specimen("fold of rows", test_reduce.fold_sample((64, 64), 0)),
    "fold of all": lambda: specimen("fold of all", test_reduce.fold_sample((2048,), 0), num_warps=8),
    "extremes": extremes,
    "integer_folds": lambda: specimen("integer_folds", test_reduce.integer_module(i32(1024))[0]),
    "softmax": softmax,
    "layernorm": layernorm,
    "layernorm_backward": layernorm_backward,
    "product ieee": lambda: product(np.float32, np.float32, (32, 32, 64), 32),
    "product f16": lambda: product(np.float16, np.float32, (8, 64, 128), 64),
    "product tf32": lambda: product(np.float32, np.float32, (32, 32, 64), 16, "tf32x3", "ab"),
    "product i8": lambda: product(np.int8, np.int32, (32, 64, 128), 32),
    "chained": chained,
    "plain": lambda: looping("plain"),
    "masked": masked,
    "gather": lambda: looping("gather"),
    "conditional": lambda: looping("conditional"),
    "two_dots": lambda: looping("two_dots", num_stages=4),
    "nested": lambda: looping("nested", num_stages=2, target="sm_80"),
    "storing": lambda: looping("storing"),
    "shared_pointers": lambda: looping("shared_pointers", num_stages=4),
    "matmul": lambda: matmul(False, 37, 24, 36, (16, 16, 16)),
    "matmul, block pointers": lambda: matmul(True, 37, 48, 80, (16, 32, 32)),
    "attention": lambda: attention(False),
    "attention, causal": lambda: attention(True),
}

OWN = "what a thread loads is what it has stored itself"
#: What nothing shows, and why: by kind how many. Of random kernels only that for which no run finds a reason.
EXPLAINED: dict[str, dict[str, tuple[int, str]]] = {
    "storing": {"barrier": (1, OWN)},
    "shared_pointers": {
        "barrier": (1, reasons.IDLE),
        "swizzle": (
            1,
            "what is read the other way round is added up, and stored under a mask that never holds",
        ),
    },
    "attention, causal": {"mask": (2, "there is a first round unless the first row's number wraps around at 2**31")},
    "hand-written product": {"fence": (2, "the ISA wants it when mbarriers are made, and compilers leave it out")},
    "seed 54": {"barrier": (1, OWN)},
}


#: Seeds of random kernels.
GENERATED = (
    20, 33, 104, 110, 112, 387,  # pipelined loops
    2, 10, 36, 48, 54, 75, 81,  # atomics
    6, 19, 21, 28, 37, 40, 45, 52, 78, 98, 101,  # reductions, conversions, products
)  # fmt: skip


@dataclass(eq=False)
class Product:
    """The hand-written matrix product, on more steps than it has buffers."""

    name: str = "hand-written product"
    m: int = 128
    n: int = 256
    k: int = 256
    ptx: str = gemm.text()
    apart: Sequence[Placement] = (APART,)

    def overlaps(self, *, unaligned: bool = False) -> Iterator[Placement]:
        """None: tensor maps have the addresses."""
        return iter(())

    def launch(self, module: PtxModule, placement: Placement, fuel: int | None = None) -> Run:
        rng = np.random.default_rng(0)
        a, b = (aligned(rng.integers(-3, 4, (rows, self.k)).astype(np.float16), 128) for rows in (self.m, self.n))
        arrays = (a, b, aligned(np.full((self.m, self.n), np.nan, np.float16), 128))
        maps = [
            encode_tensor_map("float16", x.ctypes.data, x.shape[::-1], x.strides[:1], operand.box, swizzle="128B")
            for x, operand in zip(arrays, gemm.OPERANDS, strict=True)
        ]
        buffers = [Buffer.of(operand.name, x) for operand, x in zip(gemm.OPERANDS, arrays, strict=True)]
        counters = run_ptx(
            module, gemm.ENTRY, gemm.grid(self.m, self.n), (gemm.THREADS,), [*maps, self.k // gemm.DEPTH],
            Options(fuel=fuel), gemm.SHARED_BYTES, reachable=buffers,
        )  # fmt: skip
        return Run.of(arrays, counters)


def generated(seed: int) -> Report:
    """The report on a random kernel, of what orders its threads."""
    with launched(generate_kernel(RecordedChoices(seed))) as launch:
        return examine(specimen_of(launch, f"seed {seed}", TARGETS[seed % len(TARGETS)]), ORDERING)


SAMPLE: dict[str, Callable[[], Report]] = {
    **{name: lambda make=make: examine(make()) for name, make in SPECIMENS.items()},
    "hand-written product": lambda: examine(Product(), ORDERING),
    **{f"seed {seed}": lambda seed=seed: generated(seed) for seed in GENERATED},
}


def main(names: Sequence[str]) -> int:
    """Print a line for each kernel, what survived, and the score. The number of survivors that nothing explains."""
    verdicts: list[Verdict] = []
    for name in names or SAMPLE:
        report = replace(SAMPLE[name](), name=name)
        for at, verdict in enumerate(report.verdicts):
            if not verdict.by and not verdict.told and verdict.site.kind in EXPLAINED.get(name, {}):
                report.verdicts[at] = replace(verdict, told=EXPLAINED[name][verdict.site.kind][1])
        verdicts += report.verdicts
        print(report, flush=True)
    print("\n".join(score(verdicts)))
    return sum(not verdict.by and not verdict.told for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
