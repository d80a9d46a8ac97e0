"""Compare what came out of a case with what the rows say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.lang import (
    F64,
    FloatType,
    Operation,
    PointerType,
    ScalarType,
    Value,
    element_of,
    shape_of,
)

from ..cases import Case, Outcome
from ..storage import Array, Codes, to_codes
from .bounds import Range, allowed, reference_range, within
from .evaluator import Watch, expected, expected_and_watched
from .formats import is_nan, nan_code
from .memory import combine
from .orders import some_order_explains
from .trees import LONGEST, bracketed

#: Functions of one f64 are within this many units of the real result rounded once (DESIGN 5); all else is exact.
F64_FUNCTIONS = frozenset(("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "rsqrt"))
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference: where, what came out and what was expected."""

    where: str
    got: str
    want: str

    def __str__(self) -> str:
        return f"{self.where}: got {self.got}, expected {self.want}"


def check(case: Case, outcome: Outcome, strict: bool = True) -> list[Mismatch]:
    """The differences between an outcome and what the rows say, a few of them; none when it is right.

    strict: the outcome must be the reference value, as the interpreter's is: the real result rounded once, with the
    canonical NaN (functions of an f64 within one unit of it). Otherwise the results of the row under test may be
    whatever its accuracy contract allows, and any NaN stands for any NaN.
    """
    if case.unordered:
        return list(_check_orders(case, outcome))[:_MOST_SHOWN]
    want, watched = (expected(case), []) if strict else expected_and_watched(case, case.row)
    if outcome.stopped != want.stopped:
        return [Mismatch("end", outcome.stopped or "results", want.stopped or "results")]
    if outcome.output != want.output:
        return [_first_line(outcome.output, want.output)]
    if len(outcome.results) != len(want.results):
        return [Mismatch("results", str(len(outcome.results)), str(len(want.results)))]
    if not strict and case.row == "reduce" and _all_results(case, watched):
        return list(_check_trees(case, outcome, watched))[:_MOST_SHOWN]
    found: list[Mismatch] = []
    for number, (got, wanted) in enumerate(zip(outcome.results, want.results, strict=True)):
        ranges = _ranges(case, number, wanted, strict, watched)
        found += _compare(f"result {number}", got, wanted, _element(case, number), strict, ranges)
    return found[:_MOST_SHOWN]


def _element(case: Case, number: int) -> ScalarType:
    """The element type of a result of a case."""
    if case.function:
        return element_of(case.entry.result_types[number])
    pointers = [p.type.pointee for p in case.entry.arguments if isinstance(p.type, PointerType)]
    return pointers[number]


def _first_line(got: str, want: str) -> Mismatch:
    """The first line in which two outputs differ."""
    ours, theirs = got.splitlines(), want.splitlines()
    for number, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a != b:
            return Mismatch(f"line {number} of the output", repr(a), repr(b))
    return Mismatch("output", f"{len(ours)} lines", f"{len(theirs)} lines")


def _ranges(case: Case, number: int, want: Array, strict: bool, watched: Sequence[Watch]) -> list[Range] | None:
    """What each element of a result may be, where that is more than one value."""
    producer = _producer(case, number)
    if producer is None:
        return None
    fmt = element_of(producer.results[0].type)
    if strict:
        if fmt != F64 or producer.name not in F64_FUNCTIONS:
            return None
        return [reference_range(code, F64, 1) for code in to_codes(want, F64)]
    ranges: list[Range] = []
    for watch in watched:
        if watch.operation is producer:
            own = allowed(producer, watch.operands)
            if own is None:
                return None
            ranges += own
    return ranges


def _producer(case: Case, number: int) -> Operation | None:
    """The operation under test, if a result of a function is its first result as it is."""
    if not case.function:
        return None
    value: Value = case.entry.body.terminator.operands[number]
    producer = value.producer
    return producer if producer is not None and producer.name == case.row and value.index == 0 else None


def _all_results(case: Case, watched: Sequence[Watch]) -> bool:
    """Whether a function returns the results of its one `reduce`, along an axis short enough for all bracketings."""
    operations = {watch.operation for watch in watched}
    if len(operations) != 1 or len(watched) != case.programs:
        return False
    (operation,) = operations
    axis = operation.attributes["axis"]
    assert isinstance(axis, int)
    short = shape_of(operation.operands[0].type)[axis] <= LONGEST
    return short and tuple(case.entry.body.terminator.operands) == operation.results


def _check_trees(case: Case, outcome: Outcome, watched: Sequence[Watch]) -> Iterator[Mismatch]:
    """Whether each element is what some bracketing gives."""
    elements = [_element(case, number) for number in range(len(outcome.results))]
    columns = [to_codes(array, element) for array, element in zip(outcome.results, elements, strict=True)]
    allowed_here = [options for watch in watched for options in bracketed(watch)]
    for place, (*got, options) in enumerate(zip(*columns, allowed_here, strict=True)):
        canonical = tuple(canonical_nan(code, element) for code, element in zip(got, elements, strict=True))
        if tuple(got) not in options and canonical not in options:
            yield Mismatch(f"element {place}", str(got), f"one of {len(options)} bracketings")


def canonical_nan(code: int, element: ScalarType) -> int:
    """The code, or the canonical NaN for any NaN."""
    if isinstance(element, FloatType) and is_nan(code, element):
        return nan_code(element) or code
    return code


def _compare(
    what: str, got: Array, want: Array, element: ScalarType, strict: bool, ranges: Sequence[Range] | None
) -> Iterator[Mismatch]:
    """The elements that are not as wanted."""
    if got.shape != want.shape or got.dtype != want.dtype:
        yield Mismatch(what, f"{got.dtype} of shape {got.shape}", f"{want.dtype} of shape {want.shape}")
        return
    for place, (a, b) in enumerate(zip(to_codes(got, element), to_codes(want, element), strict=True)):
        if a == b:
            continue
        if isinstance(element, FloatType):
            if ranges is not None and within(a, ranges[place], element):
                continue
            if not strict and is_nan(a, element) and is_nan(b, element):
                continue
        yield Mismatch(f"{what}, element {place}", _shown(a, got, place), _shown(b, want, place))


def _shown(code: int, array: Array, place: int) -> str:
    return f"{array.reshape(-1)[place]} (0x{code:x})"


@dataclass(frozen=True, slots=True)
class _Atomic:
    """The buffers of a kernel in which atomics meet, by the names of its parameters."""

    before: dict[str, Codes]
    after: dict[str, Codes]
    element: ScalarType

    @classmethod
    def of(cls, case: Case, outcome: Outcome) -> _Atomic:
        parameters = case.entry.arguments
        names = [parameter.name for parameter in parameters]
        before = {n: to_codes(a, e) for n, a, e in zip(names, case.arguments, case.elements, strict=True)}
        after = {n: to_codes(a, e) for n, a, e in zip(names, outcome.results, case.elements, strict=True)}
        return cls(before, after, case.elements[names.index("target")])


def _check_orders(case: Case, outcome: Outcome) -> Iterator[Mismatch]:
    """Whether some order of the atomics explains what the kernel left behind.

    The kernel applies one atomic to `target[index[i]]` for each lane i that `mask[i]` lets through, with `value[i]`
    (and `expected[i]`), and stores what it found to `old[i]`. Sums make NaNs, so that any NaN stands for any there;
    the other atomics move bits.
    """
    if outcome.stopped:
        yield Mismatch("end", outcome.stopped, "results")
        return
    atomic = _Atomic.of(case, outcome)
    (operation,) = [each for each in case.module.walk() if each.name == case.row]
    adds = operation.attributes.get("kind") == "add_f"
    edges: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def seen(code: int) -> int:
        return canonical_nan(code, atomic.element) if adds else code

    for lane, (place, active, old) in enumerate(
        zip(atomic.before["index"], atomic.before["mask"], atomic.after["old"], strict=True)
    ):
        if active:
            edges[place].append((seen(old), seen(_after(operation, atomic, lane, old))))
        elif old:
            yield Mismatch(f"masked lane {lane}", f"0x{old:x}", "0")
    for place, (first, last) in enumerate(zip(atomic.before["target"], atomic.after["target"], strict=True)):
        if not some_order_explains(seen(first), seen(last), edges[place]):
            steps = ", ".join(f"0x{a:x} -> 0x{b:x}" for a, b in edges[place])
            yield Mismatch(f"target {place}", f"0x{last:x} after {steps}", f"some order of these from 0x{first:x}")


def _after(operation: Operation, atomic: _Atomic, lane: int, old: int) -> int:
    """What a lane left when it found `old`."""
    value = atomic.before["value"][lane]
    if operation.name == "atomic_cas":
        return value if old == atomic.before["expected"][lane] else old
    return combine(str(operation.attributes["kind"]), atomic.element)(old, value)
