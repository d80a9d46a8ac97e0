"""Strategies for loads, stores and atomics: kernels on buffers.

Programs keep to places of their own unless the row is an atomic, so that what a case leaves behind does not depend on
any order; where atomics meet the case is marked `unordered`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tilewright.lang import I1, I32, I64, NUMBERS, OPS, OpTypeError, PointerType, ScalarType, Value

from ..cases import Case
from ..choices import Choices
from ..recipes import draw_codes, edge, moderate, short
from .sketch import SHAPES, KernelSketch, Shape

#: What `numbers` makes of a shape, read from a buffer, or shuffled.
PATTERNS = ("affine", "spread", "gathered")


class _Accesses:
    """A kernel of a few programs, one shape, and pointers into a target buffer."""

    def __init__(self, row: str, choices: Choices) -> None:
        grid = (choices.integer(1, 3), choices.integer(1, 2), 1)
        self.choices = choices
        self.sketch = KernelSketch(row, choices, grid)
        self.shape: Shape = choices.sample([shape for shape in SHAPES if prod(shape) <= 8])
        self.lanes = self.sketch.programs * prod(self.shape)
        self.spread = choices.boolean()
        self.places = self.sketch.places(self.shape, self.spread)

    def data(self, name: str, element: ScalarType, codes: Sequence[int] | None = None) -> Value:
        """A tile of drawn codes, each program its own."""
        drawn = draw_codes(self.choices, element, self.lanes) if codes is None else codes
        return self.sketch.read(self.sketch.buffer(name, element, drawn), self.places)

    def mask(self) -> Value | None:
        """No mask, one that is a box, or any."""
        kind = self.choices.weighted((("none", 2), ("box", 3), ("any", 3)))
        if kind == "none":
            return None
        return self.sketch.box(self.shape) if kind == "box" else self.data("mask", I1)

    def offsets(self, size: int, distinct: bool) -> Value:
        """Where each lane goes in a buffer of `size` elements; lanes of other programs go elsewhere if `distinct`."""
        pattern = self.choices.sample(PATTERNS)
        if pattern == "affine" or (distinct and pattern == "spread"):
            return self.places
        stream = self.choices.stream()
        if distinct:
            order = sorted(range(size), key=lambda _: stream.next())[: self.lanes]
            return self.data("offsets", I32, order)
        return self.data("offsets", I32, [stream.below(size) for _ in range(self.lanes)])

    def outside(self, offsets: Value, size: int, masked: bool) -> Value:
        """Some lanes moved out of a buffer: in a case that must stop, or where the mask may hide it."""
        if not self.choices.boolean(25 if masked else 6):
            return offsets
        away = self.choices.sample((size, -size, 1 << 20))
        return self.sketch.value("add_i", (offsets, self.sketch.splat(self.sketch.integer(away), self.shape)))


def load(choices: Choices) -> Case:
    """Loads by slices and by gathers, with and without mask and `other`, some out of bounds."""
    kernel = _Accesses("load", choices)
    sketch = kernel.sketch
    element = choices.sample(NUMBERS)
    size = kernel.lanes + choices.integer(0, 3)
    source = sketch.buffer("source", element, draw_codes(choices, element, size))
    mask = kernel.mask()
    offsets = kernel.outside(kernel.offsets(size, distinct=False), size, mask is not None)
    operands = [sketch.at(source, offsets)]
    if mask is not None:
        operands += [mask, *([kernel.data("other", element)] if choices.boolean() else [])]
    value = sketch.value("load", operands, volatile=choices.boolean(15))
    sketch.write("out", kernel.places, value)
    return sketch.finish()


def store(choices: Choices) -> Case:
    """Stores by slices and by scatters; what is masked off or not addressed must stay as it was."""
    return _store("store", choices, NUMBERS)


def _store(row: str, choices: Choices, elements: Sequence[ScalarType]) -> Case:
    kernel = _Accesses(row, choices)
    sketch = kernel.sketch
    element = choices.sample(elements)
    size = kernel.lanes + choices.integer(0, 3)
    value = kernel.data("value", element)
    target = sketch.buffer("target", element, draw_codes(choices, element, size))
    mask = kernel.mask()
    offsets = kernel.outside(kernel.offsets(size, distinct=True), size, mask is not None)
    sketch.emit(row, (sketch.at(target, offsets), value, *([] if mask is None else [mask])))
    return sketch.finish()


def _admitted(row: str, count: int, kind: str = "") -> list[ScalarType]:
    """The element types that an atomic takes with `count` values of them."""
    found: list[ScalarType] = []
    for element in NUMBERS:
        try:
            OPS[row].rule([PointerType(element), *[element] * count], {"kind": kind}, None)
        except OpTypeError:
            continue
        found.append(element)
    return found


def atomic_load(choices: Choices) -> Case:
    """As `load`, of what is there."""
    kernel = _Accesses("atomic_load", choices)
    sketch = kernel.sketch
    element = choices.sample(_admitted("atomic_load", 0))
    size = kernel.lanes + choices.integer(0, 3)
    source = sketch.buffer("source", element, draw_codes(choices, element, size))
    mask = kernel.mask()
    offsets = kernel.outside(kernel.offsets(size, distinct=False), size, mask is not None)
    value = sketch.value("atomic_load", (sketch.at(source, offsets), *([] if mask is None else [mask])))
    sketch.write("out", kernel.places, value)
    return sketch.finish()


def atomic_store(choices: Choices) -> Case:
    """As `store`."""
    return _store("atomic_store", choices, _admitted("atomic_store", 1))


class _Meeting:
    """A kernel in which lanes of all programs act on few addresses, laid out as `oracles.verdict` reads it."""

    def __init__(self, row: str, choices: Choices, element: ScalarType) -> None:
        self.accesses = accesses = _Accesses(row, choices)
        self.element = element
        sketch, stream = accesses.sketch, choices.stream()
        size = choices.sample((1, 2, accesses.lanes))
        self.first = draw_codes(choices, element, size, ((moderate, 3), (edge, 2), (short, 1)))
        target = sketch.buffer("target", element, self.first)
        places = [stream.below(size) for _ in range(accesses.lanes)]
        self.pointers = sketch.at(target, accesses.data("index", I32, places))
        self.masks = [int(not choices.boolean(30) or stream.chance(60)) for _ in range(accesses.lanes)]

    def finish(self, old: Value) -> Case:
        self.accesses.sketch.write("old", self.accesses.places, old)
        return self.accesses.sketch.finish(unordered=True)


def atomic_rmw(choices: Choices) -> Case:
    """Every kind on every type, few addresses for many lanes."""
    kinds = next(attribute.choices for attribute in OPS["atomic_rmw"].attributes if attribute.name == "kind")
    kind = choices.sample(kinds)
    meeting = _Meeting("atomic_rmw", choices, choices.sample(_admitted("atomic_rmw", 1, kind)))
    accesses = meeting.accesses
    value = accesses.data("value", meeting.element)
    masked = choices.boolean()
    mask = accesses.data("mask", I1, meeting.masks if masked else [1] * accesses.lanes)
    operands = (meeting.pointers, value, *((mask,) if masked else ()))
    return meeting.finish(accesses.sketch.value("atomic_rmw", operands, kind=kind))


def atomic_cas(choices: Choices) -> Case:
    """Comparisons that often succeed: the expected values are among those that are there or will be."""
    meeting = _Meeting("atomic_cas", choices, choices.sample(_admitted("atomic_cas", 2)))
    accesses, stream = meeting.accesses, choices.stream()
    value = draw_codes(choices, meeting.element, accesses.lanes)
    known = (*meeting.first, *value)
    expected = accesses.data("expected", meeting.element, [stream.pick(known) for _ in range(accesses.lanes)])
    operands = (meeting.pointers, expected, accesses.data("value", meeting.element, value))
    accesses.data("mask", I1, [1] * accesses.lanes)
    return meeting.finish(accesses.sketch.value("atomic_cas", operands))


def atomic_poll(choices: Choices) -> Case:
    """Polls for what is there, with or without a timeout; for what never comes, with one; or a message passed on."""
    if choices.boolean(40):
        return _message(choices)
    kernel = _Accesses("atomic_poll", choices)
    sketch = kernel.sketch
    element = choices.sample(_admitted("atomic_poll", 1))
    codes = draw_codes(choices, element, kernel.lanes)
    flags = sketch.buffer("flags", element, codes)
    operands = [sketch.at(flags, kernel.places)]
    timed = choices.boolean()
    stream = choices.stream()
    wanted = [code ^ int(timed and stream.chance(30)) for code in codes]
    operands.append(kernel.data("wanted", element, wanted))
    if timed:
        operands.append(sketch.integer(choices.sample((0, 1, 1000, 10**6)), I64))
    sketch.write("out", kernel.places, sketch.value("atomic_poll", operands))
    return sketch.finish()


def _message(choices: Choices) -> Case:
    """Program i waits for the flag of program i - 1, reads its data, adds to it, and sets its own flag."""
    sketch = KernelSketch("atomic_poll", choices, (choices.integer(2, 4), 1, 1))
    element = choices.sample(_admitted("atomic_poll", 1))
    flags = sketch.buffer("flags", element, [1] + [0] * sketch.programs)
    data = sketch.buffer("data", I32, [choices.integer(0, 99), *([0] * sketch.programs)])
    here = sketch.program()
    ahead = sketch.value("add_i", (here, sketch.integer(1)))
    scope = choices.sample(("gpu", "sys"))  # which contains all programs
    wanted = sketch.at(flags, here), sketch.integer(1, element)
    seen = sketch.value("atomic_poll", wanted, sem="acquire", scope=scope)
    value = sketch.value("load", (sketch.at(data, here),), cache="", eviction="")
    more = sketch.value("add_i", (value, sketch.integer(3)))
    sketch.emit("store", (sketch.at(data, ahead), more), cache="", eviction="")
    sketch.emit("barrier")
    done = sketch.at(flags, ahead), sketch.integer(1, element)
    sketch.emit("atomic_store", done, sem="release", scope=scope)
    sketch.write("seen", here, seen)
    return sketch.finish()


MEMORY_STRATEGIES: dict[str, Callable[[Choices], Case]] = {
    "load": load,
    "store": store,
    "atomic_load": atomic_load,
    "atomic_store": atomic_store,
    "atomic_rmw": atomic_rmw,
    "atomic_cas": atomic_cas,
    "atomic_poll": atomic_poll,
}
