"""With which key is something sealed or made unrecognisable, and how is it found again? (L9)

One key serves for everything: what it is used for is derived from it, purpose by purpose, so that
no use tells anything about another. Its id is made from its bytes, so that nobody has to number
keys, and says nothing about them. Keys are replaced by writing a new one in front: the first is
used for whatever is new, the others only to recognise what was written with them.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterable
from dataclasses import field

from nottwice.errors import UsageError
from nottwice.model.records import frozen_record

LEAST_KEY_BYTES = 32
"""Fewer can be guessed, and a fingerprint of a card number then be undone."""
_LEAST_DIFFERENT_BYTES = 8
_HOW_TO_MAKE_ONE = "Make one: nottwice key"


@frozen_record(frozen=True, slots=True)
class Key:
    """One key. Made by ``make_key``; its bytes never show in a text or a log."""

    id: str
    secret: bytes = field(repr=False)

    def derive(self, purpose: str) -> bytes:
        """The 32 bytes for one purpose, for example ``"seal"``; no other purpose has the same."""
        return hmac.digest(self.secret, b"nottwice/" + purpose.encode(), "sha256")

    def fingerprint(self, purpose: str, told: bytes) -> str:
        """What nobody without the key can undo or try out, in 32 hexadecimal digits."""
        return hmac.digest(self.derive(purpose), told, "sha256").hex()[:32]


@frozen_record(frozen=True, slots=True)
class Keyring:
    """The key in use, and those before it, newest first."""

    current: Key
    older: tuple[Key, ...] = ()

    @property
    def keys(self) -> tuple[Key, ...]:
        """All of them, newest first."""
        return (self.current, *self.older)

    def find(self, key_id: str) -> Key | None:
        """The key with this id, unless it is gone."""
        return next((key for key in self.keys if key.id == key_id), None)


def make_key(secret: bytes, *, where: str = "The key") -> Key:
    """A key of these bytes; UsageError if somebody could guess them."""
    if len(secret) < LEAST_KEY_BYTES:
        raise UsageError(
            f"{where} has {len(secret)} bytes; at least {LEAST_KEY_BYTES} are needed, so that "
            f"nobody can guess it. Nothing was done with it. {_HOW_TO_MAKE_ONE}"
        )
    if len(set(secret)) < _LEAST_DIFFERENT_BYTES:
        raise UsageError(
            f"{where} repeats a few bytes and can be guessed. Nothing was done with it. "
            f"{_HOW_TO_MAKE_ONE}"
        )
    return Key("k" + hmac.digest(secret, b"nottwice/id", "sha256").hex()[:8], secret)


def make_keyring(keys: Iterable[Key], *, where: str = "The key") -> Keyring:
    """A ring of these keys, newest first; one that stands there twice counts once."""
    known: dict[str, Key] = {}
    for key in keys:
        other = known.setdefault(key.id, key)
        if other != key:
            raise UsageError(
                f"{where}: two keys happen to have one id, {key.id}. Nothing was done with them. "
                f"Replace the newer one. {_HOW_TO_MAKE_ONE}"
            )
    if not known:
        raise UsageError(f"{where} is empty. Nothing was done. {_HOW_TO_MAKE_ONE}")
    current, *older = known.values()
    return Keyring(current, tuple(older))


def parse_keyring(text: str, *, where: str) -> Keyring:
    """Read keys in base64 or hexadecimal digits, one a line, newest first.

    Empty lines and lines that begin with ``#`` are left out. ``where`` is how an error calls the
    place that the text is from; the text itself is never repeated.
    """
    lines = (line.strip() for line in text.splitlines())
    spelt = [line for line in lines if line and not line.startswith("#")]
    named = (
        (line, where if len(spelt) == 1 else f"{where}, key {number}")
        for number, line in enumerate(spelt, start=1)
    )
    return make_keyring(
        (make_key(_bytes(line, place), where=place) for line, place in named),
        where=where,
    )


def spell_key(key: Key) -> str:
    """The key as ``parse_keyring`` reads it."""
    return base64.urlsafe_b64encode(key.secret).decode()


def _bytes(text: str, where: str) -> bytes:
    # Hexadecimal digits are letters of base64 as well; 64 of them by chance are not to be feared.
    if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", text):
        return bytes.fromhex(text)
    letters = text.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(letters + "=" * (-len(letters) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(
            f"{where} is neither base64 nor hexadecimal digits. Nothing was done with it. "
            f"{_HOW_TO_MAKE_ONE}"
        ) from None
