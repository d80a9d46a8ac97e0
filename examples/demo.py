"""The main job on one page: real kernels on real arrays, each held to what its ops' accuracy contracts allow.

Every kernel runs in the reference. Those that compile today are compiled for each generation of GPUs, to PTX and a
cubin; the PTX runs on the emulator and, where there is a GPU, the cubin on that. Run by `make demo`. Exits with 1 if
any result lies outside its bound.
"""

from __future__ import annotations

import sys
from time import perf_counter

import tilewright
from tilewright import bench, language
from tilewright.bench import Case
from tilewright.compiler import TARGETS
from tilewright.lang import TilewrightError, knobs
from tilewright.runtime import CudaError, DeviceError, JITFunction, find_device

#: Kernels that the reference alone runs: reductions and products do not compile yet.
REFERENCE = [
    bench.cases.softmax(1823, 781),
    bench.cases.layernorm(256, 8192),
    bench.cases.matmul(512, 512, 512),
    bench.cases.matmul(500, 300, 200, blocks=True),
    bench.cases.attention(2, 512, 64, causal=True),
]
#: Kernels that run everywhere.
EVERYWHERE = [
    bench.cases.add(98_432),
    bench.cases.gelu(100_000),
    bench.cases.dropout(100_000),
    bench.cases.hash_bits(100_000),
    bench.cases.scale_shift(300, 500),
]
EMULATORS = [f"emulator:{target}" for target in TARGETS]
NAME, CELL = 34, 9


def gpus() -> tuple[list[str], str]:
    """The GPU that kernels run on, if there is one, and what is said about it."""
    try:
        find_device("cuda:0")
    except (CudaError, DeviceError) as error:
        return [], f"no GPU: {str(error).splitlines()[0]}"
    return ["cuda:0"], ""


def attempt(kernel: JITFunction, case: Case, device: str) -> tuple[float, str]:
    """The error / allowed error of a kernel on a device, on copies of the arguments; what went wrong if it failed."""
    arguments = case.fresh()
    try:
        compiled = kernel.on(device)[case.grid](*arguments, **case.constants)
        if device in EMULATORS:
            compiled.artifact.stage("cubin")
    except TilewrightError as error:
        return float("inf"), f"{case.name} on {device}: {error}"
    return case.check(arguments), ""


def shown(error: float) -> str:
    """A cell of the table."""
    return f"{error:.3f}" if error else "exact"


def row(case: Case, devices: list[str], width: int) -> list[str]:
    """Run a case on devices, print its row of the table as it grows, and return what is wrong."""
    kernel = getattr(bench.load_kernels(case.family, tilewright, language), case.kernel)
    wrong: list[str] = []
    start = perf_counter()
    print(f"{case.name:<{NAME}}{case.programs:>{CELL}}", end="", flush=True)
    for device in devices:
        error, problem = attempt(kernel, case, device)
        print(f"{'failed' if problem else shown(error):>{CELL}}", end="", flush=True)
        if problem or not error <= 1:
            wrong.append(problem or f"{case.name} on {device}: {error:.3g} times the allowed error")
    missing = f"{'-':>{CELL}}" * (width - len(devices))
    print(f"{missing}{perf_counter() - start:>{CELL - 2}.1f} s  {'WRONG' if wrong else 'right'}")
    return wrong


def main() -> int:
    """Run every case everywhere that it runs, one row each, and say whether all are right."""
    here, why = gpus()
    devices = ["interpreter", *EMULATORS, *here]
    print(f"Tilewright {tilewright.__version__}: error / allowed error, at most 1 if every element is right")
    print("in the reference (ref), and compiled: for each target on the emulator, and on the GPU where there is one\n")
    titles = ["ref", *TARGETS, *here]
    print(f"{'kernel':<{NAME}}{'programs':>{CELL}}{''.join(f'{title:>{CELL}}' for title in titles)}{'time':>{CELL}}")
    wrong: list[str] = []
    with knobs.scope(cache_max_bytes=0):  # nothing is taken from an earlier run
        for case in REFERENCE:
            wrong += row(case, devices[:1], len(devices))
        for case in EVERYWHERE:
            wrong += row(case, devices, len(devices))
    print("\nThe allowed error follows from the accuracy contracts of the kernel's ops (docs/semantics.md).")
    print(f"-: not compiled yet.{f' {why}.' if why else ''}\n")
    print("".join(f"{each}\n" for each in wrong), end="")
    print(f"{len(REFERENCE) + len(EVERYWHERE)} kernels, {f'{len(wrong)} results wrong' if wrong else 'all right'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
