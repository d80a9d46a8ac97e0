"""LLVM text to PTX through llvmlite, with the traps of that road closed.

The pass manager of llvmlite frees nothing by itself and may run once; the target machine must be attached to the
optimiser, or code around barriers is miscompiled; an intrinsic that does not exist becomes a call in the PTX.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from threading import Condition, local
from typing import Any

from tilewright.lang import CompilerBug

from ._lazy import llvm
from .targets import Target

TRIPLE = "nvptx64-nvidia-cuda"
#: A switch of LLVM's NVPTX back end, which holds for the process: `base + extended index * size` in one instruction.
SWITCHES = ("-nvptx-mad-wide-opt",)
#: LLVM reduces strength in loops by making many addresses of one and as many offsets, each of which takes two registers
#: more: too many in products that spare none. The switch is every back end's, so it is on while the PTX of such a
#: product is made and no longer: others in the process compile for other machines.
NO_STRENGTH_REDUCTION, AS_EVER = "-disable-lsr", "-disable-lsr=0"
_machines = local()


@cache
def _nvptx() -> Any:
    """LLVM's NVPTX target, made ready once a process."""
    binding, _ = llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    for switch in SWITCHES:
        binding.set_option("", switch)
    return binding.Target.from_triple(TRIPLE)


def machine(target: Target) -> tuple[Any, Any]:
    """The target machine and the pass builder for a target, one pair a thread."""
    known: dict[str, tuple[Any, Any]] = _machines.__dict__.setdefault("known", {})
    if target.name not in known:
        binding, _ = llvm()
        made = _nvptx().create_target_machine(
            cpu=target.name, features=target.features, opt=3, reloc="default", codemodel="default"
        )
        tuning = binding.create_pipeline_tuning_options(1)
        tuning.loop_unrolling = False  # the assembler unrolls; twice is too much
        tuning.loop_vectorization = False
        tuning.slp_vectorization = True
        known[target.name] = made, binding.create_pass_builder(made, tuning)
    return known[target.name]


def header(target: Target) -> str:
    """The lines that must stand before a module's text for its loads and stores to get the right alignment."""
    return f'target triple = "{TRIPLE}"\ntarget datalayout = "{machine(target)[0].target_data}"\n'


def optimise(module: Any, target: Target) -> None:
    """Run LLVM's O1 on a parsed module: code generation repeats what O3 would add, at half the price.

    Helpers, where there are any, must be inlined, which is the business of a pass over the module.
    """
    _, ffi = llvm()
    _, passes = machine(target)
    defined = [function for function in module.functions if not function.is_declaration]
    if len(defined) == 1:
        manager = passes.getFunctionPassManager()
        try:
            manager.run(defined[0], passes)
        finally:
            ffi.lib.LLVMPY_DisposeNewFunctionPassManger(manager)  # llvmlite's own spelling; without it memory leaks
            manager.detach()
        return
    manager = passes.getModulePassManager()
    try:
        manager.run(module, passes)
    finally:
        ffi.lib.LLVMPY_DisposeNewModulePassManger(manager)
        manager.detach()


def parse(text: str, target: Target) -> Any:
    """Parse and verify LLVM text. Raises CompilerBug when LLVM refuses it."""
    binding, _ = llvm()
    source = header(target) + text
    try:
        module = binding.parse_assembly(source, binding.create_context())
        module.verify()
    except RuntimeError as error:
        raise CompilerBug(f"LLVM refuses its input: {error}") from error
    return module


class _Addresses:
    """How loops treat addresses, which LLVM knows for a whole process: threads that want it otherwise wait."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._threads, self._kept = 0, False

    @contextmanager
    def kept(self, kept: bool) -> Generator[None]:
        """Make code where each address of a loop has registers of its own, or has not."""
        with self._changed:
            self._changed.wait_for(lambda: self._threads == 0 or self._kept == kept)
            self._set(kept)
            self._threads += 1
        try:
            yield
        finally:
            with self._changed:
                self._threads -= 1
                if self._threads == 0:
                    self._set(False)
                    self._changed.notify_all()

    def _set(self, kept: bool) -> None:
        if kept != self._kept:
            binding, _ = llvm()
            binding.set_option("", NO_STRENGTH_REDUCTION if kept else AS_EVER)
            self._kept = kept


_addresses = _Addresses()


def emit(module: Any, target: Target, keep_addresses: bool = False) -> str:
    """The PTX of an optimised module, with each address of a loop in registers of its own if they are to be kept.

    Raises CompilerBug when it calls an intrinsic that does not exist.
    """
    with _addresses.kept(keep_addresses):
        ptx = str(machine(target)[0].emit_assembly(module))
    # The expression looks at every character of every line, and what it looks for is hardly ever there.
    if "llvm." in ptx and (stray := re.search(r"^.*\bllvm\.\w.*$", ptx, re.MULTILINE)):
        raise CompilerBug(f"the PTX names an LLVM intrinsic: {stray[0].strip()}")
    return ptx
