"""Can readers only read, and operators decide and forge nothing? (L9, P60)"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import nottwice as nt
from nottwice.errors import StoreError
from nottwice.model.review import Verb
from nottwice.model.runs.workers import WorkerRecord
from nottwice.reviews.decide import decide
from nottwice.store.interface import Commit, ReviewWrite
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance.bench import everything
from tests.fakes import FakeClock
from tests.postgres import server
from tests.store.samples import (
    NOW,
    RESULT,
    audit,
    claim,
    decision,
    event,
    evidence,
    follow,
    intent,
    pending,
    review,
    told,
)


class Ledgers:
    """One ledger as three users see it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.writer = self.open("writer")
        self.reader = self.open("reader")
        self.operator = self.open("operator")
        self.fence = claim(self.writer)
        self.row = pending()
        self.writer.commit(intent(self.row, self.fence, reviews=(ReviewWrite(review()),)))

    def open(self, user: str) -> PostgresStore:
        return PostgresStore(server.LEDGERS.url(user, self.place), now=NOW)

    def execute(self, user: str, sql: str) -> None:
        """What an attacker tries without nottwice."""
        text = sql.replace("nottwice.", (self.place / "schema").read_text() + ".")
        with server.connected(server.as_user(f"test_{user}", server.url())) as connection:
            connection.execute(text)

    def close(self) -> None:
        for store in (self.writer, self.reader, self.operator):
            store._held.clear()
            store.close()


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledgers]:
    """One for all tests: no test here changes what another one reads."""
    three = Ledgers(tmp_path_factory.mktemp("roles"))
    yield three
    three.close()


FORGERIES = {
    "a receipt": "UPDATE nottwice.tool_call_results SET status = 'DONE', result_json = '1'",
    "other arguments": "UPDATE nottwice.tool_call_results SET args_json = '{}'",
    "a row of its own": "INSERT INTO nottwice.tool_call_results DEFAULT VALUES",
    "no row": "DELETE FROM nottwice.tool_call_results",
    "another holder": "UPDATE nottwice.runs SET holder_id = 'me', epoch = 9",
    "another status": "UPDATE nottwice.runs SET status = 'completed'",
    "evidence": "INSERT INTO nottwice.evidence DEFAULT VALUES",
    "no evidence": "DELETE FROM nottwice.evidence",
    "another history": "UPDATE nottwice.audit SET who = 'bob'",
    "no history": "DELETE FROM nottwice.audit",
    "another question": "UPDATE nottwice.reviews SET summary = 'send the money'",
    "no question": "DELETE FROM nottwice.reviews",
    "a state": "UPDATE nottwice.checkpoints SET state_json = '{}'",
    "a graph": "INSERT INTO nottwice.graphs VALUES ('g', '{}', 0)",
    "a holder": "UPDATE nottwice.holders SET lease_until = now()",
    "a table": "CREATE TABLE nottwice.mine (x int)",
    "no table": "DROP TABLE nottwice.audit",
}


@pytest.mark.parametrize("user", ["reader", "operator"])
@pytest.mark.parametrize("what", FORGERIES)
def test_only_a_writer_touches_the_rows(ledgers: Ledgers, user: str, what: str) -> None:
    before = everything(ledgers.reader)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ledgers.execute(user, FORGERIES[what])
    assert everything(ledgers.reader) == before


WRITERS_FORGERIES = (
    "other arguments",
    "no row",
    "no evidence",
    "another history",
    "no history",
    "another question",
    "no question",
    "a table",
    "no table",
)


@pytest.mark.parametrize("what", WRITERS_FORGERIES)
def test_not_even_a_writer_changes_what_was_first_written(ledgers: Ledgers, what: str) -> None:
    before = everything(ledgers.reader)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ledgers.execute("writer", FORGERIES[what])
    assert everything(ledgers.reader) == before


def test_a_reader_and_an_operator_cannot_write_a_receipt_through_the_store(
    ledgers: Ledgers,
) -> None:
    receipt = follow(ledgers.row.done(RESULT, now=NOW), ledgers.row, ledgers.fence)
    for store in (ledgers.reader, ledgers.operator):
        with pytest.raises(StoreError, match=r"may not do that.*Nothing was written"):
            store.commit(receipt)
    decided = ReviewWrite(review().decided(decision()), 1)
    for commit in (
        Commit(workflow_id="run", reviews=(decided,)),
        Commit(workflow_id="run", audit=(audit(),)),
        told(event()),
    ):
        with pytest.raises(StoreError, match="may not do that"):
            ledgers.reader.commit(commit)
    with pytest.raises(StoreError, match="may not do that"):
        ledgers.operator.commit(Commit(workflow_id="run", evidence=(evidence(),)))
    assert ledgers.writer.calls("run") == [ledgers.row]


def test_an_operator_decides_and_tells_and_the_holder_continues(ledgers: Ledgers) -> None:
    decide(
        ledgers.operator,
        FakeClock(NOW),
        review().review_id,
        Verb.HAPPENED,
        by="ann",
        why="looked",
        result={"id": 7},
        has_result=True,
    )
    ledgers.operator.commit(told(event()))
    (decided,) = ledgers.writer.open_reviews("run")
    assert decided.decision is not None
    assert decided.decision.verb is Verb.HAPPENED
    assert [entry.who for entry in ledgers.reader.audit("run")] == ["ann"]
    assert ledgers.reader.events("run") == [event()]


def test_a_writer_announces_its_workers_and_the_others_only_see_them(ledgers: Ledgers) -> None:
    worker = WorkerRecord("w", ledgers.writer.holder().holder_id, ("a@1.0.0",), 8, NOW, NOW)
    for store in (ledgers.reader, ledgers.operator):
        with pytest.raises(StoreError, match="may not do that"):
            store.announce(worker)
    for _ in range(2):
        ledgers.writer.announce(worker)
    for store in (ledgers.reader, ledgers.operator):
        assert [one.graphs for one in store.workers(now=NOW)] == [worker.graphs]
        with pytest.raises(StoreError, match="may not do that"):
            store.forget_workers(["w"])
    ledgers.writer.forget_workers(["w"])
    assert ledgers.reader.workers(now=NOW) == []


def test_a_writer_opens_a_ledger_that_only_its_owner_may_change(tmp_path: Path) -> None:
    server.users()
    url = server.as_user("test_writer", server.ledger_url(tmp_path))
    with pytest.raises(nt.errors.StoreError, match=r"may not change it.*as the user who owns"):
        PostgresStore(url, now=NOW)
    with pytest.raises(nt.errors.NoLedger):
        PostgresStore(url, now=NOW, create=False)
