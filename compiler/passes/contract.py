"""Fuse a multiplication with the addition or subtraction that alone uses it: one rounding takes the place of two.

    %m = mul_f %a, %b : f32
    %r = add_f %m, %c : f32      ->     %r = fma %a, %b, %c : f32

    %m = mul_f %a, %b : f32             %n = neg_f %c : f32
    %r = sub_f %m, %c : f32      ->     %r = fma %a, %b, %n : f32

    %m = mul_f %a, %b : f32             %n = neg_f %a : f32
    %r = sub_f %c, %m : f32      ->     %r = fma %n, %b, %c : f32

Only where the contracts of both operations admit it, never in 8-bit formats, whose casts always happen, and only
within a block: what was moved out of a loop stays out. Of two products that are added the first is fused. The signs
of zeros stay: a * b + -c is what a * b - c is, also where it vanishes.
"""

from __future__ import annotations

from tilewright.lang import OPS, Builder, FloatType, Module, Operation, Value, element_of

from ..analysis.constants import constant_of

SUMS = frozenset(("add_f", "sub_f"))


def contract(module: Module) -> bool:
    """Fuse in every function. The one pass of the tile level that changes how results round."""
    fused = 0
    for operation in list(module.walk()):
        if operation.name in SUMS and may_contract(operation):
            fused += _fuse(operation)
    return fused > 0


def may_contract(operation: Operation) -> bool:
    """Whether the operation's contract lets it be half of a fused one."""
    contracts, element = operation.definition.contracts, element_of(operation.result.type)
    is_narrow = isinstance(element, FloatType) and element.is_fp8
    return contracts is not None and contracts.contractable and not is_narrow


def _product(value: Value, user: Operation) -> Operation | None:
    """The multiplication that makes a value for this one use of it, beside its user."""
    made = value.producer
    if made is None or made.name != "mul_f" or made.block is not user.block or len(value.uses) != 1:
        return None
    return made if may_contract(made) else None


def _fuse(operation: Operation) -> bool:
    """Put a fused operation in the place of a sum and one of its products."""
    first, second = (_product(operand, operation) for operand in operation.operands)
    product = first or second
    if product is None:
        return False
    builder = Builder()
    builder.at(operation)
    a, b = product.operands
    c = operation.operands[1 if product is first else 0]
    if operation.name == "sub_f" and product is first:
        c = _negated(builder, c)
    elif operation.name == "sub_f":
        a, b = (a, _negated(builder, b)) if constant_of(b) is not None else (_negated(builder, a), b)
    made = builder.value(OPS["fma"], [a, b, c])
    made.name = operation.result.name
    operation.result.replace_uses(made)
    operation.erase()
    product.erase()
    return True


def _negated(builder: Builder, value: Value) -> Value:
    """The value with its sign flipped: another constant for a constant, and what was negated for a negation."""
    literal, made = constant_of(value), value.producer
    if literal is not None:
        return builder.value(OPS["constant"], (), {"value": -literal}, value.type)
    if made is not None and made.name == "neg_f":
        return made.operands[0]
    return builder.value(OPS["neg_f"], [value])
