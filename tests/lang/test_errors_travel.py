"""Errors cross processes with their text, places and advice."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright import CompilationError, CompilerBug, TilewrightError
from tilewright.interpreter import MemoryAccessError
from tilewright.lang import ParseError, parse_module
from tilewright.runtime import GridError


@tilewright.jit
def unknown_name(x):
    tl.store(x, missing)  # noqa: F821


@tilewright.jit
def out_of_bounds(x):
    tl.store(x + 100, 1)


def mistake(kind: str) -> None:
    x = np.zeros(4, np.int32)
    if kind == "compilation":
        unknown_name[(1,)](x)
    elif kind == "memory":
        out_of_bounds[(1,)](x)
    elif kind == "grid":
        out_of_bounds[(-1,)](x)
    elif kind == "parse":
        parse_module("module {\n?")
    else:
        raise CompilerBug("something", "file.py")


KINDS = {
    "compilation": CompilationError, "memory": MemoryAccessError, "grid": GridError, "parse": ParseError,
    "bug": CompilerBug,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_error_survives_pickling(kind: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        mistake(kind)
    twice = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(caught.value))))
    assert type(twice) is type(caught.value) and isinstance(twice, KINDS[kind])
    assert str(twice) == str(caught.value)


def test_a_worker_of_a_pool_reports_the_mistake() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, pytest.raises(CompilationError, match="`missing`"):
        pool.submit(mistake, "compilation").result()
