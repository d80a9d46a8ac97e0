"""The functions that the CUDA runtime gives to device code: `vprintf` and `__assertfail`."""

from __future__ import annotations

import re
import struct

import numpy as np

from ..errors import DeviceAssertError
from .access import unwatched
from .frame import Frame, Index
from .site import Site
from .spaces import resolve
from .syntax import Operand, VariableRef
from .table import Step

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d*)(?P<precision>\.\d+)?(?P<size>hh|h|ll|l|)(?P<kind>[diouxXcsfFeEgGaAp%])"
)
_LONGEST = 4096


class Memory:
    """Bytes at the addresses of one thread."""

    def __init__(self, site: Site, frame: Frame, thread: int) -> None:
        self.frame, self.thread = frame, np.array([thread])
        self.site = site

    def read(self, address: int, size: int, space: str = "generic") -> bytes:
        """Some bytes at an address that is a multiple of their number."""
        access = unwatched(self.site, size, writes=False)
        (cells,) = resolve(access, space, self.frame, self.thread, np.array([address], np.uint64))
        if self.frame.watch is not None:
            self.frame.watch.stack.require(access, [cells], self.thread)
        return cells.view[cells.position].tobytes()

    def text(self, address: int) -> str:
        """The string at an address, up to its zero byte."""
        out = bytearray()
        while len(out) < _LONGEST:
            octet = self.read(address + len(out), 1)
            if octet == b"\0":
                break
            out += octet
        return out.decode(errors="replace")

    def parameter(self, operand: Operand, size: int) -> int:
        """The value of a `.param` variable of the call."""
        assert isinstance(operand, VariableRef)
        address = self.site.program.address_of(operand.variable) + operand.offset
        return int.from_bytes(self.read(address, size, "local"), "little")


def vprintf(site: Site, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> Step:
    """`vprintf(format, arguments)`: prints thread by thread; the result is the number of arguments."""
    if len(arguments) != 2:
        site.fail("`vprintf` takes 2 arguments")

    def run(frame: Frame, index: Index) -> None:
        for thread in frame.indices(index).tolist():
            memory = Memory(site, frame, thread)
            template = memory.text(memory.parameter(arguments[0], 8))
            text, count = formatted(memory, template, memory.parameter(arguments[1], 8))
            frame.launch.stdout.write(text)
            for result in results:
                _store(site, frame, thread, result, count)

    return run


def _store(site: Site, frame: Frame, thread: int, result: Operand, value: int) -> None:
    """Set the 32-bit result of a call."""
    assert isinstance(result, VariableRef)
    address = site.program.address_of(result.variable)
    access = unwatched(site, 4, writes=True)
    (cells,) = resolve(access, "local", frame, np.array([thread]), np.array([address], np.uint64))
    if frame.watch is not None:
        frame.watch.stack.store(access, [cells], np.array([thread]))
    cells.view[cells.position] = value


def formatted(memory: Memory, template: str, at: int) -> tuple[str, int]:
    """The text that a C format makes of the arguments packed from an address on, and how many it took."""
    out: list[str] = []
    end = count = 0
    for found in _CONVERSION.finditer(template):
        out.append(template[end : found.start()])
        end = found.end()
        if found["kind"] == "%":
            out.append("%")
            continue
        size = 8 if found["kind"] in "fFeEgGaAsp" or found["size"] in ("l", "ll") else 4
        at = -(-at // size) * size
        raw = memory.read(at, size)
        at += size
        count += 1
        out.append(_conversion(memory, found, raw))
    out.append(template[end:])
    return "".join(out), count


def _conversion(memory: Memory, found: re.Match[str], raw: bytes) -> str:
    kind = found["kind"]
    plain = f"%{found['flags']}{found['width']}{found['precision'] or ''}"
    if kind in "fFeEgG":
        return f"{plain}{kind}" % struct.unpack("<d", raw)[0]
    if kind in "aA":
        text = struct.unpack("<d", raw)[0].hex()
        return text.upper() if kind == "A" else text
    value = int.from_bytes(raw, "little", signed=kind in "di")
    if kind == "s":
        return f"{plain}s" % memory.text(value)
    if kind == "p":
        return f"{plain}s" % f"{value:#x}"
    bits = {"hh": 8, "h": 16}.get(found["size"])
    if bits is not None:
        value &= (1 << bits) - 1
        value -= (value >> (bits - 1) << bits) if kind in "di" else 0
    return f"{plain}{'d' if kind == 'u' else kind}" % value


def assert_fail(site: Site, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> Step:
    """`__assertfail(message, file, line, function, char size)`: the first thread that calls it ends the launch."""
    if len(arguments) != 5:
        site.fail("`__assertfail` takes 5 arguments")

    def run(frame: Frame, index: Index) -> None:
        thread = int(frame.indices(index)[0])
        memory = Memory(site, frame, thread)
        message, file, function = (memory.text(memory.parameter(arguments[n], 8)) for n in (0, 1, 3))
        line = memory.parameter(arguments[2], 4)
        what = f"device assertion failed: {message} ({file}:{line}, in {function})"
        raise site.fault(DeviceAssertError, what, frame, thread)

    return run
