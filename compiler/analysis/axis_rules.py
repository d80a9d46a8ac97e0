"""The rules of axis analysis: what an operation makes of the facts about its operands. One function an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tilewright.lang import IntType, Operation, PointerType, bit_width, byte_width, element_of, shape_of

from .axis_info import MOST, AxisInfo, extents, power_of_two, uniform, unknown

Rule: TypeAlias = Callable[[Operation, Sequence[AxisInfo]], AxisInfo]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of these ops."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def result_unit(operation: Operation) -> int:
    """How much one step of contiguity adds to the operation's first result."""
    element = element_of(operation.results[0].type)
    return byte_width(element.pointee) if isinstance(element, PointerType) else 1


def result_shape(operation: Operation) -> tuple[int, ...]:
    return shape_of(operation.results[0].type)


def elementwise(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    """What holds of every pure elementwise op: equal operands give equal results."""
    nothing = unknown(result_shape(operation), result_unit(operation))
    constancy = tuple(min(i.constancy[d] for i in infos) for d in range(len(nothing.constancy)))
    return AxisInfo(nothing.contiguity, nothing.divisibility, constancy, None, nothing.unit)


def with_facts(
    base: AxisInfo, contiguity: Sequence[int], divisibility: Sequence[int], value: int | None = None
) -> AxisInfo:
    """`base` with other contiguity and divisibility, the latter cut to what may be claimed."""
    return AxisInfo(tuple(contiguity), tuple(min(d, MOST) for d in divisibility), base.constancy, value, base.unit)


def known(infos: Sequence[AxisInfo], compute: Callable[..., int], operation: Operation) -> int | None:
    """The value when those of all operands are known, wrapped to the result's width, signed."""
    if any(info.value is None for info in infos):
        return None
    width = bit_width(element_of(operation.results[0].type))
    wrapped = compute(*(info.value for info in infos)) & ((1 << width) - 1)
    return wrapped - (1 << width) if width > 1 and wrapped >> (width - 1) else wrapped


def settled(operation: Operation, info: AxisInfo) -> AxisInfo:
    """A known value says everything about divisibility."""
    if info.value is None:
        return info
    return uniform(result_shape(operation), power_of_two(info.value), info.value, info.unit)


@rule("constant")
def _constant(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    value: Any = operation.attributes["value"]
    shape, element = result_shape(operation), element_of(operation.results[0].type)
    if not isinstance(element, IntType):
        return uniform(shape, 1)
    width = element.width
    wrapped = value & ((1 << width) - 1)
    signed = wrapped - (1 << width) if width > 1 and wrapped >> (width - 1) else wrapped
    return uniform(shape, power_of_two(signed), signed)


@rule("arange")
def _arange(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    start: Any = operation.attributes["start"]
    (extent,) = result_shape(operation)
    return AxisInfo((extent,), (power_of_two(start),), (1,))


@rule("program_id", "num_programs")
def _scalar(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    return uniform((), 1)


@rule("splat")
def _splat(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    (info,) = infos
    return uniform(result_shape(operation), info.divisibility[0], info.value, info.unit)


def every_element(info: AxisInfo) -> int:
    """What divides each element."""
    return max(info.at(axis, 1) for axis in range(len(info.contiguity)))


@rule("expand_dims")
def _expand_dims(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    (info,) = infos
    axis: Any = operation.attributes["axis"]
    if not shape_of(operation.operands[0].type):
        return uniform((1,), info.divisibility[0], info.value, info.unit)

    def put(values: tuple[int, ...], new: int) -> tuple[int, ...]:
        return (*values[:axis], new, *values[axis:])

    return AxisInfo(
        put(info.contiguity, 1),
        put(info.divisibility, every_element(info)),
        put(info.constancy, 1),
        info.value,
        info.unit,
    )


@rule("broadcast")
def _broadcast(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    (info,) = infos
    old, new = shape_of(operation.operands[0].type), result_shape(operation)
    constancy = tuple(b if a != b else c for a, b, c in zip(old, new, info.constancy, strict=True))
    return AxisInfo(info.contiguity, info.divisibility, constancy, info.value, info.unit)


@rule("permute")
def _permute(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    (info,) = infos
    order: Any = operation.attributes["order"]

    def move(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(values[axis] for axis in order)

    return AxisInfo(move(info.contiguity), move(info.divisibility), move(info.constancy), info.value, info.unit)


@rule("reshape")
def _reshape(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    (info,) = infos
    if info.constancy == extents(shape_of(operation.operands[0].type)):
        return uniform(result_shape(operation), every_element(info), info.value, info.unit)
    return unknown(result_shape(operation), info.unit)


def _sum(operation: Operation, a: AxisInfo, b: AxisInfo, scale: int, subtract: bool = False) -> AxisInfo:
    """a + scale * b (or a - b): contiguous where one is and the other is constant."""
    base = elementwise(operation, (a, b))
    lengths = b.aligned if isinstance(element_of(operation.operands[0].type), PointerType) else b.contiguity.__getitem__
    contiguity: list[int] = []
    divisibility: list[int] = []
    for axis in range(len(base.constancy)):
        from_a = min(a.contiguity[axis], b.constancy[axis])
        from_b = 1 if subtract else min(lengths(axis), a.constancy[axis])
        run = max(from_a, from_b)
        contiguity.append(run)
        divisibility.append(min(a.at(axis, run), scale * b.at(axis, run)))
    return with_facts(base, contiguity, divisibility)


@rule("add_i")
def _add(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    info = _sum(operation, infos[0], infos[1], 1)
    value = known(infos, lambda a, b: a + b, operation)
    return settled(operation, with_facts(info, info.contiguity, info.divisibility, value))


@rule("sub_i")
def _sub(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    info = _sum(operation, infos[0], infos[1], 1, subtract=True)
    value = known(infos, lambda a, b: a - b, operation)
    return settled(operation, with_facts(info, info.contiguity, info.divisibility, value))


@rule("add_ptr")
def _add_ptr(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    return _sum(operation, infos[0], infos[1], infos[0].unit)


@rule("mul_i")
def _mul(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    a, b = infos
    base = elementwise(operation, infos)
    keep = a if b.value == 1 else b if a.value == 1 else None
    contiguity = base.contiguity if keep is None else keep.contiguity
    divisibility = [a.at(d, run) * b.at(d, run) for d, run in enumerate(contiguity)]
    value = known(infos, lambda x, y: x * y, operation)
    return settled(operation, with_facts(base, contiguity, _within(operation, divisibility), value))


def _within(operation: Operation, divisibility: Sequence[int]) -> list[int]:
    """No more is claimed than half the range, so that an aligned run never crosses the change of sign."""
    limit = 1 << bit_width(element_of(operation.results[0].type)) - 1
    return [min(each, limit) for each in divisibility]


@rule("shl")
def _shl(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    a, b = infos
    base = elementwise(operation, infos)
    if b.value is None or not 0 <= b.value < bit_width(element_of(operation.results[0].type)):
        return base
    contiguity = a.contiguity if b.value == 0 else base.contiguity
    divisibility = [a.at(d, run) << b.value for d, run in enumerate(contiguity)]
    amount = b.value
    value = known((a,), lambda x: x << amount, operation)
    return settled(operation, with_facts(base, contiguity, _within(operation, divisibility), value))


def _quotient(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    """a // k for unsigned a and a power of two k: constant in runs of k where a is contiguous and aligned to k."""
    a, b = infos
    base = elementwise(operation, infos)
    if b.value is None or b.value < 1 or b.value & (b.value - 1):
        return base
    constancy = tuple(max(have, min(a.aligned(axis), b.value)) for axis, have in enumerate(base.constancy))
    contiguity = a.contiguity if b.value == 1 else base.contiguity
    divisibility = a.divisibility if b.value == 1 else base.divisibility
    return AxisInfo(contiguity, divisibility, constancy, None, base.unit)


@rule("div_u")
def _div_u(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    return _quotient(operation, infos)


@rule("shr_u")
def _shr_u(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    amount = infos[1].value
    if amount is None or not 0 <= amount < bit_width(element_of(operation.results[0].type)) - 1:
        return elementwise(operation, infos)
    return _quotient(operation, (infos[0], uniform(result_shape(operation), 1, 1 << amount)))


@rule("rem_u")
def _rem_u(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    """a mod k for unsigned a and a power of two k: contiguous in runs of k where a is, aligned to k."""
    a, b = infos
    base = elementwise(operation, infos)
    if b.value is None or b.value < 1 or b.value & (b.value - 1):
        return base
    contiguity = [min(a.aligned(axis), b.value) for axis in range(len(base.contiguity))]
    divisibility = [a.at(axis, run) for axis, run in enumerate(contiguity)]
    return with_facts(base, contiguity, divisibility)


@rule("and")
def _and(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    base = elementwise(operation, infos)
    divisibility = [max(info.at(axis, 1) for info in infos) for axis in range(len(base.contiguity))]
    return with_facts(base, base.contiguity, _within(operation, divisibility))


@rule("or", "xor")
def _or(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    base = elementwise(operation, infos)
    divisibility = [min(info.at(axis, 1) for info in infos) for axis in range(len(base.contiguity))]
    return with_facts(base, base.contiguity, _within(operation, divisibility))


@rule("select")
def _select(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    condition, a, b = infos
    base = elementwise(operation, infos)
    contiguity = [min(condition.constancy[d], a.contiguity[d], b.contiguity[d]) for d in range(len(base.contiguity))]
    divisibility = [min(a.at(d, run), b.at(d, run)) for d, run in enumerate(contiguity)]
    return with_facts(base, contiguity, divisibility)


def _comparison(flipped: bool, straight: bool) -> Rule:
    """a < b is the same all along an aligned run of a when b is a multiple of the run's length; so is a >= b.

    `straight`: that holds for contiguous a and constant b; `flipped`: for constant a and contiguous b.
    """

    def compare(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
        base = elementwise(operation, infos)
        pairs = ([(infos[0], infos[1])] if straight else []) + ([(infos[1], infos[0])] if flipped else [])
        constancy = list(base.constancy)
        for running, still in pairs:
            for axis in range(len(constancy)):
                run = min(running.aligned(axis), still.constancy[axis], still.at(axis, 1))
                constancy[axis] = max(constancy[axis], run)
        return AxisInfo(base.contiguity, base.divisibility, tuple(constancy))

    return compare


for _name in ("cmp_lt_s", "cmp_lt_u", "cmp_ge_s", "cmp_ge_u"):
    RULES[_name] = _comparison(flipped=False, straight=True)
for _name in ("cmp_gt_s", "cmp_gt_u", "cmp_le_s", "cmp_le_u"):
    RULES[_name] = _comparison(flipped=True, straight=False)


@rule("ext_s", "ext_u")
def _extend(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    (info,) = infos
    base = elementwise(operation, infos)
    if element_of(operation.operands[0].type) == IntType(1):
        return base
    contiguity = [info.aligned(axis) for axis in range(len(base.contiguity))]
    divisibility = [info.at(axis, run) for axis, run in enumerate(contiguity)]
    value = info.value if operation.name == "ext_s" or (info.value or 0) >= 0 else None
    return settled(operation, with_facts(base, contiguity, divisibility, value))


@rule("trunc_i")
def _truncate(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    (info,) = infos
    if element_of(operation.results[0].type) == IntType(1):
        return elementwise(operation, infos)
    value = known(infos, lambda a: a, operation)
    base = elementwise(operation, infos)
    return settled(operation, with_facts(base, info.contiguity, _within(operation, info.divisibility), value))


@rule("hint")
def _hint(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    (info,) = infos
    given: dict[str, Any] = operation.attributes
    rank = len(info.contiguity)

    def promised(name: str, have: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(max, have, map(power_of_two, given[name]))) if len(given[name]) == rank else have

    shape = extents(result_shape(operation))
    contiguity = tuple(map(min, promised("contiguity", info.contiguity), shape))
    held = tuple(info.at(axis, run) for axis, run in enumerate(contiguity))
    return AxisInfo(
        contiguity, promised("divisibility", held), tuple(map(min, promised("constancy", info.constancy), shape)),
        info.value, info.unit,
    )  # fmt: skip
