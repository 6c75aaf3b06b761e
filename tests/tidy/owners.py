"""Is everything that a session holds written by its owner alone?

A session is shared by the whole engine. A module that writes an attribute of it from outside
breaks what its owner relies on, a lock for example, and no reader can tell where a value is from.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.source import PACKAGE, Finding, Tree, modules

OWNER = PACKAGE + "engine/session.py"
_CHANGES = frozenset("add append clear discard extend pop remove setdefault update".split())


def writes_to_a_session(tree: Tree) -> Iterator[Finding]:
    """No `session.closed = True`, no `session.unrecorded[x] = y`, no `session.tasks.add(x)`."""
    for path, module in modules(tree):
        if path == OWNER:
            continue
        for node in ast.walk(module):
            if any(map(_is_in_a_session, _written(node))):
                yield Finding(
                    path,
                    getattr(node, "lineno", 1),
                    "writes what a session holds",
                    "Call a method of the session, or of what owns the value",
                )


def _written(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        yield node.target
    elif isinstance(node, ast.Delete):
        yield from node.targets
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _CHANGES and isinstance(node.func.value, ast.Attribute):
            yield node.func.value


def _is_in_a_session(target: ast.expr) -> bool:
    while isinstance(target, ast.Subscript):
        target = target.value
    while isinstance(target, ast.Attribute):
        target = target.value
        if ast.unparse(target).rpartition(".")[2] == "session":
            return True
    return False
