"""What does a house rule read, and what does it say? Source text in, findings out.

Every rule takes a mapping from path (relative to the root, with forward slashes) to text. The real
tree is one such mapping, a seeded violation is another, so no rule can pass without being able to
fail.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "src/nottwice/"

Tree = Mapping[str, str]
"""Path to text."""


@dataclass(frozen=True)
class Finding:
    """One place that breaks a rule, and how to repair it."""

    path: str
    line: int
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.problem}. {self.fix}"


def read_tree(*folders: str, suffixes: tuple[str, ...] = (".py",)) -> dict[str, str]:
    """Read every file below these folders; a folder that does not exist yet has no files."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in suffixes and path.is_file()
    }


def modules(tree: Tree) -> Iterator[tuple[str, ast.Module]]:
    """Parse the Python files of a tree, in order of path."""
    for path in sorted(tree):
        if path.endswith(".py"):
            yield path, parse(tree[path])


@cache
def parse(text: str) -> ast.Module:
    """Parse once; many rules look at the same file."""
    return ast.parse(text)


def room_of(path: str) -> str:
    """Name the room that a file of the package belongs to: `model`, `errors`, or `` for the root.

    A room is a folder or a single file directly below the package.
    """
    first = path.removeprefix(PACKAGE).split("/")[0].removesuffix(".py")
    return "" if first == "__init__" else first
