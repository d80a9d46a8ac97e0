"""A whole kernel: placed tile IR in, the text of an LLVM module out."""

from __future__ import annotations

import re

from tilewright.lang import IntType, Module, element_of

from ..analysis.axis import axis_analysis
from ..targets import Target
from . import (
    arith,
    atomics,
    buffers,
    casts,
    control,
    convert,
    debug,
    dot,
    floats,
    math,
    memory,
    reduce,
    remainder,
    shape,
    trigonometry,
)
from .context import Lowering
from .debug_info import DebugInfo
from .text import Text, llvm_type

#: Importing the families fills the table of lowerings.
FAMILIES = (
    arith, atomics, buffers, casts, control, convert, debug, dot, floats, math, memory, reduce, remainder, shape,
    trigonometry,
)  # fmt: skip


def symbol(name: str) -> str:
    """A function's name as PTX may spell it: letters, digits and underscores."""
    plain = re.sub(r"[^A-Za-z0-9_$]", "_", name)
    return plain if re.match(r"[A-Za-z]", plain) else f"k_{plain}"


def lower(module: Module, target: Target, num_warps: int, maxnreg: int | None = None) -> str:
    """The LLVM text of a module's kernel, held to `maxnreg` registers a thread. Raises NotCompiledYet, NotOnTarget."""
    kernel = module.kernel
    name = symbol(kernel.name)
    debug_info = DebugInfo(name, kernel.location)
    text = Text(debug_info)
    to = Lowering(text, target, num_warps, axis_analysis(kernel))
    text.at(debug_info.home)
    parameters: list[str] = []
    for index, argument in enumerate(kernel.arguments):
        element = element_of(argument.type)
        if element == IntType(1):
            parameters.append(f"i8 %a{index}")
            to.values[argument] = (text.at_entry(f"trunc i8 %a{index} to i1"),)
        else:
            parameters.append(f"{llvm_type(element)} %a{index}")
            to.values[argument] = (f"%a{index}",)
    to.block(kernel.body)
    text.at(kernel.body.terminator.location)
    text.effect("ret void")
    return assembled(text, name, parameters, launch_bounds(to.threads, maxnreg))


def launch_bounds(threads: int, maxnreg: int | None) -> str:
    """The attributes that tell the assembler how a kernel is launched."""
    registers = "" if maxnreg is None else f' "nvvm.maxnreg"="{maxnreg}"'
    return f'"nvvm.reqntid"="{threads},1,1"{registers}'


def assembled(text: Text, name: str, parameters: list[str], attributes: str) -> str:
    """Put the pieces of a module together; everything that has no order is sorted."""
    return "\n".join(
        [
            *text.globals.values(),
            *sorted(text.declarations),
            *(text.helpers[key] for key in sorted(text.helpers)),
            f"define ptx_kernel void @{name}({', '.join(parameters)}) {attributes} !dbg !5 {{",
            "entry:",
            *text.entry,
            *text.lines,
            "}",
            text.debug.text(),
        ]
    )
