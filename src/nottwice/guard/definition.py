"""When is a tool that is declared again the same tool? (T1)

A call in doubt finds its tool by name, and a receipt is returned by name. So two functions may
share a name only if they are one definition:

- a name at module level that is defined again: a notebook cell, a reload, a second import;
- a local function with the same code, closure, defaults and declaration: a factory that is called
  twice with the same values, or that was itself defined again.

If nottwice cannot show that two are the same, they are not. Garbage collection decides nothing:
which objects are alive says nothing about what a name means. Promise kept here: P140.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType
from typing import Any

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type(Ellipsis), range)
_IMMUTABLE = (
    enum.Enum,
    PurePath,
    decimal.Decimal,
    uuid.UUID,
    datetime.date,
    datetime.time,
    datetime.timedelta,
)
_EMPTY = object()
"""The value of a variable that is not assigned yet."""
_MOST_LAYERS = 100
DEFINITION = "nottwice_definition"
"""An attribute of a ready-made function that says what it works on, as its code does not."""

Pairs = frozenset[tuple[int, int]]
"""Functions that are being compared, because a function may refer to itself."""


class Definition:
    """A function as it was declared. Its closure may change later; the original values count."""

    def __init__(self, function: Callable[..., Any], words: Mapping[str, Any]) -> None:
        self.function = function
        self._words = {name: _frozen(word) for name, word in words.items()}
        self._base = _innermost(function)
        self._cells = _closure(self._base)
        self._globals = _globals_read(self._base)

    @property
    def place(self) -> str:
        """Where it is written, as FILE:LINE."""
        return place_of(self._base)

    def same_as(self, older: Definition) -> bool:
        """Whether this is the same definition again, which may take over the older one's name."""
        if self.function is older.function:
            return _same_names(older._words, self._words)
        known = getattr(self.function, DEFINITION, None)
        if known is not None or hasattr(older.function, DEFINITION):
            return bool(known == getattr(older.function, DEFINITION, None))
        new, old = self._base, older._base
        if isinstance(new, FunctionType) and isinstance(old, FunctionType):
            if not _is_same_name(old, new):
                return False
            if old is not new and _is_defined_again(old, new):
                return not _is_in_use_beside(older.function, new)
            if "<locals>" not in new.__qualname__ and old is not new:
                return self._is_like(older) and _same_names(older._globals, self._globals)
        return self._is_like(older)

    def _is_like(self, older: Definition) -> bool:
        return (
            _same(older.function, self.function)
            and _same_names(older._words, self._words)
            and _same_each(older._cells, self._cells)
        )


def place_of(function: Any) -> str:
    """Return where a function is written, as FILE:LINE; without code, what kind of object it is."""
    function = _innermost(function)
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return f"an object of {type(function).__module__}.{type(function).__qualname__}"
    return f"{code.co_filename}:{code.co_firstlineno}"


def _innermost(function: Any) -> Any:
    """Return the function inside all decorators: people know its name and place."""
    for _ in range(_MOST_LAYERS):
        inner = getattr(function, "__wrapped__", None)
        if not callable(inner):
            break
        function = inner
    return function


def _is_same_name(old: FunctionType, new: FunctionType) -> bool:
    """Whether both are one name of one module; a script may be imported under a second name."""
    if old.__qualname__ != new.__qualname__:
        return False
    if old.__name__ == "<lambda>" and old.__code__ != new.__code__:
        return False
    if old.__globals__ is new.__globals__:
        return True
    file = old.__code__.co_filename
    # Code run by exec() has no file, and two such texts share nothing else.
    in_a_file = not file.startswith("<")
    return file == new.__code__.co_filename and (in_a_file or old.__code__ == new.__code__)


def _is_defined_again(old: FunctionType, new: FunctionType) -> bool:
    """Whether the module, or the part of it that defines the function, was executed again."""
    if old.__globals__ is not new.__globals__:
        return True
    outermost, *inside = new.__qualname__.split(".<locals>")
    if not inside:
        # A def statement that runs twice, in a loop, does not define its name again. It makes two
        # functions, and the loop variable may be their only difference.
        return old.__code__ is not new.__code__
    factory = getattr(_innermost(_look_up(new.__globals__, outermost)), "__code__", None)
    return _holds(factory, new.__code__) and not _holds(factory, old.__code__)


def _look_up(names: Mapping[str, Any], dotted: str) -> Any:
    first, *others = dotted.split(".")
    found = names.get(first)
    for name in others:
        found = getattr(found, name, None)
    return found


def _holds(code: Any, wanted: CodeType) -> bool:
    if not isinstance(code, CodeType):
        return False
    return code is wanted or any(_holds(each, wanted) for each in code.co_consts)


def _is_in_use_beside(older: Any, new: FunctionType) -> bool:
    """Whether the module still has the older function, with other code, under another name.

    ``refund = call`` and a second ``def call`` below it are two tools.
    """
    if _innermost(older).__code__ == new.__code__:
        return False
    return any(
        name != new.__name__ and getattr(value, "fn", None) is older
        for name, value in list(new.__globals__.items())
    )


def _closure(function: Any) -> tuple[Any, ...]:
    contents = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            contents.append(cell.cell_contents)
        except ValueError:
            contents.append(_EMPTY)
    return tuple(contents)


def _globals_read(function: Any) -> dict[str, Any]:
    """Return the current values of the global names in its code, except its own name."""
    if not isinstance(function, FunctionType):
        return {}
    names = function.__globals__
    wanted = set(function.__code__.co_names) - {function.__name__}
    return {name: names[name] for name in wanted if name in names}


def _frozen(word: Any) -> Any:
    """Freeze a declared value: ``tags=["a"]`` is read immediately, so the list cannot change it."""
    return tuple(word) if type(word) in (list, set) else word


def _same(old: Any, new: Any, pairs: Pairs = frozenset()) -> bool:
    """Whether two values behave alike. Equal lists do not, because either may change."""
    if old is new or (id(old), id(new)) in pairs:
        return True
    if new is _EMPTY:
        # A function that calls itself: the name of the new one is not assigned yet.
        return any(id(_bare(old)) == known for known, _ in pairs)
    if type(old) is not type(new):
        return False
    if type(old) in _PLAIN or isinstance(old, _IMMUTABLE):
        # Compared by spelling, too: 0.0 equals -0.0, and a tool may print it.
        return bool(old == new) and repr(old) == repr(new)
    if type(old) is tuple:
        return _same_each(old, new, pairs)
    if type(old) is frozenset:
        is_plain = all(type(each) in _PLAIN for each in old | new)
        return is_plain and sorted(map(repr, old)) == sorted(map(repr, new))
    if isinstance(old, FunctionType):
        return _same_function(_bare(old), _bare(new), pairs)
    if isinstance(old, MethodType):
        return old.__self__ is new.__self__ and _same(old.__func__, new.__func__, pairs)
    if isinstance(old, functools.partial):
        return (
            _same(old.func, new.func, pairs)
            and _same_each(old.args, new.args, pairs)
            and _same_names(old.keywords, new.keywords, pairs)
        )
    if dataclasses.is_dataclass(old) and type(old).__setattr__ is not object.__setattr__:
        # Frozen, such as a RetryPolicy that a factory creates each time.
        return _same_names(_fields(old), _fields(new), pairs)
    return False


def _fields(record: Any) -> dict[str, Any]:
    return {each.name: getattr(record, each.name, _EMPTY) for each in dataclasses.fields(record)}


def _bare(value: Any) -> Any:
    """Return the function behind a protected tool; anything else is returned as it is."""
    return getattr(value, "fn", value) if hasattr(value, "tool") else value


def _same_function(old: Any, new: Any, pairs: Pairs) -> bool:
    if not isinstance(old, FunctionType) or not isinstance(new, FunctionType):
        return _same(old, new, pairs)
    pairs |= {(id(old), id(new))}
    return (
        old.__code__ == new.__code__
        and old.__globals__ is new.__globals__
        and _same(old.__defaults__, new.__defaults__, pairs)
        and _same_names(old.__kwdefaults__ or {}, new.__kwdefaults__ or {}, pairs)
        and _same_each(_closure(old), _closure(new), pairs)
    )


def _same_each(old: Iterable[Any], new: Iterable[Any], pairs: Pairs = frozenset()) -> bool:
    olds, news = list(old), list(new)
    if len(olds) != len(news):
        return False
    return all(_same(one, other, pairs) for one, other in zip(olds, news, strict=True))


def _same_names(old: Mapping[str, Any], new: Mapping[str, Any], pairs: Pairs = frozenset()) -> bool:
    return old.keys() == new.keys() and all(_same(old[name], new[name], pairs) for name in old)
