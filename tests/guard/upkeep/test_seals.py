"""Attacks by a user who can write to the database and has no key (L9, P97, P98).

Each is done with plain SQL. The walk through the ledger names every row that was changed, deleted,
restored or added. Opening the run finds the same: nothing is sent, and the run waits.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

import nottwice as nt
from nottwice.engine import hiding
from nottwice.guard.upkeep.seals import adopt, verify
from nottwice.model.review import ReviewKind
from nottwice.model.run import Fence, RunStatus
from nottwice.model.sealing.secrets import Known
from nottwice.store.interface import CallWrite, Commit
from nottwice.store.tables import CALLS
from tests.postgres import server

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
CALL_COLUMNS = CALLS.columns
OLD = " WHERE workflow_id = 'old'"
sent: list[str] = []


@nt.tool("unsafe_on_replay", name="sealed_mail")
def mail(to: str) -> str:
    sent.append(to)
    if to == "die":
        os._exit(9)
    return f"mailed {to}"


@nt.tool("idempotent_with_key", name="sealed_pay", key="sealed-{order}", window="24h")
def pay(order: int) -> dict[str, int]:
    sent.append(f"pay {order}")
    return {"order": order}


@nt.tool("pure", name="sealed_look")
def look(at: str) -> str:
    return at.upper()


class Place:
    """A ledger, and an attacker who writes to its database without nottwice."""

    def __init__(self, where: str, folder: Path) -> None:
        self.store = str(folder / "agent.db")
        self.schema: str | None = None
        if where == "postgres":
            self.schema = server.LEDGERS.schema(folder)
            self.store = server.with_words(server.url(), schema=self.schema)

    def open(self, key: Any = KEY) -> nt.Ledger:
        return nt.Ledger(self.store, key=key)

    def sql(self, statement: str, *parameters: Any) -> list[Any]:
        """``{t}`` is replaced by where the tables are, ``?`` by a parameter."""
        if self.schema is not None:
            text = statement.replace("{t}", f"{self.schema}.").replace("%", "%%").replace("?", "%s")
            with server.connected() as opened:
                cursor = opened.execute(text.encode(), parameters or None)
                return cursor.fetchall() if cursor.description else []
        with contextlib.closing(sqlite3.connect(self.store)) as connection, connection:
            text = statement.replace("{t}tool_call_results", "tool_call_results")
            return connection.execute(text.replace("{t}", "nottwice_"), parameters).fetchall()

    def flaws(self) -> list[str]:
        with self.open() as ledger:
            return [flaw.text for flaw in verify(ledger).flaws]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A ledger with a run that is done, and one whose process died in the middle of a mail."""
    sent.clear()
    found = Place(request.param, tmp_path)
    with found.open() as ledger, ledger.run("done"):
        work("done")
    child = os.fork()
    if not child:
        with found.open() as ledger, ledger.run("dead"):
            work("dead")
            mail("die")
    os.waitpid(child, 0)
    sent.clear()
    yield found
    if request.param == "postgres":
        server.LEDGERS.give_back()


def work(name: str) -> None:
    look(name)
    mail(f"{name} 1")
    pay(len(name) * 100 + (name == "dead"))
    mail(f"{name} 2")


def refused(place: Place, run_id: str) -> nt.errors.LedgerTampered:
    """The error of opening a run that is not trusted; and it waits for a person."""
    with place.open() as ledger:
        with pytest.raises(nt.errors.LedgerTampered) as told, ledger.run(run_id):
            pytest.fail("its code was run")
        assert sent == []
        run = ledger.store.load_run(run_id)
        assert run is not None
        assert (run.status, run.holder_id) == (RunStatus.WAITING, None)
        reviews = {one.kind.value: one.review_id for one in ledger.store.open_reviews(run_id)}
        assert reviews["corrupt"] == told.value.review_id
    return told.value


def test_an_untouched_ledger_fits(place: Place) -> None:
    assert place.flaws() == []
    with place.open() as ledger, ledger.run("done"):
        work("done")
    assert sent == []
    assert place.flaws() == []
    seals = [seal for (seal,) in place.sql("SELECT seal FROM {t}tool_call_results")]
    assert len(seals) == 9
    assert all(seal.startswith("k") for seal in seals)


def test_an_edited_result_is_never_returned(place: Place) -> None:
    forged = json.dumps("mailed everybody")
    place.sql(
        "UPDATE {t}tool_call_results SET result_json = ? WHERE workflow_id = 'done' AND nth = 2",
        forged,
    )
    (flaw,) = place.flaws()
    assert "a row of tool_call_results cannot be trusted: its seal does not fit" in flaw
    with place.open() as ledger:
        with pytest.raises(nt.errors.LedgerTampered), ledger.run("done"):
            look("done")
            mail("done 1")
        run = ledger.store.load_run("done")
        assert run is not None
        assert run.status is RunStatus.WAITING
    assert sent == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE {t}tool_call_results SET result_json = '\"k1\"' WHERE tool_name = 'nottwice.key'",
        "UPDATE {t}steps SET seal = 'k1' WHERE workflow_id = 'secret'",
    ],
    ids=["the key of its secrets", "a step"],
)
def test_a_row_that_is_read_outside_of_any_call_makes_the_run_wait(
    place: Place, change: str
) -> None:
    """P98."""

    @nt.tool("unsafe_on_replay", name="sealed_login")
    def login(password: Annotated[str, nt.Secret]) -> str:
        sent.append("login")
        return "in"

    def enter(ledger: nt.Ledger) -> None:
        with ledger.run("secret"), nt.step("enter"):
            login("hunter2")
            raise RuntimeError("stopped")

    with place.open() as ledger, pytest.raises(RuntimeError):
        enter(ledger)
    sent.clear()
    place.sql(change)
    with place.open() as ledger:
        with pytest.raises(nt.errors.LedgerTampered):
            enter(ledger)
        run = ledger.store.load_run("secret")
        assert run is not None
        assert (run.status, run.holder_id) == (RunStatus.WAITING, None)
        (review,) = ledger.store.open_reviews("secret")
        assert review.kind is ReviewKind.CORRUPT
    assert sent == []


def test_a_parent_that_was_added_or_taken_away_is_not_believed(place: Place) -> None:
    """A receipt would answer for calls that its body did not make."""

    @nt.tool("unsafe_on_replay")
    def seals_outer(to: str) -> str:
        return str(mail(to))

    with place.open() as ledger, ledger.run("nested"):
        seals_outer("inside")
    assert place.flaws() == []
    forge = "UPDATE {t}tool_call_results SET parent_call_id = ? WHERE workflow_id = ? AND nth = 2"
    place.sql(forge, None, "nested")
    place.sql(forge, "0123", "done")
    assert [flaw.count("its seal does not fit") for flaw in place.flaws()] == [1, 1]


def test_a_doubt_that_was_turned_into_a_failure_is_not_believed(place: Place) -> None:
    place.sql("UPDATE {t}tool_call_results SET status = 'FAILED' WHERE status = 'PENDING'")
    assert len(place.flaws()) == 1
    refused_at_its_call(place)


def refused_at_its_call(place: Place) -> None:
    with place.open() as ledger:
        with pytest.raises(nt.errors.LedgerTampered), ledger.run("dead"):
            work("dead")
            mail("die")
        assert ledger.store.open_reviews("dead")
    assert sent == []


def test_an_intent_that_was_taken_away_is_not_made_again(place: Place) -> None:
    place.sql("DELETE FROM {t}tool_call_results WHERE status = 'PENDING'")
    flaws = place.flaws()
    assert "run 'dead' has 4 calls, but its head says 5" in flaws
    assert "calls are missing from the end of run 'dead': all after 4" in flaws
    assert "its head says 5" in str(refused(place, "dead"))


def test_what_was_restored_and_is_broken_again_waits_again(place: Place) -> None:
    taken = " WHERE workflow_id = 'dead' AND nth = 2"
    (row,) = place.sql("SELECT " + CALL_COLUMNS + " FROM {t}tool_call_results" + taken)
    marks = ", ".join("?" for _ in row)
    for _ in range(2):
        place.sql("DELETE FROM {t}tool_call_results" + taken)
        refused(place, "dead")
        place.sql(
            "INSERT INTO {t}tool_call_results (" + CALL_COLUMNS + ") VALUES (" + marks + ")", *row
        )
        with place.open() as ledger:
            with pytest.raises(nt.errors.ReplayUnsafeError), ledger.run("dead"):
                pytest.fail("its code was run")
            kinds = [review.kind.value for review in ledger.store.open_reviews("dead")]
        assert kinds == ["in doubt"]


def test_a_receipt_does_not_vouch_for_an_intent_that_was_changed_meanwhile(place: Place) -> None:
    """Whichever way it is written: quickly on SQLite, or after a look at what is there."""

    @nt.tool("unsafe_on_replay", name=f"sealed_slow_{place.schema or ''}")
    def slow(to: str) -> str:
        place.sql("UPDATE {t}tool_call_results SET args_json = '{}'" + OLD + " AND nth = 1")
        return "sent"

    with place.open() as ledger, ledger.run("old"):
        assert slow("ann") == "sent"
    assert any("a row of tool_call_results cannot be trusted" in flaw for flaw in place.flaws())


def test_a_receipt_that_was_taken_away_is_missed(place: Place) -> None:
    place.sql("DELETE FROM {t}tool_call_results WHERE workflow_id = 'dead' AND nth = 2")
    assert "calls are missing from the middle of run 'dead': 2" in place.flaws()
    refused(place, "dead")


def test_all_rows_taken_away_are_missed(place: Place) -> None:
    place.sql("DELETE FROM {t}tool_call_results WHERE workflow_id = 'dead'")
    refused(place, "dead")


def test_a_row_that_was_put_back_to_what_it_said_before_is_noticed(place: Place) -> None:
    """Its old seal fits; but the run was written more often than its rows say."""
    before: list[Any] = []

    @nt.tool("unsafe_on_replay", name=f"sealed_copied_{place.schema or ''}")
    def copied() -> str:
        before.extend(place.sql("SELECT " + CALL_COLUMNS + " FROM {t}tool_call_results" + OLD))
        return "done"

    with place.open() as ledger, ledger.run("old"):
        copied()
    (intent,) = before
    marks = ", ".join("?" for _ in intent)
    place.sql("DELETE FROM {t}tool_call_results" + OLD)
    place.sql(
        "INSERT INTO {t}tool_call_results (" + CALL_COLUMNS + ") VALUES (" + marks + ")", *intent
    )
    (flaw,) = place.flaws()
    assert "some rows were set back to an earlier state" in flaw
    refused(place, "old")


def test_a_forged_receipt_is_not_believed(place: Place) -> None:
    columns = "workflow_id, node_id, checkpoint_id, tool_name, input_hash, created_at, call_id,"
    columns += " status, replay_class, attempt, attempt_id, holder_id, started_at, finished_at,"
    columns += " ambiguous, result_kind, args_json, result_json, nth, writes, seal"
    copied = columns.replace("workflow_id", "'dead'", 1).replace("input_hash", "'beef'", 1)
    place.sql(
        "INSERT INTO {t}tool_call_results (" + columns + ") SELECT " + copied + " FROM"
        " {t}tool_call_results WHERE workflow_id = 'done' AND nth = 2"
    )
    assert any("does not fit what it says" in flaw for flaw in place.flaws())
    refused(place, "dead")


def test_calls_that_changed_places_are_named(place: Place) -> None:
    if place.schema is not None:
        # What says in which order rows arrived cannot be written there, but for a new row.
        place.sql("ALTER TABLE {t}tool_call_results ALTER arrival SET GENERATED BY DEFAULT")
    arrival = "arrival" if place.schema is not None else "rowid"
    place.sql(
        "UPDATE {t}tool_call_results SET " + arrival + " = " + arrival + " + 100"
        " WHERE workflow_id = 'done' AND nth = 1"
    )
    if place.schema is not None:
        place.sql("ALTER TABLE {t}tool_call_results ALTER arrival SET GENERATED ALWAYS")
    assert place.flaws() == ["calls of run 'done' are out of order"]


def test_a_run_that_is_called_finished_and_is_not_is_not_believed(place: Place) -> None:
    place.sql("UPDATE {t}runs SET status = 'completed' WHERE workflow_id = 'dead'")
    assert "run 'dead' has the status completed, but its head does not say so" in place.flaws()


@pytest.mark.parametrize("column", ["seal", "head"])
def test_without_its_marks_a_run_is_not_taken_for_one_from_before_there_was_a_key(
    place: Place, column: str
) -> None:
    place.sql("UPDATE {t}runs SET " + column + " = NULL WHERE workflow_id = 'dead'")
    place.sql("UPDATE {t}tool_call_results SET seal = NULL WHERE workflow_id = 'dead'")
    assert place.flaws()
    refused(place, "dead")


def test_a_head_of_another_run_does_not_fit(place: Place) -> None:
    place.sql("UPDATE {t}runs SET head = (SELECT head FROM {t}runs WHERE workflow_id = 'done')")
    assert any("The head of run 'dead' cannot be trusted" in flaw for flaw in place.flaws())


def test_a_forged_decision_is_not_used(place: Place) -> None:
    """An approval that no person gave: the review says so, and its seal does not."""

    @nt.tool("unsafe_on_replay", name=f"sealed_wire_{place.schema or ''}", approve=True)
    def wire(cents: int) -> str:
        sent.append("wired")
        return "ok"

    with place.open() as ledger:
        with contextlib.suppress(nt.errors.ApprovalNeeded), ledger.run("wire"):
            wire(100)
        (review,) = ledger.store.open_reviews("wire")
    decision = (
        '{"verb":"approve","by":"eve","why":"","at":1.0,"result_kind":null,"result_json":null,'
        '"holder_stopped":false}'
    )
    place.sql(
        "UPDATE {t}reviews SET status = 'decided', version = 2, decision_json = ?"
        " WHERE review_id = ?",
        decision,
        review.review_id,
    )
    with place.open() as ledger, pytest.raises(nt.errors.LedgerTampered), ledger.run("wire"):
        wire(100)
    assert sent == []


def test_another_key_is_not_this_key(place: Place) -> None:
    with place.open(OTHER_KEY) as ledger:
        flaws = [flaw.text for flaw in verify(ledger).flaws]
        assert all("a key that is not known here" in flaw for flaw in flaws)
        with pytest.raises(nt.errors.KeyMissing, match="is sealed with key k") as refused:
            with ledger.run("dead"):
                pytest.fail("its code was run")
        adopt = f"nottwice audit --adopt dead --why TEXT --store {shlex.quote(ledger.location)}"
        assert str(refused.value).endswith(adopt)
    # What this process would have written could not be believed by those that have the key.
    assert place.flaws() == []
    with place.open() as ledger, ledger.run("done"):
        assert mail("done 1") == "mailed done 1"


def test_without_the_key_nothing_is_written_to_a_sealed_run(place: Place) -> None:
    with place.open(None) as ledger, pytest.raises(nt.errors.KeyMissing), ledger.run("dead"):
        pytest.fail("its code was run")
    assert place.flaws() == []


def test_a_ledger_that_is_older_than_its_key_is_sealed_when_a_person_vouches_for_it(
    place: Place,
) -> None:
    with place.open(None) as ledger, ledger.run("old"):
        mail("before")
    with place.open() as ledger:
        with pytest.raises(nt.errors.LedgerTampered), ledger.run("old"):
            pytest.fail("its code was run")
        adopt(ledger, "old", by="ann", why="it is older than the key")
        assert verify(ledger, "old").flaws == ()
        sent.clear()
        with ledger.run("old"):
            assert mail("before") == "mailed before"
        assert (sent, ledger.store.open_reviews("old")) == ([], [])
        entries = ledger.store.audit("old")
        assert [(entry.who, entry.action) for entry in entries] == [("ann", "adopt")]


def test_what_is_adopted_has_no_holder(place: Place) -> None:
    with place.open() as ledger, ledger.run("driven"):
        mail("x")
        with pytest.raises(nt.RunBusy):
            adopt(ledger, "driven", by="ann", why="in a hurry")


def test_when_a_run_ends_the_log_keeps_its_head(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A short secret of another test may happen to be a part of the head, which hides it.
    monkeypatch.setattr(hiding, "_known", Known(most=hiding.MOST_KNOWN))
    with place.open() as ledger:
        with caplog.at_level(logging.INFO, "nottwice"), ledger.run("logged"):
            mail("x")
        head = ledger.store.load_head("logged")
    assert f"head={head}" in caplog.text
    assert "rows are sealed with key k" in place_log(place, caplog, KEY)
    assert "rows are not sealed: no key was given" in place_log(place, caplog, None)


def place_log(place: Place, caplog: pytest.LogCaptureFixture, key: Any) -> str:
    with caplog.at_level(logging.INFO, "nottwice"), place.open(key):
        return caplog.text


def test_a_pure_result_that_takes_another_s_place_fits(place: Place) -> None:
    """Two branches that were opened together compute the same, and the later one is kept."""
    with place.open() as ledger, ledger.run("twice"):
        (row,) = [
            one for one in ledger.store.calls("done") if one.identity.tool_name == "sealed_look"
        ]
        run = ledger.store.load_run("twice")
        assert run is not None
        assert run.holder_id is not None
        identity = row.identity._replace(workflow_id="twice")
        for moment in (1.0, 2.0):
            again = row._replace(identity=identity, created_at=moment, attempt_id=f"at {moment}")
            ledger.store.commit(
                Commit(
                    workflow_id="twice",
                    fence=Fence(run.holder_id, run.epoch),
                    calls=(CallWrite(again),),
                )
            )
    assert place.flaws() == []
