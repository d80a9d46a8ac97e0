"""One face a room: `__all__` is sorted, complete and true, in every room and at the front door."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from tools import house

ROOT = Path(__file__).parent.parent
FACES = [house.PACKAGE, *(f"{house.PACKAGE}.{room}" for room in house.ROOMS)]
# Names that hide the module they come from. Rooms import inside themselves relatively, which still finds the module.
SHADOWS = {"tilewright.lang": {"knobs"}}


def public_names(face: ModuleType) -> set[str]:
    """What the face defines for others: no underscore, no module that only got there by being imported."""
    listed = set(face.__all__)
    return {
        name
        for name, value in vars(face).items()
        if not name.startswith("_") and (name in listed or not isinstance(value, ModuleType))
    }


def face_faults(face: ModuleType, shadows: set[str]) -> list[str]:
    names: list[str] = list(face.__all__)
    faults = [] if names == sorted(set(names)) else ["__all__ is not sorted, or repeats itself"]
    faults += [f"{name} is listed but missing" for name in names if not hasattr(face, name)]
    faults += [f"{name} is public but not listed" for name in sorted(public_names(face) - set(names))]
    folder = Path(face.__file__ or "").parent
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    hidden = {name for name in names if name in modules and not isinstance(getattr(face, name, None), ModuleType)}
    faults += [f"{name} hides the module of its name" for name in sorted(hidden - shadows)]
    faults += [f"{name} is excused but hides nothing" for name in sorted(shadows - hidden)]
    return faults


@pytest.mark.parametrize("name", FACES)
def test_the_face_is_sorted_complete_and_true(name: str) -> None:
    assert face_faults(importlib.import_module(name), SHADOWS.get(name, set())) == []


@pytest.mark.parametrize("name", FACES)
def test_the_face_says_what_the_room_is_for(name: str) -> None:
    doc = importlib.import_module(name).__doc__
    assert doc and doc.splitlines()[0].endswith((".", ":"))


def made_face(folder: Path, names: list[str], **values: object) -> ModuleType:
    face = ModuleType("face")
    face.__file__ = str(folder / "__init__.py")
    vars(face).update(values, __all__=names)
    return face


FAULTS = [
    (["b", "a"], {"a": 1, "b": 2}, "__all__ is not sorted, or repeats itself"),
    (["a", "a"], {"a": 1}, "__all__ is not sorted, or repeats itself"),
    (["a", "b"], {"a": 1}, "b is listed but missing"),
    (["a"], {"a": 1, "b": 2}, "b is public but not listed"),
    (["fold"], {"fold": len}, "fold hides the module of its name"),
]


@pytest.mark.parametrize(("names", "values", "fault"), FAULTS)
def test_each_fault_is_caught(names: list[str], values: dict[str, object], fault: str, tmp_path: Path) -> None:
    (tmp_path / "fold.py").write_text("")
    assert face_faults(made_face(tmp_path, names, **values), set()) == [fault]


def test_a_good_face_has_no_fault(tmp_path: Path) -> None:
    (tmp_path / "fold.py").write_text("")
    good = made_face(tmp_path, ["a", "fold"], a=1, _b=2, part=ModuleType("part"), fold=len)
    assert face_faults(good, {"fold"}) == []
    assert face_faults(made_face(tmp_path, ["a"], a=1), {"a"}) == ["a is excused but hides nothing"]
