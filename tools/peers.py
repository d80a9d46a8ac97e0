"""Kernels of ours as Triton compiles them: the same Python functions, under its `jit` and with its `tl`.

Needs an environment with triton 3.6.0 (`make ptx-coverage` makes one), and no GPU.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

import tilewright
from tilewright import language
from tilewright.bench._lazy import System, systems
from tilewright.bench.compile_time import Made, triton_texts
from tilewright.lang import DeviceFunction, type_text
from tilewright.runtime import JITFunction, Specialization

#: The generations for which Triton is asked, by our names.
CAPABILITIES = {"sm_80": 80, "sm_90a": 90, "sm_120a": 120}


class Refused(Exception):
    """Triton does not compile a kernel; why, in a line."""


@dataclass(eq=False)
class Peer:
    """Triton, and what has been made of our functions. Raises ImportError where Triton is missing."""

    system: System = field(default_factory=lambda: systems(interpret=False)["triton"])
    made: dict[DeviceFunction, Any] = field(default_factory=dict[DeviceFunction, Any])

    def compile(self, kernel: JITFunction, chosen: Specialization, target: str, options: Mapping[str, Any]) -> Made:
        """A kernel of ours under assumptions of ours. Raises Refused."""
        said = io.StringIO()
        try:
            with redirect_stderr(said), redirect_stdout(said):
                function = self.function(kernel)
                signature = signature_of(chosen, function.arg_names)
                return triton_texts(function, signature, CAPABILITIES[target], options, last="ptx")
        except Exception as error:  # of any kind: what Triton says of what it does not know has no common class
            raise Refused(f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}") from error

    def function(self, ours: DeviceFunction) -> Any:
        """Our function under Triton's `jit`: its code, and what it reads from outside as Triton's."""
        if ours not in self.made:
            plain: Any = ours.function
            outside = plain.__globals__
            known = {name: self.global_(outside[name]) for name in names_of(plain.__code__, outside)}
            copy = FunctionType(plain.__code__, known, plain.__name__, plain.__defaults__, plain.__closure__)
            copy.__module__, copy.__qualname__ = plain.__module__, plain.__qualname__
            copy.__annotations__ = {each.name: "constexpr" for each in ours.parameters if each.is_constexpr}
            self.made[ours] = self.system[0].jit(copy)
        return self.made[ours]

    def global_(self, value: Any) -> Any:
        """A global of ours as it is called there."""
        if isinstance(value, DeviceFunction):
            return self.function(value)
        ours: tuple[Any, ...] = (tilewright, language)
        return self.system[ours.index(value)] if inspect.ismodule(value) and value in ours else value


def names_of(code: CodeType, known: Mapping[str, Any]) -> Iterator[str]:
    """The globals that code reads."""
    yield from (name for name in code.co_names if name in known)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from names_of(each, known)


def signature_of(chosen: Specialization, names: list[str]) -> dict[str, Any]:
    """Our assumptions as Triton's `ASTSource` takes them."""
    types = {name: type_text(type_) for name, type_ in chosen.signature.items()}
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in chosen.attributes}
    constants = chosen.constants
    return {
        "signature": {name: types.get(name, "constexpr") for name in names}, "constexprs": constants, "attrs": aligned,
    }  # fmt: skip
