"""Could a distributed database carry a ledger? Its keys begin with the run (P370)."""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.store.postgres.place import read_place
from nottwice.store.postgres.store import PostgresStore
from tests.postgres import server
from tests.postgres.partitioning import partition, unique_indexes
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


def test_a_ledger_that_is_partitioned_by_run_works_as_before(url: str) -> None:
    schema = read_place(url).schema
    with server.connected() as connection:
        partition(connection, schema, PARTS)
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
