"""Do workers claim different runs, only their own, by an index, and like single claims? (P308)"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.run import RunRecord, RunStatus, Wait, WaitKind
from nottwice.model.sealing.keyring import Key, make_keyring
from nottwice.model.sealing.seal import Seals
from nottwice.store.claiming import ClaimedRun, ClaimRequest
from nottwice.store.interface import Claim, Commit, ReviewWrite, RunUpdate, commit_of
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance.bench import everything
from tests.kill.processes import wait_until
from tests.postgres import server
from tests.postgres.test_functions import use_of_indexes, without_functions
from tests.store.samples import NOW, event, identity, intent, pending, review, run_record, told

MINE = ("refund@1.0.",)


@pytest.fixture
def other(ledger: PostgresStore, tmp_path: Path) -> Iterator[PostgresStore]:
    """Another process on the same ledger, as far as a store can tell."""
    with closing(PostgresStore(server.ledger_url(tmp_path), now=NOW)) as store:
        yield store


def queue(store: PostgresStore, *names: str, graph: str = "refund@1.0.0", at: float = NOW) -> None:
    for place, name in enumerate(names):
        run = run_record(name, epoch=0, holder_id=None, claimed_at=None, graph_id=graph)
        run = replace(run, input_json="{}", updated_at=at + place, created_at=at + place)
        store.commit(Commit(workflow_id=name, claim=Claim(run)))


def begin(store: PostgresStore, *names: str, **update: Any) -> None:
    """Open runs and leave them, so that they can continue."""
    for one in take(store, len(names), only=names):
        assert one.run is not None
        fence = nt_fence(one.run)
        given = {"status": RunStatus.RUNNING, "at": one.found.updated_at, **update}
        left = RunUpdate(**given, release=True)
        store.commit(Commit(workflow_id=one.run.workflow_id, fence=fence, run=left))


def nt_fence(run: RunRecord) -> Any:
    fence = Claim(run).fence
    assert fence is not None
    return fence


def take(
    store: PostgresStore,
    most: int = 99,
    *,
    graphs: tuple[str, ...] = MINE,
    only: tuple[str, ...] = (),
    **asked: Any,
) -> list[ClaimedRun]:
    if only:
        ids = {run.workflow_id for run in store.runs()}
        asked["besides"] = ids - set(only)
    wanted = ClaimRequest(at=NOW + 500, most=most, graphs=graphs, **asked)
    return store.claim_ready(wanted)


def names(found: list[ClaimedRun]) -> list[str]:
    return [one.found.workflow_id for one in found]


def test_two_workers_that_look_at_the_same_moment_never_want_the_same_run(
    ledger: PostgresStore, other: PostgresStore
) -> None:
    queue(ledger, *(f"r{number:03}" for number in range(120)))
    start, claimed = threading.Barrier(2), dict[str, list[str]]()

    def work(name: str, store: PostgresStore) -> None:
        start.wait()
        mine = claimed[name] = []
        while found := take(store, 3):
            mine += names(found)

    threads = [threading.Thread(target=work, args=each) for each in (("a", ledger), ("b", other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed["a"] + claimed["b"]) == [f"r{number:03}" for number in range(120)]
    for name, store in (("a", ledger), ("b", other)):
        mine = store.holder().holder_id
        assert sorted(run.workflow_id for run in store.runs_held_by(mine)) == sorted(claimed[name])


def test_a_run_that_another_transaction_has_locked_is_skipped_and_not_waited_for(
    ledger: PostgresStore,
) -> None:
    queue(ledger, "a", "b", "c")
    schema = ledger._place.schema
    with server.connected() as connection, connection.transaction():
        connection.execute(f"SELECT 1 FROM {schema}.runs WHERE workflow_id = 'a' FOR UPDATE")
        assert names(take(ledger, 1)) == ["b"]
    assert names(take(ledger, 9)) == ["a", "c"]


def test_claiming_many_writes_what_as_many_claims_would_write(
    ledger: PostgresStore, tmp_path: Path
) -> None:
    with closing(PostgresStore(server.ledger_url(tmp_path / "alone"), now=NOW)) as alone:
        for store in (ledger, alone):
            queue(store, "r", "s")
        begin(ledger, "s")
        begin(alone, "s")
        found = take(ledger)
        mine, theirs = ledger.holder().holder_id, alone.holder().holder_id
        for one in found:
            assert one.run is not None
            same = replace(one, run=replace(one.run, holder_id=theirs))
            alone.commit(commit_of(same))
        for name in ("r", "s"):
            shown, expected = everything(ledger, name), everything(alone, name)
            assert replace(shown.pop("run"), holder_id="") == replace(
                expected.pop("run"), holder_id=""
            )
            assert shown == expected
            assert ledger.load_run(name) == next(
                one.run for one in found if one.found.workflow_id == name
            )
            openings = [replace(one, holder_id="") for one in ledger.openings(name)]
            assert openings == [replace(one, holder_id="") for one in alone.openings(name)]
            assert ledger.openings(name)[-1].holder_id == mine
            assert ledger.notices(run=name) == alone.notices(run=name)
        assert ledger.ready_runs(begun=True, now=NOW + 500, limit=9) == []
        # The next holder fences this one off, as after any other claim.
        assert {run.workflow_id for run in ledger.runs_held_by(mine)} == {"r", "s"}


def test_only_runs_of_its_graphs_are_claimed_in_every_patch_of_a_version(
    ledger: PostgresStore,
) -> None:
    queue(ledger, "other", graph="mail@1.0.0")
    queue(ledger, "major", graph="refund@2.0.0")
    queue(ledger, "minor", graph="refund@1.1.0")
    queue(ledger, "longer", graph="refund@1.0.10", at=NOW + 20)
    queue(ledger, "same", graph="refund@1.0.0", at=NOW + 10)
    queue(ledger, "alike", graph="a refund@1.0.0")
    assert names(take(ledger)) == ["same", "longer"]
    assert names(take(ledger, graphs=("mail@1.0.", "refund@2.0."))) == ["major", "other"]


def test_what_was_begun_comes_first_but_every_fourth_is_new(ledger: PostgresStore) -> None:
    begun, new = [f"b{number}" for number in range(8)], [f"n{number}" for number in range(4)]
    queue(ledger, *begun)
    begin(ledger, *begun)
    queue(ledger, *new, at=NOW + 100)
    found = names(take(ledger, 5, begun_first=1))
    assert found == ["b0", "n0", "b1", "b2", "b3"]
    assert names(take(ledger, 5, begun_first=1)) == ["b4", "n1", "b5", "b6", "b7"]
    assert names(take(ledger, 5, begun_first=3)) == ["n2", "n3"]


def test_a_run_that_sleeps_is_left_alone_and_one_whose_clock_was_ahead_is_not(
    ledger: PostgresStore,
) -> None:
    queue(ledger, "sleeps", "due", "asks")
    until = (NOW + 5000, NOW + 400, None)
    kinds = (WaitKind.TIMER, WaitKind.TIMER, WaitKind.EVENT)
    for name, moment, kind in zip(("sleeps", "due", "asks"), until, kinds, strict=True):
        wait = Wait(kind, "it", "node", moment)
        begin(ledger, name, status=RunStatus.WAITING, waits=(wait,))
    queue(ledger, "ahead", at=NOW + 9000)
    assert names(take(ledger)) == ["due", "ahead"]
    ledger.commit(told(event(run="asks", name="it")))
    (one,) = take(ledger)
    assert one.found.workflow_id == "asks"
    assert one.standing.events


def test_it_says_what_there_is_to_reconcile_as_a_separate_look_does(ledger: PostgresStore) -> None:
    queue(ledger, "r", "s", "t")
    (one,) = take(ledger, 1)
    assert one.run is not None
    fence = nt_fence(one.run)
    row = pending(identity("r"))
    ledger.commit(intent(row, fence))
    back = RunUpdate(RunStatus.RUNNING, NOW, release=True)
    ledger.commit(Commit(workflow_id="r", fence=fence, run=back))
    ledger.commit(Commit(workflow_id="s", reviews=(ReviewWrite(review(run="s")),)))
    for one in take(ledger):
        assert one.standing == ledger.standing(one.found.workflow_id)
        expected = {"r": (True, False), "s": (False, True), "t": (False, False)}
        assert one.standing[:2] == expected[one.found.workflow_id]


def test_runs_that_are_put_off_are_left_out(ledger: PostgresStore) -> None:
    queue(ledger, "a", "b", "c")
    assert names(take(ledger, 2, besides=("a", "with a \0"))) == ["b", "c"]


def test_a_sealed_run_is_not_claimed_without_the_key(tmp_path: Path) -> None:
    place = server.ledger_url(tmp_path)
    seals = Seals(make_keyring([Key("k1", b"k" * 32)]))
    with closing(PostgresStore(place, now=NOW, seals=seals)) as sealed:
        queue(sealed, "r")
        with closing(PostgresStore(place, now=NOW)) as bare:
            (one,) = take(bare)
            assert (one.run, one.found.epoch) == (None, 0)
        assert sealed.load_run("r") == one.found
        (one,) = take(sealed)
        assert one.run is not None
        assert sealed.flaws("r", thorough=True) == []


def test_a_ledger_without_the_function_is_claimed_from_one_by_one(tmp_path: Path) -> None:
    server.users()
    schema = server.LEDGERS.schema(tmp_path)
    without_functions(schema)
    with closing(PostgresStore(server.LEDGERS.url("writer", tmp_path), now=NOW)) as writer:
        queue(writer, "r")
        assert take(writer) == []
        assert not writer.claims_many
        assert [run.workflow_id for run in writer.ready_runs(begun=False, now=NOW, limit=9)] == [
            "r"
        ]
    PostgresStore(server.with_words(server.url(), schema=schema), now=NOW).close()


def test_a_writer_may_claim_and_a_reader_may_not(tmp_path: Path) -> None:
    server.users()
    with closing(PostgresStore(server.LEDGERS.url("writer", tmp_path), now=NOW)) as writer:
        queue(writer, "r")
        with closing(PostgresStore(server.LEDGERS.url("reader", tmp_path), now=NOW)) as reader:
            with pytest.raises(nt.errors.StoreError, match="may not"):
                take(reader)
        assert names(take(writer)) == ["r"]


MANY = 30_000
FILL = """
INSERT INTO nottwice.runs (workflow_id, status, epoch, created_at, updated_at, graph_id, input_json,
                           waits_json, wake_at, ready_at)
SELECT kind || n, CASE WHEN kind = 'sleeping' THEN 'waiting' ELSE 'running' END,
       CASE WHEN kind IN ('sleeping', 'left') THEN 1 ELSE 0 END, n, n,
       CASE WHEN kind IN ('foreign', 'left') THEN 'mail@1.0.0' ELSE 'refund@1.0.0' END, '{}',
       CASE WHEN kind = 'sleeping' THEN '[]' END,
       CASE WHEN kind = 'sleeping' THEN %(later)s + n END,
       CASE WHEN kind = 'sleeping' THEN %(later)s + n ELSE n END
  FROM generate_series(1, %(many)s) AS n,
       unnest(ARRAY['foreign', 'left', 'sleeping', 'queued']) AS kind
"""


@pytest.mark.parametrize("analyzed", [False, True])
def test_a_look_reads_a_few_entries_of_an_index_however_many_runs_wait(
    ledger: PostgresStore, analyzed: bool
) -> None:
    """Runs of other graphs, which come first, and runs that sleep are not read."""
    # The first look keeps a plan that was made for an empty table.
    assert take(ledger) == []
    schema = ledger._place.schema
    with server.connected() as connection:
        given = {"many": MANY, "later": int((NOW + 9000) * 1e6)}
        connection.execute(FILL.replace("nottwice.", schema + "."), given)
        if analyzed:
            connection.execute(f"VACUUM ANALYZE {schema}.runs")
        before = use_of_indexes(ledger), entries_read(schema)
        assert names(take(ledger, 16)) == [f"queued{number}" for number in range(1, 17)]
        # As of this look: its transaction has ended, so its figures are there.
        after = use_of_indexes(ledger), entries_read(schema)
    assert after[0]["runs"] == before[0]["runs"], "the whole table was read"
    assert after[1] - before[1] < 500


def entries_read(schema: str) -> int:
    with server.connected() as connection:
        found = connection.execute(
            "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = %s", (schema,)
        ).fetchone()
    assert found is not None
    return int(found[0])


def test_a_look_without_claiming_uses_the_same_indexes(ledger: PostgresStore) -> None:
    schema = ledger._place.schema
    with server.connected() as connection:
        given = {"many": MANY, "later": int((NOW + 9000) * 1e6)}
        connection.execute(FILL.replace("nottwice.", schema + "."), given)
        connection.execute(f"VACUUM ANALYZE {schema}.runs")
        for name in ("queued_runs", "ready_runs"):
            sql = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) " + ledger._sql(
                ledger._statements[name]
            )
            asked = {"without": ["refund@1.0.0"], "now": int((NOW + 500) * 1e6), "limit": 9}
            shown = "\n".join(row[0] for row in connection.execute(sql, asked))
            assert "Seq Scan on runs" not in shown
            assert "runs_queued" in shown or "runs_ready" in shown
            assert str(MANY) not in shown
    assert len(ledger.ready_runs(begun=False, now=NOW, limit=9, without=("refund@1.0.0",))) == 9


def test_what_is_ready_is_counted_up_to_a_bound_by_an_index(ledger: PostgresStore) -> None:
    """P313."""
    schema = ledger._place.schema
    with server.connected() as connection:
        given = {"many": MANY, "later": int((NOW + 9000) * 1e6)}
        connection.execute(FILL.replace("nottwice.", schema + "."), given)
        connection.execute(f"VACUUM ANALYZE {schema}.runs")
    before = use_of_indexes(ledger), entries_read(schema)
    found = ledger.count_ready(now=NOW, limit=100)
    after = use_of_indexes(ledger), entries_read(schema)
    assert [(one.graph_id, one.runs) for one in found] == [
        ("mail@1.0.0", 200),
        ("refund@1.0.0", 100),
    ]
    assert {one.oldest_at for one in found} == {1e-6}
    assert after[0]["runs"] == before[0]["runs"], "the whole table was read"
    assert after[1] - before[1] < 1000


# Nine runs are held by a process that is gone, so a worker also looks at what it left.
WAIT = """
INSERT INTO nottwice.runs (workflow_id, status, epoch, created_at, updated_at, graph_id, input_json,
                           waits_json, holder_id)
SELECT 'asks' || n, 'waiting', 1, n, n, 'mail@1.0.0', '{}', '[]',
       CASE WHEN n < 10 THEN 'gone' END
  FROM generate_series(1, %(many)s) AS n
"""


@pytest.mark.parametrize("analyzed", [False, True])
def test_nothing_that_a_worker_asks_reads_all_runs_however_many_wait(
    tmp_path: Path, analyzed: bool
) -> None:
    """A whole worker: its claims, who has died, what was left, and what no worker takes."""
    flow: nt.Graph[Any] = nt.Graph("mine", version="1.0.0")
    flow.node(name="only")(lambda state: {})
    schema, words = server.schema_for(tmp_path), {"application_name": "looked at"}
    with nt.Ledger(server.ledger_url(tmp_path, **words)) as ledger, server.connected() as watching:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue_all("mine", {f"mine{number}": {} for number in range(20)})
        given = {"many": MANY, "later": int((ledger.clock.now() + 9000) * 1e6)}
        for sql in (FILL, WAIT):
            watching.execute(sql.replace("nottwice.", schema + "."), given)
        if analyzed:
            watching.execute(f"VACUUM ANALYZE {schema}.runs")
        wait_for_figures(ledger)
        before = read_in_sequence(schema), entries_read(schema)
        worker = nt.Worker(app, concurrency=4, undeployable_after="0.001s")
        assert worker.run(until_idle=True).completed == 20
        wait_for_figures(ledger)
        after = read_in_sequence(schema), entries_read(schema)
    assert after[0] == before[0], "all runs were read"
    assert after[1] - before[1] < 10_000


def wait_for_figures(ledger: nt.Ledger) -> None:
    """Until all that its connections read is counted: they count when they end."""
    ledger.store.close()
    left = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'looked at'"
    with server.connected() as connection:
        wait_until(lambda: not connection.execute(left).fetchall())


def read_in_sequence(schema: str) -> int:
    """How many rows of the table of runs were read by walking through it."""
    with server.connected() as connection:
        found = connection.execute(
            "SELECT seq_tup_read FROM pg_stat_user_tables"
            " WHERE schemaname = %s AND relname = 'runs'",
            (schema,),
        ).fetchone()
    assert found is not None
    return int(found[0])
