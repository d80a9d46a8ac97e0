"""Prints, asserts, promises and the barrier."""

from __future__ import annotations

from tilewright.lang import F64, FloatType, IntType, Operation, PointerType, ScalarType, Value, bit_width, element_of

from ..analysis.placement import layout_of
from .casts import float_to_float
from .context import Lowering
from .memory import both
from .registry import lowers
from .text import PTR, llvm_type


@lowers("barrier")
def _barrier(to: Lowering, operation: Operation) -> None:
    to.barrier()


@lowers("assume")
def _assume(to: Lowering, operation: Operation) -> None:
    to.text.call("void", "llvm.assume", [("i1", to.scalar(operation.operands[0]))])


@lowers("assert")
def _assert(to: Lowering, operation: Operation) -> None:
    """Where an element fails, the device's assertion handler gets the message, and the kernel stops."""
    condition, mask = operation.operands[0], operation.operand("mask")
    once = to.chosen(to.slots(condition))
    for register, held in enumerate(to.values[condition]):
        failed = to.text.value(f"xor i1 {held}, true")
        failed = both(to, failed, "" if mask is None else to.values[mask][register])
        stop, go_on = to.text.label("stop"), to.text.label("holds")
        to.text.branch(both(to, once, failed), stop, go_on)
        to.text.begin(stop)
        fail(to, operation)
        to.text.jump(go_on)
        to.text.begin(go_on)


def fail(to: Lowering, operation: Operation) -> None:
    """Report the message with the place in the source, then trap."""
    to.text.declarations.add("declare void @__assertfail(ptr, ptr, i32, ptr, i64)")
    where = operation.location
    message, source = str(operation.attributes["message"]), where.source
    text, file, function = (generic(to, to.text.string(each)) for each in (message, source, source.rpartition(".")[2]))
    line = str(max(where.line, 0))
    to.text.call("void", "__assertfail", [("ptr", text), ("ptr", file), ("i32", line), ("ptr", function), ("i64", "1")])
    to.text.call("void", "llvm.trap", [])


def generic(to: Lowering, name: str) -> str:
    """A constant's address in the generic address space."""
    return to.text.value(f"addrspacecast {PTR} {name} to ptr")


@lowers("print")
def _print(to: Lowering, operation: Operation) -> None:
    """One line an element, by the thread that counts, as the interpreter writes it."""
    prefix = str(operation.attributes["prefix"]).strip().removesuffix(":").replace("%", "%%")
    if not operation.operands:
        once = to.chosen(to.slots_of_scalar())
        guarded(to, once, lambda: write(to, f"pid (%d, %d, %d) {prefix}\n", program(to)))
        return
    signed = operation.attributes["signed"]
    assert isinstance(signed, tuple)
    for number, operand in enumerate(operation.operands):
        name = f"{prefix} (operand {number})" if len(operation.operands) > 1 else prefix
        is_signed = bool(signed[number]) if number < len(signed) else True
        in_hex = bool(operation.attributes["hex"])
        shown = format_of(element_of(operand.type), in_hex, is_signed)
        elements(to, operand, f"{name}: {shown}\n", is_signed and not in_hex, in_hex)


def elements(to: Lowering, operand: Value, tail: str, signed: bool, in_hex: bool) -> None:
    """Print each element of one operand."""
    once, layout = to.chosen(to.slots(operand)), layout_of(operand.type)
    rank = 0 if layout is None else len(layout.outs)
    places = ", ".join(["%d"] * rank)
    for register, value in enumerate(to.values[operand]):

        def one(register: int = register, value: str = value) -> None:
            index = [("i32", to.index(layout, register, axis)) for axis in range(rank)] if layout is not None else []
            argument = [variadic(to, element_of(operand.type), value, signed, in_hex)]
            write(to, f"pid (%d, %d, %d) idx ({places}) {tail}", program(to) + index + argument)

        guarded(to, once, one)


def format_of(element: ScalarType, hexadecimal: bool, signed: bool) -> str:
    """The printf format of an element."""
    if hexadecimal or isinstance(element, PointerType):
        return f"0x%0{max(1, bit_width(element) // 4)}llx"
    if isinstance(element, IntType):
        return "%lld" if signed and element.width > 1 else "%llu"
    return "%.17g" if element.width == 64 else "%.9g"


def variadic(to: Lowering, element: ScalarType, value: str, signed: bool, in_hex: bool) -> tuple[str, str]:
    """An element as printf takes it: 64 bits, of an integer (a float's bits for hexadecimal) or of a double."""
    if isinstance(element, PointerType):
        return "i64", to.text.value(f"ptrtoint {PTR} {value} to i64")
    if isinstance(element, FloatType) and in_hex:
        bits = value if element.is_fp8 else to.text.value(f"bitcast {llvm_type(element)} {value} to i{element.width}")
        return "i64", bits if element.width == 64 else to.text.value(f"zext i{element.width} {bits} to i64")
    if isinstance(element, FloatType):
        (wide,) = float_to_float(to, element, F64, [value])
        return "double", wide
    if element.width == 64:
        return "i64", value
    extend = "sext" if signed and element.width > 1 else "zext"
    return "i64", to.text.value(f"{extend} {element} {value} to i64")


def program(to: Lowering) -> list[tuple[str, str]]:
    """The three indices of the program."""
    return [("i32", to.text.call("i32", f"llvm.nvvm.read.ptx.sreg.ctaid.{axis}", [])) for axis in "xyz"]


def guarded(to: Lowering, predicate: str, write_body: object) -> None:
    """Run a piece of code where the predicate holds."""
    assert callable(write_body)
    if not predicate:
        write_body()
        return
    inside, after = to.text.label("one"), to.text.label("all")
    to.text.branch(predicate, inside, after)
    to.text.begin(inside)
    write_body()
    to.text.jump(after)
    to.text.begin(after)


def write(to: Lowering, text: str, arguments: list[tuple[str, str]]) -> None:
    """A call of vprintf with its arguments in a buffer on the stack."""
    to.text.declarations.add("declare i32 @vprintf(ptr, ptr)")
    kind = f"{{{', '.join(type_ for type_, _ in arguments)}}}"
    buffer = to.text.at_entry(f"alloca {kind}, align 8")
    for index, (type_, value) in enumerate(arguments):
        slot = to.text.value(f"getelementptr {kind}, ptr {buffer}, i32 0, i32 {index}")
        to.text.effect(f"store {type_} {value}, ptr {slot}, align {8 if type_ != 'i32' else 4}")
    to.text.call("i32", "vprintf", [("ptr", generic(to, to.text.string(text))), ("ptr", buffer)])
