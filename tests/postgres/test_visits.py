"""Is a visit of an adapter on PostgreSQL resolved wherever its connection breaks? (P255)"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nottwice.errors import CommitUnknown, StoreError
from nottwice.langchain.rows import CheckpointKey, Rows
from nottwice.store.postgres.schema import roles_script
from nottwice.store.postgres.store import PostgresStore
from nottwice.store.visits import Ask, VisitCommit
from tests.langchain.samples import save, values_of
from tests.postgres import server
from tests.postgres.cutting import WAYS, Cutter, can_cut, cutter
from tests.store.samples import NOW, note, noted

CREATE = "CREATE TABLE IF NOT EXISTS nottwice.guest (number bigint PRIMARY KEY)"
ADD = "INSERT INTO nottwice.guest (number) VALUES (%(number)s) ON CONFLICT DO NOTHING"
ALL = "SELECT number FROM nottwice.guest ORDER BY number"


def adding(*numbers: int) -> VisitCommit:
    def work(ask: Ask) -> None:
        for number in numbers:
            ask(ADD, {"number": number})

    return VisitCommit("test", work=work)


def added(store: PostgresStore) -> list[int]:
    return [number for (number,) in store.look_up(ALL, {})]


def with_table(store: PostgresStore) -> PostgresStore:
    store.commit(VisitCommit("test", work=lambda ask: ask(CREATE, {})))
    return store


@pytest.fixture
def proxy() -> Iterator[Cutter]:
    if not can_cut():
        pytest.skip("the proxy is for a server of our own")
    with cutter() as one:
        yield one


@pytest.mark.parametrize("way", WAYS)
def test_a_visit_cut_anywhere_is_resolved_and_made_once(
    proxy: Cutter, way: str, tmp_path: Path
) -> None:
    url = proxy.url(tmp_path, lease_seconds=99999)
    store = with_table(PostgresStore(url, now=NOW, patience_seconds=0.1))
    request, cut = 0, True
    while cut:
        request += 1
        proxy.cut(way, request=request)
        store.commit(adding(2 * request, 2 * request + 1))
        cut = bool(proxy.cuts)
        proxy.mend()
        assert added(store) == list(range(2, 2 * request + 2)), f"cut {way}, request {request}"
    assert request > 4
    store.close()


def test_a_visit_is_unknown_if_the_server_does_not_come_back(proxy: Cutter, tmp_path: Path) -> None:
    url = proxy.url(tmp_path, lease_seconds=99999)
    store = with_table(PostgresStore(url, now=NOW, patience_seconds=0.1))
    store.commit(adding(1))
    proxy.cut("after", request=4, every_time=True)
    with pytest.raises(CommitUnknown, match="may or may not be durable"):
        store.commit(adding(2))
    proxy.cut("before", request=1, every_time=True)
    with pytest.raises(StoreError, match="cannot be reached"):
        store.commit(adding(3))
    proxy.mend()
    assert added(store) == [1, 2]
    store.close()


def test_visits_and_commits_in_one_batch_are_each_told_their_outcome(tmp_path: Path) -> None:
    store = with_table(PostgresStore(server.ledger_url(tmp_path), now=NOW))

    def refused(ask: Ask) -> None:
        adding(2).work(ask)
        raise StoreError("It was refused.")

    batch = [adding(1), note(1), VisitCommit("test", work=refused), note(2), adding(3)]
    outcomes = store._commit_many(batch)
    assert [str(one) for one in outcomes] == ["None", "None", "It was refused.", "None", "None"]
    assert added(store) == [1, 3]
    assert sorted(noted(store)) == [1, 2]
    store.close()


def test_a_visit_that_the_server_refuses_writes_nothing(tmp_path: Path) -> None:
    store = with_table(PostgresStore(server.ledger_url(tmp_path), now=NOW))
    broken = VisitCommit("test", work=lambda ask: ask("SELECT * FROM nottwice.missing", {}))
    with pytest.raises(StoreError, match=r"refused .*missing.*Nothing was written"):
        store.commit(broken)
    store.commit(adding(1))
    assert added(store) == [1]
    store.close()


def test_a_writer_keeps_checkpoints_once_the_owner_has_created_their_tables(tmp_path: Path) -> None:
    url = server.LEDGERS.url("writer", tmp_path)
    schema = server.LEDGERS.schema(tmp_path)
    key = CheckpointKey("t", "", "1")
    writer = PostgresStore(url, now=NOW)
    with pytest.raises(StoreError, match=r"no tables for LangGraph's checkpoints.*setup\(\)"):
        save(Rows(writer), key, {"messages": [1]})
    owner = PostgresStore(server.with_words(server.url(), schema=schema), now=NOW)
    Rows(owner).set_up()
    with server.connected() as connection:
        connection.execute("SELECT pg_advisory_lock(1)")
        connection.execute(roles_script(schema))
    save(Rows(writer), key, {"messages": [1]})
    assert values_of(Rows(writer), key) == {"messages": [1]}
    Rows(writer).remove_thread("t")
    reader = PostgresStore(server.LEDGERS.url("reader", tmp_path), now=NOW)
    assert Rows(reader).newest("t", "") is None
    with pytest.raises(StoreError, match="may not"):
        save(Rows(reader), key, {"messages": [1]})
    with server.connected() as connection:
        connection.execute(
            f"DROP TABLE {schema}.langgraph_checkpoints, {schema}.langgraph_values, "
            f"{schema}.langgraph_writes"
        )
    for store in (writer, owner, reader):
        store.close()
