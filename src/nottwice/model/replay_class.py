"""What does a second run of a tool do to the world, and what follows from that?

A replay class is one entry of the table below. All other code asks it questions, and none compares
it with a member; a house rule checks that. So a new class is a new entry. Only a class with its own
way to end a doubt also needs a branch in ``decision.py``.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

KEYLESS: Final = "idempotent"
"""The word for a tool that is idempotent without a key. Its class is the keyed one (P247)."""


class _Traits(NamedTuple):
    """What is true for every tool of a class."""

    effectful: bool
    keyed: bool
    kept_as: str
    second_run: str


_TRAITS = {
    "pure": _Traits(
        effectful=False,
        keyed=False,
        kept_as="pure",
        second_run="no: it only reads",
    ),
    "idempotent_with_key": _Traits(
        effectful=True,
        keyed=True,
        kept_as="keyed",
        second_run="no, as long as the upstream gets the same key within {window}",
    ),
    "unsafe_on_replay": _Traits(
        effectful=True,
        keyed=False,
        kept_as="unsafe",
        second_run="yes: it would happen again",
    ),
}


class ReplayClass(enum.Enum):
    """What a second run of a tool does to the world (T1). The strictest class comes last."""

    PURE = "pure"
    IDEMPOTENT_WITH_KEY = "idempotent_with_key"
    UNSAFE_ON_REPLAY = "unsafe_on_replay"

    effectful: bool
    """Running the tool changes something outside of this process."""
    records_intent: bool
    """The intent of a call is durable before the tool runs."""
    may_rerun: bool
    """A call without a receipt is simply run again, whatever happened to earlier attempts."""
    keyed: bool
    """The upstream recognises a key. A call in doubt may be resent with its stored key."""
    needs_proof: bool
    """Only ``verify`` or a person can end a doubt."""
    kept_as: str
    """The field of ``Retention`` that says how long a receipt is kept."""
    second_run: str
    """Whether a second run does harm, in words. ``{window}``: how long a key is remembered."""

    def __init__(self, text: object) -> None:
        """Compute what follows from the traits once, because every call looks it up."""
        traits = _TRAITS[str(text)]
        self.effectful = self.records_intent = traits.effectful
        self.may_rerun = not traits.effectful
        self.keyed = traits.keyed
        self.needs_proof = traits.effectful and not traits.keyed
        self.kept_as = traits.kept_as
        self.second_run = traits.second_run

    def declared_as(self, key: object) -> str:
        """The word that its author declared a tool with, given the key of the tool or of a call."""
        return KEYLESS if self.keyed and key is None else str(self.value)

    # Every call looks its class up, and the versions in ``enum`` are written in Python.
    __hash__ = object.__hash__


_STRICTNESS = list(ReplayClass)
STRICTEST = _STRICTNESS[-1]


def stricter(one: ReplayClass, other: ReplayClass) -> ReplayClass:
    """Return the stricter class: new code may tighten a recorded class, never loosen it (D12)."""
    return max(one, other, key=_STRICTNESS.index)
