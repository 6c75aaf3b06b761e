"""Does every engine generator and every coroutine leave the ledger to its driver?

A generator that reads the ledger itself blocks whatever drives it, an event loop too: a table that
another program has locked silences every other task of the process (P127). What it asks for with
`Read` and `Write` is answered by a driver, which knows how to wait.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.source import PACKAGE, Finding, Tree, modules, room_of

# What a ledger is made of, how it is attacked and how it is operated: no event loop waits there.
ROOMS_WITHOUT_LOOPS = ("store", "testing", "cli")
# Who answers the asks.
DRIVERS = (PACKAGE + "engine/drivers.py", PACKAGE + "engine/reading.py")
# A policy is asked in a thread, and reads its meter there.
MAY_READ = {
    (PACKAGE + "engine/calls/gate.py", "read_meter"),
    # A session keeps the store of its host, and asks it nothing here.
    (PACKAGE + "engine/session.py", "__init__"),
    # A ledger returns the store of its host.
    (PACKAGE + "guard/ledger.py", "store"),
    # Each only compares which store it is.
    (PACKAGE + "guard/attached/handle.py", "_is_around"),
    (PACKAGE + "guard/attached/joining.py", "release_all"),
    # It opens the ledger in a thread.
    (PACKAGE + "mcp/serving.py", "_opened"),
    # A person's decision: an event loop has it made in a thread (aanswer).
    (PACKAGE + "adapters/answers.py", "answer"),
    (PACKAGE + "langchain/calls.py", "_question"),
}
# What takes a store along without asking it anything, or opens one in the first place.
TAKES_IT_ALONG = ("Opening", "Session", "ledger_of", "say", "tell")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def reads_of_its_own(tree: Tree) -> Iterator[Finding]:
    """No generator of the engine and no coroutine touches a store."""
    for path, module in modules(tree):
        if room_of(path) in ROOMS_WITHOUT_LOOPS or path in DRIVERS:
            continue
        for function in ast.walk(module):
            if not isinstance(function, _Function) or (path, function.name) in MAY_READ:
                continue
            must_not_block = _must_not_block(function)
            for node in _touches(function.body):
                if must_not_block or _is_of_a_driver(node):
                    yield Finding(
                        path,
                        node.lineno,
                        f"{function.name} uses a store itself, and blocks its event loop",
                        "Ask for it: yield Read(lambda store: ...)",
                    )


def _must_not_block(function: _Function) -> bool:
    if isinstance(function, ast.AsyncFunctionDef):
        return True
    # Also if it only passes on what another one returns: its own lines run first.
    returns = "" if function.returns is None else ast.unparse(function.returns)
    return returns.strip("'\"").startswith(("Doing[", "Iterable[Ask]", "Generator[Ask,"))


def _is_of_a_driver(node: ast.expr) -> bool:
    """Whether it is the store of a host or a session, which only generators are given."""
    owners = ("host", "session")
    return isinstance(node, ast.Attribute) and _last_name(node.value) in owners


def _touches(nodes: list[ast.stmt]) -> Iterator[ast.expr]:
    """Where a store is used, except in what is handed to a driver, and for where it is."""
    pending: list[ast.AST] = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Lambda | _Function):
            continue
        if isinstance(node, ast.Attribute) and node.attr == "location":
            continue
        if isinstance(node, ast.Call) and _last_name(node.func) in TAKES_IT_ALONG:
            pending += [one.value for one in node.keywords if one.arg != "store"]
            continue
        if isinstance(node, ast.Attribute | ast.Name) and _last_name(node) in ("store", "_store"):
            if isinstance(node.ctx, ast.Load):
                yield node
            continue
        pending += ast.iter_child_nodes(node)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
