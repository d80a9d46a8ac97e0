"""What `import tilewright` loads: no GPU driver, nothing optional, and the reference only when a kernel is launched."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
#: What importing the package must not load: what is large, optional, or above the front door.
LATE: tuple[str, ...] = (
    "cuda",
    "difflib",
    "hashlib",
    "hypothesis",
    "importlib.metadata",
    "json",
    "llvmlite",
    "ml_dtypes",
    "mpmath",
    "rich",
    "tilewright.bench",
    "tilewright.compiler",
    "tilewright.difftest",
    "tilewright.interpreter",
    "tilewright.lang.frontend.generator",
    "tilewright.lang.parser",
    "tilewright.lang.printer",
    "tilewright.lang.verifier",
    "tilewright.runtime.calls",
    "tilewright.runtime.devices",
    "tilewright.runtime.store",
    "torch",
)
KERNEL = """
import numpy as np
import tilewright
import tilewright.language as tl

@tilewright.jit
def fill(out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), 7.0)
"""


def run(folder: Path, code: str) -> str:
    """What a new process prints that runs the code from a file, as kernels need."""
    script = folder / "script.py"
    script.write_text(code)
    command = [sys.executable, "-c", f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return child.stdout


def loaded(folder: Path, code: str) -> set[str]:
    """Which of the late modules a new process has loaded after the code."""
    return set(LATE) & set(run(folder, f"{code}\nimport sys\nprint(*sys.modules)").split())


@pytest.mark.parametrize("code", ["import tilewright", "import tilewright.language", KERNEL])
def test_importing_and_declaring_kernels_loads_nothing_late(code: str, tmp_path: Path) -> None:
    assert loaded(tmp_path, code) == set()


def test_a_launch_loads_the_frontend_and_the_reference(tmp_path: Path) -> None:
    launch = "out = np.zeros(4, np.float32)\nfill[(1,)](out, N=4)\nassert (out == 7).all()"
    found = loaded(tmp_path, KERNEL + launch)
    assert {"tilewright.interpreter", "tilewright.lang.frontend.generator"} <= found
    never = {"cuda", "hypothesis", "llvmlite", "mpmath", "rich", "torch", "tilewright.compiler", "tilewright.difftest"}
    assert found.isdisjoint(never)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not list a process's libraries")
def test_importing_maps_no_gpu_driver(tmp_path: Path) -> None:
    maps = run(tmp_path, "import tilewright\nprint(open('/proc/self/maps').read())")
    assert "_multiarray_umath" in maps  # the list is there and names extension modules
    assert "libcuda" not in maps and "libnvidia" not in maps


def test_names_of_the_face_that_load_late_are_there(tmp_path: Path) -> None:
    code = "from tilewright import lang\nassert 'tilewright.lang.parser' not in __import__('sys').modules\n"
    found = loaded(tmp_path, f"{code}lang.parse_module, lang.tile_layouts\nassert not hasattr(lang, 'no_such_name')")
    assert "tilewright.lang.parser" in found
