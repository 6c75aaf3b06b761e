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
from collections.abc import Sequence
from typing import Any, NamedTuple

from nottwice.errors import LedgerTampered
from nottwice.model.keyring import Keyring

_MAC_BYTES = 16


class Head(NamedTuple):
    """What a run adds up to."""

    rows: int = 0
    writes: int = 0
    version: int = -1
    """The newest checkpoint; -1: there is none."""
    ended: str = ""
    """The status of a run in which nothing can happen any more."""
    link: str = ""
    """Follows from every write so far, in their order."""


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

    def following(self, head: Head, *, added: int, written: int, seals: Sequence[str]) -> Head:
        """The head after some rows were added, and so many writes in all, sealed like this."""
        link = _mac(self._secret, ("link", head.link, *seals))
        return Head(head.rows + added, head.writes + written, head.version, head.ended, link)

    def head_to_text(self, workflow_id: str, head: Head) -> str:
        """A head as it is kept: what it says, and its seal."""
        rows, writes, version, ended, link = head
        seal = self.seal("head", (workflow_id, *head))
        return f"{rows}/{writes}/{version}/{ended}/{link}/{seal}"

    def head_from_text(self, workflow_id: str, text: str | None) -> Head:
        """Read a head; one that does not fit its seal is LedgerTampered."""
        parts = ("" if text is None else text).split("/")
        flaw: str | None = "it has no head"
        if len(parts) == 6 and all(part.lstrip("-").isdecimal() for part in parts[:3]):
            head = Head(int(parts[0]), int(parts[1]), int(parts[2]), parts[3], parts[4])
            flaw = self.flaw("head", (workflow_id, *head), parts[5])
            if flaw is None:
                return head
        raise LedgerTampered(f"The head of run {workflow_id!r} is not believed: {flaw}.")


def _mac(secret: bytes, said: tuple[Any, ...]) -> str:
    # Texts, whole numbers, floats and None, each told from every other by how Python writes it: in
    # letters that no version of Unicode changes. Seals of years ago must fit.
    return hashlib.blake2b(ascii(said).encode(), key=secret, digest_size=_MAC_BYTES).hexdigest()
