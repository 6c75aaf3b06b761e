"""Do the functions keep good plans and read after locking, and does a ledger work without them?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from nottwice.model.run import Fence
from nottwice.store.interface import Blocked, Commit, ReviewWrite
from nottwice.store.postgres.functions import functions_script, name_of
from nottwice.store.postgres.schema import in_schema
from nottwice.store.postgres.statements import SQL
from nottwice.store.postgres.store import PostgresStore
from nottwice.store.tables import REVIEWS
from nottwice.testing.conformance.bench import everything
from tests.postgres import server
from tests.store.samples import NOW, RESULT, claim, follow, identity, intent, pending, review, step

CALLS = 40


def use_of_indexes(store: PostgresStore) -> dict[str, int]:
    """How often each index was looked at, and each table read as a whole."""
    schema = store._place.schema
    with store._connections.use() as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        found = connection.execute(
            "SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE schemaname = %s"
            " UNION ALL SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = %s",
            (schema, schema),
        )
        return dict(found.fetchall())


def make_calls(store: PostgresStore, fence: Fence) -> None:
    for number in range(CALLS):
        row = pending(identity(arguments=f"{number}"), attempt_id=f"{number}")
        store.commit(intent(row, fence, unless_blocked=True))
        store.commit(follow(row.done(RESULT, now=NOW), row, fence))


@pytest.mark.parametrize("analyzed", [False, True])
def test_no_plan_reads_more_than_one_row_of_a_table_that_was_empty_when_it_was_made(
    ledger: PostgresStore, analyzed: bool
) -> None:
    """What is looked at by run and time, or as a whole, gets slower with every call of a run."""
    fence = claim(ledger)
    if analyzed:
        with server.connected() as connection:
            for table in ("runs", "tool_call_results", "reviews"):
                connection.execute(f"ANALYZE {ledger._place.schema}.{table}")
    before = use_of_indexes(ledger)
    make_calls(ledger, fence)
    after = use_of_indexes(ledger)
    used = {name: after[name] - before[name] for name in after}
    assert used["tool_call_results_pkey"] >= CALLS
    assert used["reviews_blocking"] >= CALLS
    others = ("tcr_workflow", "runs", "tool_call_results", "reviews", "reviews_open")
    assert {name: used[name] for name in (*others, "reviews_pkey")} == dict.fromkeys(
        (*others, "reviews_pkey"), 0
    )


def until(happens: Callable[[], bool]) -> None:
    for _ in range(1000):
        if happens():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen within ten seconds")


def test_a_review_that_is_opened_while_an_intent_waits_for_the_run_holds_it_back(
    ledger: PostgresStore,
) -> None:
    fence = claim(ledger)
    schema = ledger._place.schema
    heard: list[BaseException] = []

    def ask() -> None:
        try:
            ledger.commit(intent(pending(), fence, unless_blocked=True))
        except BaseException as error:
            heard.append(error)

    with server.connected() as connection:
        connection.execute("BEGIN")
        connection.execute(f"SELECT 1 FROM {schema}.runs FOR UPDATE")
        asking = threading.Thread(target=ask)
        asking.start()
        with server.connected() as other:
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype <> 'advisory'"
            until(lambda: other.execute(waits).fetchone() == (1,))
        opened = REVIEWS.named(REVIEWS.row(review()))
        connection.execute(in_schema(SQL["add_review"], schema), opened)
        connection.execute("COMMIT")
        asking.join()
    assert [type(error) for error in heard] == [Blocked]
    assert ledger.calls("run") == []


def without_functions(schema: str) -> None:
    with server.connected() as connection:
        found = connection.execute(
            "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = %s::regnamespace",
            (schema,),
        ).fetchall()
        assert found
        for (function,) in found:
            connection.execute(f"DROP FUNCTION {function}")


def test_a_role_that_may_not_create_the_functions_works_without_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.users()
    schema = server.LEDGERS.schema(tmp_path)
    without_functions(schema)
    writer = PostgresStore(server.LEDGERS.url("writer", tmp_path), now=NOW)
    assert "lacks the functions of this nottwice" in caplog.text
    fence = claim(writer)
    row = pending()
    writer.commit(intent(row, fence, unless_blocked=True, steps=(step(),)))
    writer.commit(follow(row.done(RESULT, now=NOW), row, fence))
    assert writer.calls("run") == [row.done(RESULT, now=NOW)]
    assert everything(writer)["steps"] == [step()]
    with pytest.raises(psycopg.errors.UndefinedFunction), writer._connections.use() as connection:
        connection.execute(in_schema("SELECT " + name_of("write_pending") + "()", schema))
    # The owner of the ledger creates them, by opening it.
    PostgresStore(server.with_words(server.url(), schema=schema), now=NOW).close()
    with server.connected() as connection:
        named = in_schema(name_of("write_pending"), schema)
        assert connection.execute("SELECT to_regproc(%s)", (named,)).fetchone() == (named,)
    writer._held.clear()
    writer.close()


def test_a_function_does_nothing_that_its_caller_may_not_do(tmp_path: Path) -> None:
    server.users()
    schema = server.LEDGERS.schema(tmp_path)
    writer = PostgresStore(server.LEDGERS.url("writer", tmp_path), now=NOW)
    writer.commit(Commit(workflow_id="run", reviews=(ReviewWrite(review()),)))
    assert "SECURITY DEFINER" not in functions_script()
    calls = {
        "write_intent": "(1, 'h', 'r', 'n', 'c', 't', 'i', 1, 'x', 'PENDING', 'p', 1, 'a', 'h', 1,"
        " '{}')",
        "write_receipt": "(1, 'h', 'r', 'n', 'c', 't', 'i', 'a', 'DONE', 1, '1', 'plain')",
    }
    for function, given in calls.items():
        sql = in_schema("SELECT " + name_of(function) + given, schema)
        with (
            server.connected(server.as_user("test_reader", server.url())) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(sql)
    writer.close()
