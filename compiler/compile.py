"""From a module of tile IR to a compiled kernel, with every stage kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType
from typing import Any

# What `lang` imports late is reached through it.
from tilewright import lang
from tilewright.lang import CompilerBug, Module

from . import backend
from .clone import clone_module
from .cubin import Resources
from .errors import BadOption
from .lower.kernel import lower, symbol
from .occupancy import PARTITION_REGISTERS, PARTITIONS, assemble_kernel, waits_for_warps
from .passes.contract import contract
from .passes.trees import Tree, recorded
from .pipeline import GPU_PASSES, TILE_PASSES, Hook, Timing, run_passes
from .targets import Target, target_named

STAGES = ("ttir", "ttgir", "llir", "ptx", "cubin")
WARPS = (1, 2, 4, 8, 16, 32)
#: How many registers a thread may be held to. The assembler makes few into the least that it can do with, 24 or so.
MAX_REGISTERS = range(8, 256)
#: What a block has for all of its threads, on every target.
BLOCK_REGISTERS = PARTITIONS * PARTITION_REGISTERS


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a launcher must know of a kernel, and what it uses; zeros where there is no cubin.

    `maxnreg`: how many registers a thread is held to, None where that is left to us and the assembler. `waits`: whether
    the kernel gains from more blocks beside it (see `occupancy.py`).
    trees: of each reduction the line in the source, the axis, and the bits of the index in the order in which they are
    folded (see `passes/trees.py`).
    """

    name: str
    target: str
    num_warps: int
    maxnreg: int | None = None
    shared: int = 0
    registers: int = 0
    stack: int = 0
    spills: int = 0
    trees: tuple[Tree, ...] = ()
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel at every stage, text but for the bytes of `cubin`, and the seconds that each step took."""

    stages: Mapping[str, Any]
    metadata: Metadata
    seconds: Mapping[str, float]


def compile_module(
    module: Module,
    target: str,
    num_warps: int = 4,
    *,
    num_stages: int = 3,
    maxnreg: int | None = None,
    fp_fusion: bool = True,
    until: str = "cubin",
    hook: Hook | None = None,
) -> Compiled:
    """Compile a module, which stays as it is, for a target of TARGETS.

    num_warps: a power of two up to 32. num_stages: how many rounds of a loop have their loads in shared memory at a
    time, 1 for none ahead; a loop that says so itself decides. maxnreg: the most registers that a thread may use, 8 to
    255; None leaves it to us (`occupancy.py`) and the assembler. fp_fusion: whether multiplications and additions whose
    contracts admit it are fused. until: the last stage that is made. hook: called after each pass with its name and the
    module. Raises UnknownTarget, BadOption, NotCompiledYet, NotOnTarget, RegistersExceeded, SharedMemoryExceeded,
    NoAssembler and AssemblerError.
    """
    if num_warps not in WARPS:
        raise BadOption(option="num_warps", value=num_warps, expected=f"one of {', '.join(map(str, WARPS))}")
    if maxnreg is not None and maxnreg not in MAX_REGISTERS:
        raise BadOption(option="maxnreg", value=maxnreg, expected=f"{MAX_REGISTERS[0]} to {MAX_REGISTERS[-1]}, or None")
    threads = 32 * num_warps
    if maxnreg is not None and maxnreg * threads > BLOCK_REGISTERS:
        most = f"at most {BLOCK_REGISTERS // threads} with num_warps={num_warps}"
        expected = f"{most}: {threads} threads share {BLOCK_REGISTERS:,} registers"
        raise BadOption(option="maxnreg", value=maxnreg, expected=expected)
    if until not in STAGES:
        raise BadOption(option="until", value=until, expected=f"one of {', '.join(STAGES)}")
    if num_stages < 1:
        raise BadOption(option="num_stages", value=num_stages, expected="a whole number from 1 up")
    run = _Run(target_named(target), num_warps, maxnreg, until)
    work = clone_module(module)
    work.attributes |= {"num_warps": num_warps, "num_stages": num_stages, "target": target}
    run.tile_stages(work, fp_fusion, hook)
    if run.goes_on("llir"):
        run.code_stages(work)
    name = symbol(module.kernel.name)
    used = run.used
    shared = work.attributes.get("shared", 0)
    assert isinstance(shared, int)
    facts = recorded(work), waits_for_warps(work)
    metadata = Metadata(name, target, num_warps, maxnreg, shared, used.registers, used.stack, used.spills, *facts)
    return Compiled(MappingProxyType(run.stages), metadata, MappingProxyType(run.timing.seconds))


class _Run:
    """One compilation: the stages so far, and the time that they took."""

    def __init__(self, target: Target, num_warps: int, maxnreg: int | None, until: str) -> None:
        self.target = target
        self.num_warps = num_warps
        self.maxnreg = maxnreg
        self.until = until
        self.stages: dict[str, Any] = {}
        self.timing = Timing()
        self.used = Resources()

    def goes_on(self, stage: str) -> bool:
        """Whether a stage is wanted."""
        return STAGES.index(stage) <= STAGES.index(self.until)

    def keep(self, stage: str, content: Any, start: float) -> None:
        self.stages[stage] = content
        self.timing.add(stage, start)

    def tile_stages(self, module: Module, fp_fusion: bool, hook: Hook | None) -> None:
        passes = tuple(each for each in TILE_PASSES if fp_fusion or each is not contract)
        run_passes(module, passes, self.timing, hook)
        start = perf_counter()
        self.keep("ttir", lang.print_module(module), start)
        if self.goes_on("ttgir"):
            run_passes(module, GPU_PASSES, self.timing, hook)
            start = perf_counter()
            self.keep("ttgir", lang.print_module(module), start)

    def code_stages(self, module: Module) -> None:
        start = perf_counter()
        text = lower(module, self.target, self.num_warps, self.maxnreg)
        self.keep("llir", text, start)
        if not self.goes_on("ptx"):
            return
        start = perf_counter()
        parsed = backend.parse(text, self.target)
        self.timing.add("parse", start)
        start = perf_counter()
        backend.optimise(parsed, self.target)
        self.timing.add("optimise", start)
        start = perf_counter()
        keep_addresses = "keep_addresses" in module.attributes
        self.keep("ptx", backend.emit(parsed, self.target, keep_addresses), start)
        if self.goes_on("cubin"):
            shared = module.attributes.get("shared", 0)
            assert isinstance(shared, int)
            self.assemble(symbol(module.kernel.name), shared, waits_for_warps(module))

    def assemble(self, name: str, dynamic_shared: int, waits: bool) -> None:
        start = perf_counter()
        cubin, self.used = assemble_kernel(name, self.stages["ptx"], self.target.name, dynamic_shared, waits)
        self.keep("cubin", cubin, start)
        if self.used.registers == 0:
            raise CompilerBug(f"the cubin of {name} does not say how many registers it uses")
