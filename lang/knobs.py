"""The knobs: every `TILEWRIGHT_*` environment variable, declared once with its type, default and meaning.

Nothing else in the project reads the environment (tests/test_environment.py sees to it). A knob is read when
used, not when the package is imported. Its value is the first of: the innermost `knobs.scope(...)`, a plain
assignment (`knobs.verify = True`, undone by `del knobs.verify`), the environment variable where it is set and
not empty, the default.

>>> with knobs.scope(device="interpreter", fuel=1000):
...     knobs.device, knobs.fuel
('interpreter', 1000)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast, overload

from ._lazy import home_path

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KnobError", "KnobRow", "Knobs", "knobs", "table"]

T = TypeVar("T")
PREFIX = "TILEWRIGHT_"


class KnobError(ValueError):
    """A knob got a value that it does not accept, or has no such name."""

    def __init__(self, name: str, value: object, accepts: str) -> None:
        super().__init__(f"{name}={value!r} is not a value this knob takes.\nhint: it accepts {accepts}")
        self.name = name
        self.value = value
        self.accepts = accepts


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One type of knob: `parse` reads a variable's text, `check` a Python value; both raise ValueError."""

    name: str
    accepts: str
    parse: Callable[[str], T]
    check: Callable[[object], T]
    show: Callable[[T], str] = str


@dataclass(frozen=True, slots=True)
class KnobRow:
    """One row of the table of knobs in the documentation; every field is text to print as it is."""

    variable: str
    type: str
    default: str
    accepts: str
    code_changing: bool
    doc: str


# --- the kinds ---

_FLAGS = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(("0", "false", "no", "off"), False)
_DEVICE = re.compile(r"interpreter|cuda(:\d{1,3})?|emulator(:sm_\d{2,3}[af]?)?|")


def _parse_flag(text: str) -> bool:
    if (word := text.lower()) not in _FLAGS:
        raise ValueError(text)
    return _FLAGS[word]


def _check_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _check_device(value: object) -> str:
    if not isinstance(value, str) or not _DEVICE.fullmatch(value):
        raise ValueError(value)
    return value


def _check_path(value: object) -> Path:
    if not isinstance(value, str | os.PathLike) or value == "":
        raise ValueError("no path")
    try:
        return home_path(cast("str | os.PathLike[str]", value))
    except RuntimeError:  # "~name" of a user that does not exist
        raise ValueError("no home folder") from None


_MMA_MODES: tuple[Literal["exact", "hardware"], ...] = ("exact", "hardware")


def _check_mma(value: object) -> Literal["exact", "hardware"]:
    for mode in _MMA_MODES:
        if value == mode:
            return mode
    raise ValueError(value)


def _integer(minimum: int) -> Kind[int]:
    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise ValueError(value)
        return value

    return Kind(
        "int",
        f"an integer from {minimum} up, such as 4096, 0x1000 or 4_096",
        lambda s: check(int(s, 0)),
        check,
    )


FLAG: Kind[bool] = Kind(
    "bool", "1, true, yes, on or 0, false, no, off", _parse_flag, _check_flag, lambda flag: str(int(flag))
)
DEVICE: Kind[str] = Kind(
    "str",
    "'' (where the data is), 'interpreter', 'cuda', 'cuda:1', 'emulator' or 'emulator:sm_90a'",
    _check_device,
    _check_device,
)
MMA: Kind[Literal["exact", "hardware"]] = Kind("str", "'exact' or 'hardware'", _check_mma, _check_mma)
PATH: Kind[Path] = Kind("path", "a folder, with ~ for the home folder", _check_path, _check_path)
NATURAL = _integer(0)
POSITIVE = _integer(1)


# --- the descriptor ---


class Knob(Generic[T]):
    """A field of `Knobs`, read from the variable `TILEWRIGHT_<FIELD NAME>`. The default is a value, or its text.

    `code_changing` marks a knob whose value can change which kernels compile or what they compile to, so that
    it belongs into the cache key.
    """

    def __init__(self, kind: Kind[T], default: T | str, doc: str, *, code_changing: bool = False) -> None:
        self.kind = kind
        self.default = default
        self.doc = doc
        self.code_changing = code_changing
        self.name = ""
        self.variable = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.variable = PREFIX + name.upper()

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Knobs, owner: type) -> T: ...
    def __get__(self, instance: Knobs | None, owner: type) -> Self | T:
        return self if instance is None else self.read(instance)

    def __set__(self, instance: Knobs, value: T) -> None:
        instance.assign(self.name, self.checked(value))

    def __delete__(self, instance: Knobs) -> None:
        instance.unassign(self.name)

    def read(self, instance: Knobs) -> T:
        """The value now: override, else environment, else default."""
        override = instance.override(self.name)
        if override is not None:
            return cast(T, override)
        text = instance.environment.get(self.variable, "").strip()
        return self.parsed(text) if text else self.default_value()

    def default_value(self) -> T:
        """The default, read anew each time, because the home folder may move."""
        return self.kind.check(self.default)

    def parsed(self, text: str) -> T:
        """The value that the variable's text stands for; raises KnobError."""
        try:
            return self.kind.parse(text)
        except ValueError:
            raise KnobError(self.variable, text, self.kind.accepts) from None

    def checked(self, value: object) -> T:
        """The value as the knob keeps it, if it is one; raises KnobError."""
        try:
            return self.kind.check(value)
        except ValueError:
            raise KnobError(f"knobs.{self.name}", value, self.kind.accepts) from None

    def row(self) -> KnobRow:
        """The knob's row in the documentation, the same on every machine."""
        kind = self.kind
        default = self.default if isinstance(self.default, str) else kind.show(self.default)
        return KnobRow(self.variable, kind.name, default, kind.accepts, self.code_changing, self.doc)


# --- the knobs ---


class Knobs:
    """All knobs of one process. Use the module's `knobs`; a test makes its own, over a mapping."""

    __slots__ = ("_assigned", "_scoped", "environment")

    device = Knob(DEVICE, "", "where kernels run; empty: where the data is")
    verify = Knob(FLAG, False, "run the IR verifier after every pass")
    cache_dir = Knob(PATH, "~/.tilewright/cache", "folder of the compiled kernels that are kept")
    cache_max_bytes = Knob(NATURAL, 1 << 30, "bytes that the kept kernels may take on disk; 0 keeps none")
    debug = Knob(FLAG, False, "keep device_assert in kernels", code_changing=True)
    seed = Knob(NATURAL, 0, "seed of the scheduler that interleaves programs run as coroutines")
    fuel = Knob(
        POSITIVE,
        10_000_000,
        "what one launch may take: loop iterations in the reference, instructions on the emulator, each counted once "
        "for all that run it together",
    )
    max_tile_numel = Knob(POSITIVE, 1_048_576, "elements that one tile may have", code_changing=True)
    chunk_bytes = Knob(POSITIVE, 1 << 21, "about how many bytes the largest tile of one batch of programs may take")
    mma = Knob(
        MMA,
        "exact",
        "how the emulator sums the products of an `mma`: exactly and rounded once, or as the target's hardware does",
    )
    print_ir = Knob(FLAG, False, "print the IR of each kernel that compiles, on standard error")

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.environment = environment
        self._assigned: dict[str, object] = {}
        self._scoped: ContextVar[Mapping[str, object] | None] = ContextVar("knobs", default=None)

    @contextmanager
    def scope(self, **values: Any) -> Generator[Self, None, None]:
        """Sets knobs by keyword until the `with` block ends, in this thread or task only; scopes nest.

        An assignment inside the block lasts as long as the block. Raises KnobError for an unknown name or a
        bad value, before anything is set.
        """
        declared = declarations(type(self))
        for name in values:
            if name not in declared:
                raise KnobError(f"knobs.{name}", values[name], f"only the names {', '.join(sorted(declared))}")
        checked = {name: declared[name].checked(value) for name, value in values.items()}
        token = self._scoped.set({**(self._scoped.get() or {}), **checked})
        try:
            yield self
        finally:
            self._scoped.reset(token)

    def override(self, name: str) -> object | None:
        """What Python code set the knob to; None where it set nothing (no knob takes None)."""
        scoped = self._scoped.get()
        if scoped is not None and name in scoped:
            return scoped[name]
        return self._assigned.get(name)

    def assign(self, name: str, value: object) -> None:
        """Keeps a checked value: in the innermost scope if one is open, else for the process."""
        scoped = self._scoped.get()
        if scoped is None:
            self._assigned[name] = value
        else:
            self._scoped.set({**scoped, name: value})

    def unassign(self, name: str) -> None:
        """Forgets what the innermost scope, or else the process, set; setting nothing is no error."""
        scoped = self._scoped.get()
        if scoped is None:
            self._assigned.pop(name, None)
        else:
            self._scoped.set({key: value for key, value in scoped.items() if key != name})

    def settings(self, names: Sequence[str]) -> tuple[object, ...]:
        """What each of these knobs was set to, unchecked; None where the default holds. Equal answers, equal values.

        (But for defaults that depend on where the home folder is.)
        """
        set_here = {**self._assigned, **(self._scoped.get() or {})}  # most often nothing at all
        environment = self.environment
        return tuple([set_here[n] if n in set_here else environment.get(v) for n, v in map(_variable, names)])

    def code_changing(self) -> tuple[tuple[str, str], ...]:
        """(name, value as text) of every knob that belongs into a kernel's cache key, by name."""
        chosen = {name: knob for name, knob in declarations(type(self)).items() if knob.code_changing}
        return tuple((name, knob.kind.show(knob.read(self))) for name, knob in sorted(chosen.items()))


@cache
def _variable(name: str) -> tuple[str, str]:
    return name, PREFIX + name.upper()


def declarations(owner: type) -> dict[str, Knob[Any]]:
    """The knobs that a class declares, by field name, in the order of their declaration."""
    return {name: field for name, field in vars(owner).items() if isinstance(field, Knob)}


def table() -> list[KnobRow]:
    """One row a knob, in the order of declaration; the documentation's table is made from it."""
    return [knob.row() for knob in declarations(Knobs).values()]


knobs = Knobs()
