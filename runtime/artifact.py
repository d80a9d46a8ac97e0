"""What a kernel was compiled to: its stages by the names that people know, and the facts that a launch needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tilewright import lang
from tilewright.lang import Module

from .options import CompileOptions

#: The stages of compiled code, in the order in which they are made.
STAGES = ("ttir", "ttgir", "llir", "ptx", "cubin")
#: What the last stage tells; asking for one of them makes it.
RESOURCES = ("registers", "stack", "spills", "shared")

Stage = str | bytes


class Request(NamedTuple):
    """A kernel to compile: its key, the options, and what makes its IR when no kept kernel answers to the key."""

    key: str
    options: CompileOptions
    make: Callable[[], Module]


@dataclass(eq=False)
class Artifact:
    """A compiled kernel, on no device yet. `name` is that of its entry.

    `made` holds the stages that exist; `later` makes those that are not needed to run, when they are asked for.
    `facts` grows when they are made.
    """

    key: str
    name: str
    target: str
    made: dict[str, Stage]
    facts: dict[str, Any]
    make: Callable[[], Module]
    later: dict[str, Callable[[Artifact], Stage]] = field(default_factory=dict[str, "Callable[[Artifact], Stage]"])

    @cached_property
    def module(self) -> Module:
        """The tile IR as the frontend made it."""
        return self.make()

    def stage(self, name: str) -> Stage:
        """One stage, made if need be. Raises KeyError for one that this kernel does not have."""
        if name not in self.made:
            self.made[name] = self.later[name](self)
        return self.made[name]

    @property
    def asm(self) -> Mapping[str, Stage]:
        """All stages."""
        return Stages(self)

    @property
    def ptx(self) -> str:
        """The PTX."""
        return str(self.stage("ptx"))


class Stages(Mapping[str, Stage]):
    """The stages of a kernel by name, in order; what has not been made yet is made when it is read."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.names = [name for name in STAGES if name in artifact.made or name in artifact.later]

    def __getitem__(self, name: str) -> Stage:
        if name not in self.names:
            hint = "" if "ptx" in self.names else '; compiled ones come with kernel.on("emulator:sm_90a") or a GPU'
            raise KeyError(f"{name}: this kernel has the stages {', '.join(self.names)}{hint}")
        return self.artifact.stage(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<stages {', '.join(self.names)} of {self.artifact.name}>"


def uncompiled(request: Request, target: str) -> Artifact:
    """A kernel that stays tile IR. Raises CompilationError."""
    module = request.make()
    later: dict[str, Callable[[Artifact], Stage]] = {"ttir": lambda artifact: lang.print_module(artifact.module)}
    artifact = Artifact(request.key, module.kernel.name, target, {}, {}, request.make, later)
    artifact.module = module
    return artifact
