"""Type rules shared by the op tables, and the constructors of rows that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..contracts import Contracts
from ..opdef import Attribute, Attributes, OpDef, OpTypeError, Signature, Trait, TypeRule, register
from ..types import I1, PointerType, ScalarType, TileType, Type, element_of, shape_of, with_element

ResultElement = Callable[[ScalarType], ScalarType]

#: Where in the program's shared memory an op finds the bytes that it needs while it runs; -1 before they are allocated.
SCRATCH = Attribute("scratch", int, -1)


def one_shape(name: str, types: Sequence[Type]) -> tuple[int, ...]:
    """The shape that all operands share. Raises OpTypeError when they differ in shape or layout."""
    first = types[0]
    for other in types[1:]:
        if shape_of(other) != shape_of(first):
            raise OpTypeError(f"{name}: operands {first} and {other} differ in shape")
        if isinstance(first, TileType) and isinstance(other, TileType) and first.layout != other.layout:
            raise OpTypeError(f"{name}: operands {first} and {other} differ in layout")
    return shape_of(first)


def signature_rule(name: str, signatures: tuple[Signature, ...]) -> TypeRule:
    """Same shape everywhere, element types as one of the signatures says."""
    by_operands: dict[tuple[ScalarType, ...], list[ScalarType]] = {}
    for operands, result in signatures:
        by_operands.setdefault(operands, []).append(result)

    def rule(types: Sequence[Type], attributes: Attributes, requested: tuple[Type, ...] | None) -> tuple[Type, ...]:
        one_shape(name, types)
        elements = tuple(element_of(t) for t in types)
        results = by_operands.get(elements)
        if results is None:
            raise OpTypeError(f"{name} does not take ({', '.join(map(str, types))})")
        if len(results) == 1:
            return (with_element(types[0], results[0]),)
        if requested is None or len(requested) != 1 or element_of(requested[0]) not in results:
            raise OpTypeError(f"{name} of {types[0]} needs a result type among {', '.join(map(str, results))}")
        return (with_element(types[0], element_of(requested[0])),)

    return rule


def elementwise(
    name: str,
    operands: str,
    admits: Iterable[ScalarType] | Iterable[Signature],
    doc: str,
    *extra: Trait,
    result: ScalarType | None = None,
    contracts: Contracts | None = None,
    attributes: tuple[Attribute, ...] = (),
) -> OpDef:
    """Declare a pure elementwise op.

    `admits` lists either element types, one for all operands (the result has it too, unless `result` says
    otherwise), or whole signatures.
    """
    names = tuple(operands.split())
    signatures: list[Signature] = []
    for entry in admits:
        if isinstance(entry, tuple):
            signatures.append(entry)
        else:
            signatures.append(((entry,) * len(names), entry if result is None else result))
    fixed = tuple(signatures)
    return register(
        OpDef(
            name,
            names,
            signature_rule(name, fixed),
            doc,
            attributes,
            traits=frozenset({Trait.PURE, Trait.ELEMENTWISE, *extra}),
            contracts=contracts,
            signatures=fixed,
        )
    )


def placed(requested: tuple[Type, ...] | None, *results: Type) -> tuple[Type, ...]:
    """The result types, each in the layout that was asked for: where a tile lives is for the compiler to choose."""
    if requested is None or len(requested) != len(results):
        return results
    return tuple(
        want if isinstance(want, TileType) and TileType(want.shape, want.element) == type_ else type_
        for want, type_ in zip(requested, results, strict=True)
    )


def no_results(types: Sequence[Type], attributes: Attributes, requested: tuple[Type, ...] | None) -> tuple[Type, ...]:
    """The rule of ops without results."""
    return ()


def as_requested(types: Sequence[Type], attributes: Attributes, requested: tuple[Type, ...] | None) -> tuple[Type, ...]:
    """The rule of ops whose result types stand in the text only (calls, control flow)."""
    return requested or ()


def need_one(name: str, requested: tuple[Type, ...] | None) -> Type:
    """The one requested result type. Raises OpTypeError when it is missing."""
    if requested is None or len(requested) != 1:
        raise OpTypeError(f"{name} needs its result type to be given")
    return requested[0]


def check_mask(name: str, pointer: Type, mask: Type) -> None:
    """A mask is an i1 of the pointer's shape."""
    if element_of(mask) != I1 or shape_of(mask) != shape_of(pointer):
        raise OpTypeError(f"{name}: the mask must be i1 of the shape of {pointer}, not {mask}")


def pointee_of(name: str, pointer: Type) -> Type:
    """The type of the value at a pointer or a tile of pointers."""
    element = element_of(pointer)
    if not isinstance(element, PointerType):
        raise OpTypeError(f"{name} takes a pointer, not {pointer}")
    return with_element(pointer, element.pointee)
