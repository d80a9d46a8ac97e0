"""The names that a piece of source assigns, and which are local for that reason."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator


def assigned_names(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that the code may assign, in the order of their first assignment, those of comprehensions left out."""
    return list(dict.fromkeys(name for node in nodes for name in _assigned(node)))


_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _assigned(root: ast.AST) -> Iterator[str]:
    stack = [root]  # not recursive: sources may nest deeper than Python's own stack
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id
        elif isinstance(node, ast.Constant):
            continue
        elif isinstance(node, ast.comprehension):
            stack.append(node.iter)
        elif not (isinstance(node, _INNER) or (isinstance(node, ast.AnnAssign) and node.value is None)):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))
