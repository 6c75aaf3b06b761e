"""`nottwice notify`, and the commands that also send: worker and serve (P333, P339)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import nottwice as nt
from nottwice.cli.main import main
from nottwice.notify.sender import RETRY_SECONDS, Sender
from tests.fakes import FakeClock
from tests.notify.asking import Asking
from tests.notify.conftest import receiver as receiver
from tests.notify.receiver import SECRET, Receiver

PROGRAM = "from nottwice.cli.main import main; main()"
FLOW = """
import nottwice as nt

flow = nt.Graph("shop", version="1.0.0")

@flow.node
def ask_first(state):
    nt.ask("May I?", options=["yes", "no"])

app = nt.App(graphs=[flow])
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> Path:
    """A project that tells the receiver, and a ledger in which a review is open."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.nottwice]\nstore = "agent.db"\n[tool.nottwice.notify]\nwebhook = "{receiver.url}"\n'
    )
    (tmp_path / "shop.py").write_text(FLOW)
    with nt.Ledger("agent.db") as ledger:
        Asking(ledger, FakeClock()).open()
    return tmp_path


def _cli(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def _started(place: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=place,
        env={**os.environ, "no_proxy": "*"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _json(result: Result) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_it_sends_what_is_due_and_then_nothing(place: Path, receiver: Receiver) -> None:
    first = _cli("notify", "--once", "--json")
    assert first.exit_code == 0, first
    assert {**_json(first), "ledger": ""} == {
        "ledger": "",
        "sent": 1,
        "notices": 1,
        "moot": 0,
        "held": 0,
        "failed": 0,
        "given_up": 0,
        "again": 0,
        "problems": [],
    }
    second = _cli("notify")
    assert second.stdout == "0 messages sent, about 0 notices.\n"
    assert [one.type for one in receiver.received] == ["nottwice.review_opened"]


def test_a_test_message_is_sent_on_request(place: Path, receiver: Receiver) -> None:
    assert _cli("notify", "--test").exit_code == 0
    assert [one.type for one in receiver.received] == ["nottwice.test"]
    receiver.answers = [403]
    refused = _cli("notify", "--test")
    assert refused.exit_code == 3
    assert "the webhook answered 403" in refused.stdout
    assert _cli("notify", "--test", "--watch").exit_code == 2


def test_a_message_that_does_not_arrive_fails_the_command(place: Path, receiver: Receiver) -> None:
    receiver.answers = [503]
    failed = _cli("notify")
    assert failed.exit_code == 3
    assert failed.stdout.splitlines() == [
        "1 did not arrive, and will be tried again.",
        "  the webhook answered 503",
    ]


def test_what_was_given_up_shows_in_the_command_and_in_the_overview(
    place: Path, receiver: Receiver
) -> None:
    assert "not told" not in _cli().stdout
    _give_up(receiver)
    found = _cli("notify", "--json")
    assert found.exit_code == 3
    assert _json(found)["given_up"] == 1
    assert _json(found)["problems"] == ["the webhook answered 500"]
    said = _cli("notify").stdout
    assert said.splitlines()[-1] == "Once the cause is fixed: nottwice notify --again"
    overview = _cli().stdout
    assert "1 notification lost in 7 days; to try again: nottwice notify --again" in overview
    assert _json(_cli("--json"))["not_told"] == 1


def test_what_was_given_up_is_sent_again_on_request(place: Path, receiver: Receiver) -> None:
    _give_up(receiver)
    receiver.answers = [500]
    still_broken = _cli("notify", "--again", "--json")
    assert still_broken.exit_code == 3
    assert {name: _json(still_broken)[name] for name in ("again", "failed", "given_up")} == {
        "again": 1,
        "failed": 1,
        "given_up": 0,
    }
    # It is due later, as after any first try, and no longer given up.
    assert _json(_cli("notify", "--again", "--json"))["again"] == 0
    _give_up(receiver)
    fixed = _cli("notify", "--again")
    assert fixed.exit_code == 0
    assert fixed.stdout.splitlines() == [
        "Trying 1 notice again.",
        "1 message sent, about 1 notice.",
    ]
    assert len(set(receiver.ids)) == 1
    assert "not told" not in _cli().stdout
    assert _cli("notify", "--again", "--watch").exit_code == 2


def test_what_was_decided_since_it_was_given_up_is_not_told(
    place: Path, receiver: Receiver
) -> None:
    _give_up(receiver)
    receiver.received.clear()
    with nt.Ledger("agent.db", notify=False) as ledger:
        (review,) = ledger.store.open_reviews("ticket-7")
        nt.Reviews(ledger).decide(review.review_id, "reject", by="ann", why="too much")
    found = _cli("notify", "--again", "--json")
    assert (found.exit_code, _json(found)["again"], _json(found)["moot"]) == (0, 1, 1)
    assert [one.type for one in receiver.received] == ["nottwice.review_decided"]


def _give_up(receiver: Receiver) -> None:
    """Let every try fail, until the notice of the review is given up."""
    receiver.answers = [500] * 20
    settings = nt.Notify(webhook=receiver.url, on=["review_opened"])
    with nt.Ledger("agent.db", notify=False) as ledger:
        clock = FakeClock(ledger.clock.now() - sum(RETRY_SECONDS))
        sender = Sender(ledger.store, settings, clock)
        while receiver.answers and not sender.send_due().given_up:
            clock.advance(max(RETRY_SECONDS))
    receiver.answers = []


def test_without_settings_or_a_secret_it_says_what_to_write(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTTWICE_NOTIFY_SECRET")
    unready = _cli("notify")
    assert unready.exit_code == 1
    assert "NOTTWICE_NOTIFY_SECRET is not set" in unready.stderr
    (place / "pyproject.toml").write_text('[tool.nottwice]\nstore = "agent.db"\n')
    none = _cli("notify")
    assert none.exit_code == 1
    assert "[tool.nottwice.notify]" in none.stderr


def test_it_watches_until_it_is_told_to_stop(place: Path, receiver: Receiver) -> None:
    process = _started(place, "notify", "--watch", "--json")
    assert receiver.arrived.wait(60)
    process.send_signal(signal.SIGTERM)
    said, complained = process.communicate(timeout=60)
    assert process.returncode == 0, complained
    assert json.loads(said)["sent"] == 1


def test_a_worker_sends_too(place: Path, receiver: Receiver) -> None:
    process = _started(place, "worker", "--app", "shop:app", "--quiet")
    assert receiver.arrived.wait(60)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert [one.data["run_id"] for one in receiver.received] == ["ticket-7"]


def test_serve_sends_too(place: Path, receiver: Receiver) -> None:
    pytest.importorskip("uvicorn")
    process = _started(place, "serve", "--port", "0")
    assert receiver.arrived.wait(60)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert [one.data["run_id"] for one in receiver.received] == ["ticket-7"]


def test_an_app_brings_its_settings(place: Path, receiver: Receiver) -> None:
    (place / "pyproject.toml").write_text("")
    told = (
        f'app = nt.App(graphs=[flow], store="agent.db", notify=nt.Notify(webhook="{receiver.url}"))'
    )
    (place / "told_shop.py").write_text(FLOW.replace("app = nt.App(graphs=[flow])", told))
    process = _started(place, "notify", "--app", "told_shop:app", "--json")
    said, complained = process.communicate(timeout=60)
    assert process.returncode == 0, complained
    assert json.loads(said)["sent"] == 1
    assert SECRET not in said + complained
