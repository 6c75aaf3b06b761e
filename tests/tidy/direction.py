"""Do imports point one way? From the outer rooms to the inner ones, never back, never around.

    durations, lazy <- errors <- model <- store <- engine <- events, notify <- guard <- graphs
           <- versions, reviews, agent, policy, recipes, worker, hosts <- views, adapters <- metrics
           <- langchain, mcp, temporal, dbos, restate, celery, otel, testing, cli, web

An import inside a function or below `TYPE_CHECKING` counts like any other: it is the reader who has
to follow it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from tests.tidy.source import PACKAGE, Finding, Tree, modules, room_of

HOSTS = ("temporal", "dbos", "restate", "celery")
TIERS = (
    ("durations", "lazy"),
    ("errors",),
    ("model",),
    ("store",),
    ("engine",),
    ("events", "notify"),
    ("guard",),
    ("graphs",),
    ("versions", "reviews", "agent", "policy", "recipes", "worker", "hosts"),
    ("views", "adapters"),
    ("types", "metrics"),
    ("langchain", "mcp", *HOSTS, "otel", "testing", "cli", "web", "__main__"),
)
TIER = {room: number for number, rooms in enumerate(TIERS) for room in rooms}
OUTERMOST = len(TIERS) - 1

# The command line runs the demo and the crash test, which live in the testing room, the MCP proxy
# and the page.
ALLOWED_NEIGHBOURS = {("cli", "mcp"), ("cli", "testing"), ("cli", "web"), ("__main__", "cli")}

# What shows views; no view knows any of them.
TERMINALS = ("argparse", "click", "jinja2", "rich", "starlette", "typer")

# Rooms that someone must be able to trust by reading them and Python's own documentation.
STANDARD_LIBRARY_ONLY = ("durations", "lazy", "errors", "model", "store", "engine")
# A store that needs a driver says so here; the SQLite, memory and JSON file stores do not.
STORES_WITH_A_DRIVER = ("store/postgres",)


def imports_against_the_direction(tree: Tree) -> Iterator[Finding]:
    """No room imports an outer one or its neighbour; only the outermost use the front door."""
    for path, module in modules(tree):
        room = room_of(path)
        if room == "" or (path.startswith("src/") and not path.startswith(PACKAGE)):
            # A package beside ours (the pytest plugin) is outside of all rooms.
            continue
        if room not in TIER:
            yield Finding(
                path, 1, f"no tier holds the room {room!r}", "Add it to TIERS, or move it"
            )
            continue
        for line, target in _imports_of_package(path, module, tree):
            other = target.split(".")[1] if "." in target else ""
            if other == room or (room, other) in ALLOWED_NEIGHBOURS:
                continue
            if other == "" and TIER[room] == OUTERMOST:
                continue
            if other in TIER and TIER[other] < TIER[room]:
                continue
            yield Finding(
                path,
                line,
                f"{room} imports {target}, which is not an inner room",
                "Move what both need inwards, or pass it in from outside",
            )


def import_cycles(tree: Tree) -> Iterator[Finding]:
    """No two modules need each other, directly or through others."""
    graph = {
        _module_name(path): {
            target
            for _, target in _imports_of_package(path, module, tree)
            if target != _module_name(path)
        }
        for path, module in modules(tree)
        # The front door imports a room when one of its names is first used, never before: a test
        # of the public names proves it. So the outermost rooms may use it.
        if _module_name(path) != "nottwice"
    }
    paths = {_module_name(path): path for path in tree}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        names: list[str] = error.args[1]
        yield Finding(
            paths.get(names[0], names[0]),
            1,
            "modules import each other in a circle: " + " <- ".join(names),
            "Move what both need into a module that imports neither",
        )


def foreign_imports(tree: Tree) -> Iterator[Finding]:
    """The inner rooms import the standard library and nottwice, nothing else."""
    for path, module in modules(tree):
        inside = path.removeprefix(PACKAGE)
        if room_of(path) not in STANDARD_LIBRARY_ONLY or inside.startswith(STORES_WITH_A_DRIVER):
            continue
        for line, name in _imports(path, module):
            top = name.split(".")[0]
            if top != "nottwice" and top not in sys.stdlib_module_names:
                yield Finding(
                    path,
                    line,
                    f"{top} is not part of the standard library",
                    "Use it in an outer room and pass its result in as plain data",
                )


def terminals_in_views(tree: Tree) -> Iterator[Finding]:
    """A view is shown by a terminal, by JSON or by a page, so it imports none of them."""
    for path, module in modules(tree):
        if room_of(path) != "views":
            continue
        for line, name in _imports(path, module):
            if name.split(".")[0] in TERMINALS:
                yield Finding(
                    path,
                    line,
                    f"a view imports {name.split('.')[0]}",
                    "Return the facts as a record, and print them in cli/render",
                )


def _imports_of_package(path: str, module: ast.Module, tree: Tree) -> Iterator[tuple[int, str]]:
    """Name the modules of the package that a module imports, each as precisely as the tree knows.

    `from nottwice.model import call` means the module `call` if there is one, otherwise a name
    that the package file of `model` defines.
    """
    known = {_module_name(other) for other in tree}
    for line, name in _imports(path, module):
        if name != "nottwice" and not name.startswith("nottwice."):
            continue
        while name not in known and name.count(".") > 1:
            name = name.rpartition(".")[0]
        if name not in known and not any(other.startswith(name + ".") for other in known):
            # `from nottwice import tool`: a public name, so the front door itself.
            name = name if name.split(".")[-1] in TIER else "nottwice"
        yield line, name


def _imports(path: str, module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of everything imported; names follow their module."""
    package = _module_name(path).split(".")
    if not path.endswith("/__init__.py"):
        package = package[:-1]
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{stem}.{alias.name}"


def _module_name(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
