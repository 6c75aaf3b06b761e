"""Is every file and function short enough, introduced, and tested in the mirrored place?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from tests.tidy.source import PACKAGE, Finding, Tree, modules

MAX_SOURCE_LINES = 600
MAX_TEST_LINES = 800
MAX_FUNCTION_LINES = 70
SMALL_MODULE_LINES = 40


def oversized_files(tree: Tree) -> Iterator[Finding]:
    """A file answers one question; one that is too long answers several."""
    for path, text in sorted(tree.items()):
        limit = MAX_TEST_LINES if path.startswith("tests/") else MAX_SOURCE_LINES
        count = len(text.splitlines())
        if count > limit:
            yield Finding(
                path,
                limit + 1,
                f"the file has {count} lines, {limit} are allowed",
                "Split it by the question that each part answers",
            )


def oversized_functions(tree: Tree) -> Iterator[Finding]:
    """A function is a screen, docstring included."""
    for path, module in modules(tree):
        for node in ast.walk(module):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > MAX_FUNCTION_LINES:
                yield Finding(
                    path,
                    node.lineno,
                    f"{node.name} has {count} lines, {MAX_FUNCTION_LINES} are allowed",
                    "Move a part that has a name of its own into a helper below it",
                )


def modules_without_introduction(tree: Tree) -> Iterator[Finding]:
    """A file says in its first lines which question it answers."""
    for path, module in modules(tree):
        if not ast.get_docstring(module):
            yield Finding(
                path,
                1,
                "the module has no docstring",
                "Begin it with the question it answers and the promises it keeps",
            )


def modules_without_tests(
    source: Tree, tests: Collection[str], *, tested_elsewhere: Collection[str]
) -> Iterator[Finding]:
    """`src/nottwice/store/memory.py` is tested by `tests/store/test_memory.py`.

    Left out: package files, modules too small to hold a decision, single-file rooms, and those the
    caller says are tested elsewhere.
    """
    for path, text in sorted(source.items()):
        folders, _, name = path.removeprefix(PACKAGE).rpartition("/")
        if not folders or name == "__init__.py" or path in tested_elsewhere:
            continue
        if len(text.splitlines()) < SMALL_MODULE_LINES:
            continue
        expected = f"tests/{folders}/test_{name.lstrip('_')}"
        if expected not in tests:
            yield Finding(
                path,
                1,
                "this module has no test beside it",
                f"Write {expected}, or say in TESTED_ELSEWHERE where its test is and why",
            )


def idle_exceptions(source: Tree, tests: Collection[str], exceptions: Tree) -> Iterator[Finding]:
    """An exception names a module that exists and a test that exists, or it is removed."""
    for path, reason in sorted(exceptions.items()):
        where = reason.split()[0].rstrip(":,;")
        if path not in source:
            yield Finding(path, 1, "an exception names it, but it does not exist", "Remove it")
        elif where not in tests:
            yield Finding(path, 1, f"its exception names {where}, which does not exist", "Fix it")
