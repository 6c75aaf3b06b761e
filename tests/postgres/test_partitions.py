"""Could a distributed database carry a ledger? Its keys begin with the run (P370)."""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.store.postgres.place import read_place
from nottwice.store.postgres.store import PostgresStore
from tests.postgres import server
from tests.postgres.partitioning import partition, tables_of_runs, unique_indexes
from tests.store.samples import NOW

PARTS = 4
ONLY_ONE_OVER_ALL_RUNS = ("reviews", "reviews_id")
"""People type the id of a review."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = server.ledger_url(tmp_path)
    PostgresStore(made, now=NOW).close()
    return made


def test_the_keys_of_all_rows_of_a_run_begin_with_the_run(url: str) -> None:
    with server.connected() as connection:
        found = unique_indexes(connection, read_place(url).schema)
    assert len(found) >= 10
    others = [index for index, first in found.items() if first != "workflow_id"]
    assert others == [ONLY_ONE_OVER_ALL_RUNS]


@pytest.mark.parametrize("by_group", [False, True], ids=["by run", "by group"])
def test_a_ledger_that_is_partitioned_works_as_before(url: str, by_group: bool) -> None:
    schema = read_place(url).schema
    with server.connected() as connection:
        partition(connection, schema, PARTS, by_group=by_group)
        connection.commit()
    sent: list[int] = []

    @nt.tool("unsafe_on_replay", name="partitioned_send")
    def send(number: int) -> int:
        sent.append(number)
        if number == 7 and sent.count(7) == 1:
            raise ConnectionError("the answer was lost")
        return number

    for _ in range(2):
        for number in range(20):
            try:
                with nt.run(f"order-{number}", store=url, tags={"customer": f"c{number % 3}"}):
                    send(number)
            except nt.NottwiceError:
                assert number == 7
    assert sent == list(range(20))
    with nt.Reviews(url) as inbox:
        (case,) = inbox.open()
        inbox.decide(case.review.review_id, "did-not-happen", by="ann", why="looked")
    with nt.run("order-7", store=url):
        assert send(7) == 7
    with nt.Ledger(url) as ledger:
        assert len(list(ledger.runs(tags={"customer": "c1"}))) == 7
    with server.connected() as connection:
        counts = [
            connection.execute(f'SELECT count(*) FROM "{schema}".runs_{part}').fetchone()
            for part in range(PARTS)
        ]
    assert all(count is not None and count[0] > 0 for count in counts)


def test_all_rows_of_a_group_are_in_one_partition_where_one_run_is_looked_for(url: str) -> None:
    """The group is the partition key of calls that are runs of their own (P300, P301)."""
    schema = read_place(url).schema
    with server.connected() as connection:
        tables = tables_of_runs(connection, schema)
        partition(connection, schema, PARTS, by_group=True)
        connection.commit()

    @nt.tool("unsafe_on_replay", name="partitioned_pay")
    def pay(cents: int) -> int:
        if cents == 3:
            raise ConnectionError("the answer was lost")
        return cents

    with nt.Ledger(url) as ledger:
        for order in range(12):
            for cents in range(3):
                ledger.once(f"shop/order-{order}", f"pay/{cents}", pay, {"cents": cents})
        with pytest.raises(nt.RunBlocked):
            ledger.once("shop/order-5", "doubt", pay, {"cents": 3})
        # The doubt holds back its group, wherever it is, and no other.
        with pytest.raises(nt.RunBlocked):
            ledger.once("shop/order-5", "more", pay, {"cents": 9})
        ledger.once("shop/order-6", "more", pay, {"cents": 9})
    with server.connected() as connection:
        filled = set()
        for table in tables:
            rows = connection.execute(
                f"SELECT regexp_replace(workflow_id, '/[^/]*$', ''), tableoid FROM"
                f' "{schema}"."{table}" WHERE workflow_id LIKE \'shop/%\''
            ).fetchall()
            parts: dict[str, set[int]] = {}
            for group, part in rows:
                parts.setdefault(group, set()).add(part)
            assert all(len(where) == 1 for where in parts.values()), table
            if len(parts) == 12:
                assert len(set.union(*parts.values())) > 1
                filled.add(table)
        assert {"runs", "tool_call_results", "openings", "outbox"} <= filled
        plan = connection.execute(
            f"EXPLAIN SELECT 1 FROM \"{schema}\".runs WHERE workflow_id = 'shop/order-5/doubt'"
        ).fetchall()
        assert sum(" on runs_" in line for (line,) in plan) == 1
