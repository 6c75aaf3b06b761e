"""Can a person talk to an agent from a terminal, in lines or one message at a time?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nottwice as nt
from tests.cli.workplace import Workplace
from tests.nursery import starting

TALKER = '''
import os, time
import nottwice as nt
from nottwice.agent.messages import Role


@nt.tool("unsafe_on_replay", approve=True)
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


@nt.tool("pure")
def pause() -> str:
    """Take a while."""
    open("paused", "w").close()
    while os.path.exists("paused"):
        time.sleep(0.01)
    return "over"


def said(request):
    texts = [one.text for one in request.messages if one.role is Role.USER and one.text]
    words = texts[-1].splitlines()[-1]
    if "pay" in words:
        return {"pay": {"cents": 40}}
    if "pause" in words and not request.messages[-1].tool_results:
        return {"pause": {}}
    return f"You said: {words}\\nThat was turn {request.turn}."


provider = nt.providers.scripted(said)
agent = nt.Agent("talker", version="1.0.0", provider=provider, tools=[pay, pause])
flow = nt.Graph("flow", version="1.0.0")


@flow.node
def only(state):
    return None


app = nt.App(graphs=[agent, flow], store="agent.db")
'''


@pytest.fixture
def place(empty: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    (empty.folder / "talker.py").write_text(TALKER)
    monkeypatch.chdir(empty.folder)
    started = nottwice(empty, "run", "talker", "--id", "t-1", "--message", "hello")
    assert started.returncode == 0, started.stderr
    return empty


def nottwice(
    place: Workplace, *words: str, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    return starting.run(
        [sys.executable, "-m", "nottwice", *words, "--app", "talker.py:app"],
        cwd=place.folder,
        env=place.environment(),
        input=stdin,
    )


def test_one_message_is_said_once_and_its_answer_shown(place: Workplace) -> None:
    first = nottwice(place, "talk", "t-1", "how are you?")
    assert (first.returncode, first.stdout) == (0, "You said: how are you?\nThat was turn 2.\n")
    assert "  hear    how are you?" in first.stderr.splitlines()
    again = nottwice(place, "talk", "t-1", "how are you?", "--quiet")
    assert (again.stdout, again.stderr) == (first.stdout, "")
    other = nottwice(place, "talk", "t-1", "how are you?", "--id", "2", "--json")
    document = json.loads(other.stdout)
    assert document["agent"]["answer"] == "You said: how are you?\nThat was turn 3."
    assert document["run"]["run_id"] == "t-1"
    assert document["next"] == []


def test_a_message_that_is_sent_to_an_agent_that_has_ended_says_what_to_type(
    place: Workplace,
) -> None:
    sent = nottwice(place, "send", "t-1", "message", "--data", '"and now?"')
    assert sent.returncode == 0, sent.stderr
    assert "nothing in it takes" not in sent.stderr
    assert "Resume with: nottwice run --id t-1" in sent.stdout
    heard = nottwice(place, "run", "--id", "t-1")
    assert "You said: and now?" in heard.stdout
    other = nottwice(place, "send", "t-1", "paid")
    assert "it will not receive the event" in other.stderr


def test_every_line_of_stdin_is_a_message_of_its_own(place: Workplace) -> None:
    ended = nottwice(place, "talk", "t-1", "--quiet", stdin="yes\n\nyes\nno\n")
    assert ended.returncode == 0, ended.stderr
    turns = [line for line in ended.stdout.splitlines() if line.startswith("That was")]
    assert turns == [f"That was turn {number}." for number in (2, 3, 4)]


def test_a_person_at_a_terminal_gets_a_prompt_and_answers(place: Workplace) -> None:
    ended = place.terminal(
        "nottwice talk t-1 --quiet --app talker.py:app",
        ("> ", "good morning"),
        ("That was turn 2.", "good night"),
        ("That was turn 3.", "\x04"),
    )
    assert ended.exit_code == 0
    assert "You said: good night" in ended.stdout


def test_a_run_that_waits_for_a_person_says_so_and_ends_the_talk(place: Workplace) -> None:
    ended = place.terminal(
        "nottwice talk t-1 --quiet --app talker.py:app",
        ("> ", "pay it"),
    )
    assert ended.exit_code == 3
    assert "waits for" in ended.stdout
    assert "Next: nottwice decide" in ended.stdout


def test_all_that_stdin_holds_is_said_to_a_run_that_waits(place: Workplace) -> None:
    ended = nottwice(place, "talk", "t-1", "--quiet", stdin="pay it\nand then?\nand again\n")
    assert ended.returncode == 3
    assert "waits for" in ended.stdout
    with nt.Ledger(str(place.folder / "agent.db")) as ledger:
        events = ledger.store.events("t-1", "message")
    assert [json.loads(one.json)["text"] for one in events[1:]] == [
        "pay it",
        "and then?",
        "and again",
    ]
    heard = [line for line in nottwice(place, "show", "t-1").stdout.splitlines() if "hear" in line]
    assert [line.split()[1:3] for line in heard[-2:]] == [["and", "then?"], ["and", "again"]]


def test_a_message_to_a_run_that_is_driven_elsewhere_is_on_record(place: Workplace) -> None:
    busy = subprocess.Popen(
        [sys.executable, "-m", "nottwice", "talk", "t-1", "pause", "-q", "--app", "talker.py:app"],
        cwd=place.folder,
        env=place.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    paused = place.folder / "paused"
    try:
        while not paused.exists():
            assert busy.poll() is None
        ended = nottwice(place, "talk", "t-1", "be quick")
        assert ended.returncode == 1
        assert "on record, and the run reads it before its next turn" in ended.stderr
        paused.unlink()
        assert "You said: be quick" in busy.communicate(timeout=60)[0]
    finally:
        paused.unlink(missing_ok=True)
        busy.kill()
        busy.wait()


def test_a_talk_that_is_killed_is_answered_by_the_same_line(place: Workplace) -> None:
    words = [sys.executable, "-m", "nottwice", "talk", "t-1", "pause", "-q", "--app", "talker.py"]
    process = subprocess.Popen(words, cwd=place.folder, env=place.environment())
    paused = place.folder / "paused"
    while not paused.exists():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    paused.unlink()
    Path(place.folder, "talker.py").write_text(TALKER.replace('open("paused", "w").close()', ""))
    ended = nottwice(place, "talk", "t-1", "pause", "--quiet")
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, "You said: pause"), ended.stderr
    with nt.Ledger(place.store, create=False) as ledger:
        assert len(ledger.store.events("t-1")) == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("t-2", "hello"), "There is no run 't-2'"),
        (("f-1", "hello"), "is not an agent of this app. Nothing was said."),
        (("t-1", " "), "says nothing"),
        (("t-1", "--id", "7"), "--id names one message"),
    ],
)
def test_what_cannot_be_said_is_refused(place: Workplace, words: tuple[str, ...], why: str) -> None:
    assert nottwice(place, "run", "flow", "--id", "f-1", "--input", "{}").returncode == 0
    ended = nottwice(place, "talk", *words)
    assert ended.returncode in (1, 2)
    assert why in ended.stderr
    with nt.Ledger(place.store, create=False) as ledger:
        assert len(ledger.store.events("t-1")) == 1
