"""Is a decision checked before it is written, written once, and does the run continue with it?"""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator

import click
import pytest

from nottwice.cli.commands.decide import parse_result
from tests.cli.workplace import Workplace

MAIL = '{"id": "m-1", "words": 6}'


def status_of(place: Workplace, review_id: str) -> str:
    (found,) = [
        one for one in place.json("reviews", "--all")["reviews"] if one["review_id"] == review_id
    ]
    return str(found["status"])


def test_what_happened_becomes_the_receipt_and_nothing_is_run_again(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-8")
    result = workplace.cli("decide", review_id, "happened", "--result", MAIL, "--why", "seen")
    assert result.exit_code == 0
    assert workplace.agent("handle", "ticket-8").exit_code == 0
    call = workplace.json("show", "ticket-8")["calls"][-1]
    assert call["status"] == "DONE"
    assert call["result"]["value"] == {"id": "m-1", "words": 6}
    assert len(call["attempts"]) == 1


def test_what_did_not_happen_is_tried_exactly_once_more(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    result = workplace.cli("decide", review_id, "did-not-happen", "--why", "not at the bank")
    assert result.exit_code == 0
    # It dies in the same place: the licence is used up, and a person is needed again.
    workplace.agent("handle", "ticket-9", kill="refund")
    assert status_of(workplace, review_id) == "used"
    assert "ReplayUnsafeError" in workplace.agent("handle", "ticket-9").stderr
    newer = workplace.review_of("ticket-9")
    assert newer != review_id
    again = workplace.cli("decide", review_id, "did-not-happen", "--why", "not at the bank")
    assert again.stdout.splitlines()[-1] == (
        f"Run 'ticket-9' has used it already and now waits for review {newer}: "
        f"nottwice decide {newer} --store {workplace.store}"
    )


def test_an_abort_ends_the_run_permanently(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    result = workplace.cli("decide", review_id, "abort", "--why", "customer left")
    assert result.stdout.splitlines()[-1] == (
        "Open run 'ticket-9' again to end it: your program gets RunAborted, and nothing more is "
        "sent."
    )
    assert "RunAborted" in workplace.agent("handle", "ticket-9").stderr
    assert workplace.json("show", "ticket-9")["run"]["state"] == "aborted"


def test_drift_is_accepted_or_aborted(workplace: Workplace) -> None:
    workplace.agent("drift", "drift-1")
    assert "ReplayDriftError" in workplace.agent("drift", "drift-1").stderr
    review_id = workplace.review_of("drift-1")
    refused = workplace.cli("decide", review_id, "did-not-happen", "--why", "x")
    assert refused.exit_code == 1
    assert "Choose one of: accept, abort" in refused.stderr
    accepted = workplace.cli("decide", review_id, "accept", "--why", "the new version mails first")
    assert accepted.exit_code == 0
    assert "ReplayDriftError" not in workplace.agent("drift", "drift-1").stderr


def test_the_last_line_says_what_resumes_the_run(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    result = workplace.cli("decide", review_id, "did-not-happen", "--why", "x")
    assert result.stdout.splitlines()[-1] == (
        "Open run 'ticket-9' again to continue: run your program."
    )


def test_who_and_why_are_kept(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    workplace.cli("decide", review_id, "did-not-happen", "--by", "ann", "--why", "looked")
    (decided,) = [
        one for one in workplace.json("reviews")["reviews"] if one["review_id"] == review_id
    ]
    assert decided["decision"]["by"] == "ann"
    assert decided["decision"]["why"] == "looked"


def test_the_login_name_decides_unless_another_is_given(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    line = f"LOGNAME=bob nottwice decide {review_id} abort --why x --store agent.db --json"
    document = json.loads(workplace.shell(line).stdout)
    assert document["review"]["decision"]["by"] == "bob"


def test_the_same_decision_twice_is_harmless_and_another_is_refused(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    words = ("decide", review_id, "did-not-happen", "--why", "looked")
    assert workplace.json(*words)["changed"] is True
    assert workplace.json(*words)["changed"] is False
    again = workplace.cli(*words)
    assert again.exit_code == 0
    assert "nothing was changed" in again.stdout
    other = workplace.cli("decide", review_id, "abort", "--why", "no")
    assert other.exit_code == 1
    assert "already decided: 'did-not-happen'" in other.stderr
    assert f"nottwice decide {review_id} undo" in other.stderr
    assert status_of(workplace, review_id) == "decided"


def test_a_decision_can_be_undone_until_it_is_used(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    workplace.cli("decide", review_id, "did-not-happen", "--why", "looked")
    undone = workplace.cli("decide", review_id, "undo", "--why", "looked in the wrong place")
    assert undone.exit_code == 0
    assert undone.stdout.splitlines()[-1] == (
        f"Run 'ticket-9' waits. nottwice decide {review_id} --store {workplace.store}"
    )
    assert status_of(workplace, review_id) == "open"
    workplace.cli("decide", review_id, "did-not-happen", "--why", "looked again")
    workplace.agent("handle", "ticket-9")
    late = workplace.cli("decide", review_id, "undo", "--why", "too late")
    assert late.exit_code == 1
    assert status_of(workplace, review_id) == "used"
    assert (
        "has used it already"
        in workplace.cli("decide", review_id, "did-not-happen", "--why", "again").stdout
    )


def test_a_decision_about_something_that_changed_since_is_refused(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    workplace.cli("decide", review_id, "abort", "--why", "x")
    workplace.cli("decide", review_id, "undo", "--why", "x")
    for verb in ("abort", "undo"):
        stale = workplace.cli("decide", review_id, verb, "--why", "x", "--shown-version", "1")
        assert stale.exit_code == 1
        assert "has changed since it was shown" in stale.stderr
    fresh = workplace.cli("decide", review_id, "abort", "--why", "x", "--shown-version", "3")
    assert fresh.exit_code == 0


def test_a_review_is_found_by_a_beginning_of_its_id(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    assert workplace.cli("decide", review_id[:6], "abort", "--why", "x").exit_code == 0
    assert workplace.cli("decide", "zz", "abort", "--why", "x").exit_code == 1


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "Infinity",
        '{"a": 1, "a": 2}',
        "sent",
        "",
        "{",
        "'x'",
        '"\\ud800"',
        "[" * 100_000,
        "9" * 5_000,
        '{"a": 1} {"b": 2}',
    ],
)
def test_what_is_not_json_is_refused_before_anything_is_opened(text: str, empty: Workplace) -> None:
    with pytest.raises(click.UsageError, match="Nothing was decided"):
        parse_result(text)
    result = empty.cli("decide", "1a2b", "happened", "--result", text, "--why", "x")
    assert result.exit_code == 2
    assert "There is no ledger" not in result.stderr


@pytest.mark.parametrize("text", ["null", "0", '"sent"', '{"id": 12345678901234567890}', " [1] "])
def test_json_is_read_as_it_is(text: str) -> None:
    assert parse_result(text) == json.loads(text)


def test_the_result_can_come_from_stdin(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    words = ("decide", review_id, "happened", "--result", "-", "--why", "x", "--json")
    document = json.loads(workplace.cli(*words, stdin='{"refunded": 4000}\n').stdout)
    assert document["review"]["decision"]["result"]["value"] == {"refunded": 4000}
    assert workplace.cli(*words, stdin="").exit_code == 2


def test_a_result_that_does_not_fit_the_tool_is_refused_and_nothing_is_written(
    workplace: Workplace,
) -> None:
    review_id = workplace.review_of("ticket-8")
    line = f"nottwice decide {review_id} happened --why x --store agent.db --app agent --result"
    ended = workplace.shell(f"{line} '{{\"id\": 7}}'")
    assert ended.exit_code == 1
    assert "does not fit its type Mail" in ended.stderr
    assert status_of(workplace, review_id) == "open"
    fitting = workplace.shell(f"{line} '{MAIL}'")
    assert fitting.exit_code == 0
    assert "only checked when the run is resumed" not in fitting.stdout


def test_without_the_tools_it_is_said_that_the_result_is_checked_later(
    workplace: Workplace,
) -> None:
    review_id = workplace.review_of("ticket-8")
    line = f"nottwice decide {review_id} happened --why x --store agent.db --result"
    # A ledger that has seen the tool knows what it returns.
    refused = workplace.shell(f"{line} '{{\"id\": 7}}'")
    assert refused.exit_code == 1
    assert "the result['id'] is int, and must be string" in refused.stderr
    assert status_of(workplace, review_id) == "open"
    with contextlib.closing(sqlite3.connect(workplace.store)) as ledger:
        ledger.execute("DELETE FROM nottwice_tools")
        ledger.commit()
    ended = workplace.shell(f"{line} '{{\"id\": 7}}'")
    assert "The result is only checked when the run is resumed" in ended.stdout
    # It does not fit: the run asks again instead of continuing with nonsense.
    assert "ReplayUnsafeError" in workplace.agent("handle", "ticket-8").stderr
    assert status_of(workplace, review_id) == "open"


def test_an_application_of_the_project_that_cannot_be_imported_does_not_stop_a_person_on_call(
    workplace: Workplace,
) -> None:
    (workplace.folder / "pyproject.toml").write_text('[tool.nottwice]\napp = "absent"\n')
    review_id = workplace.review_of("ticket-9")
    line = f"nottwice decide {review_id} abort --why x --store agent.db"
    assert workplace.shell(f"{line} --app absent").exit_code == 1
    ended = workplace.shell(line)
    assert ended.exit_code == 0
    assert "Without your tools: absent could not be imported" in ended.stderr


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (["happened", "--why", "x"], 1, "needs the result"),
        (["did-not-happen", "--result", "1", "--why", "x"], 1, "takes no result"),
        (["--result", "1"], 2, "--result belongs to the verb"),
        (["abort"], 2, "--why TEXT"),
        (["abort", "--why", "  "], 1, "(--why)"),
        (["abort", "--why", "x", "--by", ""], 1, "(--by)"),
        (["maybe", "--why", "x"], 2, "'maybe' is not a decision"),
    ],
)
def test_an_incomplete_decision_is_refused(
    words: list[str], exit_code: int, said: str, killed: Workplace
) -> None:
    review_id = killed.review_of("ticket-9")
    result = killed.cli("decide", review_id, *words)
    assert result.exit_code == exit_code
    assert said in result.stderr
    assert status_of(killed, review_id) == "open"


@pytest.fixture
def stopped(workplace: Workplace) -> Iterator[str]:
    """The review of a run whose process is stopped inside the tool, and so alive."""
    program = (
        "import agent, nottwice as nt, os, signal\n"
        "@nt.tool('unsafe_on_replay', time_limit='50ms')\n"
        "def slow() -> None:\n"
        "    import threading; threading.Event().wait(30)\n"
        "try:\n"
        "    with nt.run('slow-1', store='agent.db'): slow()\n"
        "except nt.errors.ReplayUnsafeError as error: print(error.review_id, flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=workplace.folder,
        env=workplace.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        deadline = time.monotonic() + 30
        found: list[str] = []
        while not found and time.monotonic() < deadline:
            found = [
                one["review_id"]
                for one in workplace.json("reviews")["reviews"]
                if one["run_id"] == "slow-1"
            ]
        process.send_signal(signal.SIGSTOP)
        yield found[0]
    finally:
        process.kill()
        process.communicate()


def test_it_did_not_happen_is_refused_while_the_old_process_may_be_alive(
    stopped: str, workplace: Workplace
) -> None:
    words = ("decide", stopped, "did-not-happen", "--why", "no trace of it")
    refused = workplace.cli(*words)
    assert refused.exit_code == 1
    assert "may still be running" in refused.stderr
    assert status_of(workplace, stopped) == "open"
    shown = workplace.cli("decide", stopped).stdout
    assert "may still be running: its process, pid " in shown
    assert "did-not-happen --holder-stopped --why TEXT" in shown
    attested = workplace.cli(*words, "--holder-stopped")
    assert attested.exit_code == 0
    assert "is open in a live process" in attested.stdout.splitlines()[-1]


def test_the_next_review_of_the_same_run_is_named(workplace: Workplace) -> None:
    # Two calls are in doubt at the same time: killed while two branches were running.
    program = (
        "import nottwice as nt, os, signal, threading\n"
        "met = threading.Barrier(2)\n"
        "@nt.tool('unsafe_on_replay')\n"
        "def both(number: int) -> None:\n"
        "    met.wait(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "with nt.run('two-1', store='agent.db'): nt.map(both, [1, 2])\n"
    )
    (workplace.folder / "two.py").write_text(program)
    for _ in range(2):
        workplace.process(sys.executable, "two.py")
    mine = [
        one["review_id"] for one in workplace.json("reviews")["reviews"] if one["run_id"] == "two-1"
    ]
    assert len(mine) == 2
    last = workplace.cli("decide", mine[0], "did-not-happen", "--why", "x").stdout.splitlines()[-1]
    assert last == (
        f"Run 'two-1' still waits for 1 more: nottwice decide {mine[1]} --store {workplace.store}"
    )


def test_the_command_of_the_error_works_as_printed(workplace: Workplace) -> None:
    error = workplace.agent("handle", "ticket-9").stderr.strip().splitlines()[-1]
    command = error.partition("Decide with: ")[2]
    assert command.startswith("nottwice decide ")
    shown = workplace.shell(f"cd / && {command}")
    assert shown.exit_code == 2
    assert "refund" in shown.stdout
    decided = workplace.shell(f"cd / && {command} did-not-happen --why 'looked at the bank'")
    assert decided.exit_code == 0
    assert workplace.agent("handle", "ticket-9").exit_code == 0
