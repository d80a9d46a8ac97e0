"""What works on this machine, found out by trying it, and why the rest does not."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.lang import TilewrightError, knobs, language

from ._lazy import llvm_version, package_version, target_names
from .cache import kernel_cache
from .devices.cuda import CudaDevice
from .devices.cuda_driver import FLOOR, FLOOR_DRIVER, driver, version_text
from .devices.emulator import DEFAULT_TARGET
from .errors import DeviceError
from .kernels import jit

#: How a finding stands: it works; it is not here, which is no fault; it is here and does not work.
WORKS, ABSENT, FAULT = "works", "absent", "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: how it stands (`works`, `absent`, `fault`), and what was found."""

    what: str
    state: str
    found: str


@jit
def probe(x_ptr) -> None:  # pyright: ignore  # a kernel: its types are the language's
    language.store(x_ptr, 1.0)


def diagnose() -> Iterator[Finding]:
    """Look at everything, one finding after the other. Nothing is read from or written to the cache of kernels."""
    with knobs.scope(cache_max_bytes=0, device=""):
        yield _python()
        yield from _packages()
        yield _attempt("reference", lambda: _run_on("interpreter"))
        yield _attempt("compiler to PTX", _compile)
        yield _attempt("assembler to cubin", _assemble)
        yield _attempt("emulator", lambda: _run_on("emulator"))
        yield from _gpus()
    yield _cache()


def _python() -> Finding:
    state = WORKS if sys.version_info >= (3, 11) else FAULT
    return Finding("Python", state, f"{platform.python_version()} on {sys.platform} {platform.machine()}; needs 3.11")


def _packages() -> Iterator[Finding]:
    for package in ("numpy", "ml_dtypes", "llvmlite", "nvidia-nvjitlink", "cuda-bindings"):
        version = package_version(package)
        if package == "llvmlite" and version:
            version = _attempt(package, llvm_version).found
        yield Finding(package, WORKS if version else ABSENT, version or "not installed")


def _attempt(what: str, action: Callable[[], str]) -> Finding:
    try:
        return Finding(what, WORKS, action())
    except (TilewrightError, ImportError, OSError) as error:
        return Finding(what, FAULT, str(error))


def _run_on(device: str) -> str:
    x = np.zeros(1, np.float32)
    probe.on(device)[(1,)](x)
    if x[0] != 1:
        raise DeviceError(f"{device}: a kernel that stores 1 left {x[0]}")
    return "ran a kernel"


def _compile() -> str:
    targets = target_names()
    for target in targets:
        probe.warmup(np.float32, device=f"emulator:{target}")
    return f"for {', '.join(targets)}"


def _assemble() -> str:
    cubin = probe.warmup(np.float32, device=f"emulator:{DEFAULT_TARGET}").asm["cubin"]
    return f"{len(cubin)} bytes for {DEFAULT_TARGET}"


def _gpus() -> Iterator[Finding]:
    floor = f"needs CUDA {version_text(FLOOR)}, driver {FLOOR_DRIVER}"
    try:
        count = int(driver().call("cuDeviceGetCount"))
    except TilewrightError as error:
        missing = isinstance(error, DeviceError) and error.is_absent
        yield Finding("driver", ABSENT if missing else FAULT, f"{error} ({floor})")
        return
    yield Finding("driver", WORKS, f"CUDA {version_text(driver().version)}; {floor}")
    for ordinal in range(count):
        yield _attempt(f"cuda:{ordinal}", lambda ordinal=ordinal: _gpu(ordinal))


def _gpu(ordinal: int) -> str:
    return f"{CudaDevice(ordinal).description}; {_run_on(f'cuda:{ordinal}')}"


def _cache() -> Finding:
    store = kernel_cache.store()
    if store is None:
        return Finding("cache", ABSENT, "turned off, or there is no home folder")
    try:
        kept = store.survey()
        store.check_writable()
    except FileNotFoundError:
        return Finding("cache", WORKS, f"{store.folder}: empty, made when it is needed")
    except OSError as error:
        return Finding("cache", FAULT, f"{store.folder}: {error}")
    bad = sum(bool(file.problem) for file in kept)
    size = sum(file.size for file in kept) / 2**20
    found = f"{store.folder}: {len(kept)} kernels, {size:.1f} of {store.max_bytes / 2**20:.0f} MiB"
    return Finding("cache", FAULT if bad else WORKS, f"{found}, {bad} damaged" if bad else found)
