"""Is one thing called by one word? The names that code defines follow the word table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.source import Finding, Tree, modules, room_of

# What others call it, and what it is called here. Parts of a name count (`last_worker_id`).
SYNONYMS = {
    "side_effect": "effect",
    "mutating": "effectful",
    "cached_result": "receipt",
    "retry_count": "attempt",
    "tool_call": "call",
    "worker_id": "holder_id",
    "session_id": "run_id",
    "hitl": "review",
}
# The table's name is prescribed, and it is the one place where the old word stays.
PRESCRIBED = {"tool_call_results"}
# Rooms that speak to models and frameworks use the words of the other side there.
ROOMS_WITH_FOREIGN_WORDS = ("agent", "adapters", "langchain", "mcp")

ABBREVIATIONS = {
    "cfg": "config",
    "cnt": "count",
    "conn": "connection",
    "ctx": "context",
    "cur": "cursor",
    "idx": "index",
    "mgr": "manager",
    "msg": "message",
    "req": "request",
    "resp": "response",
    "tmp": "temporary",
    "val": "value",
}

# Plain English has a usual word for each: the process, the caller, a person, another thread.
UNUSUAL = {
    "nobody": "no process, no person, no test",
    "somebody": "a person, another process",
    "everybody": "every caller, every process",
    "anybody": "any process, any person",
    "whoever": "the caller, the next process",
    "put down": "enqueue",
    "mended": "fixed",
    "aboard": "pending",
    "goes on": "continues",
    "go on": "continue",
    "anew": "again",
    "for ever": "forever",
    "for good": "permanently",
}
# A quoted word is a value, such as the id of a run, and one with an @ is an address.
_UNUSUAL = re.compile(rf"(?<![\w'\"])(?:{'|'.join(UNUSUAL)})(?![\w'\"@])", re.IGNORECASE)


def unusual_words(texts: Tree) -> Iterator[Finding]:
    """Code and pages use the usual word, and so do the names of tests."""
    for path, text in sorted(texts.items()):
        for number, line in enumerate(text.splitlines(), start=1):
            if path.startswith("tests/"):
                name = re.match(r"\s*(?:async )?def (test_\w+)", line)
                line = name[1].replace("_", " ") if name else ""
            for found in _UNUSUAL.findall(line):
                usual = UNUSUAL[found.lower()]
                yield Finding(path, number, f"it says {found!r}", f"Write the usual word: {usual}")


def shared_class_names(tree: Tree) -> Iterator[Finding]:
    """No public class has the name of another: a name means one thing in the whole package."""
    first: dict[str, str] = {}
    for path, module in modules(tree):
        for node in module.body:
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            known = first.setdefault(node.name, path)
            if known != path:
                yield Finding(
                    path,
                    node.lineno,
                    f"class {node.name} is also in {known}, and means something else there",
                    "Give one of them a name that says what it is",
                )


def synonyms(tree: Tree) -> Iterator[Finding]:
    """A defined name uses the word that the table gives."""
    for path, module in modules(tree):
        if room_of(path) in ROOMS_WITH_FOREIGN_WORDS:
            continue
        for line, name in _defined_names(module):
            snake = _snake_case(name)
            for prescribed in PRESCRIBED:
                snake = snake.replace(prescribed, "")
            for word, ours in SYNONYMS.items():
                if f"_{word}_" in f"_{snake}_" or f"_{word}s_" in f"_{snake}_":
                    yield Finding(
                        path,
                        line,
                        f"{name} uses another word for what is called {ours}",
                        f"Write {ours}",
                    )


def abbreviations(tree: Tree) -> Iterator[Finding]:
    """No abbreviations but id, db and sql."""
    for path, module in modules(tree):
        for line, name in _defined_names(module):
            for part in _snake_case(name).split("_"):
                if part in ABBREVIATIONS:
                    yield Finding(
                        path, line, f"{name} is abbreviated", f"Write {ABBREVIATIONS[part]}"
                    )


def _defined_names(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield what the code names itself; names it only reads belong to others."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str()):
                yield node.lineno, str(node.asname)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
