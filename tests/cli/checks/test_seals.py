"""Does `nottwice audit --verify` name what was changed, and does `--adopt` take a person's word?"""

from __future__ import annotations

import shlex
import sqlite3
from pathlib import Path

import pytest

import nottwice as nt
from tests.cli.workplace import Workplace

KEY = bytes(range(32)).hex()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("NOTTWICE_KEY", KEY)

    @nt.tool("unsafe_on_replay", name="verified_mail")
    def mail(to: str) -> str:
        return "ok"

    with nt.Ledger(tmp_path / "agent.db", key=KEY) as ledger:
        for run_id in ("ticket-7", "ticket-8"):
            with ledger.run(run_id):
                mail("ann")
                mail("bob")
    return Workplace(tmp_path)


def tamper(place: Workplace, statement: str) -> None:
    connection = sqlite3.connect(place.folder / "agent.db")
    with connection:
        connection.execute(statement)
    connection.close()


def test_the_way_out_for_one_run_works_as_printed_whatever_the_run_is_called(
    place: Workplace,
) -> None:
    run_id = "-it's odd; echo $HOME"
    with nt.Ledger(place.store, key=KEY) as ledger, ledger.run(run_id):
        pass
    quoted = "'" + run_id.replace("'", "''") + "'"
    tamper(place, f"UPDATE nottwice_runs SET head = 'odd' WHERE workflow_id = {quoted}")
    printed = place.cli("audit", "--verify", "--", run_id).stdout.splitlines()[-1]
    program, *words = shlex.split(printed)
    assert (program, words[-2:]) == ("nottwice", ["--", run_id])
    ended = place.cli(*words)
    assert (ended.exit_code, "Sealed 1 run" in ended.stdout) == (0, True), ended.output


def test_an_untouched_ledger_is_as_it_was_written(place: Workplace) -> None:
    ended = place.cli("audit", "--verify")
    assert (ended.exit_code, ended.stdout) == (
        0,
        "Every row of 2 runs carries a seal that fits, and no call is missing.\n"
        "Not covered: reviews, events, charges and audit entries that were deleted, or put back to "
        "what they said before.\n",
    )


def test_what_does_not_fit_is_named_and_the_exit_code_is_3(place: Workplace) -> None:
    tamper(place, "DELETE FROM tool_call_results WHERE workflow_id = 'ticket-7' AND nth = 1")
    ended = place.cli("audit", "--verify")
    assert ended.exit_code == 3
    assert "run 'ticket-7' has 1 calls, but its head says 2" in ended.stdout
    assert "calls are missing from the middle of run 'ticket-7': 1" in ended.stdout
    assert "in 1 run of 2" in ended.stdout
    assert "nottwice audit --adopt RUN --why TEXT" in ended.stdout
    found = place.json("audit", "--verify", "ticket-7")
    assert (found["runs"], [flaw["run_id"] for flaw in found["flaws"]]) == (1, ["ticket-7"] * 2)
    assert list(found["heads"]) == ["ticket-7"]
    assert place.cli("audit", "--verify", "ticket-8").exit_code == 0


def test_the_person_who_vouches_for_rows_is_on_record(place: Workplace) -> None:
    tamper(place, "DELETE FROM tool_call_results WHERE workflow_id = 'ticket-7' AND nth = 1")
    ended = place.cli("audit", "--adopt", "ticket-7", "--by", "ann", "--why", "it was a test mail")
    assert ended.exit_code == 0
    assert ended.stdout.startswith("Sealed 1 run as they are now, vouched for by ann.")
    assert place.cli("audit", "--verify").exit_code == 0
    (entry,) = place.json("audit", "ticket-7")["entries"]
    assert (entry["who"], entry["action"], entry["why"]) == ("ann", "adopt", "it was a test mail")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--verify", "--adopt"), "give one of them"),
        (("--adopt",), "say how you know, with --why TEXT"),
        (("--adopt", "--why", " "), "say how you know, with --why TEXT"),
        (("--why", "so"), "belong to --adopt: add it"),
    ],
)
def test_bad_words_are_refused(place: Workplace, words: tuple[str, ...], said: str) -> None:
    ended = place.cli("audit", *words)
    assert ended.exit_code == 2
    assert said in ended.stderr


def test_without_a_key_nothing_can_be_checked(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTTWICE_KEY")
    ended = place.cli("audit", "--verify")
    assert ended.exit_code == 1
    assert "nottwice key" in ended.stderr


@pytest.mark.parametrize("store", ["agent.db", "file:runs"])
def test_an_event_for_a_run_that_is_not_there_yet_is_no_tampering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    monkeypatch.setenv("NOTTWICE_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    place = Workplace(tmp_path)
    nt.Ledger(store, key=KEY).close()
    for word in ("paid", "shipped"):
        assert place.cli("send", "later-1", word, "--store", store).exit_code == 0
    assert place.cli("audit", "--verify", "--store", store).exit_code == 0
    with nt.Ledger(store, key=KEY) as ledger, ledger.run("later-1"):
        assert nt.receive("paid", label="payment") is None
    assert place.cli("audit", "--verify", "--store", store).exit_code == 0


def test_an_event_that_was_changed_or_whose_run_is_gone_is_named(place: Workplace) -> None:
    assert place.cli("send", "later-1", "paid", "--data", "7").exit_code == 0
    tamper(place, "UPDATE nottwice_events SET event_json = '8'")
    ended = place.cli("audit", "--verify")
    assert ended.exit_code == 3
    assert "a row of events cannot be trusted" in ended.stdout
    taken = "event_json = '7', received_by = 'a call', received_at = 1"
    tamper(place, f"UPDATE nottwice_events SET {taken}")
    assert "run 'later-1' no longer exists" in place.cli("audit", "--verify").stdout


def test_events_from_before_the_key_are_sealed_by_adopt(place: Workplace) -> None:
    assert place.cli("send", "later-1", "paid").exit_code == 0
    tamper(place, "UPDATE nottwice_events SET seal = NULL")
    assert place.cli("audit", "--verify").exit_code == 3
    assert place.cli("audit", "--adopt", "--by", "ann", "--why", "older").exit_code == 0
    assert place.cli("audit", "--verify").exit_code == 0


@pytest.mark.parametrize("file", ["'other.md'", "NULL"])
def test_the_file_of_a_step_that_was_changed_or_taken_away_is_named(
    place: Workplace, file: str
) -> None:
    flow = nt.Graph("report", version="1.0.0")
    flow.node(name="write")(lambda state: {"output_file": "may.md"})
    with nt.Ledger(place.folder / "agent.db", key=KEY) as ledger:
        flow.run("ticket-9", {}, store=ledger)
    assert place.cli("audit", "--verify", "ticket-9").exit_code == 0
    tamper(place, f"UPDATE nottwice_steps SET output_file = {file} WHERE workflow_id = 'ticket-9'")
    assert place.cli("audit", "--verify", "ticket-9").exit_code == 3


@pytest.mark.parametrize("store", ["agent.db", "file:runs"])
@pytest.mark.parametrize("named", ["ticket-7", ""])
def test_a_ledger_that_is_older_than_its_key_is_sealed_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    place = Workplace(tmp_path)
    with nt.Ledger(store) as ledger, ledger.run("ticket-7"):
        pass
    monkeypatch.setenv("NOTTWICE_KEY", KEY)
    with pytest.raises(nt.errors.LedgerTampered, match=r"nottwice audit (ticket-7 )?--adopt"):
        with nt.run("ticket-7", store=store):
            pass
    assert "in 1 run of 1" in place.cli("audit", "--verify", "--store", store).stdout
    words = ["audit", "--adopt", *([named] if named else []), "--why", "older", "--store", store]
    assert "Sealed 1 run" in place.cli(*words).stdout
    assert place.cli("audit", "--verify", "--store", store).exit_code == 0
    with nt.run("ticket-7", store=store):
        pass


@pytest.mark.parametrize("store", ["agent.db", "file:runs"])
def test_a_copy_of_a_sealed_ledger_is_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    monkeypatch.setenv("NOTTWICE_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    with nt.run("ticket-7", store=store):
        pass
    copy = "file:copy" if store.startswith("file:") else "copy"
    nt.backup("copy", store=store)
    assert Workplace(tmp_path).cli("audit", "--verify", "--store", copy).exit_code == 0
