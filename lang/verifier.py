"""Check that a module keeps what every pass and executor relies on.

Structure
  V1   The module has a function, and each function stands under its own name.
  V2   Links upward are true: each operation names the block that lists it, each region the operation that holds it,
       each body its function.
  V3   No block and no operation stands in two places.
  V4   Arguments and results name their block or operation as owner, and their place in it.
  V5   Use lists are true both ways: each operand's value lists the use, and a value lists no other use.
  V6   Each operand is defined above its use: an argument of an enclosing block, or a result of an operation before
       the use or before one that holds it, in the same function.
Rows
  V7   Each operation's row is the registered one, and it has the regions that the row names.
  V8   Its attributes are those of the row, all of them, of the row's kinds and choices.
  V9   The row's type rule, given the operand types, accepts the result types.
  V10  Each type is one of the language's; a tile has extents that are powers of two, at least one of them and at most
       1048576 elements, and a layout, if any, of its shape.
Regions
  V11  Each block ends in a terminator, and has none before its end.
  V12  That is `return` in a function, `condition` in `before` of a while, and `yield` in every other region.
  V13  for: the body takes the induction variable, of the bounds' type, and the carried values, and yields the latter.
  V14  while: `before` takes what `after` yields, the initial values; `condition` passes on what `after` takes, which
       are the results.
  V15  if: both regions take nothing and yield the results.
  V16  reduce: with N operands, at least one, the region takes 2N scalars of their element types and yields N.
Functions
  V17  A return gives the result types that the function declares.
  V18  The kernel, the first function, has no results.
  V19  A function has one dictionary of attributes for each argument.
  V20  A call names a function of the module, not the kernel, and has its argument and result types.
  V21  No function calls itself, directly or through others.
  V22  Each function and operation has a location: the unknown one, or one whose lines and columns (and those of its
       callers) are positive. In a function whose own location is known every operation's is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, TypeAlias

from .errors.base import CompilerBug
from .ir import UNKNOWN_LOCATION, Block, Function, Location, Module, Operation, Value
from .knobs import knobs
from .opdef import OPS, OpTypeError
from .printer import print_operation
from .types import SCALARS_BY_NAME, PointerType, TileType, Type, element_of

Types: TypeAlias = tuple[Type, ...]
#: For each region of an operation: the types that it takes, and the types that its terminator passes on.
RegionTypes: TypeAlias = list[tuple[Types, Types]]


class VerifyError(CompilerBug):
    """A module breaks an invariant: its name (`V6`), and the function and operation where it does, as far as known."""

    def __init__(self, invariant: str, message: str, function: Function | None, operation: Operation | None) -> None:
        self.invariant = invariant
        self.function = function
        self.operation = operation
        lines = [f"{invariant}: {message}"]
        if function is not None:
            where = function if operation is None else operation
            lines.append(f"in @{function.name} at {where.location}")
        if operation is not None:
            lines.append(print_operation(operation, locations=False, regions=False))
        super().__init__("\n  ".join(lines))


def verify(module: Module) -> None:
    """Raise VerifyError for the first broken invariant; return if there is none."""
    if not module.functions:
        raise VerifyError("V1", "the module has no function", None, None)
    checkers = [_FunctionChecker(module, key, function) for key, function in module.functions.items()]
    seen: set[Block | Operation] = set()
    for checker in checkers:
        checker.check_links(seen)
    for checker in checkers:
        checker.check_signature()
    for checker in checkers:
        checker.check_body()
    _check_recursion(module)


def _values(types: Sequence[Type]) -> str:
    return f"({', '.join(map(str, types))})"


def _types(values: Sequence[Value]) -> Types:
    return tuple(value.type for value in values)


def _for(operation: Operation) -> RegionTypes:
    carried = _types(operation.results)
    return [((operation.operands[0].type, *carried), carried)]


def _while(operation: Operation) -> RegionTypes:
    carried, passed = _types(operation.operands), _types(operation.results)
    return [(carried, passed), (passed, carried)]


def _if(operation: Operation) -> RegionTypes:
    return [((), _types(operation.results))] * 2


def _reduce(operation: Operation) -> RegionTypes:
    elements = tuple(element_of(value.type) for value in operation.operands)
    return [(elements * 2, elements)]


#: The invariant and the rule of each op that holds regions.
REGION_RULES: dict[str, tuple[str, Callable[[Operation], RegionTypes]]] = {
    "for": ("V13", _for),
    "while": ("V14", _while),
    "if": ("V15", _if),
    "reduce": ("V16", _reduce),
}


class _FunctionChecker:
    """Checks one function; each step relies on the one before, for all functions."""

    def __init__(self, module: Module, key: str, function: Function) -> None:
        self.module = module
        self.key = key
        self.function = function
        self.members: set[Block | Operation] = set()
        self.most = knobs.max_tile_numel

    def fail(self, invariant: str, message: str, operation: Operation | None = None) -> NoReturn:
        raise VerifyError(invariant, message, self.function, operation)

    # Structure

    def check_links(self, seen: set[Block | Operation]) -> None:
        """V1 to V4, for all of the function. `seen` gathers the blocks and operations of the module."""
        self.members = seen
        if self.function.name != self.key:
            self.fail("V1", f"the function stands under the name @{self.key}")
        self.check_block_links(self.function.body, self.function, seen)

    def check_block_links(self, block: Block, parent: Function | Operation, seen: set[Block | Operation]) -> None:
        holder = parent if isinstance(parent, Operation) else None
        if block in seen:
            self.fail("V3", "a block stands in two places", holder)
        seen.add(block)
        if block.parent is not parent:
            self.fail("V2", "a block names another parent than what holds it", holder)
        self.check_owned("argument", block.arguments, block, holder)
        for operation in block.operations:
            if operation in seen:
                self.fail("V3", "an operation stands in two places", operation)
            seen.add(operation)
            if operation.block is not block:
                self.fail("V2", "the operation names another block than the one that lists it", operation)
            self.check_owned("result", operation.results, operation, operation)
            for region in operation.regions:
                self.check_block_links(region, operation, seen)

    def check_owned(
        self, kind: str, values: Sequence[Value], owner: Block | Operation, operation: Operation | None
    ) -> None:
        for index, value in enumerate(values):
            if value.owner is not owner or value.index != index:
                self.fail("V4", f"{kind} {index} does not name its owner and its place in it", operation)

    # Everything else

    def check_signature(self) -> None:
        """V10 of the results, V18, V19 and V22 of the function itself: what the bodies of others go by."""
        function = self.function
        self.check_location(function.location)
        for type_ in function.result_types:
            self.check_type(type_)
        if function.result_types and function is self.module.kernel:
            self.fail("V18", f"the kernel has the results {_values(function.result_types)}")
        have, want = len(function.argument_attributes), len(function.arguments)
        if have != want:
            self.fail("V19", f"{have} attribute dictionaries for {want} arguments")

    def check_body(self) -> None:
        """V5 to V17, V20 and V22, for all of the body."""
        function = self.function
        self.check_block(function.body, None, "return", set())
        returned = _types(function.body.terminator.operands)
        if returned != function.result_types:
            message = f"the function declares {_values(function.result_types)} and returns {_values(returned)}"
            self.fail("V17", message, function.body.terminator)

    def check_block(self, block: Block, holder: Operation | None, ending: str, visible: set[Value]) -> None:
        """Check a block that ends in `ending`; `visible` are the values defined above it."""
        defined = list(block.arguments)
        self.check_values(defined, holder)
        visible.update(defined)
        self.check_terminators(block, holder, ending)
        for operation in block.operations:
            self.check_operands(operation, visible)
            self.check_operation(operation)
            for name, region in zip(operation.definition.regions, operation.regions, strict=True):
                self.check_block(region, operation, "condition" if name == "before" else "yield", visible)
            self.check_region_types(operation)
            visible.update(operation.results)
            defined += operation.results
        visible.difference_update(defined)

    def check_values(self, values: Sequence[Value], operation: Operation | None) -> None:
        """V5 from the values' side, and V10."""
        for value in values:
            for user, index in value.uses:
                if user not in self.members or index >= len(user.operands) or user.operands[index] is not value:
                    self.fail("V5", f"{value!r} lists a use, operand {index} of {user.name}, that is none", operation)
            self.check_type(value.type, operation)

    def check_operands(self, operation: Operation, visible: set[Value]) -> None:
        for index, value in enumerate(operation.operands):
            if value not in visible:
                self.fail("V6", f"operand {index}, {value!r}, is not defined above its use", operation)
            if (operation, index) not in value.uses:
                self.fail("V5", f"operand {index}, {value!r}, does not list its use here", operation)

    def check_operation(self, operation: Operation) -> None:
        """V7 to V10, V20 and V22, and V5 of the results."""
        row = operation.definition
        if OPS.get(row.name) is not row:
            self.fail("V7", f"{row.name} is not the registered row", operation)
        if len(operation.regions) != len(row.regions):
            self.fail("V7", f"{len(operation.regions)} regions instead of {_names(row.regions)}", operation)
        self.check_attributes(operation)
        try:
            row.infer(_types(operation.operands), operation.attributes, _types(operation.results))
        except TypeError as error:  # OpTypeError, or what a tuple of the wrong things makes of a rule
            raise VerifyError("V9", str(error), self.function, operation) from error
        self.check_values(operation.results, operation)
        if row.name == "call":
            self.check_call(operation)
        self.check_location(operation.location, operation)

    def check_attributes(self, operation: Operation) -> None:
        try:
            filled = operation.definition.fill(operation.attributes)
        except OpTypeError as error:
            raise VerifyError("V8", str(error), self.function, operation) from error
        if missing := filled.keys() - operation.attributes.keys():
            self.fail("V8", f"without the attributes {_names(sorted(missing))}", operation)

    def check_type(self, type_: Type, operation: Operation | None = None) -> None:
        element = element_of(type_)
        pointee = element.pointee if isinstance(element, PointerType) else element
        if SCALARS_BY_NAME.get(str(pointee)) != pointee:
            self.fail("V10", f"{type_} is not a type of the language", operation)
        if not isinstance(type_, TileType):
            return
        if not type_.shape or any(extent < 1 or extent & (extent - 1) for extent in type_.shape):
            self.fail("V10", f"{type_} has an extent that is no power of two, or none", operation)
        if type_.numel > self.most:
            self.fail("V10", f"{type_} has {type_.numel} elements, more than {self.most}", operation)
        if type_.layout is not None and type_.layout.shape != type_.shape:
            self.fail("V10", f"{type_} has a layout of the shape {type_.layout.shape}", operation)

    def check_terminators(self, block: Block, holder: Operation | None, ending: str) -> None:
        for operation in block.operations[:-1]:
            if operation.definition.is_terminator:
                self.fail("V11", f"{operation.name} stands before the end of its block", operation)
        if not block.operations or not block.terminator.definition.is_terminator:
            self.fail("V11", "a block ends without a terminator", holder)
        if block.terminator.name != ending:
            self.fail("V12", f"{block.terminator.name} where the block must end in {ending}", block.terminator)

    def check_region_types(self, operation: Operation) -> None:
        if not operation.regions:
            return
        invariant, rule = REGION_RULES[operation.name]
        if operation.name == "reduce" and not operation.operands:
            self.fail(invariant, "no operands", operation)
        for index, (taken, passed) in enumerate(rule(operation)):
            region, name = operation.regions[index], operation.definition.regions[index]
            have = _types(region.arguments)
            if have != taken:
                self.fail(invariant, f"^{name} takes {_values(have)} instead of {_values(taken)}", operation)
            end = region.terminator
            have = _types(end.variadic())
            if have != passed:
                self.fail(invariant, f"^{name} passes on {_values(have)} instead of {_values(passed)}", end)

    def check_call(self, operation: Operation) -> None:
        callee = self.module.functions.get(str(operation.attributes["callee"]))
        if callee is None or callee is self.module.kernel:
            self.fail("V20", "the callee is not a device function of the module", operation)
        arguments = (_types(operation.operands), _types(callee.arguments), "takes")
        results = (_types(operation.results), callee.result_types, "gives")
        for have, want, verb in (arguments, results):
            if have != want:
                message = f"@{callee.name} {verb} {_values(want)}, not {_values(have)}"
                self.fail("V20", message, operation)

    def check_location(self, location: Location | None, operation: Operation | None = None) -> None:
        if operation is not None and location == UNKNOWN_LOCATION != self.function.location:
            self.fail("V22", "the operation has no location, the function has one", operation)
        place = location
        while place != UNKNOWN_LOCATION:
            if place is None or place.line < 1 or place.column < 1:
                self.fail("V22", f"{location} is no location", operation)
            if place.caller is None:
                return
            place = place.caller


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _callees(function: Function) -> Iterator[tuple[str, Operation]]:
    for operation in function.walk():
        if operation.name == "call":
            yield str(operation.attributes["callee"]), operation


def _check_recursion(module: Module) -> None:
    """V21, by a depth-first walk of the call graph."""
    finished: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        for callee, operation in _callees(module.functions[name]):
            if callee in (*path, name):
                cycle = " -> ".join(f"@{each}" for each in (*path, name, callee))
                raise VerifyError("V21", f"recursion: {cycle}", module.functions[name], operation)
            if callee not in finished:
                visit(callee, (*path, name))
        finished.add(name)

    for name in module.functions:
        if name not in finished:
            visit(name, ())
