"""Seals: keyed marks by which a row shows that nottwice wrote it, and a run that none is gone (L9).

A row's seal is a MAC over its table and everything that the row says, so a row that somebody else
wrote or changed has none that fits. How often it was written is a part of that: an older version of
the same row says less. A run's head says how many rows the run has, how often they were written all
together, and which checkpoint is its newest; it follows from the head before it, and has a MAC of
its own. So a row that was taken away, or put back to what it said before, leaves a head behind that
the rows do not add up to. Whoever puts everything back, rows and head, is only found out by the
head that the log kept when the run ended.
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


class Head(NamedTuple):
    """What a run adds up to."""

    rows: int = 0
    writes: int = 0
    version: int = -1
    """The newest checkpoint; -1: there is none."""
    ended: str = ""
    """The status of a run in which nothing can happen any more."""
    link: str = ""
    """The seal of the head before it, and the seals of the rows that were written since."""
    seal: str = ""
    """Of all this; empty until somebody seals it. It follows from every write so far."""


class Seals:
    """Seals with the current key, and checks with whichever key a seal names."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring
        self._secrets = {key.id: key.derive("seal") for key in keyring.keys}
        self._own = keyring.current.id
        self._secret = self._secrets[self._own]

    def seal(self, table: str, said: Sequence[Any]) -> str:
        """The seal of a row: the id of its key, and the MAC."""
        return f"{self._own}.{_mac(self._secret, (table, *said))}"

    def flaw(self, table: str, said: Sequence[Any], seal: object) -> str | None:
        """Why a row cannot be believed; None: it is as nottwice wrote it."""
        if seal is None:
            return "it has no seal"
        key_id, _, mac = str(seal).partition(".")
        secret = self._secrets.get(key_id)
        if secret is None:
            return f"it was sealed with a key that is not known here ({key_id!r})"
        if not hmac.compare_digest(_mac(secret, (table, *said)), mac):
            return "its seal does not fit what it says"
        return None

    def sealed(self, workflow_id: str, head: Head) -> Head:
        """The head of a run with its seal."""
        rows, writes, version, ended, link, _ = head
        said = ("head", workflow_id, rows, writes, version, ended, link)
        seal = f"{self._own}.{_mac(self._secret, said)}"
        return Head(rows, writes, version, ended, link, seal)

    def link(self, head: Head, seals: Sequence[str]) -> str:
        """What links the next head to this one and to the rows that were written since."""
        since = seals[0] if len(seals) == 1 else _mac(self._secret, ("rows", *seals))
        return f"{head.seal}+{since}"

    def head_from_text(self, workflow_id: str, text: str | None) -> Head:
        """Read a head; one that does not fit its seal is LedgerTampered."""
        parts = ("" if text is None else text).split("/")
        flaw: str | None = "it has no head"
        if len(parts) == 6 and all(map(_NUMBER.fullmatch, parts[:3])):
            rows, writes, version = map(int, parts[:3])
            head = Head(rows, writes, version, *parts[3:])
            flaw = self.flaw("head", (workflow_id, *head[:-1]), head.seal)
            if flaw is None:
                return head
        raise LedgerTampered(f"The head of run {workflow_id!r} is not believed: {flaw}.")


def head_to_text(head: Head) -> str:
    """A sealed head as it is kept."""
    rows, writes, version, ended, link, seal = head
    return f"{rows}/{writes}/{version}/{ended}/{link}/{seal}"


def _mac(secret: bytes, said: tuple[Any, ...]) -> str:
    # Texts, whole numbers, floats and None, each told from every other by how Python writes it: in
    # letters that no version of Unicode changes. Seals of years ago must fit.
    return hashlib.blake2b(ascii(said).encode(), key=secret, digest_size=_MAC_BYTES).hexdigest()
