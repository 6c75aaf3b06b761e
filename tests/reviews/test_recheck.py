"""Asking verify again fires nothing; only "it happened" ends a doubt."""

from __future__ import annotations

import pytest

import nottwice as nt
from nottwice.guard.registry import find_tool
from nottwice.model.call import CallStatus
from nottwice.reviews.recheck import recheck
from nottwice.store.memory import MemoryStore
from tests.fakes import Host


class Outbox:
    def __init__(self) -> None:
        self.answer = nt.cannot_tell()
        self.sent = 0


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


@pytest.fixture
def send(outbox: Outbox) -> object:
    @nt.tool("unsafe_on_replay", verify=lambda call: outbox.answer)
    def send(to: str) -> str:
        outbox.sent += 1
        raise TimeoutError

    return send


@pytest.fixture
def host(send: object) -> Host:
    host = Host()
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayUnsafeError):
        send("ann")  # type: ignore[operator]
    return host


def ask(host: Host, tool_name: str | None = None) -> list[tuple[str, bool]]:
    found = recheck(
        nt.Ledger(MemoryStore(host.data), clock=host.clock).host, find_tool, tool_name=tool_name
    )
    return [(one.answer, one.resolved) for one in found]


@pytest.mark.parametrize(
    "answer",
    [nt.cannot_tell(), nt.still_running(), nt.did_not_happen()],
    ids=lambda one: one.answer,
)
def test_any_other_answer_is_noted_and_changes_nothing(
    host: Host, outbox: Outbox, answer: nt.Verification
) -> None:
    outbox.answer = answer
    assert ask(host) == [(f"verify answered: {answer.answer.value}", False)]
    assert (outbox.sent, host.calls[0].status) == (1, CallStatus.UNKNOWN)
    assert host.open_reviews[0].decision is None
    assert any(item.source == "recheck" for item in host.data.evidence)


def test_it_happened_is_recorded_and_used_when_the_run_is_opened(
    host: Host, outbox: Outbox, send: object
) -> None:
    outbox.answer = nt.happened("found it")
    assert ask(host) == [("verify answered: happened", True)]
    assert ask(host) == []
    outbox.answer = nt.cannot_tell()
    with host.process() as ledger, ledger.run("r"):
        assert send("ann") == "found it"  # type: ignore[operator]
    assert outbox.sent == 1


def test_only_the_named_tool_is_asked_about(host: Host) -> None:
    assert ask(host, "another") == []
    assert len(ask(host, "send")) == 1


def test_a_tool_that_is_not_declared_here_is_said_so(host: Host) -> None:
    found = list(
        recheck(nt.Ledger(MemoryStore(host.data), clock=host.clock).host, lambda name: None)
    )
    assert [one.answer for one in found] == ["its tool is not declared here"]


def test_a_verify_that_fails_is_said_so(host: Host, outbox: Outbox) -> None:
    outbox.answer = "nonsense"  # type: ignore[assignment]
    assert ask(host) == [("verify gave no answer", False)]
