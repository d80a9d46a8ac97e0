"""Debug metadata: a line in a source for every instruction, as `.loc` directives and nothing more.

A "file" is a function's `module.qualname`, so that the text is the same on every machine. DebugDirectivesOnly is
needed: other kinds make the assembler compile without optimisation.
"""

from __future__ import annotations

from tilewright.lang import Location

_FIXED = """!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!1}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !2, producer: "tilewright", isOptimized: true, \
runtimeVersion: 0, emissionKind: DebugDirectivesOnly)
!1 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !DISubroutineType(types: !4)
!4 = !{}"""


class DebugInfo:
    """The metadata nodes of one module. Node 2 is the kernel's file, node 5 its subprogram."""

    def __init__(self, kernel: str, location: Location) -> None:
        self.nodes: list[str] = [_FIXED]
        self.count = 6
        self.files: dict[str, int] = {location.source: 2}
        self.scopes: dict[str, int] = {location.source: 5}
        self.known: dict[Location, int] = {}
        line = max(location.line, 1)
        self.nodes.append(f'!2 = !DIFile(filename: {_quoted(location.source)}, directory: "")')
        self.nodes.append(f"!5 = {_subprogram(kernel, 2, line)}")
        self.home = Location(location.source, line, max(location.column, 1))
        self.kernel_location = self.location(self.home)

    def node(self, text: str) -> int:
        self.nodes.append(f"!{self.count} = {text}")
        self.count += 1
        return self.count - 1

    def scope(self, source: str, line: int) -> int:
        """The subprogram that stands for a source function."""
        if source not in self.scopes:
            file = self.files[source] = self.node(f'!DIFile(filename: {_quoted(source)}, directory: "")')
            self.scopes[source] = self.node(_subprogram(source, file, line))
        return self.scopes[source]

    def location(self, location: Location) -> int:
        """The node of a location; of the kernel itself for an unknown one."""
        if location.line < 1:
            location = self.home
        if location not in self.known:
            self.known[location] = self.made(location)
        return self.known[location]

    def made(self, location: Location) -> int:
        caller = location.caller
        if caller is None and location.source != self.home.source:
            caller = self.home  # code of another function stands in the kernel: LLVM wants it inlined at some place
        scope = self.scope(location.source, location.line)
        inlined = "" if caller is None else f", inlinedAt: !{self.location(caller)}"
        distinct = "distinct " if caller is not None else ""
        place = f"line: {location.line}, column: {min(location.column, 65535)}"  # a column has 16 bits
        return self.node(f"{distinct}!DILocation({place}, scope: !{scope}{inlined})")

    def text(self) -> str:
        return "\n".join(self.nodes) + "\n"


def _quoted(text: str) -> str:
    """A metadata string: bytes that are not plain ASCII as two hexadecimal digits."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode())
    return f'"{"".join(plain)}"'


def _subprogram(name: str, file: int, line: int) -> str:
    return (
        f"distinct !DISubprogram(name: {_quoted(name)}, linkageName: {_quoted(name)}, scope: !{file}, file: !{file}, "
        f"line: {line}, type: !3, scopeLine: {line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !0)"
    )
