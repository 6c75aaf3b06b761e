"""What the holder knows on top of the store: pending writes, and when they are durable."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.engine.session import MOST_PENDING
from nottwice.model.call import CallStatus
from nottwice.store.interface import Commit
from nottwice.store.sqlite.store import SqliteStore
from tests.fakes import Host
from tests.nursery import starting

FORKED_IN_A_TOOL = """
import os, sys
import nottwice as nt

@nt.tool("unsafe_on_replay")
def send(to: str) -> str:
    # The mistake: the child does not end with os._exit(), but returns like its parent.
    if os.fork() == 0:
        return "what the child returned"
    os.wait()
    return "what the parent returned"

if __name__ == "__main__":
    with nt.run("r", store=sys.argv[1]):
        print(send("ann"))
"""

EXITS_IN_A_BLOCK = """
import sys
import nottwice as nt

@nt.tool("pure")
def look(x: int) -> int:
    return x

if __name__ == "__main__":
    # The block is entered by hand, and never left.
    nt.run("r", store=sys.argv[1], checkpoints="1h").__enter__()
    for x in range(5):
        look(x)
    sys.exit(3)
"""


def test_a_pure_result_is_written_with_the_next_intent_and_is_durable_before_the_effect(
    host: Host,
) -> None:
    seen: list[list[str]] = []

    @nt.tool("pure")
    def look_up(word: str) -> str:
        return f"about {word}"

    @nt.tool("unsafe_on_replay")
    def act(what: str) -> None:
        seen.append([row.identity.tool_name for row in host.calls if row.status.in_doubt is False])

    with host.process() as ledger, ledger.run("r"):
        found = look_up("plan")
        assert host.calls == []
        act(found)
    assert seen == [["look_up"]]


def test_a_reply_of_a_model_is_durable_before_it_is_returned(host: Host) -> None:
    @nt.tool("pure", volatile="*")
    def ask_model(prompt: str) -> str:
        return f"reply to {prompt}"

    with host.process() as ledger, ledger.run("r"):
        ask_model("plan")
        assert [row.identity.tool_name for row in host.calls] == ["ask_model"]


def test_pending_writes_get_their_own_commit_after_a_while(host: Host) -> None:
    @nt.tool("pure")
    def look(x: int) -> int:
        return x

    with host.process() as ledger, ledger.run("r"), nt.step("s"):
        look(1)
        assert host.calls == []
        host.clock.make_due()
        assert len(host.calls) == 1
        assert [step.status.value for step in host.data.steps.values()] == ["in_progress"]
        look(2)
        host.clock.make_due()
        assert len(host.calls) == 2


def test_trouble_with_such_a_commit_is_raised_by_the_next_call(host: Host) -> None:
    @nt.tool("pure")
    def look(x: int) -> int:
        return x

    with host.process() as ledger, ledger.run("r"):
        look(1)
        commit, ledger.store.commit = ledger.store.commit, _full_disk  # type: ignore[method-assign]
        host.clock.make_due()
        ledger.store.commit = commit  # type: ignore[method-assign]
        with pytest.raises(nt.errors.StoreError, match="disk is full"):
            look(2)
        look(2)
    assert len(host.calls) == 2


def _full_disk(commit: Commit) -> None:
    raise nt.errors.StoreError("The disk is full. Nothing was written.")


def marks(host: Host) -> list[str]:
    return [step.status.value for step in host.data.steps.values()]


def test_every_step_is_durably_in_progress_when_it_is_entered_and_the_one_before_it_done(
    host: Host,
) -> None:
    @nt.tool("pure")
    def look(x: int) -> int:
        return x

    with host.process() as ledger, ledger.run("r", checkpoints="every_step"):
        with nt.step("one"):
            assert marks(host) == ["in_progress"]
            look(1)
            assert host.calls == []
        assert marks(host) == ["in_progress"]
        with nt.step("two"):
            assert marks(host) == ["done", "in_progress"]
            assert len(host.calls) == 1
            with nt.step("inner"):
                assert marks(host) == ["done", "in_progress", "in_progress"]


def test_a_number_of_checkpoints_writes_at_every_so_many_steps(host: Host) -> None:
    with host.process() as ledger, ledger.run("r", checkpoints=3):
        for at in range(7):
            with nt.step("turn", at=at):
                durable = (at + 1) // 3 * 3
                assert marks(host) == ["done"] * (durable - 1) + ["in_progress"] * (durable > 0)


def test_checkpoints_on_exit_leave_all_but_effects_and_replies_to_the_end(host: Host) -> None:
    @nt.tool("pure")
    def look(x: int) -> int:
        return x

    @nt.tool("pure", durable=True)
    def pay(x: int) -> int:
        return x

    with host.process() as ledger, ledger.run("r", checkpoints="on_exit"):
        with nt.step("one"):
            look(1)
            host.clock.make_due()
            assert (marks(host), host.calls) == ([], [])
            pay(1)
            assert (marks(host), len(host.calls)) == (["in_progress"], 2)
        host.clock.make_due()
        assert marks(host) == ["in_progress"]
    assert marks(host) == ["done"]


def test_a_time_says_how_long_something_waits_for_a_commit_of_its_own(host: Host) -> None:
    for run, words, after in (("a", "effects", 0.1), ("b", "30s", 30.0), ("c", "10ms", 0.01)):
        before = len(host.data.steps)
        with host.process() as ledger, ledger.run(run, checkpoints=words), nt.step("one"):
            host.clock.make_due(after=after - 0.001)
            assert len(host.data.steps) == before
            host.clock.make_due(after=after)
            assert len(host.data.steps) == before + 1


def test_an_inner_block_of_a_run_cannot_name_other_checkpoints(host: Host) -> None:
    with host.process() as ledger, ledger.run("r", checkpoints="every_step"):
        with ledger.run("r"), ledger.run("r", checkpoints=1):
            pass
        with (
            pytest.raises(nt.errors.UsageError, match="Name them in the outermost block"),
            ledger.run("r", checkpoints="on_exit"),
        ):
            pass


def test_a_holder_that_was_overtaken_asks_for_nothing_more(host: Host) -> None:
    asked: list[int] = []

    @nt.tool("pure")
    def look(x: int) -> int:
        return x

    with host.process() as ledger:
        run = ledger.run("r")
        run.__enter__()
        look(1)
        host.data.runs["r"] = replace(host.data.runs["r"], epoch=9, holder_id="another")
        host.clock.make_due()
        for _ in range(2):
            with pytest.raises(nt.errors.OwnershipLost):
                nt.recorded("reply", lambda: asked.append(1))
        with pytest.raises(nt.errors.OwnershipLost):
            run.__exit__(None, None, None)
    assert asked == []
    assert host.calls == []
    assert host.data.evidence == {}


def test_an_overtaken_holder_writes_nothing_later(host: Host) -> None:
    @nt.tool("pure")
    def look(x: int) -> int:
        return x

    with host.process() as ledger:
        run = ledger.run("r")
        run.__enter__()
        look(1)
        key = "r"
        host.data.runs[key] = replace(host.data.runs[key], epoch=9, holder_id="another")
        host.clock.make_due()
        assert host.calls == []
        with pytest.raises(nt.errors.OwnershipLost):
            run.__exit__(None, None, None)


def test_a_model_is_not_asked_again_for_a_step_that_has_its_reply(host: Host) -> None:
    asked: list[str] = []

    @nt.tool("pure", volatile="*")
    def ask_model(prompt: str) -> str:
        asked.append(prompt)
        return "send"

    @nt.tool("unsafe_on_replay")
    def act(what: str) -> str:
        return what

    for prompt in ("Monday's prompt", "Tuesday's prompt"):
        with host.process() as ledger, ledger.run("r"), nt.step("turn", at=1):
            act(ask_model(prompt))
    assert asked == ["Monday's prompt"]
    assert [row.identity.tool_name for row in host.calls] == ["ask_model", "act"]


def test_pending_writes_are_durable_when_the_block_ends(host: Host) -> None:
    @nt.tool("pure")
    def look(x: int) -> int:
        return x

    with host.process() as ledger, ledger.run("r"):
        look(1)
    assert [row.status for row in host.calls] == [CallStatus.DONE]


def test_a_crash_loses_only_pending_writes(host: Host) -> None:
    runs: list[int] = []

    @nt.tool("pure")
    def look(x: int) -> int:
        runs.append(x)
        return x

    with host.process(dies_at=3) as ledger, ledger.run("r"):
        look(1)
    with host.process() as ledger, ledger.run("r"):
        assert look(1) == 1
    assert runs == [1, 1]


def test_pending_writes_are_bounded(host: Host) -> None:
    @nt.tool("pure")
    def look(x: int) -> int:
        return x

    with host.process() as ledger, ledger.run("r"):
        for number in range(MOST_PENDING + 1):
            look(number)
        assert len(host.calls) == MOST_PENDING


def test_one_log_line_a_decision_and_no_id_can_forge_one(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        return "sent"

    with caplog.at_level(logging.INFO, "nottwice"), host.process() as ledger:
        with ledger.run("r' decision='forged"):
            send("a")
            send("a")
    lines = [record.getMessage() for record in caplog.records]
    assert [line.rpartition("decision=")[2] for line in lines] == [
        "'record the intent, run'",
        "'return the receipt'",
        "'leave the run completed'",
    ]
    assert all("\n" not in line for line in lines)


def test_a_process_that_exits_inside_a_block_commits_what_is_pending(tmp_path: Path) -> None:
    script, ledger = tmp_path / "agent.py", tmp_path / "agent.db"
    script.write_text(EXITS_IN_A_BLOCK, encoding="utf-8")
    done = starting.run([sys.executable, str(script), str(ledger)])
    assert (done.returncode, done.stderr) == (3, "")
    # The flush came before the store closed its files, so the last process removed the log.
    assert not ledger.with_name("agent.db-wal").exists()
    store = SqliteStore(ledger, now=0.0)
    try:
        assert len(list(store.calls("r"))) == 5
    finally:
        store.close()


def test_a_forked_child_cannot_commit_as_its_parent(tmp_path: Path) -> None:
    """It would record a result of its parent's call, which is still being made."""
    script, ledger = tmp_path / "agent.py", tmp_path / "agent.db"
    script.write_text(FORKED_IN_A_TOOL, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(ledger)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "what the parent returned\n"
    assert "forked from it. Nothing was sent." in done.stderr
    store = SqliteStore(ledger, now=0.0)
    try:
        (row,) = store.calls("r")
        assert row.kept_result().json == '"what the parent returned"'
        assert not store.reviews("r")
        assert not store.evidence("r")
    finally:
        store.close()
