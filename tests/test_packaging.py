"""What ships and what it needs: links, packages, dependencies and pins, and an import that stays light."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools import house

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PLATFORMS = [
    {"sys_platform": system, "platform_machine": machine, "python_version": python}
    for system, machine in (
        ("linux", "x86_64"),
        ("linux", "aarch64"),
        ("darwin", "arm64"),
        ("win32", "AMD64"),
    )
    for python in ("3.11", "3.12", "3.13")
]


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(text) for group in (PROJECT["dependencies"], *extras) for text in group]


def pins() -> list[Requirement]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def applies(marker: Marker | None, environment: dict[str, str]) -> bool:
    return marker is None or marker.evaluate(environment)


# --- links and packages ---


def test_every_room_is_linked_and_every_folder_is_a_package() -> None:
    assert house.link_violations(ROOT) == []


def test_what_setuptools_would_ship_is_what_is_there() -> None:
    setuptools = pytest.importorskip("setuptools", reason="needs setuptools, which is not installed")
    shipped = set(setuptools.find_packages(str(ROOT), include=["tilewright*"]))
    assert shipped == house.packages(ROOT)
    assert shipped >= {house.PACKAGE, *(f"{house.PACKAGE}.{room}" for room in house.ROOMS)}


def make_links(root: Path) -> None:
    (root / house.PACKAGE).mkdir()
    (root / house.PACKAGE / "__init__.py").write_text("")
    for room in house.ROOMS:
        (root / room).mkdir()
        (root / room / "__init__.py").write_text("")
        (root / house.PACKAGE / room).symlink_to(f"../{room}")


def test_broken_links_and_unshipped_folders_are_caught(tmp_path: Path) -> None:
    make_links(tmp_path)
    assert house.link_violations(tmp_path) == []
    front = tmp_path / house.PACKAGE
    (front / "lang").unlink()
    (front / "bench").unlink()
    (front / "bench").symlink_to("../reports")
    (front / "extra").symlink_to("../lang")
    (tmp_path / "reports" / "__init__.py").unlink()
    (tmp_path / "lang" / "ops").mkdir()
    (tmp_path / "lang" / "ops" / "arith.py").write_text("")
    house.sources.cache_clear()
    assert house.link_violations(tmp_path) == [
        "tilewright/lang: no link to ../lang",
        "tilewright/bench: no link to ../bench",
        "tilewright/extra: a link that is no room",
        "reports/__init__.py: missing",
        "lang/ops/__init__.py: missing, so the folder would not ship",
    ]


@pytest.mark.slow
def test_a_wheel_holds_every_file_of_every_room(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", reason="needs setuptools, which is not installed")
    skip = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info")
    shutil.copytree(ROOT, tmp_path / "tree", symlinks=True, ignore=skip)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(tmp_path),
        ".",
    ]
    run = subprocess.run(build, cwd=tmp_path / "tree", capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (wheel,) = tmp_path.glob("*.whl")
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    rooms = {source.path for source in house.sources(ROOT)}
    expected = {path if path.startswith(house.PACKAGE) else f"{house.PACKAGE}/{path}" for path in rooms}
    assert shipped == expected | {"tilewright/py.typed"}


# --- dependencies and pins ---


def test_every_pin_lies_inside_the_range_that_users_get() -> None:
    ranges = {canonicalize_name(need.name): need.specifier for need in requirements()}
    for pin in pins():
        (exact,) = pin.specifier
        assert exact.operator == "==" and "*" not in exact.version
        if canonicalize_name(pin.name) in ranges:
            assert exact.version in ranges[canonicalize_name(pin.name)], pin


@pytest.mark.parametrize("environment", PLATFORMS, ids=lambda e: "-".join(e.values()))
def test_each_package_has_at_most_one_pin_and_the_core_has_one(environment: dict[str, str]) -> None:
    active = [canonicalize_name(pin.name) for pin in pins() if applies(pin.marker, environment)]
    assert len(active) == len(set(active))
    core = [Requirement(text) for text in PROJECT["dependencies"]]
    assert {canonicalize_name(need.name) for need in core} <= set(active)


def test_numpy_is_the_one_of_the_gpu_machine_from_python_3_12_on() -> None:
    chosen = {
        environment["python_version"]: Version(next(iter(pin.specifier)).version).release[:2]
        for environment in PLATFORMS
        for pin in pins()
        if pin.name == "numpy" and applies(pin.marker, environment)
    }
    assert chosen == {"3.11": (2, 4), "3.12": (2, 5), "3.13": (2, 5)}


@pytest.mark.parametrize("environment", PLATFORMS, ids=lambda e: "-".join(e.values()))
def test_the_cuda_libraries_are_asked_for_on_linux_only(environment: dict[str, str]) -> None:
    needs = [Requirement(text) for text in PROJECT["dependencies"]]
    active = {need.name for need in needs if applies(need.marker, environment)}
    cuda = {"nvidia-nvjitlink", "cuda-bindings"}
    assert active & cuda == (cuda if environment["sys_platform"] == "linux" else set())
    assert active >= {"numpy", "ml_dtypes", "mpmath", "llvmlite"}


def test_the_compiler_wheels_stay_at_the_versions_that_were_tried() -> None:
    exact = {need.name: str(need.specifier) for need in requirements()}
    assert exact["llvmlite"] == "==0.50.*"
    assert exact["nvidia-nvjitlink"] == "==13.0.*"


def test_nothing_asks_for_torch_triton_or_the_nvvm_compiler() -> None:
    asked = {canonicalize_name(need.name) for need in [*requirements(), *pins()]}
    assert asked.isdisjoint({"torch", "triton", "nvidia-nvvm", "nvidia-cuda-nvcc", "cuda-python", "cuda-toolkit"})
    assert not any(need.extras for need in requirements() if need.name.startswith(("cuda", "nvidia")))


def test_the_version_is_written_once_more_only_in_the_changelog() -> None:
    assert re.search(rf"^## .*{re.escape(PROJECT['version'])}", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


# --- the import ---

LOADED = """
import json, sys
import tilewright
maps = open("/proc/self/maps").read() if sys.platform == "linux" else ""
print(json.dumps([sorted({name.split(".")[0] for name in sys.modules}), "libcuda" in maps]))
"""


def test_importing_the_package_loads_nothing_heavy_and_no_driver() -> None:
    run = subprocess.run([sys.executable, "-W", "error", "-c", LOADED], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    modules, driver = json.loads(run.stdout)
    assert house.HEAVY.isdisjoint(modules) and "hypothesis" not in modules
    assert not driver
