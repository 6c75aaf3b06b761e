"""One table says what an adapter does with each exception (P244)."""

from __future__ import annotations

import asyncio

import pytest

import nottwice as nt
from nottwice.adapters import VERDICTS, verdict_of

ALL = [
    kind
    for kind in vars(nt.errors).values()
    if isinstance(kind, type) and issubclass(kind, nt.NottwiceError)
]


@pytest.mark.parametrize("kind", ALL)
def test_every_exception_has_a_verdict_of_its_own(kind: type[nt.NottwiceError]) -> None:
    assert kind in VERDICTS, f"Add {kind.__name__} to the table in nottwice/adapters/verdicts.py"
    assert verdict_of(kind("what happened")) == VERDICTS[kind]


def test_the_table_has_no_other_exceptions() -> None:
    assert set(VERDICTS) == set(ALL)


@pytest.mark.parametrize("kind", [kind for kind in ALL if issubclass(kind, nt.RunBlocked)])
def test_what_a_person_must_decide_is_never_told_to_a_model(kind: type[nt.RunBlocked]) -> None:
    aborted = issubclass(kind, nt.errors.RunAborted)
    assert VERDICTS[kind] == ("stop" if aborted else "pause")


@pytest.mark.parametrize("kind", [kind for kind in ALL if issubclass(kind, nt.errors.StoreError)])
def test_trouble_with_the_ledger_stops_everything(kind: type[nt.NottwiceError]) -> None:
    assert VERDICTS[kind] == "stop"


def test_an_exception_of_a_library_gets_the_verdict_of_its_base() -> None:
    class OwnFailure(nt.Retryable):
        """A failure of a library that builds on nottwice."""

    assert verdict_of(OwnFailure("later")) == "told_to_model"


def test_what_is_not_ours_is_told_and_an_interruption_stops() -> None:
    assert verdict_of(ValueError("no such file")) == "told_to_model"
    assert verdict_of(KeyboardInterrupt()) == "stop"
    assert verdict_of(asyncio.CancelledError()) == "stop"


def test_what_may_have_happened_is_not_told_to_a_model() -> None:
    assert verdict_of(nt.Ambiguous("perhaps")) == "stop"
