"""Was a decorator forgotten? Where an application has effects outside of tools (T5, P165)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from nottwice.agent.declare import Agent
from nottwice.cli.inputs.application import Application
from nottwice.graphs.app import App
from nottwice.graphs.declare import Graph
from nottwice.graphs.fingerprint import bare_function
from nottwice.guard.check.effects_in_code import (
    BARE,
    CodeReport,
    EffectInCode,
    Link,
    Start,
    blocks_of,
    find_effects,
)
from nottwice.guard.check.references import is_part_of_program
from nottwice.guard.check.report import Finding, Level
from nottwice.model.tools.waiver import SPELLING

_FIX = (
    "move it into a function with @nt.tool(...); or, if it has no effect, say why on that line: "
    f"{SPELLING}"
)
_FIX_BARE = "call the tool itself: .fn is its body, for unit tests"


def forgotten_findings(application: Application) -> list[Finding]:
    """What the nodes, hooks and blocks of an application do outside of tools."""
    modules = list(_modules(application.module))
    starts = [start for graph in graphs_of(application) for start in _starts(graph)]
    starts += [start for module in modules for start in blocks_of(module)]
    return list(_findings(find_effects(starts)))


def graphs_of(application: Application) -> list[Graph[Any]]:
    """Every graph that the application deploys, or that one of its modules has."""
    found: dict[int, Graph[Any]] = {}
    modules = _modules(application.module)
    values = [value for module in modules for value in list(vars(module).values())]
    for value in (application.named, *values):
        graphs: Iterable[Any] = value.graphs if isinstance(value, App) else (value,)
        for graph in graphs:
            if isinstance(graph, Graph):
                found[id(graph)] = graph
    return list(found.values())


def _starts(graph: Graph[Any]) -> Iterator[Start]:
    if isinstance(graph, Agent):
        for name, hook in graph.hooks.items():
            yield Start(f"{name} of {graph.id}", function=hook)
        return
    for name, node in graph.code.items():
        yield Start(f"node {name!r} of {graph.id}", function=bare_function(node))


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    """The module, and what else of its package is loaded."""
    top = module.__name__.partition(".")[0]
    for name, found in sorted(sys.modules.items()):
        inside = name == top or name.startswith(f"{top}.")
        if isinstance(found, ModuleType) and inside and is_part_of_program(name, home=top):
            yield found


def _findings(report: CodeReport) -> Iterator[Finding]:
    for effect in report.effects:
        yield _finding(effect)
    for file, line, text in report.refused:
        yield Finding(
            Level.ERROR,
            f"the comment at {_place(file, line)} is ignored: {text!r} gives no reason",
            f"write {SPELLING}",
            place=f"{file}:{line}",
        )
    for start in report.unread:
        yield Finding(
            Level.WARNING,
            f"{start} was not checked: its source cannot be read",
            "declare it in a .py file, or watch it while it runs: NOTTWICE_WATCH=warn",
        )
    if report.cut_off:
        yield Finding(
            Level.WARNING,
            "there is more code than is read: an effect outside of tools may be left",
            "check the modules one by one, or watch them while they run: NOTTWICE_WATCH=warn",
        )


def _finding(effect: EffectInCode) -> Finding:
    way = " → ".join(f"{link.name} ({_place(link.file, link.line)})" for link in effect.chain)
    through = f", through {way}" if way else ""
    also = f", also reached from {', '.join(effect.others)}" if effect.others else ""
    where = "" if effect.what == BARE else " outside of any tool"
    return Finding(
        Level.WARNING,
        f"{effect.start} {effect.what}{where}: {effect.call} at "
        f"{_place(effect.file, effect.line)}{through}{also}; a resumed run does it again",
        _FIX_BARE if effect.what == BARE else _FIX,
        place=f"{effect.file}:{effect.line}",
        chain=tuple(map(_link_text, effect.chain)),
    )


def _link_text(link: Link) -> str:
    return f"{link.name} {link.file}:{link.line}"


def _place(file: str, line: int) -> str:
    return f"{file.removeprefix(os.getcwd() + os.sep)}:{line}"
