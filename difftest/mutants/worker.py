"""Run a module with a fault put into one file as it is imported. A script: nothing of ours may be imported before.

python -P worker.py MODULE ARGUMENTS ... < {"file": "compiler/passes/fold.py", "old": ..., "new": ...}
"""

import json
import runpy
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType
from typing import Any


class Faulty(SourceFileLoader):
    """Loads a file with a piece of its text replaced, and leaves no compiled file behind."""

    old = new = ""

    def get_code(self, fullname: str) -> CodeType:
        """The code of the changed text. Ends the process if the piece does not stand there exactly once."""
        with open(self.path, encoding="utf-8") as file:
            text = file.read()
        if text.count(self.old) != 1:
            sys.exit(f"{self.path} has {text.count(self.old)} times: {self.old}")
        return compile(text.replace(self.old, self.new), self.path, "exec")


class Finder(MetaPathFinder):
    """Finds modules as ever, and gives the one of a file the faulty loader."""

    def __init__(self, file: str, old: str, new: str) -> None:
        self.file = file
        self.loader = type("Loader", (Faulty,), {"old": old, "new": new})

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and (spec.origin or "").replace("\\", "/").endswith("/" + self.file):
            assert spec.origin is not None
            spec.loader = self.loader(fullname, spec.origin)
        return spec


if __name__ == "__main__":
    fault = json.load(sys.stdin)
    sys.meta_path.insert(0, Finder(fault["file"], fault["old"], fault["new"]))
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
