"""The main job on one page: real kernels on real arrays, each held to what its ops' accuracy contracts allow.

Every kernel runs in the reference, and compiled for GPUs: to PTX, which the emulator runs, and a cubin, which runs on
the GPU where there is one. Run by `make demo`. Exits with 1 if any result lies outside its bound.
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

EMULATORS = [f"emulator:{target}" for target in TARGETS]
#: Kernels whose threads exchange data, for three generations.
EXCHANGING = [
    bench.cases.softmax(512, 781),
    bench.cases.layernorm(64, 8192),
    bench.cases.matmul(256, 256, 256),
    bench.cases.matmul(250, 300, 200, blocks=True),
    bench.cases.attention(2, 256, 64, causal=True),
]
THREE = [f"emulator:{target}" for target in ("sm_80", "sm_90a", "sm_120a")]
#: Kernels without exchange, for every generation.
ELEMENTWISE = [
    bench.cases.add(98_432),
    bench.cases.gelu(100_000),
    bench.cases.dropout(100_000),
    bench.cases.hash_bits(100_000),
    bench.cases.scale_shift(300, 500),
]
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


def row(case: Case, devices: list[str], without: set[str]) -> list[str]:
    """Run a case on devices but for some, print its row of the table as it grows, and return what is wrong."""
    kernel = getattr(bench.load_kernels(case.family, tilewright, language), case.kernel)
    wrong: list[str] = []
    start = perf_counter()
    print(f"{case.name:<{NAME}}{case.programs:>{CELL}}", end="", flush=True)
    for device in devices:
        if device in without:
            print(f"{'-':>{CELL}}", end="", flush=True)
            continue
        error, problem = attempt(kernel, case, device)
        print(f"{'failed' if problem else shown(error):>{CELL}}", end="", flush=True)
        if problem or not error <= 1:
            wrong.append(problem or f"{case.name} on {device}: {error:.3g} times the allowed error")
    print(f"{perf_counter() - start:>{CELL - 2}.1f} s  {'WRONG' if wrong else 'right'}")
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
        for case in ELEMENTWISE:
            wrong += row(case, devices, set())
        for case in EXCHANGING:
            wrong += row(case, devices, set(EMULATORS) - set(THREE))
    print("\nThe allowed error follows from the accuracy contracts of the kernel's ops (docs/semantics.md).")
    print(f"-: not run in this table.{f' {why}.' if why else ''}\n")
    print("".join(f"{each}\n" for each in wrong), end="")
    print(f"{len(ELEMENTWISE) + len(EXCHANGING)} kernels, {f'{len(wrong)} results wrong' if wrong else 'all right'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
