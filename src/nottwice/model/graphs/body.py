"""Did the meaning of a function change? Hashes what its source means, not how it is spelled.

It ignores comments, layout, docstrings, annotations, the function's own name, the names of its
local variables, and the decorator that declares it a node. Everything else counts: the functions
and tools that it names, constants, order. The functions that it calls are not examined.
"""

from __future__ import annotations

import ast
import hashlib
import textwrap
from collections.abc import Iterator
from typing import Any

OWN = "own"
"""The kind of code that is part of nottwice: the beats of an agent."""
_DECLARING = ("node",)
# Fields that say where something is, how it was spelled, or only what type it should have.
_SILENT = ("ctx", "type_comment", "kind", "type_ignores", "returns", "annotation", "type_params")
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def hash_of_source(source: str) -> str | None:
    """Return the hash of the only function in a piece of source. None if it is not clear which."""
    function = _find(source)
    if function is None:
        return None
    spelling = _Spelling(function)
    parts = "\x00".join(spelling.words(function))
    return f"source:{hashlib.sha256(parts.encode('utf-8', 'backslashreplace')).hexdigest()[:16]}"


def hash_of_bytes(code: bytes, *, kind: str) -> str:
    """Return the hash of something without source. ``kind``: what it can be compared with."""
    return f"{kind}:{hashlib.sha256(code).hexdigest()[:16]}"


def is_own(body: str) -> bool:
    """Whether a hash is of code of nottwice itself, which users do not change."""
    return body.startswith(f"{OWN}:")


def comparable(one: str, other: str) -> bool:
    """Whether two hashes were made from the same kind of input.

    Compiled code differs between versions of Python, and a deployment may come without sources.
    Neither is a change of the graph.
    """
    return one.partition(":")[0] == other.partition(":")[0]


def _find(source: str) -> _Function | None:
    try:
        tree = ast.parse(textwrap.dedent(source))
    except (SyntaxError, ValueError):
        # For example a lambda in the middle of a longer expression.
        return None
    first = tree.body[0] if len(tree.body) == 1 else None
    if isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef):
        return first
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
    return lambdas[0] if len(lambdas) == 1 else None


class _Spelling:
    """Spells a function with its local names numbered in the order in which they occur."""

    def __init__(self, function: _Function) -> None:
        self._function = function
        self._local = _local_names(function)
        self._numbers: dict[str, int] = {}

    def words(self, node: Any) -> Iterator[str]:
        """Yield every part of the tree as text, in order. No two trees have the same spelling."""
        if isinstance(node, ast.AST):
            yield f"({type(node).__name__}"
            for name, value in ast.iter_fields(node):
                shown = None if name in _SILENT else self._shown(node, name, value)
                # Versions of Python differ in their empty fields.
                if shown is None or shown == []:
                    continue
                yield f".{name}"
                yield from self.words(shown)
            yield ")"
        elif isinstance(node, list):
            for each in node:
                yield from self.words(each)
        else:
            yield f"{type(node).__name__} {node!r}"

    def _shown(self, node: ast.AST, name: str, value: Any) -> Any:
        """Return what counts of a field."""
        if name == "decorator_list" and node is self._function:
            return [each for each in value if not _declares_a_node(each)]
        if name == "body" and isinstance(value, list) and value:
            return _without_docstring(node, value)
        if isinstance(value, str) and name in ("id", "arg", "name", "rest", "asname"):
            named = not isinstance(node, ast.keyword | ast.alias) or name == "asname"
            return self._number(value) if named else value
        if name == "names" and isinstance(node, ast.Nonlocal):
            return [self._number(each) for each in value]
        return value

    def _number(self, name: str) -> str:
        if name not in self._local:
            return name
        # A name cannot contain a space, so no global name is mistaken for a local one.
        return f"local {self._numbers.setdefault(name, len(self._numbers))}"


def _declares_a_node(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Attribute) and called.attr in _DECLARING


def _without_docstring(node: ast.AST, body: list[Any]) -> list[Any]:
    owner = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    first = body[0]
    if not owner or not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
        return body
    return body[1:] if isinstance(first.value.value, str) else body


def _local_names(function: _Function) -> set[str]:
    """Return every name that the function itself creates, at any level inside it.

    A name that it declares ``global`` is covered by that statement, which is spelled in full.
    """
    found: set[str] = set()
    if not isinstance(function, ast.Lambda):
        found.add(function.name)
    for node in ast.walk(function):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name):
                found.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                found.add(name)
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                found.add(name)
            case ast.alias(asname=str(name)):
                found.add(name)
            case _:
                continue
    return found
