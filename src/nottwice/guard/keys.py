"""Which idempotency key does a call have? It comes from the intent, never from the attempt (T2).

A template is always stable, and two different sets of arguments never give one key: a character
that separates two fields is escaped inside them. A key function is called twice, and refused if the
two answers differ. All of this happens before anything runs.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import string
from collections.abc import Callable, Collection, Mapping
from typing import Any

from nottwice.errors import InvalidKey, InvalidTool
from nottwice.guard.arguments.annotations import read_signature
from nottwice.model import values

MAX_KEY_CHARACTERS = 255

# Used to write an escaped character. None of these can separate two fields.
_ESCAPE_ALPHABET = frozenset("%0123456789ABCDEF")
_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class KeyTemplate:
    """A key with parameters in it, such as `"refund-{order_id}"`."""

    def __init__(
        self,
        text: str,
        *,
        tool: str,
        parameters: Collection[str] | None,
        volatile: Collection[str] = (),
        secret: Collection[str] = (),
        paths: bool = False,
    ) -> None:
        """``parameters``: None if they are not known. ``paths``: ``{order.id}`` looks into
        ``order``."""
        self.text = text
        self._tool = tool
        self._paths = paths
        self._parts = _parse(text, tool, paths=paths)
        self._fields = [name for _, name in self._parts if name is not None]
        self._check_fields(parameters, volatile, secret)
        self._check_literals()
        self._escaped = self._find_separators() if len(self._fields) > 1 else frozenset()

    def render(self, normal: Mapping[str, Any]) -> str:
        """Return the key of one call, from the normal form of its arguments."""
        pieces: list[str] = []
        for literal, name in self._parts:
            pieces.append(literal)
            if name is not None:
                pieces.append(self._escape(self._render_field(name, normal)))
        return check_key("".join(pieces), tool=self._tool)

    def _check_fields(
        self,
        parameters: Collection[str] | None,
        volatile: Collection[str],
        secret: Collection[str],
    ) -> None:
        known = parameters or ()
        usable = [name for name in known if name not in volatile and name not in secret]
        hint = f"Its parameters are: {', '.join(usable) or 'none'}."
        for name in (field.partition(".")[0] for field in self._fields):
            if name in volatile:
                raise self._invalid(
                    f"it uses {name!r}, which is volatile (declared so, or not in once_per): the "
                    "key would change from one attempt to the next. Use a parameter that says "
                    "what is meant"
                )
            if name in secret:
                raise self._invalid(
                    f"it uses {name!r}, which is secret, and a key is recorded and sent. {hint}"
                )
            if parameters is not None and name not in parameters:
                raise self._invalid(f"the tool has no parameter {name!r}. {hint}")
        if (usable or parameters is None) and not self._fields:
            raise self._invalid(f"every call would have the same key. Add a parameter. {hint}")

    def _check_literals(self) -> None:
        """Refuse now what would be refused at every call."""
        fault = _fault_of("".join(text + ("x" if name else "") for text, name in self._parts))
        if fault is not None:
            raise self._invalid(f"any key made from it {fault}")

    def _find_separators(self) -> frozenset[str]:
        """The characters to escape: each text between two fields must hold one of them.

        The first such character after a field must then come from the template. So the fields can
        be read back from the key, and different fields give different keys.
        """
        found: set[str] = set()
        for literal, name in self._parts[1:-1]:
            usable = set(literal) - _ESCAPE_ALPHABET
            # Punctuation is preferred over letters, because escaped words are hard to read.
            marks = {each for each in usable if not each.isalnum()}
            if not usable:
                raise self._invalid(
                    f"nothing separates {{{name}}} from the field before it, so two calls could "
                    "have the same key. Put a character such as '-' or ':' between the two"
                )
            found |= marks or usable
        return frozenset(found | {"%"})

    def _render_field(self, name: str, normal: Mapping[str, Any]) -> str:
        first, *inside = name.split(".")
        if first not in normal:
            raise self._unusable(name, "is missing" if self._paths else "is not plain data")
        value = normal[first]
        for part in inside:
            if type(value) is not dict or part not in value:
                raise self._unusable(name, "is missing")
            value = value[part]
        if type(value) is str:
            return value
        if type(value) is float and value.is_integer():
            # 10 and 10.0 are one value (T4), so they are one key.
            return str(int(value))
        if type(value) is int:
            return str(value)
        raise self._unusable(name, f"is {_KINDS.get(type(value), type(value).__name__)}")

    def _escape(self, text: str) -> str:
        if not self._escaped:
            return text
        return "".join(
            "".join(f"%{byte:02X}" for byte in each.encode()) if each in self._escaped else each
            for each in text
        )

    def _unusable(self, name: str, what: str) -> InvalidKey:
        return InvalidKey(
            f"Tool {self._tool!r} was not run: its key {self.text!r} needs {name!r}, which {what} "
            "in this call; only text and whole numbers have one spelling. Pass one of these, or "
            "declare a function as the key.",
            tool=self._tool,
            parameter=name,
        )

    def _invalid(self, what: str) -> InvalidTool:
        return _invalid_template(self.text, self._tool, what)


class KeyFunction:
    """A function that returns the key; it names the parameters of the tool that it needs."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        tool: str,
        parameters: Collection[str],
        volatile: Collection[str] = (),
        secret: Collection[str] = (),
    ) -> None:
        self._function = function
        self._tool = tool
        # A volatile argument may change from one attempt to the next, and a secret would be
        # recorded with the key. So a key function may use neither.
        offered = [name for name in parameters if name not in volatile and name not in secret]
        try:
            wanted = read_signature(function).parameters.values()
        except (TypeError, ValueError) as error:
            raise self._invalid(f"its parameters cannot be read ({error})") from None
        for each in wanted:
            if each.default is not each.empty or each.kind in (
                each.VAR_POSITIONAL,
                each.VAR_KEYWORD,
            ):
                continue
            if each.kind is each.POSITIONAL_ONLY:
                raise self._invalid(f"it takes {each.name!r} by position only")
            if each.name not in offered:
                why = "no parameter of the tool"
                if each.name in volatile or each.name in secret:
                    why = "volatile" if each.name in volatile else "secret"
                raise self._invalid(f"it asks for {each.name!r}, which is {why}")
        names = [each.name for each in wanted if each.kind is not each.POSITIONAL_ONLY]
        takes_all = any(each.kind is each.VAR_KEYWORD for each in wanted)
        self._names = [name for name in offered if takes_all or name in names]

    def render(self, arguments: Mapping[str, Any]) -> str:
        """Return the key of one call, from the validated values of its arguments."""
        wanted = {name: arguments[name] for name in self._names}
        return stable_key(self._function, wanted, tool=self._tool)

    def _invalid(self, what: str) -> InvalidTool:
        return InvalidTool(
            f"Tool {self._tool!r} was not declared: its key function is not usable, because "
            f"{what}. Let it take by name the parameters of the tool that it needs.",
            tool=self._tool,
        )


def stable_key(function: Callable[..., Any], arguments: Mapping[str, Any], *, tool: str) -> str:
    """Return the key that a function gives for these arguments, which it takes by name.

    It is called twice: an answer that depends on a clock, a counter or chance would give every
    attempt a new key, and the upstream could not recognise the call.
    """
    first, second = (_ask(function, arguments, tool) for _ in range(2))
    if first != second:
        raise InvalidKey(
            f"Tool {tool!r} was not run: its key function gave two keys for one call, {first!r} "
            f"and {second!r}. Derive the key from the arguments only: no clock, no random value.",
            tool=tool,
        )
    return check_key(first, tool=tool)


def repeated_key(key: str, label: str | None, *, tool: str) -> str:
    """Return the key of a deliberate repeat: the upstream must not take it for the first call."""
    if label is None:
        return key
    return check_key(f"{key}#{hashlib.sha256(label.encode()).hexdigest()[:12]}", tool=tool)


def check_key(key: object, *, tool: str) -> str:
    """Refuse a key that an upstream could not accept, or could mistake for another key."""
    fault = _fault_of(key)
    if fault is None:
        return str(key)
    raise InvalidKey(
        f"Tool {tool!r} was not run: its idempotency key {fault}. A key is printable text of 1 to "
        f"{MAX_KEY_CHARACTERS} characters; use a hash where it would be longer.",
        tool=tool,
    )


_KINDS = {
    bool: "a boolean",
    float: "a fraction",
    type(None): "None",
    list: "a list",
    dict: "an object",
}


def _parse(text: str, tool: str, *, paths: bool) -> list[tuple[str, str | None]]:
    """Split the template into pairs of literal text and the field after it, if there is one."""
    parts: list[tuple[str, str | None]] = []
    literal = ""
    try:
        for piece, name, form, conversion in string.Formatter().parse(text):
            literal += piece
            if name is None:
                # The piece ends in a doubled brace, and the literal text continues after it.
                continue
            names = name.split(".") if paths else [name]
            if form or conversion or not all(map(str.isidentifier, names)):
                raise _invalid_template(text, tool, f"{{{name}}} is not just a parameter's name")
            parts.append((literal, name))
            literal = ""
    except (ValueError, TypeError) as error:
        raise _invalid_template(text, tool, f"it cannot be read ({error})") from None
    return [*parts, (literal, None)]


def _invalid_template(text: object, tool: str, what: str) -> InvalidTool:
    return InvalidTool(
        f"Tool {tool!r} was not declared: the key {text!r} is not usable, because {what}.",
        tool=tool,
    )


def _fault_of(key: object) -> str | None:
    if type(key) is not str:
        return f"is of type {type(key).__name__}, not text"
    if not key:
        return "is empty"
    if len(key) > MAX_KEY_CHARACTERS:
        return f"has {len(key):,} characters"
    if not key.isprintable():
        bad = next(each for each in key if not each.isprintable())
        return f"contains the unprintable character {bad!a}"
    if key != key.strip():
        # HTTP drops blanks around a header's value, and two keys would become one.
        return "begins or ends with a blank"
    return None


def _ask(function: Callable[..., Any], arguments: Mapping[str, Any], tool: str) -> str:
    # The function gets copies, so that it cannot change what the tool is given.
    taken = {
        name: copy.deepcopy(value) if values.is_plain(value) else value
        for name, value in arguments.items()
    }
    try:
        answer = function(**taken)
    except Exception as error:
        raise InvalidKey(
            f"Tool {tool!r} was not run: its key function failed with "
            f"{type(error).__name__}: {error}.",
            tool=tool,
        ) from error
    if inspect.iscoroutine(answer):
        # Otherwise Python warns later, elsewhere, that it was never awaited.
        answer.close()
    return check_key(answer, tool=tool)
