"""Small PTX programs for tests: a body in a module, and one instruction run on arrays of operands."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter import Buffer, Options
from tilewright.interpreter.ptx import Counters, load_ptx, run_ptx

Array = NDArray[Any]
HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def module_text(body: str, parameters: Sequence[str] = ("p",), before: str = "") -> str:
    """A module with one entry `k` of 64-bit parameters."""
    listed = ", ".join(f".param .u64 {name}" for name in parameters)
    return f"{HEADER}{before}\n.visible .entry k({listed})\n{{\n{body}\n}}\n"


def run(
    body: str, *arrays: Array, grid: int = 1, block: int = 32, before: str = "", options: Options | None = None,
    shared_bytes: int = 0, names: Sequence[str] = "abcdefgh", checks: bool = True,
    cluster: Sequence[int] | None = None,
) -> Counters:  # fmt: skip
    """Run a body whose parameters are arrays, called a, b, c, ..."""
    names = names[: len(arrays)]
    module = load_ptx(module_text(body, names, before))
    buffers = [Buffer.of(name, array) for name, array in zip(names, arrays, strict=True)]
    return run_ptx(module, "k", (grid,), (block,), buffers, options, shared_bytes, checks=checks, cluster=cluster)


def aligned(array: Array, to: int = 32) -> Array:
    """A copy that begins at a multiple of some bytes, a sector of global memory unless given."""
    room = np.zeros(array.nbytes + to, np.uint8)
    copy = room[-room.ctypes.data % to :][: array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _bits(array: Array) -> Array:
    """An array as registers hold it; booleans as bytes."""
    if array.dtype == np.bool_:
        return array.view(np.uint8)
    return array.view(f"u{array.dtype.itemsize}")


def evaluate(instruction: str, *operands: Array, results: Sequence[Any] = (np.uint32,)) -> list[Array]:
    """Run one instruction (or a few) with the operands in %a0, %a1, ... and the results in %d0, %d1, ...

    Operands and results may be of any NumPy type, np.bool_ for predicates; the results are given by type.
    """
    results = [np.dtype(t) for t in results]
    count = max(len(x) for x in operands)
    sources = [np.ascontiguousarray(np.broadcast_to(_bits(np.asarray(x)), (count,))) for x in operands]
    outs = [np.zeros(count, np.uint8 if t == np.bool_ else f"u{t.itemsize}") for t in results]
    body = [".reg .b32 %i, %n; .reg .b64 %at, %off; .reg .b16 %h; .reg .pred %past;"]
    body.append("mov.u32 %i, %ctaid.x; mov.u32 %n, %tid.x; mad.lo.u32 %i, %i, 128, %n;")
    body.append(f"setp.ge.u32 %past, %i, {count}; @%past exit;")
    for k, (given, x) in enumerate(zip(operands, sources, strict=True)):
        body.append(_fetch(f"a{k}", x, given.dtype == np.bool_))
    for k, t in enumerate(results):
        body.append(f".reg {'.pred' if t == np.bool_ else f'.b{max(16, 8 * t.itemsize)}'} %d{k};")
    body.append(instruction)
    for k, (t, out) in enumerate(zip(results, outs, strict=True)):
        body.append(_put(f"d{k}", f"o{k}", out, t == np.bool_))
    body.append("ret;")
    names = [*(f"a{k}" for k in range(len(sources))), *(f"o{k}" for k in range(len(outs)))]
    run("\n".join(body), *sources, *outs, names=names, grid=-(-count // 128), block=128)
    return [o.view(np.bool_) if t == np.bool_ else o.view(t) for o, t in zip(outs, results, strict=True)]


def _address(name: str, itemsize: int) -> str:
    return f"ld.param.u64 %at, [{name}]; mul.wide.u32 %off, %i, {itemsize}; add.u64 %at, %at, %off;"


def _fetch(name: str, array: Array, predicate: bool) -> str:
    bits = 8 * array.itemsize
    load = _address(name, array.itemsize)
    if predicate:
        return f".reg .pred %{name}; {load} ld.global.u8 %h, [%at]; setp.ne.u16 %{name}, %h, 0;"
    return f".reg .b{max(16, bits)} %{name}; {load} ld.global.b{bits} %{name}, [%at];"


def _put(name: str, to: str, array: Array, predicate: bool) -> str:
    store = _address(to, array.itemsize)
    if predicate:
        return f"{store} selp.u16 %h, 1, 0, %{name}; st.global.u8 [%at], %h;"
    return f"{store} st.global.b{8 * array.itemsize} [%at], %{name};"
