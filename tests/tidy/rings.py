"""Which tests does `make test` leave to `make deep`, and does each promise keep one that it runs?

A test is left to `make deep` by the marker `pytest.mark.deep(part="sweeps")`: on a function, a
class, a parameter, or as the `pytestmark` of a module. The part names the target that runs it, here
`make deep-sweeps`. The Makefile lists the parts. `pytest.mark.sampled(part="sweeps", keep=8)`
leaves all but eight cases of a test to that part.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from tests.tidy.documents import promises
from tests.tidy.source import Finding, Tree, modules, parse

DEEP = "pytest.mark.deep"
MARKS = (DEEP, "pytest.mark.sampled")
# With one of these, `make test` does not run a test, or does not care whether it passes.
PROVE_NOTHING = (DEEP, "pytest.mark.skip", "pytest.mark.xfail")


def parts(makefile: str) -> list[str]:
    """Read the parts of `make deep` from the Makefile's line `DEEP := …`."""
    found = re.search(r"^DEEP := (.*)$", makefile, re.MULTILINE)
    return found[1].split() if found else []


def marks_without_a_part(tests: Tree, known: Collection[str]) -> Iterator[Finding]:
    """Every deep test names a part of `make deep`; without one, no target would run it."""
    for path, module in modules(_test_files(tests)):
        for mark in _marks(module):
            if _part(module, mark) not in known:
                yield Finding(
                    path,
                    mark.lineno,
                    "no part of `make deep` runs this test",
                    f'Write {DEEP}(part="…") with a part that DEEP in the Makefile lists',
                )


def parts_without_a_test(tests: Tree, known: Collection[str]) -> Iterator[Finding]:
    """Every part has a test; pytest fails when it has nothing to run."""
    found = modules(_test_files(tests))
    used = {_part(module, mark) for _, module in found for mark in _marks(module)}
    for part in known:
        if part not in used:
            yield Finding("Makefile", 1, f"deep-{part} has no test", "Remove the part from DEEP")


def promises_left_to_deep(page_path: str, page: str, tests: Tree) -> Iterator[Finding]:
    """Every promise names a test that `make test` runs."""
    for promise in promises(page):
        if promise.proofs and all(_proves_nothing(proof, tests) for proof in promise.proofs):
            yield Finding(
                page_path,
                promise.line,
                f"`make test` runs no proof of P{promise.number}",
                "Name one that is not marked deep, skip or xfail, or take the mark off a small one",
            )


def _test_files(tests: Tree) -> Tree:
    return {path: text for path, text in tests.items() if "/test_" in path}


def _marks(tree: ast.AST) -> list[ast.Attribute]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in MARKS
    ]


def _part(module: ast.Module, mark: ast.Attribute) -> str | None:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and node.func is mark:
            for keyword in node.keywords:
                if keyword.arg == "part" and isinstance(keyword.value, ast.Constant):
                    return str(keyword.value.value)
    return None


def _proves_nothing(proof: str, tests: Tree) -> bool:
    """Whether the whole test is marked: a mark on some of its parameters leaves the others."""
    path, *names = proof.split("::")
    scope: list[ast.stmt] = parse(tests[path]).body if path in tests else []
    marks = (each for line in scope if _assigns_pytestmark(line) for each in ast.walk(line))
    if any(map(_is_mark, marks)):
        return True
    for name in names:
        for node in scope:
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and node.name == name
            ):
                if any(map(_is_mark, node.decorator_list)):
                    return True
                scope = node.body
                break
    return False


def _is_mark(node: ast.AST) -> bool:
    """A test that is skipped only under a condition (skipif) is run elsewhere."""
    return ast.unparse(node).partition("(")[0] in PROVE_NOTHING


def _assigns_pytestmark(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"
