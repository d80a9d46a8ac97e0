"""A file that shows a bug of ours again: the kernel's source with what it reaches, and the call that failed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from enum import Enum
from hashlib import sha256
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, cast

from ..constants import constexpr, unwrap
from ..dtypes import dtype, type_text
from .function import DeviceFunction
from .names import dependencies

FOLDER = "tilewright-bugs"


def write_reproducer(
    function: DeviceFunction,
    signature: Mapping[str, Any],
    constants: Mapping[str, Any],
    attributes: Mapping[str, Mapping[str, Any]],
    problem: str,
) -> str:
    """Write a standalone Python file into the folder for temporary files, and give its path; "" where that fails.

    It holds the functions that the kernel reaches and the captured values that can be written down; the rest is named
    in comments.
    """
    try:
        text = reproducer(function, signature, constants, attributes, problem)
        folder = Path(tempfile.gettempdir()) / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{function.name}_{sha256(text.encode()).hexdigest()[:12]}.py"
        path.write_text(text, encoding="utf-8")
    except Exception:  # whatever it is (a full disk, a value that breaks this too), it must not hide the bug
        return ""
    return str(path)


def reproducer(
    function: DeviceFunction,
    signature: Mapping[str, Any],
    constants: Mapping[str, Any],
    attributes: Mapping[str, Mapping[str, Any]],
    problem: str,
) -> str:
    """The text of the file."""
    parts = ['"""Shows a bug of Tilewright:', "", indent(problem, "    "), '"""', ""]
    parts += ["import tilewright", "import tilewright.language as tl", "from tilewright import lang", ""]
    parts += _captured(function)
    reached = [d.value for d in dependencies(function) if isinstance(d.value, DeviceFunction)]
    for each in dict.fromkeys([*reversed(reached), function]):
        parts += ["", "@tilewright.jit", _definition(each)]
    calls = {"signature": signature, "constants": constants, "attributes": attributes}
    arguments = ", ".join(f"{name}={written(dict(value))}" for name, value in calls.items())
    parts += ["", f"print(lang.print_module(lang.generate({function.name}, {arguments})))", ""]
    return "\n".join(parts)


def _captured(function: DeviceFunction) -> Iterator[str]:
    """An assignment for each captured value under a plain name; a comment for one that has no text."""
    for name, value in {d.name: unwrap(d.value) for d in dependencies(function)}.items():
        if isinstance(value, DeviceFunction) or "." in name:
            continue
        text = written(value)
        yield f"{name} = tl.constexpr({text})" if text else f"# {name}: {value!r}"


def _definition(function: DeviceFunction) -> str:
    """The source from `def` on, without decorators and indentation."""
    source = function.source
    skip = source.tree.lineno - source.shift - 1
    return dedent("".join(source.lines[skip:])).rstrip() + "\n"


def written(value: Any) -> str:
    """An expression that gives the value, in terms of `tl` and `lang`; "" for one that has none."""
    if isinstance(value, constexpr):
        inner = written(value.value)
        return inner and f"tl.constexpr({inner})"
    if isinstance(value, dtype):
        return "tl.void" if value.is_void() else f"lang.parse_type({type_text(value)!r})"
    if isinstance(value, float):
        return f'float("{value!r}")' if value - value != 0 else repr(value)
    if isinstance(value, tuple | list | dict):
        return _container(cast("Any", value))
    if isinstance(value, DeviceFunction):
        return value.name
    if isinstance(value, Enum):
        return f"tl.{value}" if type(value).__module__.startswith("tilewright") else ""
    return repr(value) if value is None or isinstance(value, bool | int | str) else ""


def _container(value: Any) -> str:
    if isinstance(value, dict):
        items = [(repr(key), written(part)) for key, part in cast("dict[str, Any]", value).items()]
        return "{" + ", ".join(f"{key}: {part or 'None'}" for key, part in items) + "}"
    parts = [written(part) or "None" for part in value]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
