"""Compute what is known when compiling, and drop what changes nothing.

    %a = constant {value = 3} : i32
    %b = mul_i %a, %a : i32                       %b = constant {value = 9} : i32
    %c = splat %b {shape = (8,)} : tile<8xi32>    %c = constant {value = 9} : tile<8xi32>
    %d = add_i %x, %zero : tile<8xi32>      ->    (users of %d use %x)
    if %true { A } else { B }                     A

Integers only: the arithmetic of floats is the interpreter's and the target's business. The identities are listed as
equations in IDENTITIES.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.lang import (
    OPS,
    Block,
    Builder,
    FloatType,
    IntType,
    Module,
    Operation,
    PointerType,
    Trait,
    Value,
    element_of,
)

from ..analysis.constants import constant_of, signed

SPREADING = frozenset(("splat", "broadcast", "expand_dims", "reshape", "permute"))


#: What a pure integer op gives on known operands, from their signed values and width; rows that may divide by zero or
#: shift too far are left to the target.
FOLDS: dict[str, Callable[..., int]] = {
    "add_i": lambda w, a, b: a + b,
    "sub_i": lambda w, a, b: a - b,
    "mul_i": lambda w, a, b: a * b,
    "mulhi_u": lambda w, a, b: (a % (1 << w)) * (b % (1 << w)) >> w,
    "mulhi_s": lambda w, a, b: a * b >> w,
    "and": lambda w, a, b: a & b,
    "or": lambda w, a, b: a | b,
    "xor": lambda w, a, b: a ^ b,
    "min_s": lambda w, a, b: min(a, b),
    "max_s": lambda w, a, b: max(a, b),
    "cmp_eq_i": lambda w, a, b: a == b,
    "cmp_ne_i": lambda w, a, b: a != b,
    "cmp_lt_s": lambda w, a, b: a < b,
    "cmp_le_s": lambda w, a, b: a <= b,
    "cmp_gt_s": lambda w, a, b: a > b,
    "cmp_ge_s": lambda w, a, b: a >= b,
    "cmp_lt_u": lambda w, a, b: a % (1 << w) < b % (1 << w),
    "cmp_le_u": lambda w, a, b: a % (1 << w) <= b % (1 << w),
    "cmp_gt_u": lambda w, a, b: a % (1 << w) > b % (1 << w),
    "cmp_ge_u": lambda w, a, b: a % (1 << w) >= b % (1 << w),
    "trunc_i": lambda w, a: a,
    "ext_s": lambda w, a: a,
    "ext_u": lambda w, a: a & ((1 << w) - 1),
}
#: Equations `op(x, constant) = x`, by the signed value of the constant.
IDENTITIES: dict[str, int] = {
    "add_i": 0, "sub_i": 0, "or": 0, "xor": 0, "shl": 0, "shr_s": 0, "shr_u": 0, "add_ptr": 0, "and": -1,
}  # fmt: skip
#: Equations `op(x, 1) = x`, which an i1, whose set value is -1, does not have.
UNITS = frozenset(("mul_i", "div_s", "div_u"))
#: Equations `op(x, 0) = 0`.
ABSORBING = frozenset(("mul_i", "mulhi_u", "mulhi_s", "and"))


def fold(module: Module) -> bool:
    """Fold every function, until nothing changes any more."""
    changed = False
    for function in module.functions.values():
        while _fold_block(function.body):
            changed = True
    return changed


def _fold_block(block: Block) -> bool:
    changed = False
    for operation in list(block.operations):
        for region in operation.regions:
            changed |= _fold_block(region)
        if operation.block is not None:
            changed |= _fold_operation(operation)
    return changed


def _fold_operation(operation: Operation) -> bool:
    if operation.name == "if":
        return _fold_if(operation)
    if len(operation.results) != 1 or not operation.definition.is_pure or operation.regions:
        return False
    literals = [constant_of(operand) for operand in operation.operands]
    if (same := _identity(operation, literals)) is not None:
        operation.result.replace_uses(same)
        operation.erase()
        return True
    if not literals or None in literals:
        return False
    value = _computed(operation, literals)
    if value is None:
        return False
    builder = Builder()
    builder.at(operation)
    made = builder.value(OPS["constant"], (), {"value": value}, operation.result.type)
    made.name = operation.result.name
    operation.result.replace_uses(made)
    operation.erase()
    return True


def _computed(operation: Operation, literals: Sequence[Any]) -> int | float | None:
    """The literal in every element of the result."""
    element, source = element_of(operation.result.type), element_of(operation.operands[0].type)
    if operation.name in SPREADING:
        return literals[0]
    function = FOLDS.get(operation.name)
    if function is None or not isinstance(element, IntType) or not isinstance(source, IntType):
        return None
    return signed(int(function(source.width, *literals)), element.width)


def _identity(operation: Operation, literals: Sequence[Any]) -> Value | None:
    """The operand that the result equals."""
    name, operands = operation.name, operation.operands
    if name == "select":
        if literals[0] is not None:
            return operands[1] if literals[0] else operands[2]
        return operands[1] if operands[1] is operands[2] else None
    if name in ("broadcast", "reshape") and operands[0].type == operation.result.type:
        return operands[0]
    if len(operands) != 2 or isinstance(element_of(operands[1].type), FloatType | PointerType):
        return None
    return _two_operand_identity(operation, literals)


def _two_operand_identity(operation: Operation, literals: Sequence[Any]) -> Value | None:
    name, (a, b) = operation.name, operation.operands
    pairs = [(a, literals[1], b)]
    if Trait.COMMUTATIVE in operation.definition.traits:
        pairs.append((b, literals[0], a))
    wide = element_of(b.type) != IntType(1)
    for other, literal, constant in pairs:
        if literal is None:
            continue
        if IDENTITIES.get(name) == literal or (name in UNITS and wide and literal == 1):
            return other
        if name in ABSORBING and literal == 0:
            return constant
    return None


def _fold_if(operation: Operation) -> bool:
    """Put the region that runs in place of an `if` whose condition is known."""
    condition = constant_of(operation.operands[0])
    if condition is None or operation.block is None:
        return False
    region = operation.regions[0 if condition else 1]
    block = operation.block
    *body, end = region.operations
    where = block.operations.index(operation)
    for result, value in zip(operation.results, end.operands, strict=True):
        result.replace_uses(value)
    end.erase()
    for inner in body:
        inner.block = block
    region.operations.clear()
    block.operations[where:where] = body
    operation.erase()
    return True
