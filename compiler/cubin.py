"""What a cubin says about a kernel: registers, stack and shared memory, read from its ELF sections.

The sections: `.nv.info` holds attribute records (u8 format, u8 attribute, u16 size, payload), of which those with
format 4 carry a (symbol index, value) pair; `.nv.shared.<kernel>` and `.text.<kernel>` have the sizes as sections do.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

REGISTER_COUNT, STACK_SIZE = 0x2F, 0x12
_SPILL = re.compile(r"(\d+) bytes spill (?:stores|loads)")


@dataclass(frozen=True, slots=True)
class Resources:
    """What one thread (registers, stack and spilled bytes) and one block (shared bytes) of a kernel use."""

    registers: int = 0
    stack: int = 0
    spills: int = 0
    shared: int = 0
    code: int = 0


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    offset: int
    size: int


def _sections(image: bytes) -> dict[str, _Section]:
    (table,) = struct.unpack_from("<Q", image, 40)
    entry, count, names_index = struct.unpack_from("<HHH", image, 58)
    raw = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * entry) for i in range(count)]
    names = raw[names_index][4]
    return {(name := _text(image, names + fields[0])): _Section(name, fields[4], fields[5]) for fields in raw}


def _text(image: bytes, start: int) -> str:
    return image[start : image.index(b"\0", start)].decode()


def resources(image: bytes, kernel: str, log: str = "") -> Resources:
    """The resources of one kernel of a cubin; `log` is the assembler's, the only place that tells spilled bytes."""
    sections = _sections(image)
    symbols, strings = sections[".symtab"], sections[".strtab"]
    found: dict[int, int] = {}
    info = sections[".nv.info"]
    position, end = info.offset, info.offset + info.size
    while position < end:
        kind, attribute, size = struct.unpack_from("<BBH", image, position)
        if kind != 4:
            position += 4
            continue
        if attribute in (REGISTER_COUNT, STACK_SIZE):
            symbol, value = struct.unpack_from("<II", image, position + 4)
            (name,) = struct.unpack_from("<I", image, symbols.offset + 24 * symbol)
            if _text(image, strings.offset + name) == kernel:
                found[attribute] = value
        position += 4 + size
    sizes = {name: section.size for name, section in sections.items()}
    return Resources(
        found.get(REGISTER_COUNT, 0),
        found.get(STACK_SIZE, 0),
        sum(int(count) for count in _SPILL.findall(log)),
        sizes.get(f".nv.shared.{kernel}", 0),
        sizes.get(f".text.{kernel}", 0),
    )
