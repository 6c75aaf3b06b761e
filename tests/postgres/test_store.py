"""What else must hold of a ledger on PostgreSQL: races, forks, event loops, the command line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.cli.main import main as program
from nottwice.errors import OwnershipLost, UsageError
from nottwice.model.call import CallStatus
from nottwice.model.run import Fence, RunStatus, Wait, WaitKind
from nottwice.store.interface import Claim, Commit, Outdated, RunUpdate
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance.bench import outcomes_of
from tests.postgres import server
from tests.store.samples import (
    NOW,
    claim,
    event,
    evidence,
    identity,
    intent,
    note,
    noted,
    pending,
    run_record,
    told,
)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two holders of one ledger."""
    stores = tuple(PostgresStore(server.ledger_url(tmp_path), now=NOW) for _ in range(2))
    yield stores[0], stores[1]
    for store in stores:
        store._held.clear()
        store.close()


@pytest.mark.parametrize("careful", [True, False])
def test_once_a_claim_was_made_nothing_of_the_former_holder_arrives_any_more(
    two: tuple[PostgresStore, PostgresStore], careful: bool
) -> None:
    """The moment that matters: a write that looked at its fence before the claim, and is not
    durable yet. Either the claim waits for it, or it is refused."""
    first, second = two
    for round_number in range(12):
        run = f"run {round_number}"
        fence = claim(first, run)
        begun = threading.Event()

        def write(run: str = run, fence: Fence = fence, begun: threading.Event = begun) -> None:
            for number in range(10_000):
                row = pending(identity(run, arguments=f"{number}"), attempt_id=f"{number}")
                try:
                    first.commit(intent(row, fence, unless_blocked=careful))
                except OwnershipLost:
                    return
                begun.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert begun.wait(20)
        claim(second, run, after=second.load_run(run))
        at_once = len(second.calls(run))
        writer.join(20)
        assert len(second.calls(run)) == at_once > 0


def test_a_child_that_ends_while_its_parent_comes_to_wait_is_not_missed(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    first, second = two
    for number in range(12):
        parent, child = f"parent {number}", f"child {number}"
        waits = (Wait(WaitKind.CHILD, child, "spawn"),)
        fences = {}
        for store, run, of in ((first, parent, None), (second, child, parent)):
            holder_id = store.holder().holder_id
            record = run_record(run, holder_id=holder_id, graph_id="g@1.0.0", parent_id=of)
            store.commit(Commit(workflow_id=run, claim=Claim(record)))
            fences[run] = Fence(holder_id, 1)
        waiting = RunUpdate(RunStatus.WAITING, NOW, release=True, waits=waits)
        over = RunUpdate(RunStatus.COMPLETED, NOW, release=True)
        commits = {
            first: Commit(workflow_id=parent, fence=fences[parent], run=waiting),
            second: Commit(workflow_id=child, fence=fences[child], run=over),
        }
        acts = [partial(store.commit, one) for store, one in commits.items()]
        assert outcomes_of(acts) == ["done", "done"]
        ready = [run.workflow_id for run in first.ready_runs(begun=True, now=NOW, limit=99)]
        assert parent in ready


def test_a_text_with_a_character_that_postgresql_cannot_keep_is_kept_without_it(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    store, other = two
    said = Commit(workflow_id="run", evidence=(evidence("it said \0 and died"),))
    store.commit(said)
    other.commit(said)
    assert [item.text for item in store.evidence("run")] == ["it said \u2400 and died"]
    assert store.load_run("a\0b") is None
    assert store.find_reviews("\0") == []


def test_names_that_are_too_long_for_an_index_are_refused_and_nothing_is_written(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    store, _ = two
    chaos = "".join(chr(0x4E00 + int.from_bytes(os.urandom(2)) % 20_000) for _ in range(512))
    fence = claim(store, chaos)
    row = pending(identity(chaos, node=chaos[::-1], at=chaos[1:] + "x", tool=chaos[2:] + "y"))
    for careful in (True, False):
        with pytest.raises(nt.errors.StoreError, match="Use shorter names"):
            store.commit(intent(row, fence, unless_blocked=careful))
    assert store.calls(chaos) == []


FORKS = """
import os, sys
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance.samples import note, noted

store = PostgresStore(sys.argv[1], now=0.0)
mine = store.holder().holder_id
store.commit(note(0))
child = os.fork()
if not child:
    assert store.holder().holder_id != mine
    store.commit(note(1))
    store.close()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert store.holder().holder_id == mine
store.commit(note(2))
assert noted(store) == [0, 1, 2], noted(store)
print("whole")
"""


def test_parent_and_forked_child_are_two_holders_with_connections_of_their_own(
    tmp_path: Path,
) -> None:
    words = [sys.executable, "-W", "error", "-c", FORKS, server.ledger_url(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("whole\n", "")


@nt.tool("unsafe_on_replay", name="postgres_send")
async def send(to: str) -> str:
    await asyncio.sleep(0)
    return f"sent to {to}"


def test_many_runs_of_one_event_loop_share_commits(tmp_path: Path) -> None:
    store = PostgresStore(server.ledger_url(tmp_path), now=NOW)

    async def one(number: int) -> list[str]:
        async with nt.Ledger(store).run(f"run {number}"):
            return [await send(f"{number} {turn}") for turn in range(3)]

    async def all_of_them() -> list[list[str]]:
        return await asyncio.gather(*(one(number) for number in range(30)))

    told = asyncio.run(all_of_them())
    assert told[7] == ["sent to 7 0", "sent to 7 1", "sent to 7 2"]
    rows = [row for number in range(30) for row in store.calls(f"run {number}")]
    assert {row.status for row in rows} == {CallStatus.DONE}
    assert len(rows) == 90
    store.close()


def test_commands_work_on_a_url_and_never_show_its_password(tmp_path: Path) -> None:
    url = server.ledger_url(tmp_path)
    with_password = url.replace("postgres@", "postgres:hunter2@")
    with nt.Ledger(url) as ledger, ledger.run("ticket-7"):
        pass
    shown = CliRunner().invoke(program, ["runs", "--store", with_password])
    assert "ticket-7" in shown.output
    listed = CliRunner().invoke(program, ["show", "ticket-7", "--json", "--store", with_password])
    assert json.loads(listed.output)["ledger"] == url
    missing = CliRunner().invoke(program, ["show", "nobody", "--store", with_password])
    assert missing.exit_code != 0
    for result in (shown, listed, missing):
        assert "hunter2" not in result.output


def test_a_store_named_by_its_url_is_shared_in_a_process(tmp_path: Path) -> None:
    from nottwice.guard import ledger

    url = server.ledger_url(tmp_path)
    with nt.run("one", store=url):
        pass
    first = ledger._shared[url]
    with nt.run("two", store=url):
        pass
    assert ledger._shared[url] is first
    ledger._shared.pop(url).close()


def test_without_its_driver_the_error_says_what_to_install() -> None:
    with patch.dict(sys.modules, {"psycopg": None, "nottwice.store.postgres.store": None}):
        sys.modules.pop("nottwice.store.postgres.store")
        kept = {
            name: sys.modules.pop(name)
            for name in list(sys.modules)
            if name.startswith("nottwice.store.postgres.") and not name.endswith(".place")
        }
        try:
            with pytest.raises(UsageError, match=r"pip install 'nottwice\[postgres\]'"):
                nt.Ledger("postgresql://host/db")
        finally:
            sys.modules.update(kept)


def test_two_concurrent_decisions_about_one_thing_do_not_deadlock(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    """Batches of many runs, in every order: none may end in a visible deadlock."""
    first, second = two
    runs = [f"run {number}" for number in range(12)]

    def tell(store: PostgresStore, order: list[str]) -> None:
        futures = [store.commit_soon(told(event(f"{id(store)} {run}", run))) for run in order]
        futures += [store.commit_soon(note(id(store) % 1000, run)) for run in order]
        for future in futures:
            future.result(timeout=60)

    threads = [
        threading.Thread(target=tell, args=(first, runs)),
        threading.Thread(target=tell, args=(second, runs[::-1])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [len(first.events(run)) for run in runs] == [2] * 12
    assert all(len(noted(first, run)) == 2 for run in runs)


def test_a_run_is_enqueued_once_by_however_many(two: tuple[PostgresStore, PostgresStore]) -> None:
    first, second = two
    record = run_record(epoch=0, holder_id=None, claimed_at=None, graph_id="g@1.0.0")
    first.commit(Commit(workflow_id="run", claim=Claim(record)))
    with pytest.raises(Outdated):
        second.commit(
            Commit(workflow_id="run", claim=Claim(run_record(epoch=0, holder_id="somebody")))
        )
