"""What stands in the ledger in place of a secret, and how is a secret kept out of a text? (L9)

A secret argument is kept as a fingerprint: ``{"$secret": "k9f2c41d7:…"}``, a keyed hash with the id
of its key. Equal secrets of one parameter have equal fingerprints, so that a call is recognised
when it is made again; without the key nobody can try out what the secret might be. A fingerprint
stands where the declaration has a secret and nowhere else, whatever the value is there: a dict of
the user's that looks like one is told apart by its place, and as a secret gets a fingerprint, too.

Promises kept here: P101 (no secret argument is written down).
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

from nottwice.model import values
from nottwice.model.printable import one_line
from nottwice.model.sealing.keyring import Key

SHOWN = "•••"
"""What a person sees of a secret."""
NAME = "$secret"
PURPOSE = "secret"
LEAST_CHARACTERS = 4
"""What is shorter is found in any text by chance, so no text is searched for it."""
LEAST_INSIDE_OTHERS = 8
"""What is shorter counts in plain data only if it is a whole text there."""
_LEAST_LINE = 16
_FINGERPRINT = re.compile(r"k[0-9a-f]{8}:[0-9a-f]{32}")


def fingerprint(key: Key, where: str, plain: Any) -> dict[str, str]:
    """What is kept of a secret; ``where`` tells equal secrets of two parameters apart."""
    return {NAME: f"{key.id}:{key.fingerprint(PURPOSE, values.canonical([where, plain]))}"}


def is_fingerprint(plain: Any) -> bool:
    """Whether plain data is spelled like a fingerprint."""
    if type(plain) is not dict or len(plain) != 1:
        return False
    text = plain.get(NAME)
    return type(text) is str and _FINGERPRINT.fullmatch(text) is not None


def holds_fingerprint(plain: Any) -> bool:
    """Whether a part of plain data is spelled like one: nobody can make the call from it."""
    if is_fingerprint(plain):
        return True
    if type(plain) is dict:
        return any(map(holds_fingerprint, plain.values()))
    return type(plain) is list and any(map(holds_fingerprint, plain))


def covered(plain: Any, cover: Any = SHOWN) -> Any:
    """Plain data as a person sees it: a mark in place of every fingerprint."""
    if is_fingerprint(plain):
        return cover
    if type(plain) is dict:
        return {name: covered(value, cover) for name, value in plain.items()}
    if type(plain) is list:
        return [covered(item, cover) for item in plain]
    return plain


class _Cover:
    """The mark where values are written with ``repr``: no text that somebody passed looks so."""

    def __repr__(self) -> str:
        return SHOWN


COVER = _Cover()


class Known:
    """Secrets that this process was given, to be kept out of texts. Never written anywhere."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._spellings: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def learn(self, secrets: Iterable[Any]) -> None:
        """Take note of plain data that is secret as a whole; of too many, the last count."""
        for text in _texts(secrets):
            if len(text) >= LEAST_CHARACTERS:
                self._spellings[text] = self._spellings.get(text) or _spellings(text)
                self._spellings.move_to_end(text)
        while self._most is not None and len(self._spellings) > self._most:
            self._spellings.popitem(last=False)

    def hide(self, text: str) -> str:
        """The text with a mark in place of every secret in it, however it is escaped there."""
        for spelling in self._longest_first():
            if spelling in text:
                text = text.replace(spelling, SHOWN)
        return text

    def is_in(self, json_text: str, *, short: bool = True) -> bool:
        """Whether plain data repeats one of them. A short one must be a whole text there, if it is
        looked for at all: an id of thirty digits holds any four of them sooner or later."""
        for spelling in self._longest_first():
            long = len(spelling) >= LEAST_INSIDE_OTHERS
            if (long and spelling in json_text) or (short and f'"{spelling}"' in json_text):
                return True
        return False

    def __bool__(self) -> bool:
        return bool(self._spellings)

    def _longest_first(self) -> list[str]:
        # A copy: another thread may learn more at this very moment.
        known = list(self._spellings.values())
        return sorted({each for spellings in known for each in spellings}, key=len, reverse=True)


def _texts(secrets: Iterable[Any]) -> Iterator[str]:
    for secret in secrets:
        if type(secret) is str:
            yield secret
        elif type(secret) is dict:
            yield from _texts(secret.values())
        elif type(secret) is list:
            yield from _texts(secret)
        elif type(secret) is int or type(secret) is float:
            yield str(secret)


@functools.lru_cache(maxsize=256)
def _spellings(text: str) -> tuple[str, ...]:
    """A secret as errors, JSON, URLs and headers may spell it.

    Remembered, for one secret is often given again, and this is most of what it costs.
    """
    raw = text.encode("utf-8", "backslashreplace")
    found = {
        text,
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
        ascii(text)[1:-1],
        one_line(text),
        quote(raw, safe=""),
        quote(raw),
        quote_plus(raw),
        base64.b64encode(raw).decode().rstrip("="),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
        raw.hex(),
    }
    # An error often quotes one line of many, and that of a private key is as good as the key.
    found.update(line for line in text.splitlines() if len(line) >= _LEAST_LINE)
    return tuple(found)
