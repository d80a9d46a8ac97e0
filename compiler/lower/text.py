"""A small builder of LLVM text: typed values, blocks, globals, and a source location on every instruction."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tilewright.lang import UNKNOWN_LOCATION, FloatType, IntType, Location, PointerType, ScalarType

from .debug_info import DebugInfo

FLOAT_NAMES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
PTR = "ptr addrspace(1)"
SHARED = "ptr addrspace(3)"


def llvm_type(element: ScalarType) -> str:
    """The LLVM type of one element; 8-bit floats are their codes."""
    if isinstance(element, PointerType):
        return PTR
    if isinstance(element, IntType):
        return f"i{element.width}"
    return FLOAT_NAMES.get(element.name, "i8")


def float_literal(value: float, name: str) -> str:
    """A literal of f32 or f64, which `value` must be exactly; LLVM writes both as the bits of a double."""
    if name not in ("f32", "f64"):
        raise ValueError(f"no literal of {name} is made from a Python float")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class Text:
    """The body of one kernel while it is written.

    `entry` holds what is computed once at the start, such as where this thread's elements lie; it goes before
    everything else.
    """

    def __init__(self, debug: DebugInfo) -> None:
        self.debug = debug
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.globals: dict[str, str] = {}
        self.declarations: set[str] = set()
        self.helpers: dict[str, str] = {}
        self.current = "entry"
        self.counter = 0
        self.location = UNKNOWN_LOCATION
        self.tag = ""

    def at(self, location: Location) -> None:
        """Instructions from now on come from this place in the source."""
        self.location = location
        self.tag = f", !dbg !{self.debug.location(location)}"

    def fresh(self, prefix: str) -> str:
        """A new name, for a value that may stand anywhere."""
        self.counter += 1
        return f"%{prefix}{self.counter}"

    def value(self, instruction: str) -> str:
        """Add an instruction that makes a value, and give its name: a number, larger than all before it in the text,
        which LLVM reads faster than letters."""
        self.counter += 1
        name = f"%{self.counter}"
        self.lines.append(f"  {name} = {instruction}{self.tag}")
        return name

    def effect(self, instruction: str) -> None:
        """Add an instruction without a value."""
        self.lines.append(f"  {instruction}{self.tag}")

    def at_entry(self, instruction: str) -> str:
        """Add an instruction that makes a value at the start of the kernel."""
        name = self.fresh("e")
        self.entry.append(f"  {name} = {instruction}, !dbg !{self.debug.kernel_location}")
        return name

    # Blocks

    def label(self, name: str) -> str:
        """A new name of a block."""
        self.counter += 1
        return f"{name}{self.counter}"

    def begin(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")
        self.current = label

    def jump(self, label: str) -> None:
        self.effect(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.effect(f"br i1 {condition}, label %{yes}, label %{no}")

    # Calls

    def call(self, result: str, function: str, arguments: Sequence[tuple[str, str]], attributes: str = "") -> str:
        """Call an intrinsic or a helper, declaring it where it is an intrinsic; "" for no result."""
        types = ", ".join(type_ for type_, _ in arguments)
        if function.startswith("llvm."):
            immediate = types.replace("i1 immarg", "i1")
            self.declarations.add(f"declare {result} @{function}({immediate})")
        text = f"call {result} @{function}({', '.join(f'{t} {v}' for t, v in arguments)}){attributes}"
        if result == "void":
            self.effect(text)
            return ""
        return self.value(text)

    def asm(
        self,
        result: str,
        code: str,
        constraints: str,
        arguments: Sequence[tuple[str, str]] = (),
        effect: bool = False,
        convergent: bool = False,
    ) -> str:
        """Inline PTX. Without `effect` it counts as pure and may be merged, moved and dropped."""
        body = code.replace("\n", "\\0A\\09")
        given = ", ".join(f"{type_} {value}" for type_, value in arguments)
        text = (
            f'call {result} asm {"sideeffect " if effect else ""}"{body}", "{constraints}"({given})'
            f"{' convergent' if convergent else ''}{'' if effect else ' memory(none)'}"
        )
        if result == "void":
            self.effect(text)
            return ""
        return self.value(text)

    def string(self, text: str) -> str:
        """A constant string, ended by a zero byte; its name."""
        data = text.encode() + b"\0"
        shown = "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\{c:02X}" for c in data)
        for name, known in self.globals.items():
            if f'c"{shown}"' in known:
                return name
        name = f"@string_{len(self.globals)}"
        self.globals[name] = f'{name} = internal addrspace(1) constant [{len(data)} x i8] c"{shown}", align 1'
        return name


def zero(element: ScalarType) -> str:
    """The zero of a type."""
    if isinstance(element, PointerType):
        return "null"
    return "0.0" if isinstance(element, FloatType) and not element.is_fp8 else "0"
