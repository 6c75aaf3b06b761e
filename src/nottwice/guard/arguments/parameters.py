"""Which parameters does a function have, and how do arguments map to them and back?

This follows Python's own rules: positions, names, `*rest`, `**extra`, defaults. It validates
nothing. A default that was not replaced stays with the function: nottwice never passes it, so a
mutable default keeps its Python meaning.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any, NoReturn

from nottwice.errors import InvalidArguments, InvalidTool
from nottwice.model import values

_KIND = inspect.Parameter


class Parameters:
    """The parameters of one tool, without the instance of a method."""

    def __init__(self, signature: inspect.Signature, *, tool: str, skip_first: bool) -> None:
        self._tool = tool
        parameters = list(signature.parameters.values())
        if skip_first:
            parameters = _without_instance(parameters, tool)
        self.by_name = {each.name: each for each in parameters}
        self.defaults = {
            each.name: each.default for each in parameters if each.default is not _KIND.empty
        }
        self._only_positional = self._of_kind(_KIND.POSITIONAL_ONLY)
        either = self._of_kind(_KIND.POSITIONAL_OR_KEYWORD)
        self._positional = (*self._only_positional, *either)
        self._by_keyword = frozenset([*either, *self._of_kind(_KIND.KEYWORD_ONLY)])
        self.rest = next(iter(self._of_kind(_KIND.VAR_POSITIONAL)), None)
        self.extra = next(iter(self._of_kind(_KIND.VAR_KEYWORD)), None)
        self._all_by_name = not self._only_positional and self.rest is None and self.extra is None
        self._required = self._by_keyword.union(self._positional) - self.defaults.keys()
        self._default_values = dict(self.defaults)
        if self.rest is not None:
            self._default_values[self.rest] = ()
        if self.extra is not None:
            self._default_values[self.extra] = {}
        self._containers = tuple(
            name
            for name, default in self._default_values.items()
            if type(default) in (list, dict, set)
        )

    def assign(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Match arguments with parameters as Python does; `inspect` would take 10 times as long."""
        if len(args) > len(self._positional) and self.rest is None:
            self.refuse(
                f"it takes at most {len(self._positional)} arguments by position, and "
                f"{len(args)} were given"
            )
        given = dict(zip(self._positional, args, strict=False)) if args else {}
        if self.rest is not None and len(args) > len(self._positional):
            given[self.rest] = list(args[len(self._positional) :])
        names = kwargs.keys()
        if names <= self._by_keyword and (not given or names.isdisjoint(given)):
            given.update(kwargs)
        else:
            self._assign_by_name(given, kwargs)
        if not self._required <= given.keys():
            self.refuse_missing(given, "there is no value for")
        return given

    def apply_defaults(self, checked: dict[str, Any]) -> dict[str, Any]:
        """Return the values of all parameters; a default that is a list or dict is copied."""
        if not self._default_values:
            return checked
        applied = {**self._default_values, **checked}
        if self.rest is not None:
            applied[self.rest] = tuple(applied[self.rest])
        for name in self._containers:
            if name not in checked:
                applied[name] = _own_copy(applied[name])
        return applied

    def arrange(self, chosen: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Distribute values over positions and names; a parameter without one keeps its default."""
        if self._all_by_name:
            return (), dict(chosen)
        rest = chosen.get(self.rest, ()) if self.rest is not None else ()
        names = self._positional if rest else self._only_positional
        last = len(names)
        while last and not rest and names[last - 1] not in chosen:
            last -= 1
        args = [chosen[name] if name in chosen else self.defaults[name] for name in names[:last]]
        kwargs = {
            name: value
            for name, value in chosen.items()
            if name not in names and name != self.rest and name != self.extra
        }
        if self.extra is not None and self.extra in chosen:
            kwargs.update(chosen[self.extra])
        return (*args, *rest), kwargs

    def refuse_missing(self, given: Mapping[str, Any], what: str) -> None:
        """Raise InvalidArguments for the first parameter that needs a value and has none."""
        for name in self.by_name:
            if name in self._required and name not in given:
                self.refuse(f"{what} {name!r}, which has no default", name)

    def refuse(self, what: str, parameter: str | None = None) -> NoReturn:
        """Raise InvalidArguments, saying that nothing ran and what can be passed."""
        raise InvalidArguments(
            f"Tool {self._tool!r} was not run, because of its arguments: {what}. "
            f"Its parameters are: {', '.join(self.by_name) or 'none'}.",
            tool=self._tool,
            parameter=parameter,
            path=parameter,
            why=what,
        )

    def _assign_by_name(self, given: dict[str, Any], kwargs: Mapping[str, Any]) -> None:
        """Handle the rarer cases: an argument collected by `**`, or an error."""
        extra: dict[str, Any] = {}
        for name, value in kwargs.items():
            if name in self._by_keyword:
                if name in given:
                    self.refuse(f"the argument {name!r} was given twice", name)
                given[name] = value
            elif self.extra is None or type(name) is not str:
                where = " by name" if name in self._only_positional else ""
                self.refuse(f"it takes no argument {name!r}{where}", str(name))
            else:
                extra[name] = value
        if extra and self.extra is not None:
            given[self.extra] = extra

    def _of_kind(self, kind: Any) -> tuple[str, ...]:
        return tuple(name for name, each in self.by_name.items() if each.kind is kind)


def _without_instance(parameters: list[inspect.Parameter], tool: str) -> list[inspect.Parameter]:
    if not parameters:
        raise InvalidTool(
            f"Tool {tool!r} was not declared: it is a method without a parameter for its instance. "
            "Add self, or make it a static method.",
            tool=tool,
        )
    # In `def method(*args)` the instance is the first of `args`.
    return parameters if parameters[0].kind is _KIND.VAR_POSITIONAL else parameters[1:]


def _own_copy(container: Any) -> Any:
    """Copy a default, deeply if possible, so that the function's own is never shared."""
    return copy.deepcopy(container) if values.is_plain(container) else copy.copy(container)
