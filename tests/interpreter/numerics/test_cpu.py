"""The same bits on every CPU: digests of all operations with vector code of NumPy, BLAS and libm on and off."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]


def features() -> list[str]:
    """The vector features that NumPy dispatches on and this CPU has."""
    core = np._core._multiarray_umath
    return [name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)]


def digests(**environment: str) -> list[str]:
    process = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.interpreter.numerics.digests"],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.fixture(scope="module")
def here() -> list[str]:
    return digests()


@pytest.mark.skipif(not features(), reason="this CPU has no feature that NumPy could switch off")
def test_numpy_without_its_vector_code(here: list[str]) -> None:
    assert len(here) > 300
    assert digests(NPY_DISABLE_CPU_FEATURES=" ".join(features())) == here


@pytest.mark.slow
@pytest.mark.parametrize("feature", features()[1:])
def test_numpy_without_one_feature_and_all_above(here: list[str], feature: str) -> None:
    assert digests(NPY_DISABLE_CPU_FEATURES=" ".join(features()[features().index(feature) :])) == here


def test_another_blas_kernel_and_libm_without_fma(here: list[str]) -> None:
    tunables = "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable"
    assert digests(OPENBLAS_CORETYPE="Nehalem", OPENBLAS_NUM_THREADS="1", GLIBC_TUNABLES=tunables) == here
