"""Is a commit whose connection breaks resolved, and does no effect start before? (P56)"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import nottwice as nt
from nottwice.errors import CommitUnknown, StoreError
from nottwice.model.call import CallStatus
from nottwice.model.run import Fence
from nottwice.store.interface import Commit, Store
from nottwice.store.memory import MemoryStore
from nottwice.store.postgres.connections import ConnectionLost, PostgresConnections
from nottwice.store.postgres.place import read_place
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance.bench import everything
from nottwice.testing.conformance.commits import repeatable
from tests.postgres import server
from tests.postgres.cutting import WAYS, Cutter, can_cut, cutter
from tests.store.samples import NOW, audit, claim, identity, intent, pending

KINDS = tuple(repeatable(Fence("holder", 1)))


@pytest.fixture(scope="module")
def proxy() -> Iterator[Cutter]:
    if not can_cut():
        pytest.skip("the proxy is for a server of our own")
    with cutter() as one:
        yield one


@pytest.fixture(scope="module")
def behind(proxy: Cutter) -> Iterator[PostgresStore]:
    """A ledger behind the proxy, which loses patience soon."""
    store = PostgresStore(proxy.url(__name__, lease_seconds=99999), now=NOW, patience_seconds=0.1)
    yield store
    proxy.mend()
    store.close()


@pytest.fixture
def empty(behind: PostgresStore, proxy: Cutter) -> PostgresStore:
    proxy.mend()
    server.empty(server.schema_for(__name__))
    return behind


def cut_commit(store: PostgresStore, proxy: Cutter, kind: str, way: str, request: int) -> bool:
    """Commit while the connection breaks at this request. False: there was no such request."""
    commits = repeatable(claim(store))[kind]
    for commit in commits[:-1]:
        store.commit(commit)
    proxy.cut(way, request=request)
    store.commit(commits[-1])
    cut = bool(proxy.cuts)
    proxy.mend()
    return cut


@pytest.mark.sampled(part="sweeps", keep=16)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_cut_anywhere_is_resolved_and_written_once(
    empty: PostgresStore, proxy: Cutter, kind: str, way: str
) -> None:
    whole = MemoryStore()
    for commit in repeatable(claim(whole))[kind]:
        whole.commit(commit)
    expected = everything(whole)
    request = 1
    while cut_commit(empty, proxy, kind, way, request):
        shown = everything(empty)
        assert _without_holder(shown) == _without_holder(expected), f"cut {way} request {request}"
        server.empty(server.schema_for(__name__))
        request += 1
    assert request > 1, "nothing was cut"


def _without_holder(shown: dict[str, Any]) -> dict[str, Any]:
    run = shown["run"]
    kept = (run.status, run.epoch, run.waits, run.failure, run.holder_id is None) if run else None
    return {**shown, "run": kept}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mixed", [False, True])
def test_a_batch_cut_anywhere_is_resolved_member_by_member(
    empty: PostgresStore, proxy: Cutter, way: str, mixed: bool
) -> None:
    request, cut = 0, True
    while cut:
        request += 1
        runs = [f"{way} {request} {number}" for number in range(5)]
        rows = [pending(identity(run), attempt_id=run) for run in runs]
        fences = [claim(empty, run) for run in runs]
        pairs = zip(rows, fences, strict=True)
        commits = [intent(row, fence, unless_blocked=True) for row, fence in pairs]
        if mixed:
            commits[2] = intent(rows[2], fences[2], audit=(audit(runs[2], runs[2]),))
        proxy.cut(way, request=request)
        assert empty._commits.commit_many(commits) == [None] * 5
        cut = bool(proxy.cuts)
        proxy.mend()
        assert [empty.calls(run) for run in runs] == [[row] for row in rows]
    assert request > 1


READS: dict[str, Callable[[Store], object]] = {
    "load_run": lambda store: store.load_run("run"),
    "load_call": lambda store: store.load_call(identity()),
    "calls": lambda store: store.calls("run"),
    "calls_in_doubt": lambda store: store.calls_in_doubt("run"),
    "everything": lambda store: everything(store),
    "life_of": lambda store: store.life_of(store.holder().holder_id),
    "ready_runs": lambda store: store.ready_runs(begun=True, now=NOW, limit=9),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("read", READS)
def test_a_read_cut_anywhere_is_done_again(
    empty: PostgresStore, proxy: Cutter, read: str, way: str
) -> None:
    fence = claim(empty)
    empty.commit(intent(pending(), fence))
    expected = READS[read](empty)
    proxy.cut(way, request=1)
    assert READS[read](empty) == expected
    assert proxy.cuts == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("careful", [True, False])
def test_a_database_that_stays_away_leaves_a_commit_unknown_or_not_written(
    empty: PostgresStore, proxy: Cutter, way: str, careful: bool
) -> None:
    """Which of the two is what decides: nothing that is there may be called not written."""
    for request in (1, 2):
        fence = claim(empty, f"run {request}")
        row = pending(identity(f"run {request}"))
        proxy.cut(way, request=request, every_time=True)
        future = empty.commit_soon(intent(row, fence, unless_blocked=careful))
        told = future.exception(timeout=30)
        cut = bool(proxy.cuts)
        proxy.mend()
        assert cut == (told is not None), "success without an answer"
        if told is not None and not isinstance(told, CommitUnknown):
            assert isinstance(told, StoreError)
            assert "Nothing was written" in str(told)
            assert empty.calls(f"run {request}") == []
        # Whatever became of it: the same commit settles it.
        empty.commit(intent(row, fence, unless_blocked=careful))
        assert empty.calls(f"run {request}") == [row]


def test_a_decision_that_was_used_before_its_answer_was_sought_is_on_record(
    empty: PostgresStore, proxy: Cutter
) -> None:
    """The review shows more than the decision by then, and yet the decision was made."""
    opened, decided = repeatable(claim(empty))["a decision"]
    empty.commit(opened)
    write = decided.reviews[0]
    used = Commit(
        workflow_id="run",
        reviews=(type(write)(write.review.used(now=NOW + 9), write.review.version),),
    )
    other = PostgresStore(
        server.with_words(server.url(), schema=server.schema_for(__name__)), now=NOW
    )
    patched = empty._commits._resolve

    def somebody_uses_it_first(commit: Commit, doubt: Any) -> BaseException | None:
        other.commit(used)
        return patched(commit, doubt)

    empty._commits._resolve = somebody_uses_it_first  # type: ignore[method-assign]
    try:
        proxy.cut("after", request=2)
        empty.commit(decided)
    finally:
        empty._commits._resolve = patched  # type: ignore[method-assign]
        other.close()
    assert empty.load_review(write.review.review_id) == used.reviews[0].review


fired: list[str] = []
seen_from_inside: list[bool] = []
watched_schema = ""


@nt.tool("unsafe_on_replay", name="send_and_cut")
def send(number: int) -> dict[str, int]:
    """An effect that looks for its own intent, by another connection, at the moment it happens."""
    fired.append(nt.current_call().id)
    with server.connected() as connection:
        found = connection.execute(
            f"SELECT status FROM {watched_schema}.tool_call_results WHERE call_id = %s",
            (nt.current_call().id,),
        ).fetchone()
    seen_from_inside.append(found == ("PENDING",))
    return {"sent": number}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("every_time", [False, True])
def test_no_effect_is_fired_while_its_intent_is_unknown(
    proxy: Cutter, way: str, every_time: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    global watched_schema
    caplog.set_level(logging.CRITICAL, logger="nottwice")
    watched_schema = server.schema_for(tmp_path)
    request, proxied = 1, True
    with nt.Ledger(
        PostgresStore(proxy.url(tmp_path, lease_seconds=99999), now=NOW, patience_seconds=0.02)
    ) as ledger:
        while proxied:
            fired.clear()
            seen_from_inside.clear()
            run = f"run {request}"
            proxy.cut(way, request=request, every_time=every_time)
            told: list[dict[str, int]] = []
            with contextlib.suppress(nt.errors.StoreError):
                with ledger.run(run):
                    told.append(send(1))
                    told.append(send(2))
            proxied = bool(proxy.cuts)
            proxy.mend()
            assert all(seen_from_inside), f"{way} {request}: fired without a durable intent"
            assert len(fired) == len(set(fired)), f"{way} {request}: fired twice"
            rows = {row.call_id: row for row in ledger.store.calls(run)}
            assert set(fired) <= rows.keys()
            receipts = [row for row in rows.values() if row.status is CallStatus.DONE]
            assert len(told) <= len(receipts), f"{way} {request}: told what is not on record"
            if not every_time or not proxied:
                assert told == [{"sent": 1}, {"sent": 2}]
            request += 1
    assert request > 5


def test_a_connection_that_is_stuck_in_a_pipeline_is_a_lost_one(tmp_path: Path) -> None:
    """So a server that restarts in the middle of one leaves it: not closed, and of no use."""
    place = read_place(server.LEDGERS.url("writer", tmp_path))
    connections = PostgresConnections(place, busy_seconds=5.0)
    with pytest.raises(ConnectionLost), connections.use() as connection:
        connection.pgconn.enter_pipeline_mode()
        connection.pgconn.send_query_params(b"SELECT pg_sleep(0.2)", None)
        raise psycopg.OperationalError("cannot exit pipeline mode while busy")
    with connections.use() as connection:
        assert connection.execute("SELECT 7").fetchone() == (7,)
    connections.close()
    server.LEDGERS.give_back()
