"""What a host does with an exception: one table for every kind of it (P302)."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

import nottwice as nt
from nottwice import errors
from nottwice.adapters import declare
from nottwice.hosts import verdict
from nottwice.hosts.verdict import TABLE
from nottwice.model.review import Verb
from tests.fakes import Host, dying, unwanted

PAY = declare("pay/charge", replay="unsafe_on_replay")
EVERY = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.NottwiceError)
]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: str(kind.__name__))
def test_every_exception_has_a_verdict(kind: type[errors.NottwiceError]) -> None:
    said = verdict(kind("what happened"))
    assert said is not None
    assert said.reason == "what happened"
    assert (said.retry_in is None) == (said.what == "give_up")


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: str(kind.__name__))
def test_nothing_that_waits_for_a_person_is_given_up(kind: type[errors.NottwiceError]) -> None:
    """P302. "Never retry" is what a queue is told that cannot wait; an engine would give up."""
    said = verdict(kind("what happened"))
    assert said is not None
    waits = issubclass(kind, errors.RunBlocked) and kind is not errors.RunAborted
    assert (said.what == "person") >= waits
    if said.what == "give_up":
        assert kind.non_retryable or kind is errors.NottwiceError


def test_the_table_names_only_exceptions_of_nottwice() -> None:
    assert set(TABLE) <= set(EVERY)


def test_the_delay_is_what_the_exception_knows() -> None:
    busy = errors.RunBusy("busy", retry_in=7.5)
    assert verdict(busy).retry_in == 7.5  # type: ignore[union-attr]
    assert verdict(pickle.loads(pickle.dumps(busy))).retry_in == 7.5  # type: ignore[union-attr]
    waits = verdict(errors.RunWaits("waits", until=0.0))
    assert waits is not None
    assert (waits.what, waits.retry_in) == ("later", 0.0)
    blocked = errors.ReplayUnsafeError("?", review_ids=("1a2b3c4d",))
    said = verdict(blocked, look_again=120.0)
    assert said is not None
    assert (said.what, said.retry_in, said.reviews) == ("person", 120.0, ("1a2b3c4d",))


def test_what_is_not_of_nottwice_has_no_verdict() -> None:
    for error in (ValueError(), KeyboardInterrupt(), asyncio.CancelledError()):
        assert verdict(error) is None


def test_the_wait_that_an_upstream_asks_for_reaches_the_host() -> None:
    """P302. After the last attempt of the tool, the host waits as long as the upstream said."""

    def overloaded(arguments: dict[str, Any]) -> None:
        raise nt.Retryable("overloaded", retry_after="90s")

    host = Host()
    once = declare("pay/busy", replay="unsafe_on_replay", retry=nt.RetryPolicy(attempts=1))
    with host.process() as ledger, pytest.raises(nt.Retryable) as caught:
        ledger.once("g", "1", once, {}, overloaded)
    said = verdict(caught.value)
    assert said is not None
    assert (said.what, said.retry_in) == ("later", 90.0)
    assert not caught.value.non_retryable


def test_a_host_that_follows_the_verdicts_ends_with_one_effect() -> None:
    """P302. A host in a few lines: it calls again until there is a result."""
    host = Host()
    made: list[dict[str, Any]] = []

    def pay(arguments: dict[str, Any]) -> None:
        made.append(arguments)

    with host.process() as ledger:
        ledger.once("g", "1", PAY, {}, dying(ledger))
    seen: list[str] = []
    for _ in range(5):
        with host.process() as ledger:
            try:
                body = unwanted if len(seen) < 2 else pay
                value = ledger.once("g", "1", PAY, {}, body)
            except nt.NottwiceError as error:
                said = verdict(error)
                assert said is not None
                seen.append(said.what)
                if len(seen) == 2:
                    host.decide(Verb.DID_NOT_HAPPEN)
                continue
            assert value.value is None
            break
    assert seen == ["person", "person"]
    assert len(made) == 1


@pytest.mark.parametrize("replay", ["pure", "unsafe_on_replay"])
def test_a_failure_that_stays_on_record_is_given_up(replay: Any) -> None:
    """P302. In a run, a repeated call gets the recorded failure; only ``retry`` tries again."""
    tried: list[str] = []

    @nt.tool(replay, retry=nt.RetryPolicy(attempts=1))
    def search(text: str) -> None:
        tried.append(text)
        raise nt.Retryable("the upstream is away", retry_after="1s")

    host = Host()
    for _ in range(2):
        with host.process() as ledger, pytest.raises(nt.Retryable) as caught, ledger.run("r"):
            search("cats")
        assert caught.value.non_retryable
        assert pickle.loads(pickle.dumps(caught.value)).non_retryable
        said = verdict(caught.value)
        assert said is not None
        assert (said.what, said.retry_in) == ("give_up", None)
    assert tried == ["cats"]
    with host.process() as ledger, pytest.raises(nt.Retryable) as caught, ledger.run("r"):
        search.retry("cats")
    # The program asks for new attempts, so the next process makes one too.
    assert not caught.value.non_retryable
    assert tried == ["cats", "cats"]
