"""The assembler, nvJitLink, through its plain C interface: PTX in, cubin out, in this process."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.lang import CompilerBug

from ._lazy import nvjitlink_candidates
from .errors import AssemblerError, NoAssembler

INPUT_PTX = 2  # NVJITLINK_INPUT_PTX in nvJitLink.h


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin and what the assembler said while making it."""

    cubin: bytes
    log: str


@cache
def library() -> Any:
    """The loaded library. Raises NoAssembler when there is none that loads."""
    problems: list[str] = []
    for path in nvjitlink_candidates():
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            problems.append(str(error))
    raise NoAssembler(problem="; ".join(problems) or "nvidia-nvjitlink is not installed")


@cache
def version() -> str:
    """The version of the assembler, `13.0`."""
    major, minor = ctypes.c_uint(), ctypes.c_uint()
    function: Any = getattr(library(), "nvJitLinkVersion")  # noqa: B009 (a symbol of the C library)
    function(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


class _Link:
    """One link: a handle of the library that is destroyed at the end."""

    def __init__(self, options: list[str]) -> None:
        self.library = library()
        self.handle = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        if code := self.library.nvJitLinkCreate(ctypes.byref(self.handle), len(options), texts):
            raise CompilerBug(f"nvJitLinkCreate returned {code} for {options}")

    def __enter__(self) -> _Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.library.nvJitLinkDestroy(ctypes.byref(self.handle))

    def text(self, kind: str) -> str:
        """The `Error` or `Info` log."""
        size = ctypes.c_size_t()
        getattr(self.library, f"nvJitLinkGet{kind}LogSize")(self.handle, ctypes.byref(size))
        if size.value == 0:
            return ""
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvJitLinkGet{kind}Log")(self.handle, buffer)
        return buffer.value.decode(errors="replace").strip()

    def cubin(self, name: str, ptx: bytes) -> bytes:
        """Assemble. Raises ValueError with the log when the assembler refuses."""
        given = self.library.nvJitLinkAddData(self.handle, INPUT_PTX, ptx, ctypes.c_size_t(len(ptx)), name.encode())
        if given or self.library.nvJitLinkComplete(self.handle):
            raise ValueError(self.text("Error"))
        size = ctypes.c_size_t()
        self.library.nvJitLinkGetLinkedCubinSize(self.handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.library.nvJitLinkGetLinkedCubin(self.handle, buffer)
        return buffer.raw


def assemble(name: str, ptx: str, target: str, level: int = 3) -> Assembled:
    """Make a cubin of PTX text. Raises NoAssembler and AssemblerError.

    `-no-cache` keeps the driver, whose cache would be asked, out of it.
    """
    with _Link([f"-arch={target}", f"-O{level}", "-no-cache", "-verbose"]) as link:
        try:
            cubin = link.cubin(name, ptx.encode())
        except ValueError as error:
            raise AssemblerError(name=name, target=target, log=str(error)) from None
        return Assembled(cubin, link.text("Info"))
