"""A small agent is killed at every durable boundary, and again during the recovery.

Checked right after each crash on what is durable, and again after the resume: no effect twice,
none lost, every effect in the world has an intent that was durable before it, and the run waits
only with a reason on record. Negative controls show that the sweep can fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import nottwice as nt
from nottwice.model.call import CallStatus
from nottwice.model.review import Verb
from nottwice.store.interface import Commit
from nottwice.testing import forget_tools
from tests.fakes import Host, MortalStore

MOST_POINTS = 200


class Agent:
    """Looks something up, refunds with a key, mails without verify, and logs with one."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.world: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.without_intent: list[str] = []
        self.answers: list[str] = []
        agent = self
        forget_tools()

        @nt.tool("pure")
        def look_up(order: int) -> int:
            return 4000

        @nt.tool("idempotent_with_key", key="refund-{order}", window="24h")
        def refund(order: int, cents: int) -> str:
            key = nt.current_call().key
            assert key is not None
            if key not in agent.keys:
                agent.keys.add(key)
                agent.happen("refund")
            return "refunded"

        @nt.tool("unsafe_on_replay")
        def mail(to: str) -> str:
            agent.happen(f"mail {to}")
            return "mailed"

        @nt.tool("unsafe_on_replay", verify=self._find_note, settles="5s")
        def note(text: str) -> str:
            agent.happen(f"note {text}")
            return "noted"

        self._tools = (look_up, refund, mail, note)

    def happen(self, what: str) -> None:
        call = nt.current_call()
        durable = [row for row in self.host.calls if row.call_id == call.id]
        if not durable or durable[0].status is not CallStatus.PENDING:
            self.without_intent.append(what)
        self.world[what] += 1

    def _find_note(self, call: nt.Call) -> nt.Verification:
        found = self.world[f"note {call.args['text']}"]
        return nt.happened("noted") if found else nt.did_not_happen()

    def run(self, ledger: nt.Ledger) -> None:
        look_up, refund, mail, note = self._tools
        with ledger.run("ticket-7"):
            with nt.step("pay"):
                cents = look_up(order=7)
                answers = [refund(order=7, cents=cents)]
            with nt.step("tell"):
                answers.append(mail(to="ann"))
                answers.append(note(text="closed"))
            self.answers = answers

    def resume_until_done(self) -> int:
        """Resume as operators do: open again, decide truthfully what waits. Counts the resumes."""
        for resumes in range(1, 10):
            try:
                with self.host.process() as ledger:
                    self.run(ledger)
                return resumes
            except nt.errors.ReplayUnsafeError:
                assert self.host.open_reviews, "it waits without a reason on record"
                for review in self.host.open_reviews:
                    self._decide(review.identity.tool_name)
        raise AssertionError("the run does not end")

    def _decide(self, tool: str) -> None:
        happened = any(what.startswith(tool) for what in self.world)
        if happened:
            self.host.decide(Verb.HAPPENED, result=f"{tool}ed")
        else:
            self.host.decide(Verb.DID_NOT_HAPPEN)


def crash_points() -> Iterator[int]:
    return iter(range(1, MOST_POINTS))


def check_durable_state(agent: Agent) -> None:
    """Right after a crash, before anything heals it."""
    rows = {row.identity.tool_name: row for row in agent.host.calls}
    for what in agent.world:
        assert what.split()[0] in rows, f"{what} is in the world, and the ledger knows nothing"
    for row in rows.values():
        marks = [
            step for step in agent.host.data.steps.values() if step.node_id == row.identity.node_id
        ]
        assert marks, f"{row.identity.tool_name} has a row, and its step has no mark"
    assert not agent.without_intent


def check_after_resume(agent: Agent) -> None:
    assert agent.world == {"refund": 1, "mail ann": 1, "note closed": 1}
    assert agent.answers == ["refunded", "mailed", "noted"]
    assert [row.status for row in agent.host.calls] == [CallStatus.DONE] * 4
    assert agent.host.open_reviews == []
    assert agent.host.data.runs["ticket-7"].holder_id is None


def test_killed_at_every_point_nothing_happens_twice_and_nothing_is_lost() -> None:
    killed = 0
    for point in crash_points():
        agent = Agent(host := Host())
        with host.process(dies_at=point) as ledger:
            agent.run(ledger)
        if host.points < point:
            break
        killed += 1
        check_durable_state(agent)
        agent.resume_until_done()
        check_after_resume(agent)
    assert killed >= 14


def test_killed_again_at_every_point_of_the_recovery() -> None:
    killed = 0
    for first in crash_points():
        for second in crash_points():
            agent = Agent(host := Host())
            with host.process(dies_at=first) as ledger:
                agent.run(ledger)
            if host.points < first:
                assert killed >= 150
                return
            try:
                with host.process(dies_at=second) as ledger:
                    agent.run(ledger)
            except nt.errors.ReplayUnsafeError:
                pass
            reached = host.points >= second
            check_durable_state(agent)
            agent.resume_until_done()
            check_after_resume(agent)
            if not reached:
                break
            killed += 1


def without_intents(commit: Commit) -> Commit | None:
    pending = [write for write in commit.calls if write.row.status is CallStatus.PENDING]
    return None if pending else commit


def without_results(commit: Commit) -> Commit | None:
    done = [
        write
        for write in commit.calls
        if write.row.status is CallStatus.DONE and write.row.replay_class.effectful
    ]
    return None if done else commit


@pytest.mark.parametrize("break_it", [without_intents, without_results])
def test_the_sweep_catches_a_broken_engine(
    monkeypatch: pytest.MonkeyPatch, break_it: Callable[[Commit], Commit | None]
) -> None:
    """A negative control: a sweep that cannot fail proves nothing."""
    whole = MortalStore.commit

    def broken(self: MortalStore, commit: Commit) -> None:
        kept = break_it(commit)
        if kept is not None:
            whole(self, kept)

    monkeypatch.setattr(MortalStore, "commit", broken)
    with pytest.raises((AssertionError, nt.errors.LedgerCorrupt)):
        test_killed_at_every_point_nothing_happens_twice_and_nothing_is_lost()
