"""Is a ledger created once, migrated completely, and refused if it is not ours? (P61)"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

import nottwice as nt
from nottwice.errors import LedgerCorrupt, NoLedger, SchemaTooNew, StoreError
from nottwice.model.call import CallStatus
from nottwice.store.migrations import ADDITIVE, Script
from nottwice.store.postgres.place import Place, read_place
from nottwice.store.postgres.schema import bring_forward, known_scripts, version_of
from nottwice.store.postgres.statements import SQL
from nottwice.store.postgres.store import PostgresStore
from tests.nursery import starting
from tests.postgres import server
from tests.store.samples import (
    NOW,
    RESULT,
    claim,
    follow,
    identity,
    intent,
    note,
    noted,
    pending,
    step,
)

MANY = """
import os, sys
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance.samples import note

url, count = sys.argv[1], int(sys.argv[2])
waiting, go = os.pipe()
children = []
for number in range(count):
    child = os.fork()
    if not child:
        os.close(go)
        os.read(waiting, 1)
        store = PostgresStore(url, now=0.0)
        store.commit(note(number))
        store.close()
        os._exit(0)
    children.append(child)
os.close(go)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return read_place(server.ledger_url(tmp_path))


@pytest.fixture
def connection() -> Iterator[psycopg.Connection]:
    with server.connected() as one:
        yield one


def test_sixteen_processes_open_an_empty_database_at_once(tmp_path: Path) -> None:
    url = server.ledger_url(tmp_path)
    starting.run([sys.executable, "-c", MANY, url, "16"], check=True)
    store = PostgresStore(url, now=NOW, create=False)
    assert sorted(noted(store)) == list(range(16))
    store.close()


def test_a_ledger_that_is_not_there_is_made_only_when_asked_for(tmp_path: Path) -> None:
    url = server.ledger_url(tmp_path)
    with pytest.raises(NoLedger, match="Nothing was created"):
        PostgresStore(url, now=NOW, create=False)
    with pytest.raises(NoLedger):
        nt.Ledger(url, create=False)
    with nt.Ledger(url) as ledger:
        assert ledger.store.runs() == []
    nt.Ledger(url, create=False).close()


def test_a_schema_of_other_things_is_left_alone(
    place: Place, connection: psycopg.Connection, tmp_path: Path
) -> None:
    connection.execute(f"CREATE SCHEMA {place.schema}")
    connection.execute(f"CREATE TABLE {place.schema}.runs (mine int)")
    with pytest.raises(StoreError, match="has other tables.*Nothing was changed"):  # noqa: RUF043
        PostgresStore(server.ledger_url(tmp_path), now=NOW)


def test_an_empty_schema_that_an_admin_has_created_is_used(
    place: Place, connection: psycopg.Connection, tmp_path: Path
) -> None:
    connection.execute(f"CREATE SCHEMA {place.schema}")
    PostgresStore(server.ledger_url(tmp_path), now=NOW).close()


def test_a_newer_ledger_is_not_touched(
    place: Place, connection: psycopg.Connection, tmp_path: Path
) -> None:
    PostgresStore(server.ledger_url(tmp_path), now=NOW).close()
    newest = known_scripts()[-1].number
    versions = f"{place.schema}.schema_version"
    connection.execute(f"INSERT INTO {versions} VALUES ({newest + 1})")
    with pytest.raises(SchemaTooNew, match="Upgrade nottwice here, too"):
        PostgresStore(server.ledger_url(tmp_path), now=NOW)
    connection.execute(f"DELETE FROM {versions}")
    with pytest.raises(LedgerCorrupt):
        PostgresStore(server.ledger_url(tmp_path), now=NOW)


def test_what_is_new_is_applied_once_and_all_or_nothing(
    place: Place, connection: psycopg.Connection
) -> None:
    scripts = list(known_scripts())
    good = Script(scripts[-1].number + 1, "CREATE TABLE nottwice.more (x int)")
    bad = Script(good.number + 1, "CREATE TABLE nottwice.much_more (x no_such_type)")
    bring_forward(connection, place)
    with pytest.raises(psycopg.errors.UndefinedObject):
        bring_forward(connection, place, scripts=[*scripts, good, bad])
    assert version_of(connection, place) == scripts[-1].number
    for _ in range(2):
        bring_forward(connection, place, scripts=[*scripts, good])
    assert version_of(connection, place, newest=99) == good.number


def test_a_ledger_goes_forward_once_and_keeps_what_it_holds(
    place: Place, connection: psycopg.Connection, tmp_path: Path
) -> None:
    store = PostgresStore(server.ledger_url(tmp_path), now=NOW)
    store.commit(note(1))
    store.close()
    newest = known_scripts()[-1].number
    colour = "ALTER TABLE nottwice.runs ADD COLUMN colour text NOT NULL DEFAULT 'red'"
    scripts = (
        *known_scripts(),
        Script(newest + 1, colour),
        Script(newest + 2, f"{ADDITIVE}\nCREATE TABLE nottwice.colours (name text)"),
    )

    def open_newer(_: int) -> None:
        with server.connected() as own:
            bring_forward(own, place, scripts=scripts)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(open_newer, range(4))) == [None] * 4
    versions = f"SELECT version, needs FROM {place.schema}.schema_version ORDER BY version"
    found = connection.execute(versions.encode()).fetchall()
    assert found[-2:] == [(newest + 1, newest + 1), (newest + 2, newest + 1)]
    assert [version for version, _ in found] == [script.number for script in scripts]
    kept = connection.execute(f"SELECT why FROM {place.schema}.audit".encode()).fetchall()
    assert kept == [("note 1",)]
    with pytest.raises(SchemaTooNew, match=f"which code for schema {newest + 1} or later can use"):
        PostgresStore(server.ledger_url(tmp_path), now=NOW)


def test_two_ledgers_of_one_database_know_nothing_of_each_other(tmp_path: Path) -> None:
    one, two = (PostgresStore(server.ledger_url(tmp_path / name), now=NOW) for name in "ab")
    one.commit(note(1))
    assert (noted(one), noted(two)) == ([1], [])
    one.close()
    two.close()


def test_commits_that_may_be_lost_are_refused_when_a_ledger_is_opened(tmp_path: Path) -> None:
    url = server.ledger_url(tmp_path)
    with pytest.raises(StoreError, match="synchronous_commit=off.*Nothing was written"):  # noqa: RUF043
        PostgresStore(server.with_words(url, options="-csynchronous_commit%3Doff"), now=NOW)
    for level in ("on", "local", "remote_write"):
        words = {"options": f"-csynchronous_commit%3D{level}"}
        PostgresStore(server.with_words(url, **words), now=NOW).close()


def test_commits_that_may_be_lost_are_refused_whenever_the_setting_changes(
    connection: psycopg.Connection, tmp_path: Path
) -> None:
    """A pooler may hand out another connection each time, so every transaction is asked."""
    server.users()
    store = PostgresStore(server.LEDGERS.url("writer", tmp_path), now=NOW)
    fence = claim(store)
    row = pending()
    store.commit(intent(row, fence, unless_blocked=True))
    connection.execute("ALTER ROLE test_writer SET synchronous_commit = off")
    try:
        store._connections.close()
        for commit in (note(1), follow(row.done(RESULT, now=NOW), row, fence)):
            with pytest.raises(StoreError, match="synchronous_commit=off"):
                store.commit(commit)
        assert (store.calls("run"), noted(store)) == ([row], [])
    finally:
        connection.execute("ALTER ROLE test_writer RESET synchronous_commit")
    store._connections.close()
    store.commit(follow(row.done(RESULT, now=NOW), row, fence))
    store._held.clear()
    store.close()


def test_commits_that_may_be_lost_are_refused_in_every_way_to_commit(
    connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Alone and in a batch, by one statement and by many; the setting comes and goes."""
    store = PostgresStore(server.LEDGERS.url("writer", tmp_path), now=NOW)
    runs = ["one", "two", "three"]
    fences = {run: claim(store, run) for run in runs}
    rows = {run: pending(identity(run=run)) for run in runs}
    intents = [intent(rows[run], fences[run], unless_blocked=True) for run in runs]
    receipts = [
        follow(rows[run].done(RESULT, now=NOW), rows[run], fences[run], **more)
        for run, more in zip(runs, ({}, {}, {"steps": (step("three"),)}), strict=True)
    ]
    batches = [intents, receipts, [*(note(2, run) for run in runs)]]
    try:
        for batch in batches:
            for setting in (
                "ROLE test_writer SET synchronous_commit = off",
                "DATABASE postgres SET synchronous_commit = off",
            ):
                connection.execute(f"ALTER {setting}")
                store._connections.close()
                refused = [type(one) for one in store._commits.commit_many(batch)]
                connection.execute(f"ALTER {setting.replace('SET', 'RESET').partition(' =')[0]}")
                assert refused == [StoreError] * len(batch)
            store._connections.close()
            assert store._commits.commit_many(batch) == [None] * len(batch)
    finally:
        connection.execute("ALTER ROLE test_writer RESET synchronous_commit")
        connection.execute("ALTER DATABASE postgres RESET synchronous_commit")
    shown = [call.status for run in runs for call in store.calls(run)]
    assert shown == [CallStatus.DONE] * len(runs)
    store._held.clear()
    store.close()


def test_a_url_that_promises_synchronous_standbys_is_checked_against_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = server.ledger_url(tmp_path, standbys="synchronous")
    PostgresStore(url, now=NOW).close()
    assert "synchronous_standby_names is empty" in caplog.text
    with pytest.raises(StoreError, match="standbys=synchronous.*Nothing was written"):  # noqa: RUF043
        PostgresStore(server.with_words(url, options="-csynchronous_commit%3Dlocal"), now=NOW)
    with pytest.raises(nt.errors.UsageError, match="standbys=all"):
        nt.Ledger(server.ledger_url(tmp_path, standbys="all"))


def test_a_server_whose_locks_do_not_lock_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "SELECT 'CockroachDB CCL v25.2.0 (x86_64-pc-linux-gnu)'"
    monkeypatch.setitem(SQL, "server_version", told)
    with pytest.raises(StoreError, match="does not lock"):
        PostgresStore(server.ledger_url(tmp_path), now=NOW)


def test_a_password_is_in_no_error_log_or_name(caplog: pytest.LogCaptureFixture) -> None:
    url = "postgresql://ann:hunter2@127.0.0.1:1/agents?connect_timeout=2"
    with pytest.raises(StoreError, match="cannot be reached") as refused:
        nt.Ledger(url)
    with pytest.raises(StoreError) as again:
        nt.run("run", store=url)
    texts = (str(refused.value), repr(refused.value), str(again.value), caplog.text)
    assert not any("hunter2" in text for text in texts)
    assert "postgresql://ann@127.0.0.1:1/agents" in str(refused.value)
