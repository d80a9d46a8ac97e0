"""Whether kernels compile to the same PTX bytes here as where they were last written down.

`python -m tools.digests` compiles the kernels of tests/runtime/digest_kernels.py for every target and compares the
digests of their PTX with the stored ones (exit status 1 if one differs, or if the toolchain is another one);
`python -m tools.digests --write` stores them, which every change of generated code asks for.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

from tilewright.compiler import TARGETS
from tilewright.lang import knobs
from tilewright.runtime import CompileOptions, compile_ahead, find_device, load_kernel
from tilewright.runtime.doctor import llvm_version

TESTS = Path(__file__).parent.parent / "tests" / "runtime"
KERNELS = TESTS / "digest_kernels.py"
STORED = TESTS / "ptx_digests.json"

#: For each kernel the signature under which it is compiled, and the options.
SIGNATURES: dict[str, tuple[str, CompileOptions]] = {
    "add": ("*fp32:16, *fp32:16, *fp32:16, i32, 1024", CompileOptions()),
    "gelu": ("*fp16:16, *fp16, i32:16, 512", CompileOptions(num_warps=2)),
    "dropout": ("*fp32:16, *fp32:16, i32, fp32, i32, 256", CompileOptions()),
    "bits": ("*u32:16, *u32:16, 256", CompileOptions(num_warps=8)),
    "broadcast": ("*fp32:16, *bf16:16, *fp32:16, 16, 64", CompileOptions(enable_fp_fusion=False)),
    "loops": ("*fp32:16, *fp32:16, i32, 128", CompileOptions(num_warps=1)),
    "casts": ("*fp32:16, *i64:16, 256", CompileOptions()),
    "atomics": ("*i32:16, *fp32:16, *bf16:16, 128", CompileOptions()),
    "math": ("*fp32:16, *fp32:16, 256", CompileOptions(maxnreg=64)),
    "reports": ("*i64:16, i32, 64", CompileOptions(debug=True)),
}

Digests = dict[str, dict[str, str]]


def compiled() -> Digests:
    """The SHA-256 of the PTX of each kernel for each target, compiled now."""
    with knobs.scope(cache_max_bytes=0):
        return {
            name: {target: _digest(name, target, signature, options) for target in TARGETS}
            for name, (signature, options) in SIGNATURES.items()
        }


def _digest(name: str, target: str, signature: str, options: CompileOptions) -> str:
    kernel = load_kernel(f"{KERNELS}:{name}")
    made = compile_ahead(kernel, signature, find_device(f"emulator:{target}"), options)
    return hashlib.sha256(made.artifact.ptx.encode()).hexdigest()


def stored() -> tuple[str, Digests]:
    """The versions of the toolchain, and the digests as they were written down with it."""
    found = json.loads(STORED.read_text())
    return found["toolchain"], found["ptx"]


def differing(now: Digests, then: Digests) -> list[str]:
    """What differs, as `kernel for target`; kernels and targets that are on one side alone too."""
    pairs = {(name, target) for rows in (now, then) for name, row in rows.items() for target in row}
    return [f"{n} for {t}" for n, t in sorted(pairs) if now.get(n, {}).get(t) != then.get(n, {}).get(t)]


def main(*arguments: str) -> int:
    """Compare, or write. The exit status."""
    parser = argparse.ArgumentParser(prog="tools.digests", description="compare PTX with what was written down")
    parser.add_argument("--write", action="store_true", help="write it down anew")
    options = parser.parse_args(arguments)
    now = compiled()
    if options.write:
        STORED.write_text(json.dumps({"toolchain": llvm_version(), "ptx": now}, indent=1) + "\n")
        print(f"{STORED}: {sum(map(len, now.values()))} digests, {llvm_version()}")
        return 0
    toolchain, then = stored()
    if toolchain != llvm_version():
        print(f"written with {toolchain}; here is {llvm_version()}")
        return 1
    differ = differing(now, then)
    print("\n".join(differ) or f"all {sum(map(len, now.values()))} as they were written")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
