"""Does the process in which it happened tell people, and does its caller never wait? (P333)"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

import nottwice as nt
from nottwice.errors import ApprovalNeeded
from nottwice.model.runs.notices import NoticeRecord
from nottwice.notify import attending
from nottwice.notify.attending import watching
from nottwice.notify.sender import RETRY_SECONDS, SendReport
from tests.fakes import FakeClock
from tests.notify.asking import Asking
from tests.notify.receiver import SECRET, Received, Receiver, receiving

PROGRAM = """
import nottwice as nt

@nt.tool("unsafe_on_replay", approve=True)
def refund(cents: int) -> str:
    return "no one approved it"

with nt.run("ticket-7", store="agent.db"):
    refund(4000)
"""
# Handlers run in reverse order, so this one runs before the process waits for its message.
SAYS_WHEN_IT_LEAVES = """
import atexit
from nottwice.notify import attending

attending.INLINE_LIMIT_SECONDS = 60.0  # A busy machine may take longer than usual.
atexit.register(lambda: print("leaving", flush=True))
"""


@pytest.fixture
def told(receiver: Receiver, tmp_path: Path) -> Asking:
    """A ledger that tells the receiver."""
    clock = FakeClock()
    settings = nt.Notify(webhook=receiver.url)
    return Asking(nt.Ledger(tmp_path / "agent.db", clock=clock, notify=settings), clock)


def _program(folder: Path, webhook: str, program: str = PROGRAM) -> subprocess.Popen[str]:
    (folder / "pyproject.toml").write_text(f'[tool.nottwice.notify]\nwebhook = "{webhook}"\n')
    environment = {**os.environ, "NOTTWICE_NOTIFY_SECRET": SECRET, "no_proxy": "*"}
    environment.pop("PYTEST_CURRENT_TEST", None)
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _notice_about_the_review(folder: Path) -> NoticeRecord:
    with nt.Ledger(folder / "agent.db") as ledger:
        (notice,) = [one for one in ledger.store.notices() if one.kind == "review_opened"]
    return notice


def _expect_error(program: subprocess.Popen[str]) -> None:
    assert program.stderr is not None
    assert "ApprovalNeeded" in program.stderr.read()
    program.wait(60)


def _expect_line(stdout: IO[str], line: str) -> None:
    assert stdout.readline() == f"{line}\n"


def _until(release: threading.Event) -> Callable[[Received], None]:
    """Answer no sooner than told."""

    def wait(received: Received) -> None:
        release.wait(60)

    return wait


def test_the_caller_gets_its_error_while_the_webhook_still_hangs(
    told: Asking, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attending, "INLINE_LIMIT_SECONDS", 30.0)
    release = threading.Event()
    receiver.before_answer = _until(release)
    told.open()
    # The error is here, and the message has neither arrived nor failed.
    (notice,) = [one for one in told.ledger.store.notices() if one.kind == "review_opened"]
    assert (notice.sent_at, notice.problem) == (None, None)
    release.set()
    attending.wait_for_all(30.0)
    assert [one.type for one in receiver.received] == ["nottwice.review_opened"]


def test_a_review_a_decision_and_a_failure_are_told_by_the_process_itself(
    told: Asking, receiver: Receiver
) -> None:
    told.decide(told.open())
    attending.wait_for_all(30.0)
    told.fail()
    attending.wait_for_all(30.0)
    with told.ledger.run("ticket-1"):
        pass
    attending.wait_for_all(30.0)
    types = {one.type.removeprefix("nottwice.") for one in receiver.received}
    assert types - {"review_opened"} == {"review_decided", "run_failed"}
    assert len(receiver.ids) == len(set(receiver.ids))


def test_what_fails_is_left_in_the_outbox_for_the_next_sender(
    told: Asking, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [503]
    told.open()
    attending.wait_for_all(30.0)
    assert "the webhook answered 503" in caplog.text
    assert len(receiver.received) == 1
    told.clock.advance(RETRY_SECONDS[0])
    sender = told.sender(nt.Notify(webhook=receiver.url))
    assert sender.send_due() == SendReport(sent=1, notices=1)
    first, second = receiver.ids
    assert first == second


def test_the_process_tells_only_of_its_own_runs(told: Asking, receiver: Receiver) -> None:
    attending.dismiss_all()
    told.open("ticket-of-another-process")
    attending.attend(told.ledger.store, nt.Notify(webhook=receiver.url), told.clock)
    told.open("ticket-8")
    attending.wait_for_all(30.0)
    assert [one.data["run_id"] for one in receiver.received] == ["ticket-8"]


def test_a_missing_secret_is_said_once_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NOTTWICE_NOTIFY_SECRET", raising=False)
    clock = FakeClock()
    notify = {"webhook": "http://127.0.0.1:9/"}
    with nt.Ledger(tmp_path / "agent.db", clock=clock, notify=notify) as ledger:
        asking = Asking(ledger, clock)
        for number in range(3):
            asking.open(f"ticket-{number}")
            attending.wait_for_all(30.0)
    (said,) = [one for one in caplog.records if "notifications are off" in one.getMessage()]
    assert "NOTTWICE_NOTIFY_SECRET is not set" in said.getMessage()


def test_a_program_that_ends_immediately_has_told_people(tmp_path: Path) -> None:
    """The answer comes when the program has nothing left to do but wait for it."""
    with receiving() as receiver:
        with _program(tmp_path, receiver.url, SAYS_WHEN_IT_LEAVES + PROGRAM) as program:
            stdout = program.stdout
            assert stdout is not None
            receiver.before_answer = lambda received: _expect_line(stdout, "leaving")
            _expect_error(program)
        (got,) = receiver.received
    assert got.data["run_id"] == "ticket-7"
    assert _notice_about_the_review(tmp_path).sent_at is not None


def test_a_program_does_not_wait_for_a_webhook_that_hangs(tmp_path: Path) -> None:
    """It ends with its error while the request is not answered, and the outbox keeps the notice."""
    release = threading.Event()
    with receiving() as receiver:
        receiver.before_answer = _until(release)
        with _program(tmp_path, receiver.url) as program:
            _expect_error(program)
        assert not release.is_set()
        release.set()
    notice = _notice_about_the_review(tmp_path)
    assert notice.sent_at is None
    assert notice.tries == 1


def test_the_settings_of_the_project_wake_no_one_in_a_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.nottwice.notify]\nwebhook = "{receiver.url}"\n'
    )
    with nt.Ledger("agent.db") as ledger:
        assert ledger.notify is None
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with nt.Ledger("agent.db") as ledger:
        assert ledger.notify == nt.Notify(webhook=receiver.url)
    with nt.Ledger("agent.db", notify=False) as ledger:
        assert ledger.notify is None
    with nt.Ledger(":memory:") as ledger:
        assert ledger.notify is None


def test_an_app_tells_as_its_ledger_would(tmp_path: Path, receiver: Receiver) -> None:
    flow = nt.Graph("notify-flow", version="1.0.0")

    @flow.node
    def ask_first(state: dict[str, str]) -> None:
        nt.ask("May I?", options=["yes", "no"])

    notify = nt.Notify(webhook=receiver.url)
    app = nt.App(graphs=[flow], store=nt.Ledger(tmp_path / "agent.db"), notify=notify)
    assert app.run("notify-flow", "ticket-7", {}).status == "waiting"
    attending.wait_for_all(30.0)
    (got,) = receiver.received
    assert got.data["review_kind"] == "question"


def test_a_watcher_sends_what_others_left(asking: Asking, receiver: Receiver) -> None:
    asking.open()
    with watching(asking.ledger.store, nt.Notify(webhook=receiver.url), asking.clock):
        assert receiver.arrived.wait(60)
    assert [one.data["run_id"] for one in receiver.received] == ["ticket-7"]


def test_a_forked_child_tells_what_happens_in_it(told: Asking, receiver: Receiver) -> None:
    told.open("ticket-1")
    attending.wait_for_all(30.0)
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(ApprovalNeeded):
                told.open("ticket-2")
        except BaseException:
            pass
        attending.wait_for_all(30.0)
        os._exit(0)
    os.waitpid(child, 0)
    assert sorted(one.data["run_id"] for one in receiver.received) == ["ticket-1", "ticket-2"]
