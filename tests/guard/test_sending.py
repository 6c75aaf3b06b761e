"""Any program may send an event to a run, at any time, and the same event only once (B4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.store.memory import MemoryStore
from tests.fakes import Host


@pytest.fixture
def host() -> Host:
    return Host()


def told(host: Host) -> list[tuple[str, str, str, str]]:
    found = MemoryStore(host.data).events("r")
    return [(event.event_id, event.name, event.json, event.sent_by) for event in found]


def test_an_event_waits_for_a_run_that_does_not_exist(host: Host) -> None:
    with host.process() as ledger:
        ledger.send("r", "paid", {"cents": 40}, event_id="e1", by="bank")
        assert ledger.store.load_run("r") is None
    assert told(host) == [("e1", "paid", '{"cents":40}', "bank")]


def test_an_event_without_an_id_gets_one_of_its_own(host: Host) -> None:
    with host.process() as ledger:
        ids = {ledger.send("r", "paid") for _ in range(3)}
    assert len(ids) == len(told(host)) == 3


def test_the_same_id_is_the_same_event_and_another_content_is_refused(host: Host) -> None:
    with host.process() as ledger:
        assert ledger.send("r", "paid", 1, event_id="e1") == "e1"
        assert ledger.send("r", "paid", 1, event_id="e1") == "e1"
        for name, payload in (("paid", 2), ("refunded", 1)):
            with pytest.raises(nt.errors.UsageError, match="Nothing was changed"):
                ledger.send("r", name, payload, event_id="e1")
        ledger.send("another run", "paid", 2, event_id="e1")
    assert len(told(host)) == 1


def test_an_event_that_was_taken_is_not_delivered_again_under_its_id(host: Host) -> None:
    for _ in range(2):
        with host.process() as ledger:
            ledger.send("r", "paid", 1, event_id="e1")
            with ledger.run("r"):
                assert nt.receive("paid", label="first") == 1
    with host.process() as ledger, pytest.raises(nt.RunWaits), ledger.run("r"):
        nt.receive("paid", label="second")


@pytest.mark.parametrize(
    "words",
    [
        {"run_id": ""},
        {"run_id": "a\nb"},
        {"name": ""},
        {"name": 7},
        {"event_id": ""},
        {"event_id": "x" * 513},
        {"by": ""},
        {"payload": float("nan")},
        {"payload": {1: 2}},
        {"payload": object()},
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(
    host: Host, words: dict[str, Any]
) -> None:
    with host.process() as ledger, pytest.raises((nt.errors.InvalidId, nt.errors.NotPlainData)):
        ledger.send(**{"run_id": "r", "name": "paid", **words})
    assert told(host) == []


def test_an_event_can_be_sent_to_a_ledger_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    assert nt.send("r", "paid", [1], store=path, event_id="e1") == "e1"
    with nt.run("r", store=path), nt.step("s"):
        assert nt.receive("paid") == [1]


def test_an_event_for_a_run_that_was_aborted_is_refused_and_not_kept(host: Host) -> None:
    with host.process() as ledger:
        with pytest.raises(nt.errors.QuestionOpen) as asked, ledger.run("r"):
            nt.ask("Continue?")
        ledger.send("r", "paid", event_id="e1")
        with nt.Reviews(ledger) as reviews:
            reviews.decide(str(asked.value.review_id), "abort", by="ann", why="enough")
        with pytest.raises(nt.errors.RunAborted), ledger.run("r"):
            raise AssertionError("it is aborted")
        with pytest.raises(nt.errors.RunAborted, match="takes the event 'paid' any more"):
            ledger.send("r", "paid", event_id="e2")
        assert ledger.send("r", "paid", event_id="e1") == "e1", "it was sent in time"
    assert [event[0] for event in told(host)] == ["e1"]
