"""Where in the text of a configuration is each value? JSON, with comments and trailing commas.

A configuration is a person's file: indentation, order and comments are theirs. So nottwice never
rewrites it from its values. Only the text of the values that change is replaced, which needs the
place of each value in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record

DEEPEST = 200
"""How many values a value may be inside of. Configurations of clients have about five."""
_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_TEXT = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")


@frozen_record(frozen=True, slots=True)
class JsonPart:
    """One value, and the text from ``start`` to ``end`` that it is written as."""

    value: Any
    """Text, a number, a truth value or None; of an object its members by name; of an array a list
    of its parts."""
    start: int
    end: int

    @property
    def members(self) -> Mapping[str, JsonMember]:
        """The members, if this is an object; otherwise there are none."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def texts(self) -> list[str] | None:
        """The items, if this is an array of texts and nothing else."""
        items = self.value if isinstance(self.value, list) else [self]
        found = [item.value for item in items]
        whole = isinstance(self.value, list) and all(isinstance(one, str) for one in found)
        return found if whole else None

    def find(self, *names: str) -> JsonPart | None:
        """Return the value below these names."""
        part = self
        for name in names:
            member = part.members.get(name)
            if member is None:
                return None
            part = member.part
        return part


@frozen_record(frozen=True, slots=True)
class JsonMember:
    """A member of an object."""

    key_start: int
    """Where its name begins, with the quotation mark."""
    part: JsonPart


def read(text: str) -> JsonPart:
    """Return the value of a text. UsageError says in which line it is not JSON."""
    reader = _Reader(text)
    part = reader.value(reader.skip(0), depth=0)
    end = reader.skip(part.end)
    if end != len(text):
        raise reader.error(end, "there is something after the end of the JSON value")
    return part


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, at: int) -> int:
        """Return where the next value or sign begins, after blanks and comments."""
        found = _BLANK.match(self._text, at)
        return at if found is None else found.end()

    def value(self, at: int, *, depth: int) -> JsonPart:
        if depth > DEEPEST:
            raise self.error(at, f"values are nested deeper than {DEEPEST}")
        match self._text[at : at + 1]:
            case "{":
                return self._object(at, depth)
            case "[":
                return self._array(at, depth)
            case '"':
                text, end = self._quoted(at)
                return JsonPart(text, at, end)
        found = _WORD.match(self._text, at)
        if found is None:
            raise self.error(at, "a JSON value should be here")
        try:
            return JsonPart(json.loads(found.group()), at, found.end())
        except ValueError:
            raise self.error(at, f"{found.group()} is not a number") from None

    def _object(self, start: int, depth: int) -> JsonPart:
        members: dict[str, JsonMember] = {}
        at = self.skip(start + 1)
        while self._text[at : at + 1] != "}":
            name, end = self._quoted(at)
            if name in members:
                # Programs disagree about which of the two counts.
                raise self.error(at, f"the name {name!r} is there twice")
            colon = self.skip(end)
            if self._text[colon : colon + 1] != ":":
                raise self.error(colon, f"a colon should follow {name!r}")
            part = self.value(self.skip(colon + 1), depth=depth + 1)
            members[name] = JsonMember(at, part)
            at = self._after_comma(part.end, "}")
        return JsonPart(members, start, at + 1)

    def _array(self, start: int, depth: int) -> JsonPart:
        items: list[JsonPart] = []
        at = self.skip(start + 1)
        while self._text[at : at + 1] != "]":
            items.append(self.value(at, depth=depth + 1))
            at = self._after_comma(items[-1].end, "]")
        return JsonPart(items, start, at + 1)

    def _after_comma(self, end: int, closing: str) -> int:
        at = self.skip(end)
        if self._text[at : at + 1] == ",":
            return self.skip(at + 1)
        if self._text[at : at + 1] != closing:
            raise self.error(at, f"a comma or {closing} should be here")
        return at

    def _quoted(self, at: int) -> tuple[str, int]:
        found = _TEXT.match(self._text, at)
        try:
            if found is not None:
                text: str = json.loads(found.group())
                return text, found.end()
        except ValueError:
            pass
        raise self.error(at, "a text in quotation marks should be here")

    def error(self, at: int, what: str) -> UsageError:
        before = self._text[:at]
        line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
        return UsageError(f"it is not JSON: line {line}, column {column}: {what}")
