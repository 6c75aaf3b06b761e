"""How is a call with secrets replayed without the key and without the secrets?

In a recorded checkpoint all secrets look alike. In a replay, the first secret that the code passes
is secret 1, the next different one is secret 2, whatever they are. Which numbers belong to which
recorded call is learned when the checkpoint is recorded, like hashes (``learning.py``).
"""

from __future__ import annotations

from dataclasses import replace

from nottwice.model import values
from nottwice.model.call import CallRow
from nottwice.model.review import Review
from nottwice.model.sealing.keyring import Key, Keyring
from nottwice.model.sealing.secrets import NAME, covered, holds_fingerprint
from nottwice.testing.replay.fixture import Fixture

_ID = "k00000000"
BLIND = {NAME: f"{_ID}:{'0' * 32}"}
"""Replaces every secret in a recorded checkpoint."""


class BlindKey(Key):
    """Numbers secrets in the order in which they are passed."""

    def __init__(self) -> None:
        super().__init__(_ID, b"")
        object.__setattr__(self, "_numbers", {})

    def fingerprint(self, purpose: str, told: bytes) -> str:
        numbers: dict[bytes, int] = self.__dict__["_numbers"]
        return f"{numbers.setdefault(told, len(numbers) + 1):032x}"


class BlindKeys(Keyring):
    """The keys of a replay: any key that a run has used is this one."""

    def find(self, key_id: str) -> Key:
        return self.current


def blinded(row: CallRow) -> CallRow:
    """Return the call with the same mark for every secret argument."""
    return row._replace(args_json=_marked(row.args_json))


def blinded_review(review: Review) -> Review:
    """Return the review with the same mark for every secret that the person was shown."""
    return review if review.about is None else replace(review, about=_marked(review.about))


def is_blinded(fixture: Fixture) -> bool:
    """Return whether a call of a checkpoint has secret arguments."""
    texts = (
        *(row.args_json for row in fixture.calls),
        *(review.about or "" for review in fixture.reviews),
    )
    return any(BLIND[NAME] in text for text in texts)


def _marked(json_text: str) -> str:
    plain = values.decode(json_text)
    return values.encode(covered(plain, BLIND)) if holds_fingerprint(plain) else json_text
