"""Does every module ask a replay class a question instead of comparing it with a member?

A module that compares decides for the classes there are. A new class then means a search through
the whole package, and a place that was missed decides wrongly, in silence.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.source import PACKAGE, Finding, Tree, modules

OWNER = PACKAGE + "model/replay_class.py"
NAMES = ("pure", "idempotent_with_key", "unsafe_on_replay")


def comparisons(tree: Tree) -> Iterator[Finding]:
    """No `is ReplayClass.PURE`, no `case`, no table by member, no `replay_class == "pure"`."""
    for path, module in modules(tree):
        if path == OWNER:
            continue
        for node in ast.walk(module):
            if any(map(_is_of_a_class, _compared(node))):
                yield Finding(
                    path,
                    getattr(node, "lineno", 1),
                    "branches on a replay class",
                    "Ask the class instead, or add a question to it: model/replay_class.py",
                )


def _compared(node: ast.AST) -> Iterator[ast.AST]:
    """What a node distinguishes."""
    if isinstance(node, ast.Compare):
        for operand in (node.left, *node.comparators):
            if isinstance(operand, ast.Tuple | ast.List | ast.Set):
                yield from operand.elts
            else:
                yield operand
    elif isinstance(node, ast.MatchValue):
        yield node.value
    elif isinstance(node, ast.Dict):
        yield from filter(None, node.keys)


def _is_of_a_class(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in NAMES
    text = ast.unparse(node)
    return text.startswith("ReplayClass.") or text.endswith("replay_class.value")
