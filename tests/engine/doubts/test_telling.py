"""Are listeners told who has settled a doubt?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.engine import events
from nottwice.model.review import Verb
from tests.fakes import Host


def lost_in(host: Host, tool: Any) -> list[str]:
    """Lose the answer of a call, open the run again, and return who settled the doubt."""
    found: list[Any] = []
    stop = nt.events.listen(found.append)
    try:
        with host.process() as ledger, pytest.raises(nt.RunBlocked), ledger.run("r"):
            tool("ann")
        return [one.by for one in found if type(one) is events.DoubtEnded]
    finally:
        stop()


def settled_in(host: Host, tool: Any) -> list[str]:
    found: list[Any] = []
    stop = nt.events.listen(found.append)
    try:
        with host.process() as ledger, ledger.run("r"):
            tool("ann")
        return [one.by for one in found if type(one) is events.DoubtEnded]
    finally:
        stop()


@pytest.mark.parametrize(("verb", "result"), [(Verb.HAPPENED, "sent"), (Verb.DID_NOT_HAPPEN, None)])
def test_a_person_settles_it(verb: Verb, result: str | None, host: Host) -> None:
    answers: list[Any] = [OSError("the connection broke"), "sent"]

    @nt.tool("unsafe_on_replay")
    def telling_send(to: str) -> str:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return str(answer)

    assert lost_in(host, telling_send) == []
    host.decide(verb, result=result) if result else host.decide(verb)
    assert settled_in(host, telling_send) == ["person"]


def test_verify_settles_it(host: Host) -> None:
    @nt.tool("unsafe_on_replay", verify=lambda call: nt.happened("sent"))
    def telling_verified(to: str) -> str:
        raise OSError("the connection broke")

    assert settled_in(host, telling_verified) == ["verify"]


def test_another_attempt_with_the_same_key_settles_it(host: Host) -> None:
    answers: list[Any] = [OSError("the connection broke"), "sent"]

    @nt.tool("idempotent_with_key", key="k-{to}", window="24h")
    def telling_keyed(to: str) -> str:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return str(answer)

    assert settled_in(host, telling_keyed) == ["attempt"]
