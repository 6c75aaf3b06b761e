"""Which key seals or fingerprints something, and how is it found again? (L9)

One key serves all purposes: a separate key is derived for each purpose, so that no use reveals
anything about another. The id of a key is derived from its bytes, so keys need no numbering, and it
reveals nothing about them. To replace a key, put a new one in front: the first key is used for
everything new, the others only to recognise what was written with them.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterable
from dataclasses import field

from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record

LEAST_KEY_BYTES = 32
"""Shorter keys can be guessed, and then the fingerprint of a card number can be reversed."""
_LEAST_DIFFERENT_BYTES = 8
_HOW_TO_MAKE_ONE = "Make one: nottwice key"


@frozen_record(frozen=True, slots=True)
class Key:
    """One key. Made by ``make_key``. Its bytes never appear in a text or a log."""

    id: str
    secret: bytes = field(repr=False)

    def derive(self, purpose: str) -> bytes:
        """Return the 32 bytes for one purpose, such as ``"seal"``. No two purposes share them."""
        return hmac.digest(self.secret, b"nottwice/" + purpose.encode(), "sha256")

    def fingerprint(self, purpose: str, told: bytes) -> str:
        """Return 32 hexadecimal digits that cannot be reversed or guessed without the key."""
        return hmac.digest(self.derive(purpose), told, "sha256").hex()[:32]


@frozen_record(frozen=True, slots=True)
class Keyring:
    """The key in use, and the keys before it, newest first."""

    current: Key
    older: tuple[Key, ...] = ()

    @property
    def keys(self) -> tuple[Key, ...]:
        """All keys, newest first."""
        return (self.current, *self.older)

    def find(self, key_id: str) -> Key | None:
        """Return the key with this id, or None if it is gone."""
        return next((key for key in self.keys if key.id == key_id), None)


def make_key(secret: bytes, *, where: str = "The key") -> Key:
    """Make a key of these bytes. Raises UsageError if they could be guessed."""
    if len(secret) < LEAST_KEY_BYTES:
        raise UsageError(
            f"{where} has {len(secret)} bytes; at least {LEAST_KEY_BYTES} are needed, so that "
            f"it cannot be guessed. Nothing was done with it. {_HOW_TO_MAKE_ONE}"
        )
    if len(set(secret)) < _LEAST_DIFFERENT_BYTES:
        raise UsageError(
            f"{where} repeats a few bytes and can be guessed. Nothing was done with it. "
            f"{_HOW_TO_MAKE_ONE}"
        )
    return Key("k" + hmac.digest(secret, b"nottwice/id", "sha256").hex()[:8], secret)


def make_keyring(keys: Iterable[Key], *, where: str = "The key") -> Keyring:
    """Make a ring of these keys, newest first. A key that is listed twice counts once."""
    known: dict[str, Key] = {}
    for key in keys:
        other = known.setdefault(key.id, key)
        if other != key:
            raise UsageError(
                f"{where}: two keys have the same id, {key.id}. Nothing was done with them. "
                f"Replace the newer one. {_HOW_TO_MAKE_ONE}"
            )
    if not known:
        raise UsageError(f"{where} is empty. Nothing was done. {_HOW_TO_MAKE_ONE}")
    current, *older = known.values()
    return Keyring(current, tuple(older))


def parse_keyring(text: str, *, where: str) -> Keyring:
    """Read keys in base64 or hexadecimal digits, one per line, newest first.

    Empty lines and lines that begin with ``#`` are skipped. ``where``: what errors call the source
    of the text. The text itself is never repeated.
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
    """Return the key as ``parse_keyring`` reads it."""
    return base64.urlsafe_b64encode(key.secret).decode()


def _bytes(text: str, where: str) -> bytes:
    # Hexadecimal digits are base64 letters too, but no base64 key is 64 of them by chance.
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
