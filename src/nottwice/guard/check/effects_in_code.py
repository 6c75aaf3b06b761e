"""Which effects do nodes and runs have outside tools? Read from source; nothing is run (T5).

A forgotten decorator is silent: the code works, and a resumed run repeats the effect. So nottwice
reads what a node, a hook of an agent or a block under ``nt.run`` calls, and what that calls in
turn, as long as it belongs to the user's program. A tool's body is not read: its declaration covers
it. What source cannot show, such as a client of a plugin, is left to `engine/watch.py`.
Promises kept here: P165, P166.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import FunctionType, MethodType, ModuleType
from typing import Any

from nottwice.guard.check.code_meaning import (
    Frame,
    FunctionNode,
    Meaning,
    class_of,
    frame_of,
    held_by,
    read_source,
)
from nottwice.guard.check.effect_table import effect_of, telling_effect
from nottwice.guard.check.references import (
    MISSING,
    functions_behind,
    is_part_of_program,
    static_attribute,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.tool import Tool

MOST_FUNCTIONS = 2000
BARE = "runs the body of a tool past its ledger"
_OWN = "nottwice"
# Functions passed to these are recorded, or become tools.
_TAKES_CARE = {"tool", "recorded"}
_FUNCTIONS = (FunctionType, MethodType, functools.partial, staticmethod, classmethod)


@frozen_record(frozen=True, slots=True)
class Start:
    """Code that runs in a run and is not a tool: a node, a hook, or a block."""

    label: str
    function: Callable[..., Any] | None = None
    block: tuple[Frame, list[ast.stmt]] | None = None


@frozen_record(frozen=True, slots=True)
class Link:
    """One call on the path from a start to an effect."""

    name: str
    file: str
    line: int


@frozen_record(frozen=True, slots=True)
class EffectInCode:
    """A call that has an effect, although no tool declares it."""

    start: str
    what: str
    """What it does, in words."""
    call: str
    """As the source writes it."""
    file: str
    line: int
    chain: tuple[Link, ...]
    """The calls that lead to it, in order; empty if the start makes it itself."""
    others: tuple[str, ...] = ()
    """The other starts that lead to it."""


@dataclass(slots=True)
class CodeReport:
    """What reading the code found."""

    effects: list[EffectInCode] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Starts whose source cannot be read."""
    refused: list[tuple[str, int, str]] = field(default_factory=list)
    """Comments that look like waivers but do not count: file, line, text."""
    cut_off: bool = False
    """There is more code than nottwice reads."""


def find_effects(starts: Iterable[Start]) -> CodeReport:
    """Read what these call. Each effect is reported once, with the shortest path to it.

    The other starts that lead to it are named too.
    """
    starts, reading = list(starts), _Reading()
    for start in starts:
        reading.begin(start)
    reading.read_all()
    report = reading.report
    report.effects = reading.effects([start.label for start in starts])
    report.effects.sort(key=lambda each: (each.file, each.line, each.call))
    report.refused.sort()
    return report


def blocks_of(module: ModuleType) -> Iterator[Start]:
    """Yield the ``with nt.run(...)`` blocks of a module, including those in its functions."""
    source = read_source(getattr(module, "__file__", None) or "")
    if source is not None:
        around = Frame(source, source.tree, vars(module))
        yield from _blocks(source.tree, around, None)


def _blocks(node: ast.AST, frame: Frame, owner: type | None) -> Iterator[Start]:
    for inner in ast.iter_child_nodes(node):
        match inner:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if not _is_declared(inner, frame):
                    inside = Frame(frame.source, inner, frame.names, outer=frame, owner=owner)
                    yield from _blocks(inner, inside, None)
            case ast.ClassDef(name=name):
                found = frame.names.get(name)
                yield from _blocks(inner, frame, found if isinstance(found, type) else None)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                if any(_opens_run(item.context_expr, frame) for item in items):
                    yield Start(f"the run at line {inner.lineno}", block=(frame, body))
                else:
                    yield from _blocks(inner, frame, None)
            case _:
                yield from _blocks(inner, frame, None)


def _opens_run(expression: ast.expr, frame: Frame) -> bool:
    match expression:
        case ast.Call(func=ast.Attribute(attr="run") | ast.Name()):
            found = frame.meaning(expression.func)
            if found is None or not found.origin:
                # For example a ledger that was passed in. Few other things are entered like this.
                return isinstance(expression.func, ast.Attribute) and bool(expression.args)
            top, _, rest = found.origin.partition(".")
            return top == _OWN and rest.rpartition(".")[2] == "run"
        case _:
            return False


def _is_declared(node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> bool:
    """Whether a decorator turns this function into a tool."""
    for each in node.decorator_list:
        called = each.func if isinstance(each, ast.Call) else each
        if _takes_care(frame.meaning(called)):
            return True
    return False


def _takes_care(called: Meaning | None) -> bool:
    if called is None:
        return False
    top, _, rest = called.origin.partition(".")
    return top == _OWN and rest.rpartition(".")[2] in _TAKES_CARE


# A function, by its file, line and column, or a start, by its label.
_Place = tuple[str, int, int] | str


@frozen_record(frozen=True, slots=True, eq=False)
class _Task:
    frame: Frame
    nodes: list[ast.AST]
    start: str
    home: str
    chain: tuple[Link, ...]
    place: _Place
    """What is read. For a function that is not queued yet: what leads to it."""


class _Reading:
    """Reads one function after another, the nearest to a start first."""

    def __init__(self) -> None:
        self.report = CodeReport()
        self._waiting: deque[_Task] = deque()
        self._led_from: dict[_Place, set[_Place]] = {}
        """The functions that were queued, each with what leads to it."""
        self._found: dict[tuple[str, int, str], tuple[EffectInCode, set[_Place]]] = {}
        """The effects, each with the places where it was found."""
        self._files: set[str] = set()

    def begin(self, start: Start) -> None:
        if start.block is not None:
            around, body = start.block
            home = str(around.names.get("__name__", ""))
            self._waiting.append(_Task(around, list(body), start.label, home, (), start.label))
            return
        functions = functions_behind(start.function)
        home = _home(functions[-1]) if functions else ""
        own = [each for each in functions if is_part_of_program(_home(each), home=home)]
        owner = _owner_of(Meaning("", start.function), None)
        frames = [frame_of(each, owner=owner) for each in own or functions]
        if not frames or frames[-1] is None:
            self.report.unread.append(start.label)
        for frame in filter(None, frames):
            self._later(_Task(frame, [], start.label, home, (), start.label))

    def read_all(self) -> None:
        while self._waiting:
            if len(self._led_from) > MOST_FUNCTIONS:
                self.report.cut_off = True
                return
            self._read(self._waiting.popleft())

    def effects(self, labels: list[str]) -> list[EffectInCode]:
        """Return what was found, with all starts that lead to it, in the order of the labels."""
        found: list[EffectInCode] = []
        for effect, places in self._found.values():
            leading, waiting = set(places), list(places)
            while waiting:
                before = self._led_from.get(waiting.pop(), set()) - leading
                leading |= before
                waiting += before
            others = tuple(each for each in labels if each in leading and each != effect.start)
            found.append(replace(effect, others=others))
        return found

    def _later(self, task: _Task) -> None:
        """Queue the function of a task, unless it was."""
        node, frame = task.frame.node, task.frame
        assert isinstance(node, FunctionNode)
        place = (frame.source.path, node.lineno, node.col_offset)
        if place not in self._led_from:
            body: list[Any] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
            self._waiting.append(replace(task, nodes=body, place=place))
        self._led_from.setdefault(place, set()).add(task.place)

    def _read(self, task: _Task) -> None:
        source = task.frame.source
        if source.path not in self._files:
            self._files.add(source.path)
            self.report.refused += [(source.path, *each) for each in source.waivers.refused]
        waiting = list(task.nodes)
        while waiting:
            node = waiting.pop(0)
            if isinstance(node, FunctionNode):
                inside = Frame(source, node, task.frame.names, outer=task.frame)
                if isinstance(node, ast.Lambda) or not _is_declared(node, task.frame):
                    self._later(replace(task, frame=inside))
            elif not isinstance(node, ast.Call) or self._look_at(task, node):
                if isinstance(node, ast.Attribute):
                    self._follow_property(task, node)
                if isinstance(node, ast.Name | ast.Attribute):
                    self._follow_named(task, node)
                if isinstance(node, ast.withitem):
                    self._follow_entered(task, node.context_expr)
                waiting.extend(ast.iter_child_nodes(node))

    def _follow_named(self, task: _Task, node: ast.Name | ast.Attribute) -> None:
        """Queue the user's functions that a name means or holds: they are probably called."""
        found = task.frame.meaning(node)
        base = task.frame.meaning(node.value) if isinstance(node, ast.Attribute) else None
        waived = task.frame.source.waivers.cover(node.lineno, node.end_lineno or node.lineno)
        if found is None or waived or _tool_in(base) is not None:
            return
        for value in (found.value, *held_by(found.value)):
            if isinstance(value, _FUNCTIONS) and _tool_in(Meaning("", value)) is None:
                self._follow(task, node, Meaning("", value), base)

    def _follow_entered(self, task: _Task, node: ast.expr) -> None:
        """Queue the user's own code that entering and leaving a ``with`` block runs."""
        entered = task.frame.meaning(node)
        kind = class_of(entered)
        waived = task.frame.source.waivers.cover(node.lineno, node.end_lineno or node.lineno)
        if entered is None or kind is None or waived:
            return
        for name in ("__enter__", "__exit__", "__aenter__", "__aexit__"):
            function = static_attribute(kind, name)
            if isinstance(function, FunctionType):
                self._follow(task, node, Meaning("", function), entered)

    def _follow_property(self, task: _Task, node: ast.Attribute) -> None:
        """Queue the user's own code that reading, setting or deleting an attribute runs."""
        base = task.frame.meaning(node.value)
        owner = class_of(base)
        last = node.end_lineno or node.lineno
        if owner is None or task.frame.source.waivers.cover(node.lineno, last):
            return
        function = _accessor(static_attribute(owner, node.attr), node.ctx)
        if function is not None and _tool_in(Meaning("", function)) is None:
            self._follow(task, node, Meaning("", function), base)

    def _look_at(self, task: _Task, call: ast.Call) -> bool:
        """Judge one call; False if it records or declares the functions passed to it."""
        frame = task.frame
        last = call.end_lineno or call.lineno
        called = frame.meaning(call.func)
        inner = call.func.func if isinstance(call.func, ast.Call) else call.func
        if _takes_care(called) or _takes_care(frame.meaning(inner)):
            return False
        if frame.source.waivers.cover(call.lineno, last):
            return True
        self._judge(task, call.func, called, call)
        for argument in (*call.args, *(each.value for each in call.keywords)):
            if isinstance(argument, ast.Name | ast.Attribute):
                # A function that is passed on is probably called: by a thread, a map, a partial.
                handed = frame.meaning(argument)
                if handed is not None and not handed.is_made:
                    self._judge(task, argument, handed, None)
        return True

    def _judge(
        self, task: _Task, node: ast.expr, called: Meaning | None, call: ast.Call | None
    ) -> None:
        frame = task.frame
        base = frame.meaning(node.value) if isinstance(node, ast.Attribute) else None
        if isinstance(node, ast.Attribute) and (tool := _tool_in(base)) is not None:
            if node.attr == "fn" and tool.replay_class.effectful:
                self._tell(task, node, BARE)
        elif called is None:
            if isinstance(node, ast.Attribute) and call is not None:
                self._tell(task, node, telling_effect(node.attr, call))
        elif _tool_in(called) is None and not self._follow(task, node, called, base):
            if not _is_users(called.origin, task.home):
                self._tell(task, node, effect_of(called.origin, call, frame.text_of))

    def _follow(self, task: _Task, node: ast.expr, called: Meaning, base: Meaning | None) -> bool:
        """Queue the user's own code that a call runs; False if it runs none."""
        link = Link(_text(node), task.frame.source.path, node.lineno)
        chain = (*task.chain, link)
        if called.local is not None:
            function, around = called.local
            if isinstance(function, ast.Lambda) or not _is_declared(function, around):
                inside = Frame(around.source, function, around.names, outer=around)
                self._later(replace(task, frame=inside, chain=chain))
            return True
        functions = list(self._own_functions(called, task.home))
        for own in functions:
            frame = frame_of(own, owner=_owner_of(called, base))
            if frame is not None:
                self._later(replace(task, frame=frame, chain=chain))
        return bool(functions)

    def _own_functions(self, called: Meaning, home: str) -> Iterator[FunctionType]:
        """Yield the functions of the user's program that this call runs."""
        values: list[Any] = [called.value]
        if isinstance(called.value, type):
            names = ("__call__",) if called.is_made else ("__init__", "__post_init__")
            values = [inspect.getattr_static(called.value, name, None) for name in names]
        for value in values:
            if value is MISSING or isinstance(value, ModuleType) or not _may_be_called(value):
                continue
            for function in functions_behind(value):
                if is_part_of_program(_home(function), home=home):
                    yield function

    def _tell(self, task: _Task, node: ast.expr, what: str | None) -> None:
        path, text = task.frame.source.path, _text(node)
        # The line of the last name, because a chain of calls may span several lines.
        line = node.end_lineno or node.lineno
        if what is not None:
            effect = EffectInCode(task.start, what, text, path, line, task.chain)
            _, places = self._found.setdefault((path, line, text), (effect, set()))
            places.add(task.place)


def _accessor(value: Any, context: ast.expr_context) -> Any:
    """Return the function that runs if a property is used; None if the value is no property."""
    if isinstance(value, functools.cached_property):
        return value.func
    if not isinstance(value, property):
        return None
    if isinstance(context, ast.Store):
        return value.fset
    return value.fdel if isinstance(context, ast.Del) else value.fget


def _may_be_called(value: Any) -> bool:
    return callable(value) or isinstance(value, staticmethod | classmethod)


def _tool_in(found: Meaning | None) -> Tool | None:
    if found is None or found.value is MISSING or isinstance(found.value, ModuleType):
        return None
    tool = inspect.getattr_static(found.value, "tool", None)
    return tool if isinstance(tool, Tool) else None


def _owner_of(called: Meaning, base: Meaning | None) -> type | None:
    """Return the class whose instance ``self`` is in the function that is called."""
    value = called.value
    if isinstance(value, MethodType):
        return class_of(Meaning("", value.__self__))
    if isinstance(value, _FUNCTIONS) or value is MISSING:
        return class_of(base)
    return class_of(called)


def _is_users(origin: str, home: str) -> bool:
    """Whether a module of the user has the name of a library."""
    top = origin.partition(".")[0]
    return top in sys.modules and is_part_of_program(top, home=home)


def _home(function: FunctionType) -> str:
    return str(function.__globals__.get("__name__", ""))


def _text(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."
