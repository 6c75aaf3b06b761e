"""Does the demo show what it claims, to a pipe and to a person, and fail when it does not?"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.cli.demo import story as demo_module
from nottwice.cli.demo.story import demo, most_telling
from nottwice.model.review import ReviewStatus, Verb
from nottwice.reviews.queue import open_cases

DEMO = [
    sys.executable,
    "-c",
    "from nottwice.cli.demo.story import demo; demo(prog_name='nottwice demo')",
]
LIMIT_SECONDS = 240
NOT_A_LETTER = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
ROW = re.compile(r"^ (\w[\w ,]*?) {2,}(\w[\w ]*?) {2,}(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$", re.M)


@dataclass(frozen=True)
class Seen:
    """What a demo printed, and how it ended."""

    text: str
    returncode: int

    @property
    def ledger(self) -> Path:
        found = re.search(r"--store (\S+ledger\.db)", self.text)
        assert found is not None, self.text
        return Path(found[1])

    @property
    def table(self) -> dict[tuple[str, str], tuple[int, ...]]:
        """(agent, killed where) → kills, refunds, mails, done twice, lost."""
        return {(row[0], row[1]): tuple(map(int, row[2:])) for row in ROW.findall(self.text)}


@pytest.fixture(autouse=True, scope="module")
def folder_of_demos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What demos keep for their viewers goes where pytest tidies up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("demos")))
        patch.setattr(tempfile, "tempdir", None)
        yield


def run_piped(*options: str, **environment: str) -> Seen:
    ended = subprocess.run(
        [*DEMO, *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert ended.stderr == ""
    return Seen(ended.stdout, ended.returncode)


@pytest.fixture(scope="module")
def piped() -> Seen:
    return run_piped("--no-input")


def test_the_whole_demo_holds_and_ends_well(piped: Seen) -> None:
    assert piped.returncode == 0, piped.text
    assert "did not hold" not in piped.text


def test_the_table_says_how_often_each_effect_happened(piped: Seen) -> None:
    table = piped.table
    assert table["keeps no state", "after refund"] == (1, 2, 1, 1, 0)
    assert table["saves after each act", "after refund"] == (1, 2, 1, 1, 0)
    assert table["uses nottwice", "after refund"] == (1, 1, 1, 0, 0)
    assert table["uses nottwice", "after mail"] == (1, 1, 1, 0, 0)
    assert table["uses nottwice", "at 16 points"] == (16, 16, 16, 0, 0)
    assert table["intents switched off", "at 16 points"] == (16, 18, 18, 4, 0)


def test_the_numbers_are_those_in_the_log_of_the_shop(piped: Seen) -> None:
    lines = (piped.ledger.parent / "shop" / "effects.jsonl").read_text().splitlines()
    counted = [json.loads(line)["tool"] for line in lines]
    # Two tickets are in no line of the table: the one that was not killed, and the waiting one.
    assert counted.count("refund") == sum(row[1] for row in piped.table.values()) + 2
    assert counted.count("send_email") == sum(row[2] for row in piped.table.values()) + 2


def test_piped_text_is_plain_and_fits_a_narrow_screen(piped: Seen) -> None:
    assert NOT_A_LETTER.search(piped.text) is None
    prose = [line for line in piped.text.splitlines() if str(piped.ledger.parent) not in line]
    assert [line for line in prose if len(line) > 80] == []
    assert [line for line in piped.text.splitlines() if line != line.rstrip()] == []
    assert not set("{}") & set(piped.text)


def test_what_it_leaves_behind_can_be_looked_at(piped: Seen) -> None:
    script = piped.ledger.with_name("agent.py")
    assert f"  {script}\n" in piped.text
    assert f"  nottwice check {script}\n" in piped.text
    assert script.read_text() == demo_module.AGENT.read_text()
    assert "docs/start.md" in piped.text
    with nt.Ledger(piped.ledger, create=False) as ledger:
        (waiting,) = open_cases(ledger.store)
        assert f"({waiting.review.identity.workflow_id} was left waiting" in piped.text
        shown = re.search(r"nottwice show (ticket-\d+) ", piped.text)
        assert shown is not None
        (review,) = ledger.store.reviews(shown[1])
    assert review.status is ReviewStatus.USED
    assert review.decision is not None
    assert review.decision.verb is Verb.HAPPENED


def test_a_demo_without_a_terminal_never_waits_for_a_key() -> None:
    seen = run_piped("--points", "1")
    assert seen.returncode == 0, seen.text
    assert "There is no keyboard" in seen.text
    assert "1 of 16 points" in seen.text
    assert seen.table["intents switched off", "at 1 point"] == (1, 2, 1, 1, 0)


def test_a_screen_that_is_narrow_and_knows_no_umlauts_is_enough() -> None:
    seen = run_piped("--points", "1", PYTHONIOENCODING="ascii", COLUMNS="40")
    assert seen.returncode == 0, seen.text
    assert "Next: docs/start.md" in seen.text


# A person at a terminal


def run_on_terminal(keys: bytes) -> Seen:
    """Run the demo on a terminal, and press keys when it asks."""
    mine, its = os.openpty()
    command = [*DEMO, "--points", "1"]
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)
    text, pressed, give_up_at = b"", False, time.monotonic() + LIMIT_SECONDS
    try:
        while time.monotonic() < give_up_at:
            if not select.select([mine], [], [], 1.0)[0]:
                continue
            try:
                part = os.read(mine, 65536)
            except OSError:
                # This is how Linux says that no process holds the other end any more.
                part = b""
            if not part:
                break
            text += part
            if not pressed and b"Did the mail go out?" in text:
                os.write(mine, keys)
                pressed = True
        returncode = process.wait(timeout=10)
    finally:
        process.kill()
        process.wait()
        os.close(mine)
    plain = NOT_A_LETTER.sub("", text.decode())
    return Seen(plain, returncode)


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize(
    ("keys", "answer", "by", "verb", "row"),
    [
        (b"xy", "You said: it went out.", "you", Verb.HAPPENED, "uses nottwice"),
        (b"n", "You said: it did not go out.", "you", Verb.DID_NOT_HAPPEN, "uses nottwice, told n"),
        (b"\n", "No answer, so the demo", "nottwice demo", Verb.HAPPENED, "uses nottwice"),
        (b"", "No answer, so the demo", "nottwice demo", Verb.HAPPENED, "uses nottwice"),
    ],
    ids=["yes", "no", "enter", "nothing"],
)
def test_the_key_that_is_pressed_is_the_decision_on_record(
    keys: bytes, answer: str, by: str, verb: Verb, row: str
) -> None:
    seen = run_on_terminal(keys)
    assert seen.returncode == 0, seen.text
    assert answer in seen.text
    # Only the person on call can make it mail twice, and the table does not hide it.
    mails = 2 if verb is Verb.DID_NOT_HAPPEN else 1
    assert f"Mails at the shop: {mails}." in seen.text
    assert seen.table[row, "after mail"] == (1, 1, mails, mails - 1, 0)
    found = re.search(r"nottwice show (ticket-\d+) ", seen.text)
    assert found is not None
    with nt.Ledger(seen.ledger, create=False) as ledger:
        (review,) = ledger.store.reviews(found[1])
    assert review.decision is not None
    assert (review.decision.by, review.decision.verb) == (by, verb)


# What goes wrong


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.skipif(sys.platform != "linux", reason="it finds processes by their environment")
@pytest.mark.parametrize("moment", ["2. You are on call", "one kill at each."])
def test_an_interrupted_demo_leaves_no_process_behind(moment: str) -> None:
    mark = f"NOTTWICE_TEST_MARK=demo-{os.getpid()}-{time.monotonic_ns()}"
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        [*DEMO, "--no-input"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Lines must come out while the demo runs.
        env={**os.environ, name: value, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if moment in line:
                break
        assert len(list(processes_with(mark))) > 1
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1
    assert "Aborted" in complaints
    assert "Traceback" not in complaints
    assert list(processes_with(mark)) == []


def processes_with(mark: str) -> Iterator[str]:
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environ.read_bytes().split(b"\0"):
                yield environ.parent.name
        except OSError:
            continue


def nursery_that_changes_errands(change: str) -> list[str]:
    return [
        sys.executable,
        "-c",
        "from dataclasses import replace\n"
        "from nottwice.cli.demo.child import run\n"
        "from nottwice.testing.nursery import serve\n"
        "from nottwice.testing.showcase import ShowcaseErrand\n"
        f"serve(lambda text: run(replace(ShowcaseErrand.from_json(text), {change}).to_json()))\n",
    ]


@pytest.mark.parametrize(
    ("change", "broken_claim"),
    [
        ("intents=False", "With nottwice nothing is done twice"),
        ("intents=False", "The agent with nottwice finds its refund"),
        ("intents=True", "Without intents, effects are done twice."),
    ],
)
def test_a_claim_that_does_not_hold_is_said_and_fails_the_demo(
    change: str, broken_claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_module, "NURSERY", nursery_that_changes_errands(change))
    result = CliRunner().invoke(demo, ["--no-input", "--points", "2"])
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert f"This did not hold: {broken_claim}" in said


@pytest.mark.parametrize(
    ("nursery", "complaint"),
    [
        (nursery_that_changes_errands("die_at=None"), "was not killed after the effect of refund"),
        ([sys.executable, "-c", "raise SystemExit('no such luck')"], "no such luck"),
    ],
    ids=["no agent dies", "no agent starts"],
)
def test_a_demo_that_cannot_kill_says_why_it_stops(
    nursery: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_module, "NURSERY", nursery)
    result = CliRunner().invoke(demo, ["--no-input"])
    assert result.exit_code == 1
    assert "The demo could not continue." in result.output
    assert complaint in result.output


def test_a_limit_keeps_the_points_right_after_an_effect() -> None:
    points = ["before a", "before the effect of b", "after the effect of b", "after c"]
    assert most_telling(points, None) == points
    assert most_telling(points, 1) == ["after the effect of b"]
    assert most_telling(points, 3) == points[:3]
    assert most_telling(points, 9) == points
