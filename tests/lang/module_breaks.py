"""A sound module, and changes to it each of which breaks one invariant of the verifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.lang import (
    F32,
    I1,
    I32,
    OPS,
    UNKNOWN_LOCATION,
    Block,
    Builder,
    FloatType,
    IntType,
    Location,
    Module,
    Operation,
    PointerType,
    TileType,
    Value,
    parse_module,
)
from tilewright.lang.layout import LinearLayout

GOOD = """\
module {
kernel @kernel(%p: ptr<f32>, %n: i32, %c: i1) loc("mod.kernel":1:1) {
  %x = load %p : f32 loc("mod.kernel":2:1)
  %y = add_f %x, %x : f32 loc("mod.kernel":3:1)
  %z = for %n, %n, %n, %y : f32 loc("mod.kernel":4:1) {
  ^body(%i: i32, %acc: f32):
    %w = add_f %acc, %y : f32 loc("mod.kernel":5:1)
    yield %w loc("mod.kernel":5:1)
  }
  %t = poison : tile<4xf32> loc("mod.kernel":6:1)
  %s = reduce %t {axis = 0} : f32 loc("mod.kernel":7:1) {
  ^combine(%a: f32, %b: f32):
    yield %b loc("mod.kernel":7:1)
  }
  %e, %f = while %n : f32, i1 loc("mod.kernel":8:1) {
  ^before(%m: i32):
    condition %c, %y, %c loc("mod.kernel":8:1)
  ^after(%q: f32, %r: i1):
    yield %n loc("mod.kernel":8:1)
  }
  %g = if %c : f32 loc("mod.kernel":9:1) {
  ^then:
    yield %x loc("mod.kernel":9:1)
  ^else:
    yield %y loc("mod.kernel":9:1)
  }
  %h = call %g {callee = "square"} : f32 loc("mod.kernel":10:1)
  store %p, %h loc("mod.kernel":11:1)
  return loc("mod.kernel":12:1)
}
func @square(%x: f32) -> (f32) loc("mod.square":1:1) {
  %y = mul_f %x, %x : f32 loc("mod.square":2:1)
  return %y loc("mod.square":3:1)
}
}
"""


def good() -> Module:
    return parse_module(GOOD)


def named(module: Module, name: str) -> Operation:
    """The first operation of this name."""
    return next(operation for operation in module.walk() if operation.name == name)


def retype(value: Value, type_: object) -> None:
    value.type = type_  # type: ignore[assignment]


# Each break changes a sound module in one place. `V4: results` breaks V4.
Break = Callable[[Module], object]
BREAKS: dict[str, Break] = {}


def breaks(invariant: str) -> Callable[[Break], Break]:
    def register(change: Break) -> Break:
        name = (change.__doc__ or "").strip(".")
        assert BREAKS.setdefault(f"{invariant}: {name}", change) is change
        return change

    return register


@breaks("V1")
def _(module: Module) -> None:
    """no functions."""
    module.functions.clear()


@breaks("V1")
def _(module: Module) -> None:
    """a function under another name."""
    module.functions["other"] = module.functions.pop("square")


@breaks("V2")
def _(module: Module) -> None:
    """an operation names no block."""
    named(module, "load").block = None


@breaks("V2")
def _(module: Module) -> None:
    """a region names another holder."""
    named(module, "for").regions[0].parent = named(module, "if")


@breaks("V2")
def _(module: Module) -> None:
    """a body names another function."""
    module.kernel.body.parent = module.functions["square"]


@breaks("V3")
def _(module: Module) -> None:
    """one operation twice in a block."""
    module.kernel.body.operations.insert(0, module.kernel.body.operations[0])


@breaks("V3")
def _(module: Module) -> None:
    """one block as two regions."""
    branch = named(module, "if")
    branch.regions = (branch.regions[0],) * 2


@breaks("V4")
def _(module: Module) -> None:
    """a result's owner."""
    named(module, "load").result.owner = named(module, "add_f")


@breaks("V4")
def _(module: Module) -> None:
    """a result's place."""
    named(module, "while").results[0].index = 1


@breaks("V4")
def _(module: Module) -> None:
    """an argument's owner."""
    module.kernel.arguments[0].owner = named(module, "for").regions[0]


@breaks("V4")
def _(module: Module) -> None:
    """an argument's place."""
    named(module, "for").regions[0].arguments.reverse()


@breaks("V5")
def _(module: Module) -> None:
    """a use that is not listed."""
    del named(module, "load").result.uses[named(module, "add_f"), 0]


@breaks("V5")
def _(module: Module) -> None:
    """a listed use of another value."""
    named(module, "load").result.uses[named(module, "store"), 0] = None


@breaks("V5")
def _(module: Module) -> None:
    """a listed use past the operands."""
    named(module, "load").result.uses[named(module, "store"), 9] = None


@breaks("V5")
def _(module: Module) -> None:
    """a use by an operation outside of the module."""
    Builder(Block()).create(OPS["neg_f"], [named(module, "load").result])


@breaks("V5")
def _(module: Module) -> None:
    """an argument with a stale use."""
    module.kernel.body.operations.remove(named(module, "load"))
    module.kernel.arguments[1].uses[named(module, "store"), 0] = None


@breaks("V6")
def _(module: Module) -> None:
    """a use above the definition."""
    operations = module.kernel.body.operations
    operations[0], operations[1] = operations[1], operations[0]


@breaks("V6")
def _(module: Module) -> None:
    """a use of a region's value after the region."""
    named(module, "store").set_operand(1, named(module, "for").regions[0].arguments[1])


@breaks("V6")
def _(module: Module) -> None:
    """a use of a sibling region's value."""
    branch = named(module, "if")
    value = Builder(branch.regions[0])
    value.at(branch.regions[0].operations[0])
    inner = value.value(OPS["neg_f"], [named(module, "load").result])
    branch.regions[1].terminator.set_operand(0, inner)


@breaks("V6")
def _(module: Module) -> None:
    """a use of a result in the operation's own region."""
    loop = named(module, "for")
    loop.regions[0].terminator.set_operand(0, loop.result)


@breaks("V6")
def _(module: Module) -> None:
    """a use of another function's value."""
    module.functions["square"].body.terminator.set_operand(0, named(module, "load").result)


@breaks("V7")
def _(module: Module) -> None:
    """a row that is not registered."""
    operation = named(module, "mul_f")
    operation.definition = replace(operation.definition)


@breaks("V7")
def _(module: Module) -> None:
    """a region too few."""
    branch = named(module, "if")
    region = branch.regions[1]
    region.terminator.erase()
    branch.regions = branch.regions[:1]


@breaks("V7")
def _(module: Module) -> None:
    """a region too many."""
    store = named(module, "store")
    store.regions = (Block(),)
    store.regions[0].parent = store


@breaks("V8")
def _(module: Module) -> None:
    """an unknown attribute."""
    named(module, "load").attributes["colour"] = 1


@breaks("V8")
def _(module: Module) -> None:
    """a default left out."""
    del named(module, "load").attributes["cache"]


@breaks("V8")
def _(module: Module) -> None:
    """a needed one left out."""
    del named(module, "call").attributes["callee"]


@breaks("V8")
def _(module: Module) -> None:
    """a value of another kind."""
    named(module, "load").attributes["volatile"] = 0


@breaks("V8")
def _(module: Module) -> None:
    """a value outside of the choices."""
    named(module, "load").attributes["cache"] = "xx"


@breaks("V9")
def _(module: Module) -> None:
    """operand types that the row refuses."""
    named(module, "add_f").set_operand(0, module.kernel.arguments[1])


@breaks("V9")
def _(module: Module) -> None:
    """a result type that the row does not give."""
    retype(named(module, "mul_f").result, I32)


@breaks("V9")
def _(module: Module) -> None:
    """too few operands."""
    store = named(module, "store")
    store.operands.pop().uses.clear()


@breaks("V9")
def _(module: Module) -> None:
    """an attribute that the rule refuses."""
    operation = named(module, "reduce")
    operation.definition = OPS["reshape"]
    operation.regions = ()
    operation.attributes = {"shape": (3, 5, 7)}


@breaks("V10")
def _(module: Module) -> None:
    """an integer of another width."""
    retype(module.kernel.arguments[2], IntType(7))


@breaks("V10")
def _(module: Module) -> None:
    """a pointer to an unknown format."""
    retype(module.kernel.arguments[2], PointerType(FloatType("f7", 7, 3, 3)))


@breaks("V10")
def _(module: Module) -> None:
    """an extent of three."""
    retype(named(module, "poison").result, TileType((4, 3), F32))


@breaks("V10")
def _(module: Module) -> None:
    """an extent of none."""
    retype(named(module, "poison").result, TileType((0,), F32))


@breaks("V10")
def _(module: Module) -> None:
    """a tile of rank none."""
    retype(named(module, "poison").result, TileType((), F32))


@breaks("V10")
def _(module: Module) -> None:
    """a tile of too many elements."""
    retype(named(module, "poison").result, TileType((2048, 1024), F32))


@breaks("V10")
def _(module: Module) -> None:
    """a layout of another shape."""
    retype(named(module, "poison").result, TileType((8,), F32, LinearLayout.identity(4, "lane", "dim0")))


@breaks("V10")
def _(module: Module) -> None:
    """a declared result of no type."""
    module.functions["square"].result_types = (IntType(3),)


@breaks("V11")
def _(module: Module) -> None:
    """an empty block."""
    named(module, "if").regions[0].terminator.erase()


@breaks("V11")
def _(module: Module) -> None:
    """a block without a terminator."""
    module.kernel.body.terminator.erase()


@breaks("V11")
def _(module: Module) -> None:
    """a terminator in the middle."""
    builder = Builder()
    builder.at(named(module, "load"))
    builder.create(OPS["return"])


def end_with(block: Block, name: str, *operands: Value) -> None:
    """Replace the terminator."""
    location = block.terminator.location
    block.terminator.erase()
    builder = Builder(block)
    builder.location = location
    builder.create(OPS[name], operands)


@breaks("V12")
def _(module: Module) -> None:
    """a function that yields."""
    end_with(module.kernel.body, "yield")


@breaks("V12")
def _(module: Module) -> None:
    """a return in a loop."""
    end_with(named(module, "for").regions[0], "return", named(module, "add_f").result)


@breaks("V12")
def _(module: Module) -> None:
    """a condition where a while goes on."""
    end_with(named(module, "while").regions[1], "condition", module.kernel.arguments[2])


@breaks("V12")
def _(module: Module) -> None:
    """a yield where a while decides."""
    end_with(named(module, "while").regions[0], "yield")


@breaks("V13")
def _(module: Module) -> None:
    """an induction variable of another type than the bounds'."""
    retype(named(module, "for").regions[0].arguments[0], IntType(64))


@breaks("V13")
def _(module: Module) -> None:
    """a body without the carried value."""
    body = named(module, "for").regions[0]
    end_with(body, "yield", named(module, "load").result)
    body.operations[0].erase()
    body.arguments.pop()


@breaks("V13")
def _(module: Module) -> None:
    """a body that yields nothing."""
    end_with(named(module, "for").regions[0], "yield")


@breaks("V14")
def _(module: Module) -> None:
    """before takes something else."""
    retype(named(module, "while").regions[0].arguments[0], F32)


@breaks("V14")
def _(module: Module) -> None:
    """condition passes on something else."""
    end_with(named(module, "while").regions[0], "condition", *module.kernel.arguments[2:])


@breaks("V14")
def _(module: Module) -> None:
    """after takes something else."""
    named(module, "while").regions[1].arguments.pop()


@breaks("V14")
def _(module: Module) -> None:
    """after yields something else."""
    end_with(named(module, "while").regions[1], "yield", module.kernel.arguments[2])


@breaks("V15")
def _(module: Module) -> None:
    """a branch with an argument."""
    named(module, "if").regions[1].add_argument(I1)


@breaks("V15")
def _(module: Module) -> None:
    """branches that disagree."""
    end_with(named(module, "if").regions[1], "yield", module.kernel.arguments[1])


@breaks("V16")
def _(module: Module) -> None:
    """a combination of tiles."""
    retype(named(module, "reduce").regions[0].arguments[0], TileType((4,), F32))


@breaks("V16")
def _(module: Module) -> None:
    """a combination of three."""
    named(module, "reduce").regions[0].add_argument(F32)


@breaks("V16")
def _(module: Module) -> None:
    """a combination that yields nothing."""
    end_with(named(module, "reduce").regions[0], "yield")


@breaks("V16")
def _(module: Module) -> None:
    """no operands."""
    region = Block()
    Builder(region).create(OPS["yield"])
    region.terminator.location = Location("mod.kernel", 1, 1)
    builder = Builder()
    builder.at(named(module, "load"))
    builder.create(OPS["reduce"], [], {"axis": 0}, [], [region])


@breaks("V17")
def _(module: Module) -> None:
    """a function that returns nothing."""
    end_with(module.functions["square"].body, "return")


@breaks("V17")
def _(module: Module) -> None:
    """a kernel that returns something."""
    end_with(module.kernel.body, "return", module.kernel.arguments[0])


@breaks("V18")
def _(module: Module) -> None:
    """a kernel with results."""
    module.kernel.result_types = (I32,)
    end_with(module.kernel.body, "return", module.kernel.arguments[1])


@breaks("V19")
def _(module: Module) -> None:
    """an argument without attributes."""
    module.kernel.argument_attributes.pop()


@breaks("V20")
def _(module: Module) -> None:
    """a callee that is not there."""
    named(module, "call").attributes["callee"] = "cube"


@breaks("V20")
def _(module: Module) -> None:
    """a call of the kernel."""
    named(module, "call").attributes["callee"] = "kernel"


@breaks("V20")
def _(module: Module) -> None:
    """an argument of another type."""
    named(module, "call").set_operand(0, module.kernel.arguments[1])


@breaks("V20")
def _(module: Module) -> None:
    """a result too few."""
    call = named(module, "call")
    call.result.replace_uses(named(module, "load").result)
    call.results = ()


@breaks("V21")
def _(module: Module) -> None:
    """a function that calls itself."""
    builder = Builder()
    builder.at(named(module, "mul_f"))
    builder.create(OPS["call"], module.functions["square"].arguments, {"callee": "square"}, [F32])


@breaks("V22")
def _(module: Module) -> None:
    """no location."""
    named(module, "load").location = None  # type: ignore[assignment]


@breaks("V22")
def _(module: Module) -> None:
    """the unknown location in a known function."""
    named(module, "load").location = UNKNOWN_LOCATION


@breaks("V22")
def _(module: Module) -> None:
    """a line that is none."""
    named(module, "load").location = Location("mod.kernel", 0, 1)


@breaks("V22")
def _(module: Module) -> None:
    """a caller's column that is none."""
    named(module, "load").location = Location("mod.kernel", 2, 1, Location("mod.caller", 1, 0))


@breaks("V22")
def _(module: Module) -> None:
    """a function's column that is none."""
    module.kernel.location = Location("mod.kernel", 1, -1)
