"""What does a function's code refer to? Read from its compiled form; nothing of it is run.

The user's functions that it calls by name are followed, through modules, classes and instances,
because what a tool does is often written one helper further down. What is only known at run time
(an attribute of ``self``, a value that was passed in) is not guessed.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib.metadata
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from nottwice.model.data.records import frozen_record

MOST_FUNCTIONS = 300
_NAMES = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"}
_NAMES_SINCE_312 = {"LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_CODE = (FunctionType, MethodType, functools.partial, property, staticmethod, classmethod)
_OWN_TOOLS = ("nottwice.recipes.", "nottwice.agent.calls.scratchpad")
MISSING = object()
_OWN_HOOKS = ("nottwice", "nottwice.agent")
"""Modules of nottwice that import their names when they are first used."""


@frozen_record(frozen=True, slots=True)
class Reference:
    """A dotted name as the code writes it, and the current value of each of its parts."""

    path: tuple[str, ...]
    values: tuple[Any, ...]
    """One value for each part of the path that could be looked up; never empty."""

    @property
    def text(self) -> str:
        return ".".join(self.path)


@dataclass(slots=True)
class References:
    """Everything that a function and the helpers it calls refer to."""

    found: list[Reference] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    """The names of all attributes that are read, from any object, modules included."""
    imports: set[str] = field(default_factory=set)
    """The modules that are imported inside functions."""
    wrappers: list[str] = field(default_factory=list)
    """The modules of the decorators around the functions."""
    uses_instance: bool = False
    """Attributes of ``self`` are read, and their values are unknown."""
    readable: bool = True
    """False: it is not written in Python, so nothing is known about it."""
    is_own: Callable[[str], bool] = field(default=lambda name: is_own_module(name))


IsOwn = Callable[[str], bool]
"""Whether to read a module's code like the function itself, by the module's name."""


def read_references(function: Callable[..., Any], *, is_own: IsOwn | None = None) -> References:
    """Read what a function and its helpers refer to; ``is_own`` selects the helpers' modules."""
    references = References(is_own=is_own or is_own_module)
    waiting: list[Any] = [function]
    seen: set[int] = set()
    while waiting and len(seen) < MOST_FUNCTIONS:
        for layer in _layers(waiting.pop(0), references):
            if id(layer.__code__) in seen:
                continue
            seen.add(id(layer.__code__))
            waiting.extend(_read(layer, references))
    references.readable = bool(seen)
    return references


def find_function(function: Callable[..., Any]) -> FunctionType | None:
    """The innermost function written in Python behind a callable, or None."""
    return next(reversed(list(_layers(function, References(), everything=True))), None)


def functions_behind(value: Any) -> list[FunctionType]:
    """Return every function written in Python behind a callable, those of decorators first."""
    found = list(_layers(value, References(), everything=True))
    inner = (found[-1].__dict__ if found else getattr(value, "__dict__", {})).get("__wrapped__")
    # What `functools.cache` returns is no function, so it hides the one that it calls.
    return found if inner is None else [*found, *functions_behind(inner)]


def is_own_module(name: str) -> bool:
    """Whether a module was written by the user: not installed, not part of Python or nottwice.

    nottwice's own ready-made tools are read like those of users, so that you can check them.
    """
    top = name.partition(".")[0]
    if name.startswith(_OWN_TOOLS):
        return True
    if top in sys.stdlib_module_names or top == "nottwice":
        return top == "__main__"
    return top not in _installed()


@functools.cache
def _installed() -> frozenset[str]:
    return frozenset(importlib.metadata.packages_distributions())


def is_part_of_program(module: str, *, home: str = "") -> bool:
    """Whether a helper belongs to the program of ``home``: the same package, or not installed.

    The package of a node counts even if it is installed, so that a program has the same
    fingerprint in a checkout and as an installed wheel.
    """
    top = module.partition(".")[0]
    if top == home.partition(".")[0]:
        return True
    if top == "nottwice" or top in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and not _is_installed(Path(file))


@functools.cache
def _installed_folders() -> tuple[Path, ...]:
    names = ("purelib", "platlib", "stdlib", "platstdlib")
    return tuple(Path(sysconfig.get_paths()[name]) for name in names)


def _is_installed(file: Path) -> bool:
    if {"site-packages", "dist-packages"}.intersection(file.parts):
        return True
    return any(file.is_relative_to(folder) for folder in _installed_folders())


def _layers(
    value: Any, references: References, *, everything: bool = False
) -> Iterator[FunctionType]:
    """Return the functions behind a value, outermost first; those of decorators are only noted."""
    for _ in range(MOST_FUNCTIONS):
        if isinstance(value, functools.partial | functools.partialmethod):
            value = value.func
        elif isinstance(value, MethodType | staticmethod | classmethod):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif isinstance(value, FunctionType):
            inner = value.__dict__.get("__wrapped__")
            if everything or references.is_own(_module_of(value)):
                yield value
            elif inner is not None:
                references.wrappers.append(_module_of(value))
            if inner is None:
                return
            value = inner
        elif isinstance(value, type):
            return
        else:
            # An object with its own `__call__`, such as an instance of a user's class.
            call = inspect.getattr_static(type(value), "__call__", None)
            if not isinstance(call, FunctionType):
                return
            value = call


def _module_of(function: FunctionType) -> str:
    # Decorators copy __module__ to the function they return, but they cannot change its globals.
    return str(function.__globals__.get("__name__", ""))


def _read(function: FunctionType, references: References) -> list[Any]:
    """Note what one function refers to; return the functions to read next."""
    names = {**vars(builtins), **function.__globals__, **closure_of(function)}
    instance = _instance_name(function)
    found: list[Any] = []
    for code in _codes(function.__code__):
        for path in _paths(code, references, instance):
            reference = _resolve(path, names)
            if reference is None:
                continue
            references.found.append(reference)
            for value in reference.values:
                found.extend(_worth_reading(value, references))
    return found


def closure_of(function: FunctionType) -> dict[str, Any]:
    """Return the variables of enclosing functions that a function uses, with current values."""
    names: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            # The variable has not been assigned yet.
            continue
    return names


def _instance_name(function: FunctionType) -> str | None:
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    return parameters[0] if parameters and parameters[0] in ("self", "cls") else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code, and that of the functions and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _paths(
    code: CodeType, references: References, instance: str | None
) -> Iterator[tuple[str, ...]]:
    """Yield every name that is looked up outside the function, with the attributes read from it."""
    path: list[str] = []
    on_instance = False
    for instruction in dis.get_instructions(code):
        name, operation = str(instruction.argval), instruction.opname
        if operation in _ATTRIBUTES:
            references.attributes.add(name)
            references.uses_instance = references.uses_instance or on_instance
            if path:
                path.append(name)
        elif operation != "PUSH_NULL":
            if path:
                yield tuple(path)
            path = [name] if operation in _NAMES | _NAMES_SINCE_312 else []
            if operation == "IMPORT_NAME":
                references.imports.add(name)
            elif operation == "IMPORT_FROM":
                references.attributes.add(name)
        on_instance = operation.startswith("LOAD_FAST") and _last_loaded(instruction) == instance
    if path:
        yield tuple(path)


def _last_loaded(instruction: dis.Instruction) -> Any:
    """Return the variable that is now on top; newer Python versions load two in one instruction."""
    loaded = instruction.argval
    return loaded[-1] if isinstance(loaded, tuple) else loaded


def _resolve(path: tuple[str, ...], names: dict[str, Any]) -> Reference | None:
    value = names.get(path[0], MISSING)
    values: list[Any] = []
    for name in (*path[1:], None):
        if value is MISSING:
            break
        values.append(value)
        if name is not None:
            value = static_attribute(value, name)
    return Reference(path, tuple(values)) if values else None


def static_attribute(value: Any, name: str) -> Any:
    """Read an attribute without running user code: no module hook, no property, no descriptor.

    MISSING if there is none. nottwice's own hook is run, because it only imports what a name means,
    and the meaning of code must not depend on which names were used before.
    """
    if isinstance(value, ModuleType):
        if value.__name__ in _OWN_HOOKS:
            return getattr(value, name, MISSING)
        return vars(value).get(name, MISSING)
    return inspect.getattr_static(value, name, MISSING)


def _worth_reading(value: Any, references: References) -> list[Any]:
    """Return the code behind a value; a protected tool is known by its declaration instead."""
    if isinstance(value, type):
        # It is unknown which of its methods are called, so all of them are read.
        return list(vars(value).values()) if references.is_own(value.__module__) else []
    if inspect.getattr_static(value, "tool", None) is not None:
        return []
    return [value] if isinstance(value, _CODE) else []
