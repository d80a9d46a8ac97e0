"""Replace every call by the body of the function that it names.

    kernel @k(%x: i32) {                       kernel @k(%x: i32) {
      %y = call %x {callee = "f"} : i32   ->     %c = constant {value = 1} : i32 loc("m.f":2:1 at "m.k":9:3)
      ...                                        %y = add_i %x, %c : i32 loc("m.f":2:1 at "m.k":9:3)
    func @f(%a: i32) -> (i32) { ... }            ...

The location of an inlined operation ends in the place of the call. Functions that nothing calls any more go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tilewright.lang import Function, Location, Module, Operation

from ..clone import Values, clone_operation


def inline(module: Module) -> bool:
    """Inline all calls, innermost first. The verifier has made sure that no function calls itself."""
    work = _Inliner(module)
    changed = [work.into(name) for name in list(module.functions)]
    for name in list(module.functions)[1:]:
        del module.functions[name]
    return any(changed) or len(changed) > 1


def called_from(location: Location, caller: Location) -> Location:
    """The location with one more call at the end of its chain."""
    outer = caller if location.caller is None else called_from(location.caller, caller)
    return Location(location.source, location.line, location.column, outer)


class _Inliner:
    """`calls` counts the calls of each function that are left: at the last its body moves instead of being copied."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.done: set[str] = set()
        self.calls = Counter(str(op.attributes["callee"]) for op in module.walk() if op.name == "call")

    def into(self, name: str) -> bool:
        """Make a function free of calls; says whether it had any."""
        if name in self.done:
            return False
        self.done.add(name)
        calls = [operation for operation in self.module.functions[name].walk() if operation.name == "call"]
        for operation in calls:
            callee = str(operation.attributes["callee"])
            self.into(callee)
            self.expand(operation, self.module.functions[callee])
        return bool(calls)

    def expand(self, call: Operation, callee: Function) -> None:
        """Put the callee's operations, or copies of them, where the call stands."""
        known: dict[int, Location] = {}

        def relocate(at: Location) -> Location:
            if id(at) not in known:
                known[id(at)] = called_from(at, call.location)
            return known[id(at)]

        values: Values = dict(zip(callee.arguments, call.operands, strict=True))
        *body, end = callee.body.operations
        last = self.calls[callee.name] == 1
        self.calls[callee.name] -= 1
        placed = _moved(body, values, relocate) if last else [clone_operation(op, values, relocate) for op in body]
        block = call.block
        assert block is not None
        where = block.operations.index(call)
        block.operations[where:where] = placed
        for operation in placed:
            operation.block = block
        for result, returned in zip(call.results, end.operands, strict=True):
            value = values.get(returned, returned)
            if result.name and not value.name:
                value.name = result.name
            result.replace_uses(value)
        if last:
            callee.body.operations.clear()
            for index, value in enumerate(end.operands):
                value.uses.pop((end, index), None)
        call.erase()


def _moved(body: list[Operation], values: Values, relocate: Callable[[Location], Location]) -> list[Operation]:
    """The operations themselves, which nobody needs where they are: the arguments replaced, the locations extended."""
    for argument, value in values.items():
        argument.replace_uses(value)
    for operation in body:
        for inner in operation.walk():
            inner.location = relocate(inner.location)
    return body
