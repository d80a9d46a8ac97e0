"""The rules of the house, as functions from a source tree to the list of its violations.

A violation is one line, `file:line: what is wrong`, so that a failing guard test can be clicked. The trees are only
read and parsed, never imported: the tests run every rule on a broken tree of their own as well as on this one.
"""

import ast
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = "tilewright"
ROOMS = ("lang", "interpreter", "compiler", "runtime", "difftest", "bench", "reports")
# A room may import the faces of rooms that stand lower.
RANK = {
    "lang": 0,
    "interpreter": 1,
    "compiler": 1,
    "runtime": 2,
    "difftest": 3,
    "bench": 3,
    "reports": 4,
    PACKAGE: 5,
}
# Slow to import or not always there: only a room's _lazy.py imports them.
HEAVY = frozenset("llvmlite cuda torch triton rich typer pandas scipy matplotlib dask jinja2".split())
ENVIRONMENT = frozenset("environ environb expandvars getenv getenvb putenv unsetenv".split())
# As texts, in getattr(os, "environ"), say.
ENVIRONMENT_WORDS = ENVIRONMENT - {"expandvars"}
KNOBS = "lang/knobs.py"
LAZY = "_lazy.py"
# Kernel sources, which say `import triton` and are loaded under whatever system is to answer to that name.
KERNEL_SOURCES = "bench/kernels/"
# The command line, which is a program of its own: nothing imports it.
PROGRAMS = frozenset({f"{PACKAGE}/cli.py"})
# The user's `tl` is a face of its own, which the front door hands on.
INNER_FACES = {(PACKAGE, f"{PACKAGE}.lang.language")}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file: its room, and its path and dotted module name as an importer sees them."""

    room: str
    path: str
    module: str
    tree: ast.Module
    lines: int

    @property
    def is_package(self) -> bool:
        return self.path.endswith("/__init__.py")

    @property
    def is_lazy(self) -> bool:
        return self.path.endswith("/" + LAZY)


@dataclass(frozen=True, slots=True)
class Import:
    """One imported thing: `module` in full, and `name` if it was `from module import name`."""

    line: int
    module: str
    name: str | None
    level: int


def python_files(folder: Path) -> Iterator[Path]:
    """Every .py file under a folder, sorted; links to folders are not followed."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        yield from (Path(parent, name) for name in sorted(files) if name.endswith(".py"))


@cache
def sources(root: Path) -> tuple[Source, ...]:
    """All Python files of the rooms and of the front door under `root`."""
    found: list[Source] = []
    for room in (*ROOMS, PACKAGE):
        for path in python_files(root / room):
            inside = path.relative_to(root).with_suffix("").parts
            parts = inside if room == PACKAGE else (PACKAGE, *inside)
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text, str(path))
            found.append(Source(room, str(path.relative_to(root)), module, tree, text.count("\n")))
    return tuple(found)


# --- imports ---


def imports(source: Source) -> Iterator[Import]:
    """Every import of a file, TYPE_CHECKING blocks and function bodies included, with relative ones resolved."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name, None, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve(source, node)
            yield from (Import(node.lineno, base, alias.name, node.level) for alias in node.names)


def resolve(source: Source, node: ast.ImportFrom) -> str:
    """The full module name that a `from ... import` names."""
    if node.level == 0:
        return node.module or ""
    parts = source.module.split(".")
    package = parts if source.is_package else parts[:-1]
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def room_of(module: str) -> str | None:
    """The room a dotted module name belongs to; the front door for the rest of the package; None outside."""
    parts = module.split(".")
    if parts[0] != PACKAGE:
        return None
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else PACKAGE


def face_of(root: Path, room: str) -> frozenset[str]:
    """The names in the `__all__` of a room's face, as far as it is a plain list."""
    file = root / room / "__init__.py"
    if not file.exists():
        return frozenset()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            return frozenset(ast.literal_eval(value)) if value else frozenset()
    return frozenset()


def import_violations(root: Path) -> list[str]:
    """Imports go down the ladder, through faces, absolutely between rooms and relatively inside one."""
    faces = {room: face_of(root, room) for room in ROOMS}
    return [
        f"{source.path}:{item.line}: {wrong}"
        for source in sources(root)
        for item in imports(source)
        if (wrong := import_fault(source, item, faces))
    ]


def import_fault(source: Source, item: Import, faces: dict[str, frozenset[str]]) -> str | None:
    """What is wrong with one import, if anything is."""
    top = item.module.split(".")[0]
    if top in ROOMS or top in ("tests", "tools", "examples"):
        return f"bare import of {top}/ makes a second copy of it; write {PACKAGE}.{top}"
    module = item.module
    if module == PACKAGE and item.name in ROOMS:
        module, name = f"{PACKAGE}.{item.name}", None
    else:
        name = item.name
    target = room_of(module)
    if target is None:
        return None
    if target == source.room:
        inside = item.level > 0 or source.room == PACKAGE
        return None if inside else f"{target} imports itself absolutely; write a relative import"
    if RANK[target] >= RANK[source.room]:
        return f"{source.room} may not import {target}: imports go down the ladder only"
    if item.level > 0:
        return f"relative import out of {source.room}; write {PACKAGE}.{target}"
    if (source.room, module) in INNER_FACES:
        return None
    if module != f"{PACKAGE}.{target}":
        return f"{module} is inside {target}; import from its face, {PACKAGE}.{target}"
    if name is not None and name not in faces[target]:
        return f"{name} is not in the __all__ of {target}"
    return None


def late_import_violations(root: Path) -> list[str]:
    """No import inside a function, and no computed one, outside the `_lazy.py` files."""
    found: list[str] = []
    for source in (source for source in sources(root) if not source.is_lazy):
        functions = [node for node in ast.walk(source.tree) if isinstance(node, FunctionNode)]
        late = {
            inner.lineno
            for function in functions
            for inner in ast.walk(function)
            if isinstance(inner, ast.Import | ast.ImportFrom)
        }
        found += [f"{source.path}:{line}: import inside a function" for line in sorted(late)]
        found += [f"{source.path}:{line}: computed import" for line in computed_imports(source.tree)]
    return found


def computed_imports(tree: ast.Module) -> list[int]:
    """The lines that call `__import__` or `import_module`."""
    aliased = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and any(alias.name == "import_module" for alias in node.names)
    ]
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [(f.lineno, f.id if isinstance(f, ast.Name) else getattr(f, "attr", "")) for f in calls]
    return sorted({*aliased, *(line for line, name in names if name in ("__import__", "import_module"))})


def heavy_import_violations(root: Path) -> list[str]:
    """Heavy packages are imported in `_lazy.py` files only, or for the type checker alone."""
    found: list[str] = []
    for source in sources(root):
        if source.is_lazy or source.path in PROGRAMS or source.path.startswith(KERNEL_SOURCES):
            continue
        unseen = type_checking_lines(source.tree)
        for item in imports(source):
            top = item.module.split(".")[0]
            if top in HEAVY and item.line not in unseen:
                found.append(f"{source.path}:{item.line}: {top} is heavy; import it in the room's {LAZY}")
    return found


def type_checking_lines(tree: ast.Module) -> set[int]:
    """The lines of the `if TYPE_CHECKING:` blocks, which never run."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", getattr(node.test, "attr", "")) == "TYPE_CHECKING":
            lines.update(line for part in node.body for line in range(part.lineno, (part.end_lineno or 0) + 1))
    return lines


# --- the environment ---


def environment_violations(root: Path) -> list[str]:
    """Nothing but the knobs file reads or writes the environment."""
    return [
        f"{source.path}:{line}: touches the environment; declare a knob in {KNOBS}"
        for source in sources(root)
        if source.path != KNOBS
        for line in environment_lines(source.tree)
    ]


def environment_lines(tree: ast.Module) -> list[int]:
    """The lines that name `os.environ`, `os.getenv` and the like, under whatever name and by whatever way."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT and isinstance(node.value, ast.Name):
            lines.add(node.lineno)
        elif isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT and ast.unparse(node.value).endswith(".os"):
            lines.add(node.lineno)
        elif isinstance(node, ast.Constant) and node.value in ENVIRONMENT_WORDS:
            lines.add(node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "posix", "nt"):
            lines.update(node.lineno for alias in node.names if alias.name in ENVIRONMENT | {"*"})
    return sorted(lines)


# --- links and packages ---


def link_violations(root: Path) -> list[str]:
    """`tilewright/` links to each room and to nothing else, and every folder of Python files is a package."""
    front = root / PACKAGE
    links = {path.name: os.readlink(path) for path in front.iterdir() if path.is_symlink()}
    found = [f"{PACKAGE}/{room}: no link to ../{room}" for room in ROOMS if links.get(room) != f"../{room}"]
    found += [f"{PACKAGE}/{name}: a link that is no room" for name in sorted(links) if name not in ROOMS]
    found += [f"{room}/__init__.py: missing" for room in ROOMS if not (root / room / "__init__.py").is_file()]
    for folder in sorted({(root / source.path).parent for source in sources(root)}):
        if not (folder / "__init__.py").is_file():
            found.append(f"{folder.relative_to(root)}/__init__.py: missing, so the folder would not ship")
    return list(dict.fromkeys(found))


def packages(root: Path) -> set[str]:
    """The packages that the rooms and the front door hold, by full name."""
    return {source.module for source in sources(root) if source.is_package}


# --- sizes ---


def functions(tree: ast.Module) -> Iterator[tuple[str, FunctionNode]]:
    """Every function of a file with its dotted name, methods and nested ones included."""

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, FunctionNode]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FunctionNode | ast.ClassDef):
                name = f"{prefix}{child.name}"
                if isinstance(child, FunctionNode):
                    yield name, child
                yield from visit(child, f"{name}.")
            else:
                yield from visit(child, prefix)

    yield from visit(tree, "")


def function_length(node: FunctionNode) -> int:
    """Lines from `def` to the end, without the docstring."""
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None:
        length -= (first.end_lineno or first.lineno) - first.lineno + 1
    return length


def oversized(root: Path, file_limit: int, function_limit: int) -> dict[str, int]:
    """Files (`lang/ir.py`) and functions (`lang/ir.py:Builder.add`) past the limits, with their lines."""
    found = {source.path: source.lines for source in sources(root) if source.lines > file_limit}
    for source in sources(root):
        for name, node in functions(source.tree):
            if (length := function_length(node)) > function_limit:
                found[f"{source.path}:{name}"] = length
    return found


def size_violations(root: Path, limits: tuple[int, int], hard: tuple[int, int], named: Iterable[str]) -> list[str]:
    """Sizes past `limits` (file, function) that are not named, past `hard` at all, and names no longer needed."""
    named = set(named)
    soft = oversized(root, *limits)
    found = [f"{what}: {lines} lines and not a named exception" for what, lines in soft.items() if what not in named]
    found += [f"{what}: {lines} lines, past the hard limit" for what, lines in oversized(root, *hard).items()]
    found += [f"{what}: named as an exception but within the limits" for what in sorted(named - soft.keys())]
    return found
