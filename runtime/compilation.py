"""The runtime's one door to the compiler. Imported when the first kernel is compiled, for the compiler is large."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tilewright.compiler import assemble_kernel, compile_module
from tilewright.lang import Module

from .errors import OptionError
from .options import CompileOptions

WARP = 32


def compile_to_ptx(module: Module, target: str, options: CompileOptions) -> tuple[dict[str, str], dict[str, Any]]:
    """The stages up to PTX, and the facts that a launch needs. Raises CompilationError and OptionError."""
    if options.num_ctas != 1:
        raise OptionError(f"option num_ctas={options.num_ctas}: compiled kernels run in clusters of one block")
    made = compile_module(
        module,
        target,
        options.num_warps,
        num_stages=options.num_stages,
        maxnreg=options.maxnreg,
        fp_fusion=options.enable_fp_fusion,
        until="ptx",
    )
    facts = {
        "name": made.metadata.name,
        "target": target,
        "threads": WARP * options.num_warps,
        "dynamic_shared": made.metadata.shared,
        "parameters": [str(argument.type) for argument in module.kernel.arguments],
        "parameter_names": [argument.name for argument in module.kernel.arguments],
        "trees": made.metadata.trees,
        "waits": made.metadata.waits,
        "cooperative": options.launch_cooperative_grid,
    }
    return dict(made.stages), facts


def assemble_ptx(name: str, ptx: str, target: str, dynamic_shared: int, waits: bool) -> tuple[bytes, dict[str, int]]:
    """The cubin, and what the kernel uses. Raises NoAssembler and AssemblerError."""
    cubin, used = assemble_kernel(name, ptx, target, dynamic_shared, waits)
    return cubin, asdict(used)
