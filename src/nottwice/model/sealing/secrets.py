"""What does the ledger store in place of a secret, and how is a secret kept out of a text? (L9)

A secret argument is stored as a fingerprint: ``{"$secret": "k9f2c41d7:…"}``, a keyed hash with the
id of its key. Equal secrets of one parameter have equal fingerprints, so a repeated call is
recognised. Without the key, a guess at the secret cannot be checked. A fingerprint appears exactly
where the declaration has a secret, whatever the value is there. So a user's dict that looks like a
fingerprint is recognised by its place, and as a secret it gets a fingerprint too.

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
from nottwice.model.data.printable import one_line
from nottwice.model.sealing.keyring import Key

SHOWN = "•••"
"""What a person sees of a secret."""
NAME = "$secret"
PURPOSE = "secret"
LEAST_CHARACTERS = 4
"""A shorter secret occurs in any text by chance, so texts are not searched for it."""
LEAST_INSIDE_OTHERS = 8
"""A shorter secret counts in plain data only if it is a whole text there."""
_LEAST_LINE = 16
_FINGERPRINT = re.compile(r"k[0-9a-f]{8}:[0-9a-f]{32}")


def fingerprint(key: Key, where: str, plain: Any) -> dict[str, str]:
    """Return what is stored of a secret. ``where`` separates equal secrets of two parameters."""
    return {NAME: f"{key.id}:{key.fingerprint(PURPOSE, values.canonical([where, plain]))}"}


def is_fingerprint(plain: Any) -> bool:
    """Whether plain data has the form of a fingerprint."""
    if type(plain) is not dict or len(plain) != 1:
        return False
    text = plain.get(NAME)
    return type(text) is str and _FINGERPRINT.fullmatch(text) is not None


def holds_fingerprint(plain: Any) -> bool:
    """Whether a part of plain data has that form, so that the call cannot be made from it."""
    if is_fingerprint(plain):
        return True
    if type(plain) is dict:
        return any(map(holds_fingerprint, plain.values()))
    return type(plain) is list and any(map(holds_fingerprint, plain))


def covered(plain: Any, cover: Any = SHOWN) -> Any:
    """Return plain data as a person sees it, with a mark in place of every fingerprint."""
    if is_fingerprint(plain):
        return cover
    if type(plain) is dict:
        return {name: covered(value, cover) for name, value in plain.items()}
    if type(plain) is list:
        return [covered(item, cover) for item in plain]
    return plain


class _Cover:
    """The mark where values are written with ``repr``. No text of a user looks like it."""

    def __repr__(self) -> str:
        return SHOWN


COVER = _Cover()


class Known:
    """Secrets that this process was given, to be kept out of texts. They are never stored."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._spellings: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def learn(self, secrets: Iterable[Any]) -> None:
        """Remember plain data that is secret as a whole. Beyond the limit, the oldest drop out."""
        for text in _texts(secrets):
            if len(text) >= LEAST_CHARACTERS:
                self._spellings[text] = self._spellings.get(text) or _spellings(text)
                self._spellings.move_to_end(text)
        while self._most is not None and len(self._spellings) > self._most:
            self._spellings.popitem(last=False)

    def hide(self, text: str) -> str:
        """Return the text with a mark in place of every secret in it, however it is escaped."""
        for spelling in self._longest_first():
            if spelling in text:
                text = text.replace(spelling, SHOWN)
        return text

    def is_in(self, json_text: str, *, short: bool = True) -> bool:
        """Whether plain data repeats one of them.

        A short secret is searched for only with ``short``, and must be a whole text there: an id of
        thirty digits contains any four digits sooner or later.
        """
        for spelling in self._longest_first():
            long = len(spelling) >= LEAST_INSIDE_OTHERS
            if (long and spelling in json_text) or (short and f'"{spelling}"' in json_text):
                return True
        return False

    def __bool__(self) -> bool:
        return bool(self._spellings)

    def _longest_first(self) -> list[str]:
        # Use a copy: another thread may learn more at this moment.
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
    """Return a secret as errors, JSON, URLs and headers may spell it.

    The result is cached, because the same secret is often given again and this is most of the cost.
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
    # An error often quotes one line of many, and one line of a private key is as bad as the key.
    found.update(line for line in text.splitlines() if len(line) >= _LEAST_LINE)
    return tuple(found)
