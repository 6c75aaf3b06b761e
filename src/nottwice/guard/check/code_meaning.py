"""What does an expression in a function's source refer to? Read with ``ast``; nothing is run.

Names are looked up as Python would: in the function, around it, in its module. A local variable
means what is assigned to it, a parameter its annotation, and a call what it returns: so ``client``
is ``httpx.Client`` after ``with httpx.Client() as client:``. What is only known at run time (a
parameter without annotation, a name put together) has no meaning here, and nottwice does not guess.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import sys
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from nottwice.guard.check.references import (
    MISSING,
    closure_of,
    find_function,
    is_part_of_program,
    static_attribute,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.tools.waiver import Waivers, read_waivers

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_MOST_HOPS = 40
_HOPS_INTO_A_FUNCTION = 10
"""How far looking for what a function returns counts: functions may call each other in a circle."""
_MOST_RETURNS = 3
_PASSES_ON = {"enter_context", "enter_async_context", "closing", "aclosing", "nullcontext"}
"""Calls that enter what they are given."""
_SAME_MODULE = {
    "posix": "os",
    "nt": "os",
    "_io": "io",
    "genericpath": "os",
    "pathlib._local": "pathlib",
}


@frozen_record(frozen=True, slots=True)
class Source:
    """One file of Python."""

    path: str
    tree: ast.Module
    waivers: Waivers


@functools.lru_cache(maxsize=512)
def read_source(path: str) -> Source | None:
    """Parse a file; None if it cannot be read as Python."""
    try:
        with tokenize.open(path) as file:
            text = file.read()
        return Source(path, ast.parse(text), read_waivers(text))
    except (OSError, SyntaxError, ValueError):
        return None


@frozen_record(frozen=True, slots=True, eq=False)
class Meaning:
    """What an expression refers to."""

    origin: str
    """The dotted name that it comes from: ``httpx.Client.post``."""
    value: Any = MISSING
    """The object, if it already exists: a module, a class, a function, an instance."""
    is_made: bool = False
    """It is an instance of the class ``value``."""
    local: tuple[FunctionNode, Frame] | None = None
    """It is a function inside a function, which does not exist before the outer one runs."""


@dataclass(slots=True, eq=False)
class Frame:
    """A piece of source in which names have a meaning: a function, or a block of a module."""

    source: Source
    node: ast.AST
    names: Mapping[str, Any]
    """The names that already have a value: globals and closure."""
    outer: Frame | None = None
    owner: type | None = None
    """The class that the method belongs to."""
    written: dict[str, list[ast.AST]] = field(default_factory=dict)
    """What is assigned to each local name."""
    hops: int = 0

    def __post_init__(self) -> None:
        for name, value in _assignments(self.node):
            self.written.setdefault(name, []).append(value)

    def meaning(self, node: ast.AST | None) -> Meaning | None:
        """Return what an expression refers to; None if that is unknown."""
        if node is None or self.hops >= _MOST_HOPS:
            return None
        self.hops += 1
        try:
            return self._meaning(node)
        finally:
            self.hops -= 1

    def text_of(self, node: ast.expr) -> str:
        """Return the constant text of an expression, or the dotted name that it comes from."""
        found = self.meaning(node)
        if found is None:
            return ""
        return found.value if isinstance(found.value, str) else found.origin

    def _meaning(self, node: ast.AST) -> Meaning | None:
        match node:
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(value=base, attr=name):
                return self._attribute(self.meaning(base), name)
            case ast.Call():
                return self._called(node)
            case ast.Subscript(value=base, slice=key):
                return _item(self.meaning(base), key)
            case ast.Await(value=inner) | ast.NamedExpr(value=inner):
                return self.meaning(inner)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                # A path, or a number, which has no meaning here in either case.
                found = [each for each in (self.meaning(left), self.meaning(right)) if each]
                return next((each for each in found if each.origin.startswith("pathlib.")), None)
            case ast.IfExp(body=one, orelse=other):
                return self.meaning(one) or self.meaning(other)
            case ast.BoolOp(values=values):
                return next(filter(None, map(self.meaning, values)), None)
            case ast.Constant(value=str(text)):
                return Meaning("builtins.str", text)
            case ast.Lambda() | ast.FunctionDef() | ast.AsyncFunctionDef():
                return Meaning("", local=(node, self))
            case ast.arg(arg="self" | "cls", annotation=None) if self.owner is not None:
                return Meaning(origin_of(self.owner), self.owner, is_made=True)
            case ast.arg(annotation=annotation):
                return self._annotated(annotation)
            case _Imported():
                return _imported(node.module, node.name)
            case _:
                return None

    def _called(self, call: ast.Call) -> Meaning | None:
        match call:
            case ast.Call(func=ast.Name(id="getattr"), args=[base, ast.Constant(str(name)), *_]):
                return self._attribute(self.meaning(base), name)
            case ast.Call(func=ast.Name(id="super"), args=[]) if self.owner is not None:
                above = self.owner.__mro__[1]
                return Meaning(origin_of(above), above, is_made=True)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[entered]) if (
                name in _PASSES_ON
            ):
                return self.meaning(entered)
            case ast.Call(func=ast.Attribute(value=base) as function):
                return self._made_by(self.meaning(function), class_of(self.meaning(base)))
            case _:
                return self._made_by(self.meaning(call.func))

    def _name(self, name: str) -> Meaning | None:
        if isinstance(self.node, ast.Module) and name in self.names:
            return meaning_of(self.names[name])
        if name in self.written:
            return next(filter(None, map(self.meaning, self.written[name])), None)
        if name in self.names:
            return meaning_of(self.names[name])
        if self.outer is not None:
            return self.outer._name(name)
        value = vars(builtins).get(name, MISSING)
        return None if value is MISSING else meaning_of(value)

    def _attribute(self, base: Meaning | None, name: str) -> Meaning | None:
        if base is None or base.local is not None:
            return None
        if base.value is MISSING:
            return Meaning(f"{base.origin}.{name}")
        value = static_attribute(base.value, name)
        if isinstance(value, property | functools.cached_property):
            getter = value.fget if isinstance(value, property) else value.func
            return self._made_by(Meaning(f"{base.origin}.{name}", getter), class_of(base))
        if value is MISSING or value is None or inspect.isdatadescriptor(value):
            return _field(base, name) or Meaning(f"{base.origin}.{name}")
        found = meaning_of(value)
        top = found.origin.partition(".")[0]
        if _is_code(value) and top in ("", base.origin.partition(".")[0]):
            # Use the name in the code, because a library may move the definition.
            return Meaning(f"{base.origin}.{name}", value)
        return found

    def _made_by(self, called: Meaning | None, owner: type | None = None) -> Meaning | None:
        if called is None:
            return None
        if called.local is not None:
            function, around = called.local
            if not isinstance(function, ast.Lambda) and function.returns is not None:
                return around._annotated(function.returns)
            return self._returned(Frame(around.source, function, around.names, outer=around))
        if isinstance(called.value, type):
            return Meaning(called.origin, called.value, is_made=not called.is_made)
        function_ = find_function(called.value) if callable(called.value) else None
        returns = None if function_ is None else function_.__annotations__.get("return")
        if isinstance(returns, type):
            return Meaning(origin_of(returns), returns, is_made=True)
        if isinstance(returns, str) and function_ is not None:
            found = _evaluated(returns, function_.__globals__)
            if found is not None:
                return found
        if returns is None and function_ is not None and is_part_of_program(function_.__module__):
            found = self._returned(frame_of(function_, owner=owner))
            if found is not None:
                return found
        return Meaning(called.origin)

    def _returned(self, function: Frame | None) -> Meaning | None:
        """Return what a function without annotation returns, or yields to a ``with`` block."""
        if function is None:
            return None
        function.hops = self.hops + _HOPS_INTO_A_FUNCTION
        if isinstance(function.node, ast.Lambda):
            return function.meaning(function.node.body)
        ends = [each for each in _inside(function.node) if isinstance(each, ast.Return | ast.Yield)]
        meanings = (function.meaning(each.value) for each in ends[:_MOST_RETURNS])
        return next(filter(None, meanings), None)

    def _annotated(self, annotation: ast.expr | None) -> Meaning | None:
        """Return an instance of the first class that an annotation names."""
        match annotation:
            case ast.Constant(value=str(text)):
                try:
                    return self._annotated(ast.parse(text, mode="eval").body)
                except SyntaxError:
                    return None
            case ast.BinOp(left=left, right=right):
                return self._annotated(left) or self._annotated(right)
            case ast.Subscript(value=value, slice=inner):
                named = self.text_of(value).rpartition(".")[2]
                return self._annotated(inner) if named in ("Optional", "Annotated") else None
            case ast.Tuple(elts=[first, *_]):
                return self._annotated(first)
            case ast.Name() | ast.Attribute():
                found = self.meaning(annotation)
                if found is None or found.origin.startswith(("builtins.", "typing.")):
                    return None
                return Meaning(found.origin, found.value, is_made=isinstance(found.value, type))
            case _:
                return None


def frame_of(function: FunctionType, *, owner: type | None = None) -> Frame | None:
    """Return the frame of a function's body; None if its source cannot be read."""
    code = function.__code__
    source = read_source(inspect.getsourcefile(code) or code.co_filename)
    node = None if source is None else _find_node(source.tree, code.co_firstlineno, code.co_name)
    if source is None or node is None:
        return None
    names = {**function.__globals__, **closure_of(function)}
    around = Frame(source, source.tree, function.__globals__)
    return Frame(source, node, names, outer=around, owner=owner)


def class_of(found: Meaning | None) -> type | None:
    """Return the class that something is an instance of, or the class itself."""
    if found is None or found.value is MISSING or isinstance(found.value, ModuleType):
        return None
    return found.value if isinstance(found.value, type) else type(found.value)


def held_by(container: Any) -> list[Any]:
    """Return what a list, tuple or dict holds; nothing for anything else, which may run code."""
    if type(container) is dict:
        return list(container.values())
    return list(container) if type(container) in (list, tuple) else []


def _item(container: Meaning | None, key: ast.expr) -> Meaning | None:
    """Return an item of an existing container: the one under a constant key, else the first."""
    held = MISSING if container is None else container.value
    named = key.value if isinstance(key, ast.Constant) else None
    if type(held) is dict and type(named) in (str, int) and named in held:
        return meaning_of(held[named])
    values = held_by(held)
    return meaning_of(values[0]) if values else None


def meaning_of(value: Any) -> Meaning:
    """Return the meaning of an existing object."""
    if isinstance(value, functools.partial):
        return meaning_of(value.func)
    return Meaning(origin_of(value), value)


def origin_of(value: Any) -> str:
    """Return the dotted name of a module, class or function, or of an object's class."""
    if isinstance(value, ModuleType):
        return value.__name__
    named = value if isinstance(value, type) or _is_code(value) else type(value)
    module = str(getattr(named, "__module__", None) or "")
    name = getattr(named, "__qualname__", type(value).__qualname__)
    return f"{_SAME_MODULE.get(module, module.lstrip('_'))}.{name}"


def _is_code(value: Any) -> bool:
    return inspect.isroutine(value) or isinstance(value, type | staticmethod | classmethod)


def _assignments(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield every local name of a function or module with what it is bound to, at any depth."""
    if isinstance(node, FunctionNode):
        arguments = node.args
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            yield each.arg, each
        for rest in filter(None, (arguments.vararg, arguments.kwarg)):
            yield rest.arg, ast.Pass()
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        names = names[len(names) - len(arguments.defaults) :]
        names += [each.arg for each in arguments.kwonlyargs]
        for name, default in zip(names, (*arguments.defaults, *arguments.kw_defaults), strict=True):
            # A constant says what is usual, and not what a parameter is.
            if not isinstance(default, ast.Constant | None):
                yield name, default
    for inner in _inside(node):
        match inner:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                yield name, ast.arg(arg=name, annotation=annotation)
                if value is not None:
                    yield name, value
            case ast.withitem(context_expr=value, optional_vars=ast.Name(id=name)):
                yield name, value
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, inner
            case ast.Import(names=aliases):
                for alias in aliases:
                    top = alias.name if alias.asname else alias.name.partition(".")[0]
                    yield alias.asname or top, _Imported(top, None)
            case ast.ImportFrom(module=module, names=aliases, level=0):
                for alias in aliases:
                    yield alias.asname or alias.name, _Imported(module or "", alias.name)
            case ast.Name(id=name, ctx=ast.Store()):
                yield name, ast.Pass()
            case _:
                continue


class _Imported(ast.AST):
    """A name that an import inside a function binds."""

    def __init__(self, module: str, name: str | None) -> None:
        super().__init__()
        self.module, self.name = module, name


def _imported(module: str, name: str | None) -> Meaning:
    found: Any = sys.modules.get(module, MISSING)
    if name is None:
        return Meaning(module, found)
    value = MISSING if found is MISSING else static_attribute(found, name)
    return Meaning(f"{module}.{name}", value) if value is MISSING else meaning_of(value)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function or module, without those of its inner functions."""
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        inner = waiting.pop(0)
        yield inner
        if not isinstance(inner, FunctionNode | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(inner))


def _find_node(tree: ast.Module, line: int, name: str) -> FunctionNode | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            if name == "<lambda>" and node.lineno == line:
                return node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first == line:
                return node
    return None


def _field(base: Meaning, name: str) -> Meaning | None:
    """Find a field of an instance: what its class annotates, or what __init__ assigns."""
    made = base.value if isinstance(base.value, type) else type(base.value)
    for kind in made.__mro__[:-1]:
        if not is_part_of_program(kind.__module__):
            continue
        annotation = inspect.get_annotations(kind).get(name)
        module = sys.modules.get(kind.__module__)
        if isinstance(annotation, type):
            return Meaning(origin_of(annotation), annotation, is_made=True)
        if isinstance(annotation, str) and module is not None:
            return _evaluated(annotation, vars(module))
        init = kind.__dict__.get("__init__")
        frame = frame_of(init, owner=kind) if isinstance(init, FunctionType) else None
        for node in () if frame is None else ast.walk(frame.node):
            match node:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)], value=value
                ) if attribute == name and frame is not None:
                    return frame.meaning(value)
                case _:
                    continue
    return None


def _evaluated(annotation: str, names: Mapping[str, Any]) -> Meaning | None:
    """Return an instance of what an annotation's text names. The text is looked up, never run."""
    empty = ast.Module(body=[], type_ignores=[])
    frame = Frame(Source("", empty, read_waivers("")), empty, names)
    return frame._annotated(ast.Constant(annotation))
