"""How is a call with secrets replayed by somebody who has neither the key nor the secrets?

In a recorded checkpoint all secrets look alike. In a replay the first that the code gives is
secret 1, the next other one secret 2, whatever they are. Which numbers belong to which recorded
call is learned when the checkpoint is recorded, as hashes are (``learning.py``).
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
"""What stands for every secret in a recorded checkpoint."""


class BlindKey(Key):
    """Numbers secrets in the order in which they are given."""

    def __init__(self) -> None:
        super().__init__(_ID, b"")
        object.__setattr__(self, "_numbers", {})

    def fingerprint(self, purpose: str, told: bytes) -> str:
        numbers: dict[bytes, int] = self.__dict__["_numbers"]
        return f"{numbers.setdefault(told, len(numbers) + 1):032x}"


class BlindKeys(Keyring):
    """The keys of a replay: whichever a run has used, it is this one."""

    def find(self, key_id: str) -> Key:
        return self.current


def blinded(row: CallRow) -> CallRow:
    """The same call with one and the same mark for every secret argument."""
    return row._replace(args_json=_marked(row.args_json))


def blinded_review(review: Review) -> Review:
    """The same for what a person was asked about."""
    return review if review.about is None else replace(review, about=_marked(review.about))


def is_blinded(fixture: Fixture) -> bool:
    """Whether a call of a checkpoint has secret arguments."""
    texts = (
        *(row.args_json for row in fixture.calls),
        *(review.about or "" for review in fixture.reviews),
    )
    return any(BLIND[NAME] in text for text in texts)


def _marked(json_text: str) -> str:
    plain = values.decode(json_text)
    return values.encode(covered(plain, BLIND)) if holds_fingerprint(plain) else json_text
