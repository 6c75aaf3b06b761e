"""Seals: keyed marks that show that nottwice wrote a row, and that no row of a run is gone (L9).

The seal of a row is a MAC over its table and its contents, so a row that was forged or changed has
no seal that fits. The contents include how often the row was written, so an older version of it can
be recognised. The head of a run says how many rows the run has, how often they were written in
total, and which checkpoint is the newest. It is linked to the previous head and has its own MAC. So
if a row is removed or replaced by an older version, the rows no longer add up to the head.
Replacing everything, rows and head, is detected only with the head that the log kept when the run
ended.
Promise kept here: P97.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from nottwice.errors import LedgerTampered
from nottwice.model.sealing.keyring import Keyring

_MAC_BYTES = 16
_NUMBER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_KEY_ID = re.compile(r"k[0-9a-f]{8}")


class Head(NamedTuple):
    """What the rows of a run add up to."""

    rows: int = 0
    writes: int = 0
    version: int = -1
    """The newest checkpoint. -1: there is none."""
    ended: str = ""
    """The status of a run in which nothing can happen any longer."""
    link: str = ""
    """The link to the seal of the previous head and the seals of the rows written since."""
    seal: str = ""
    """The seal over all of this, and so over every write so far. Empty until it is sealed."""


class Seals:
    """Seals with the current key, and checks with the key that a seal names."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring
        self._secrets = {key.id: key.derive("seal") for key in keyring.keys}
        self._own = keyring.current.id
        self._secret = self._secrets[self._own]

    def seal(self, table: str, said: Sequence[Any]) -> str:
        """Return the seal of a row: the id of its key, and the MAC."""
        return f"{self._own}.{_mac(self._secret, (table, *said))}"

    def flaw(self, table: str, said: Sequence[Any], seal: object) -> str | None:
        """Say why a row cannot be trusted. None: it is as nottwice wrote it."""
        if seal is None:
            return "it has no seal"
        key_id, _, mac = str(seal).partition(".")
        secret = self._secrets.get(key_id)
        if secret is None:
            return f"it was sealed with a key that is not known here ({key_id!r})"
        if not hmac.compare_digest(_mac(secret, (table, *said)), mac):
            return "its seal does not fit what it says"
        return None

    def unknown_key(self, seal: str) -> str | None:
        """Return the id of the key that a seal names, if that key is not in the ring."""
        key_id = seal.partition(".")[0]
        return key_id if _KEY_ID.fullmatch(key_id) and key_id not in self._secrets else None

    def sealed(self, workflow_id: str, head: Head) -> Head:
        """Return the head of a run with its seal."""
        rows, writes, version, ended, link, _ = head
        said = ("head", workflow_id, rows, writes, version, ended, link)
        seal = f"{self._own}.{_mac(self._secret, said)}"
        return Head(rows, writes, version, ended, link, seal)

    def link(self, head: Head, seals: Sequence[str]) -> str:
        """Return the link from the next head to this one and to the rows written since."""
        since = seals[0] if len(seals) == 1 else _mac(self._secret, ("rows", *seals))
        return f"{head.seal}+{since}"

    def head_from_text(self, workflow_id: str, text: str | None) -> Head:
        """Read a head. Raises LedgerTampered if it does not fit its seal."""
        parts = ("" if text is None else text).split("/")
        flaw: str | None = "it has no head"
        if len(parts) == 6 and all(map(_NUMBER.fullmatch, parts[:3])):
            rows, writes, version = map(int, parts[:3])
            head = Head(rows, writes, version, *parts[3:])
            flaw = self.flaw("head", (workflow_id, *head[:-1]), head.seal)
            if flaw is None:
                return head
        raise LedgerTampered(f"The head of run {workflow_id!r} cannot be trusted: {flaw}.")


def head_to_text(head: Head) -> str:
    """Return a sealed head as it is stored."""
    rows, writes, version, ended, link, seal = head
    return f"{rows}/{writes}/{version}/{ended}/{link}/{seal}"


def _mac(secret: bytes, said: tuple[Any, ...]) -> str:
    # Texts, whole numbers, floats and None are all written differently by ``repr``, and in
    # characters that no version of Unicode changes. Seals must still fit after years.
    return hashlib.blake2b(ascii(said).encode(), key=secret, digest_size=_MAC_BYTES).hexdigest()
