"""The key: each ingredient changes it, and nothing else does."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.lang import constexpr, knobs
from tilewright.runtime import CompileOptions, JITFunction, digests, encode, kernel_key, key
from tilewright.runtime.errors import ArgumentError

SOURCE = """
import tilewright
import tilewright.language as tl

N = tl.constexpr(4)
DEFAULT = 16


@tilewright.jit
def helper(x):
    return x + N


@tilewright.jit
def kernel(x_ptr, n, flag, BLOCK: tl.constexpr = DEFAULT):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, helper(tl.load(x_ptr + offsets, mask=offsets < n)), mask=offsets < n)
"""


def load(folder: Path, text: str = SOURCE, name: str = "kernels_under_test") -> JITFunction:
    """The kernel of a module with this text, imported afresh from a file in the folder."""
    path = folder / f"{name}.py"
    path.write_text(text)
    space: dict[str, Any] = {"__name__": name, "__file__": str(path)}
    exec(compile(text, str(path), "exec"), space)
    return space["kernel"]


ARRAY = np.zeros(64, np.float32)
assert ARRAY.ctypes.data % 16 == 0


def key_of(
    kernel: JITFunction, *arguments: Any, options: dict[str, Any] | None = None, target: str = "sm_90a", **kw: Any
) -> str:
    given = arguments or (ARRAY, 50, 3)
    specialization = kernel.specialize(kernel.bind_launch(given, kw))
    return kernel_key(kernel, specialization, CompileOptions(**(options or {})), target)


PERTURBED: dict[str, Callable[[JITFunction, Path, pytest.MonkeyPatch], str]] = {
    "kernel source": lambda k, d, m: key_of(load(d, SOURCE.replace("offsets < n)", "offsets <= n)"))),
    "a comment in the kernel": lambda k, d, m: key_of(load(d, SOURCE.replace("BLOCK)\n", "BLOCK)  # note\n"))),
    "line numbers": lambda k, d, m: key_of(load(d, "\n" + SOURCE)),
    "device function source": lambda k, d, m: key_of(load(d, SOURCE.replace("x + N", "x - N"))),
    "captured global, value": lambda k, d, m: key_of(load(d, SOURCE.replace("constexpr(4)", "constexpr(5)"))),
    "captured global, type": lambda k, d, m: key_of(load(d, SOURCE.replace("constexpr(4)", "constexpr(4.0)"))),
    "default argument": lambda k, d, m: key_of(load(d, SOURCE.replace("DEFAULT = 16", "DEFAULT = 32")), BLOCK=16),
    "module name": lambda k, d, m: key_of(load(d, name="other_name")),
    "argument dtype": lambda k, d, m: key_of(k, ARRAY.astype(np.float16), 50, 3),
    "argument sign": lambda k, d, m: key_of(k, ARRAY.view(np.uint32), 50, 3),
    "argument alignment": lambda k, d, m: key_of(k, ARRAY[1:], 50, 3),
    "integer 1": lambda k, d, m: key_of(k, ARRAY, 1, 3),
    "integer divisible by 16": lambda k, d, m: key_of(k, ARRAY, 48, 3),
    "integer width": lambda k, d, m: key_of(k, ARRAY, 2**40 + 1, 3),
    "float instead of integer": lambda k, d, m: key_of(k, ARRAY, 50, 3.0),
    "bool instead of integer": lambda k, d, m: key_of(k, ARRAY, 50, True),
    "None": lambda k, d, m: key_of(k, ARRAY, 50, None),
    "constexpr value": lambda k, d, m: key_of(k, BLOCK=32),
    "constexpr type": lambda k, d, m: key_of(k, BLOCK=16.0),
    "target": lambda k, d, m: key_of(k, target="sm_80"),
    "num_warps": lambda k, d, m: key_of(k, options={"num_warps": 8}),
    "num_stages": lambda k, d, m: key_of(k, options={"num_stages": 4}),
    "num_ctas": lambda k, d, m: key_of(k, options={"num_ctas": 2}),
    "maxnreg": lambda k, d, m: key_of(k, options={"maxnreg": 64}),
    "enable_fp_fusion": lambda k, d, m: key_of(k, options={"enable_fp_fusion": False}),
    "debug": lambda k, d, m: key_of(k, options={"debug": True}),
    "sanitize_overflow": lambda k, d, m: key_of(k, options={"sanitize_overflow": False}),
    "launch_cooperative_grid": lambda k, d, m: key_of(k, options={"launch_cooperative_grid": True}),
    "launch_pdl": lambda k, d, m: key_of(k, options={"launch_pdl": True}),
    "toolchain": lambda k, d, m: _patched(k, m, "toolchain_versions", lambda: (("llvmlite", "9"),)),
    "sources of the rooms": lambda k, d, m: _patched(k, m, "room_digest", lambda: b"other"),
}


def _patched(kernel: JITFunction, monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> str:
    monkeypatch.setattr(key, name, value)
    return key_of(kernel)


@pytest.mark.parametrize("what", PERTURBED)
def test_each_ingredient_is_a_miss(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load(tmp_path)
    before = key_of(kernel)
    folder = tmp_path / "other"
    folder.mkdir()
    assert PERTURBED[what](kernel, folder, monkeypatch) != before


def test_every_code_changing_knob_is_a_miss(tmp_path: Path) -> None:
    kernel = load(tmp_path)
    before = key_of(kernel)
    names = [name for name, _ in knobs.code_changing()]
    assert {"debug", "max_tile_numel"} <= set(names)
    for name in names:
        value: Any = getattr(knobs, name)
        with knobs.scope(**{name: not value if isinstance(value, bool) else value * 2}):
            assert key_of(kernel) != before, name
    assert key_of(kernel) == before


def test_a_changed_global_is_a_miss_at_once(tmp_path: Path) -> None:
    kernel = load(tmp_path)
    before = key_of(kernel)
    space = kernel.function.__globals__
    space["N"] = constexpr(7)
    assert key_of(kernel) != before
    space["N"] = constexpr(4)
    assert key_of(kernel) == before


AT_COMPILE_TIME = """
import enum
from typing import NamedTuple

import tilewright
import tilewright.language as tl

K = 2
TABLE = tl.constexpr([1, 2])


def helper(n):
    return n * K


def make(n):
    @tilewright.constexpr_function
    def scaled(x):
        return x + n

    return scaled


class Mode(enum.Enum):
    A = 1


class Point(NamedTuple):
    x: int = 1


closed = make(3)


@tilewright.constexpr_function
def by_global(x):
    return (lambda: x * K)()


@tilewright.constexpr_function
def by_helper(x):
    return helper(x)


@tilewright.jit
def kernel(x_ptr, n, flag):
    tl.store(x_ptr, by_global(3) + by_helper(3) + closed(3) + Mode.A.value + Point().x + TABLE[0])
"""


def rebound(space: dict[str, Any], name: str, text: str) -> None:
    """Give a name of the module another meaning."""
    exec(text, space)
    assert name in space


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a global of a constexpr_function": lambda s: s.update(K=5),
    "a helper of a constexpr_function": lambda s: rebound(s, "helper", "def helper(n):\n    return n * 7\n"),
    "the closure of a constexpr_function": lambda s: s.update(closed=s["make"](4)),
    "the value of an enum's member": lambda s: rebound(s, "Mode", "class Mode(enum.Enum):\n    A = 9\n"),
    "the default of a named tuple": lambda s: rebound(s, "Point", "class Point(NamedTuple):\n    x: int = 6\n"),
    "a list in a constexpr, changed in place": lambda s: s["TABLE"].value.__setitem__(0, 7),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_runs_at_compile_time_is_a_miss_and_runs_anew(what: str, tmp_path: Path) -> None:
    kernel = load(tmp_path, AT_COMPILE_TIME)
    out = np.zeros(1, np.int32)
    kernel[(1,)](out, 2, 3)
    before, key_before = int(out[0]), key_of(kernel)
    assert before == 6 + 6 + 6 + 1 + 1 + 1 and key_of(kernel) == key_before
    CHANGES[what](kernel.function.__globals__)
    kernel[(1,)](out, 2, 3)
    assert key_of(kernel) != key_before
    assert int(out[0]) != before


def test_functions_that_call_each_other_have_a_key(tmp_path: Path) -> None:
    text = AT_COMPILE_TIME.replace("return n * K", "return n * K if n else by_helper(n)")
    assert key_of(load(tmp_path, text)) == key_of(load(tmp_path, text))


def test_the_rooms_that_make_code_are_in_the_key() -> None:
    found = {digests.room_digest(rooms) for rooms in (("lang",), ("compiler",), digests.CODE_ROOMS)}
    assert set(digests.CODE_ROOMS) == {"lang", "compiler"} and len(found) == 3


HIT: dict[str, Callable[[JITFunction], str]] = {
    "another integer": lambda k: key_of(k, ARRAY, 51, 3),
    "another array": lambda k: key_of(k, np.ones(128, np.float32), 50, 5),
    "another shape and stride": lambda k: key_of(k, np.zeros((4, 8), np.float32)[:, ::2], 50, 3),
    "the order of keywords": lambda k: kernel_key(
        k,
        k.specialize(k.bind_launch((), {"BLOCK": 16, "flag": 3, "n": 50, "x_ptr": ARRAY})),
        CompileOptions(),
        "sm_90a",
    ),
    "a default given": lambda k: key_of(k, ARRAY, 50, 3, 16),
    "a constexpr wrapped": lambda k: key_of(k, ARRAY, 50, 3, constexpr(16)),
}


@pytest.mark.parametrize("what", HIT)
def test_what_must_not_matter_is_a_hit(what: str, tmp_path: Path) -> None:
    kernel = load(tmp_path)
    assert HIT[what](kernel) == key_of(kernel)


def test_other_knobs_are_a_hit(tmp_path: Path) -> None:
    kernel = load(tmp_path)
    before = key_of(kernel)
    with knobs.scope(device="interpreter", fuel=123, chunk_bytes=4096, seed=7, mma="hardware"):
        assert key_of(kernel) == before


CHILD = """
import sys, hashlib
sys.path.insert(0, sys.argv[1])
import numpy as np
import kernels_under_test as m
from tilewright.runtime import CompileOptions, find_device, kernel_key
given = dict(reversed(dict(x_ptr=np.zeros(64, np.float32), n=50, flag=3).items())) if sys.argv[2] == "1" else dict(
    x_ptr=np.zeros(64, np.float32), n=50, flag=3)
spec = m.kernel.specialize(m.kernel.bind_launch((), given))
options = CompileOptions()
compiled = m.kernel.compile(spec, options, find_device("interpreter"))
print(kernel_key(m.kernel, spec, options, "sm_90a"), hashlib.sha256(compiled.asm["ttir"].encode()).hexdigest())
"""


def test_paths_hash_seeds_and_dict_order_are_a_hit_with_identical_bytes(tmp_path: Path) -> None:
    seen: set[str] = set()
    for turn, (folder, seed) in enumerate((("one", "0"), ("a/deeper/place", "1"), ("one", "4242"))):
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / "kernels_under_test.py").write_text(SOURCE)
        script = tmp_path / "child.py"
        script.write_text(textwrap.dedent(CHILD))
        root = str(Path(__file__).parents[2])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
        command = [sys.executable, str(script), str(place), str(turn % 2)]
        seen.add(subprocess.run(command, env=environment, check=True, capture_output=True, text=True, cwd=place).stdout)
    assert len(seen) == 1 and len(seen.pop().split()) == 2


@pytest.mark.parametrize(
    "a, b",
    [
        (1, 1.0), (1, True), (0, False), (0.0, -0.0), ("1", 1), ("", None), ((1, 2), (1, (2,))), ((), None),
        (("ab", "c"), ("a", "bc")), ([1], (1,)), (np.float32(1), 1.0), (np.int32(1), np.int64(1)), (b"a", "a"),
    ],
)  # fmt: skip
def test_values_of_other_type_or_bits_encode_differently(a: Any, b: Any) -> None:
    assert encode(a) != encode(b)


def test_equal_values_encode_equally() -> None:
    assert encode({"a": 1, "b": 2}) == encode({"b": 2, "a": 1})
    assert encode({1, 2, 3}) == encode({3, 2, 1})
    assert encode(float("nan")) == encode(float("nan"))


def test_a_value_without_canonical_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="a object can't be a compile-time value of a kernel"):
        key_of(load(tmp_path), BLOCK=object())
