"""Atomics: inline PTX with ordering and scope spelt out, since LLVM drops both; one per element, then shared.

An element is touched by the one thread of its replicas that counts; what it got reaches the others through shared
memory. The barriers that an ordering needs are in the IR already (`passes/barriers.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang import BF16, FloatType, Operation, ScalarType, Value, bit_width, element_of

from ..analysis.accesses import pointee
from .context import Lowering
from .memory import CLOBBER, both, from_memory, to_memory
from .registry import lowers
from .text import PTR, llvm_type

LETTERS = {8: "h", 16: "h", 32: "r", 64: "l"}
#: The PTX operation and type of each kind; `{w}` is the width. Floats that are ordered by their bits are below.
KINDS = {
    "add_i": "add.u{w}", "min_s": "min.s{w}", "max_s": "max.s{w}", "min_u": "min.u{w}", "max_u": "max.u{w}",
    "and": "and.b{w}", "or": "or.b{w}", "xor": "xor.b{w}", "xchg": "exch.b{w}",
}  # fmt: skip
FLOAT_ADD = {"f16": "add.noftz.f16", "bf16": "add.noftz.bf16", "f32": "add.f32", "f64": "add.f64"}
#: In the order of the bits: what to do with a value without sign as a signed integer, with one with sign as unsigned.
BIT_ORDER = {"min_f": ("min.s{w}", "max.u{w}"), "max_f": ("max.s{w}", "min.u{w}")}
NATIVE_BF16 = 90  # atom.add.noftz.bf16 needs sm_90


def order(operation: Operation) -> str:
    """`.sem.scope`"""
    return f".{operation.attributes['sem']}.{operation.attributes['scope']}"


def as_bits(to: Lowering, element: ScalarType, value: str) -> str:
    """An element as an integer in a register of PTX: of its width, but 16 bits for a byte."""
    width = max(8, bit_width(element))
    stored = to_memory(to, element, value)
    if isinstance(element, FloatType) and not element.is_fp8:
        stored = to.text.value(f"bitcast {llvm_type(element)} {stored} to i{width}")
    return to.text.value(f"zext i8 {stored} to i16") if width == 8 else stored


def from_bits(to: Lowering, element: ScalarType, bits: str) -> str:
    """The element that an integer register holds."""
    width = max(8, bit_width(element))
    if width == 8:
        bits = to.text.value(f"trunc i16 {bits} to i8")
    if isinstance(element, FloatType) and not element.is_fp8:
        return to.text.value(f"bitcast i{width} {bits} to {llvm_type(element)}")
    return from_memory(to, element, bits)


def register(element: ScalarType) -> tuple[str, str]:
    """(LLVM type, constraint letter) of the integer register of an element."""
    width = max(8, bit_width(element))
    return f"i{max(16, width)}", LETTERS[width]


def predicates(to: Lowering, operation: Operation, mask: Value | None) -> list[str]:
    """For each register, where the element is touched: by the thread that counts, where the mask holds."""
    pointer = operation.operands[0]
    once = to.chosen(to.slots(pointer))
    masks = [""] * len(to.values[pointer]) if mask is None else list(to.values[mask])
    return [both(to, once, each) for each in masks]


def finish(to: Lowering, operation: Operation, registers: Sequence[str]) -> None:
    """Bind the result: if anyone uses it, what the thread that counts got, in all replicas."""
    result = operation.result
    if result.uses:
        shared = to.share(operation, to.slots(result), llvm_type(element_of(result.type)), registers)
        to.values[result] = shared
    else:
        to.values[result] = tuple(registers)


def guarded(to: Lowering, element: ScalarType, code: str, given: list[tuple[str, str]], predicate: str) -> str:
    """One instruction under a predicate; its result, a zero where it is not executed.

    In `code`, $0 is the result and $1, $2, ... are the operands; each line is an instruction.
    """
    type_, letter = register(element)
    letters = ["l" if kind == PTR else {"i16": "h", "i32": "r", "i64": "l", "i1": "b"}[kind] for kind, _ in given]
    if not predicate:
        constraints = ",".join([f"=&{letter}", *letters, CLOBBER])
        return to.text.asm(type_, code, constraints, given, effect=True)
    guard = f"@${len(given) + 1} "
    width = max(16, bit_width(element))
    lines = "\n".join(guard + line for line in code.split("\n"))
    constraints = ",".join([f"=&{letter}", *letters, "b", CLOBBER])
    text = f"mov.b{width} $0, 0;\n{lines}"
    return to.text.asm(type_, text, constraints, [*given, ("i1", predicate)], effect=True)


@lowers("atomic_rmw")
def _rmw(to: Lowering, operation: Operation) -> None:
    pointer, value = operation.operands[0], operation.operands[1]
    element, kind = pointee(pointer), str(operation.attributes["kind"])
    touched = predicates(to, operation, operation.operand("mask"))
    results: list[str] = []
    for address, operand, predicate in zip(to.values[pointer], to.values[value], touched, strict=True):
        if kind in BIT_ORDER:
            results.append(_by_bits(to, operation, element, address, operand, predicate))
        elif kind == "add_f" and element == BF16 and to.target.sm < NATIVE_BF16:
            results.append(_add_by_cas(to, operation, element, address, operand, predicate))
        else:
            code = FLOAT_ADD[str(element)] if kind == "add_f" else KINDS[kind].format(w=bit_width(element))
            bits = as_bits(to, element, operand)
            text = f"atom{order(operation)}.global.{code} $0, [$1], $2;"
            got = guarded(to, element, text, [(PTR, address), (register(element)[0], bits)], predicate)
            results.append(from_bits(to, element, got))
    finish(to, operation, results)


def _by_bits(to: Lowering, operation: Operation, element: ScalarType, address: str, value: str, predicate: str) -> str:
    """The order of the bits is that of signed integers for a value without sign, and of unsigned ones reversed else."""
    width, type_ = bit_width(element), register(element)[0]
    positive, negative = (each.format(w=width) for each in BIT_ORDER[str(operation.attributes["kind"])])
    bits = as_bits(to, element, value)
    plain = to.text.value(f"icmp sge {type_} {bits}, 0")
    signed = to.text.value(f"xor i1 {plain}, true")
    old = "0"
    for condition, code in ((plain, positive), (signed, negative)):
        text = f"atom{order(operation)}.global.{code} $0, [$1], $2;"
        got = guarded(to, element, text, [(PTR, address), (type_, bits)], both(to, condition, predicate))
        old = to.text.value(f"or {type_} {got}, {old}")
    return from_bits(to, element, old)


def _add_by_cas(
    to: Lowering, operation: Operation, element: ScalarType, address: str, value: str, predicate: str
) -> str:
    """An addition that the target has no atomic for: compare and swap until nobody was in between."""
    text, scope = to.text, operation.attributes["scope"]
    start, again, done = text.label("add"), text.label("again"), text.label("added")
    entry = text.current
    text.branch(predicate or "true", start, done)
    text.begin(start)
    load = f"ld.relaxed.{scope}.global.b16 $0, [$1];"
    first = text.asm("i16", load, f"=h,l,{CLOBBER}", [(PTR, address)], effect=True)
    text.jump(again)
    text.begin(again)
    seen, next_ = text.fresh("p"), text.fresh("p")
    place, tag = len(text.lines), text.tag
    old = from_bits(to, element, seen)
    total = text.value(f"fadd {llvm_type(element)} {old}, {value}")
    bits = as_bits(to, element, total)
    swap = f"atom{order(operation)}.global.cas.b16 $0, [$1], $2, $3;"
    given = [(PTR, address), ("i16", seen), ("i16", bits)]
    got = text.asm("i16", swap, f"=h,l,h,h,{CLOBBER}", given, effect=True)
    same = text.value(f"icmp eq i16 {got}, {seen}")
    text.lines.insert(place, f"  {seen} = phi i16 [ {first}, %{start} ], [ {got}, %{again} ]{tag}")
    text.branch(same, done, again)
    text.begin(done)
    text.lines.append(f"  {next_} = phi i16 [ 0, %{entry} ], [ {got}, %{again} ]{tag}")
    return from_bits(to, element, next_)


@lowers("atomic_cas")
def _cas(to: Lowering, operation: Operation) -> None:
    pointer, expected, value = operation.operands
    element = pointee(pointer)
    type_, width = register(element)[0], bit_width(element)
    columns = [to.values[operand] for operand in (pointer, expected, value)]
    touched = predicates(to, operation, None)
    results: list[str] = []
    for address, old, new, predicate in zip(*columns, touched, strict=True):
        given = [(PTR, address), *((type_, as_bits(to, element, each)) for each in (old, new))]
        text = f"atom{order(operation)}.global.cas.b{width} $0, [$1], $2, $3;"
        results.append(from_bits(to, element, guarded(to, element, text, given, predicate)))
    finish(to, operation, results)


@lowers("atomic_load")
def _load(to: Lowering, operation: Operation) -> None:
    pointer = operation.operands[0]
    element = pointee(pointer)
    text = f"ld{order(operation)}.global.b{max(8, bit_width(element))} $0, [$1];"
    touched = predicates(to, operation, operation.operand("mask"))
    results = [
        from_bits(to, element, guarded(to, element, text, [(PTR, address)], predicate))
        for address, predicate in zip(to.values[pointer], touched, strict=True)
    ]
    finish(to, operation, results)


@lowers("atomic_store")
def _store(to: Lowering, operation: Operation) -> None:
    pointer, value = operation.operands[0], operation.operands[1]
    element = pointee(pointer)
    type_, letter = register(element)
    touched = predicates(to, operation, operation.operand("mask"))
    for address, operand, predicate in zip(to.values[pointer], to.values[value], touched, strict=True):
        guard = "@$2 " if predicate else ""
        text = f"{guard}st{order(operation)}.global.b{max(8, bit_width(element))} [$0], $1;"
        given = [(PTR, address), (type_, as_bits(to, element, operand))]
        constraints = ",".join(["l", letter, *(["b"] if predicate else []), CLOBBER])
        to.text.asm("void", text, constraints, given + ([("i1", predicate)] if predicate else []), effect=True)


@lowers("atomic_poll")
def _poll(to: Lowering, operation: Operation) -> None:
    """Look until the value is there, or until the clock has passed the end; one look at least."""
    pointer, expected, timeout = operation.operands[0], operation.operands[1], operation.operand("timeout")
    touched = predicates(to, operation, None)
    limit = "" if timeout is None else to.text.value(f"add i64 {clock(to)}, {to.scalar(timeout)}")
    results = [
        _poll_one(to, operation, address, wanted, predicate, limit)
        for address, wanted, predicate in zip(to.values[pointer], to.values[expected], touched, strict=True)
    ]
    finish(to, operation, results)


def clock(to: Lowering) -> str:
    """The nanoseconds of the device's clock."""
    return to.text.asm("i64", "mov.u64 $0, %globaltimer;", f"=l,{CLOBBER}", effect=True)


def _poll_one(to: Lowering, operation: Operation, address: str, wanted: str, predicate: str, limit: str) -> str:
    text, element = to.text, pointee(operation.operands[0])
    type_, letter = register(element)
    look, late, done = text.label("look"), text.label("late"), text.label("seen")
    entry = text.current
    text.branch(predicate or "true", look, done)
    text.begin(look)
    code = f"ld{order(operation)}.global.b{bit_width(element)} $0, [$1];"
    got = text.asm(type_, code, f"={letter},l,{CLOBBER}", [(PTR, address)], effect=True)
    found = text.value(f"icmp eq {type_} {got}, {wanted}")
    text.branch(found, done, late)
    text.begin(late)
    if limit:
        over = text.value(f"icmp sge i64 {clock(to)}, {limit}")
        text.branch(over, done, look)
    else:
        text.jump(look)
    text.begin(done)
    ends = f", [ false, %{late} ]" if limit else ""
    return text.value(f"phi i1 [ false, %{entry} ], [ true, %{look} ]{ends}")
