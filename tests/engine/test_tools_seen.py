"""A tool is recorded when a ledger first sees it, once per process and declaration. (P222)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.store.interface import Commit, Store
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing import forget_tools


def declare(title: str | None = None) -> Any:
    forget_tools()

    @nt.tool("unsafe_on_replay", name="seen_refund", title=title)
    def refund(order: int) -> dict[str, int]:
        """Refund an order."""
        return {"order": order}

    return refund


class Watching:
    """A store that notes its commits."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.location = store.location
        self.commits: list[Commit] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, commit: Commit) -> None:
        self.commits.append(commit)
        self._store.commit(commit)


@pytest.fixture
def store(tmp_path: Path) -> Watching:
    return Watching(SqliteStore(tmp_path / "a.db", now=0.0))


def tools_of(store: Watching) -> list[list[str]]:
    return [[tool.tool_name for tool in commit.tools] for commit in store.commits]


def test_a_tool_is_recorded_with_its_first_intent_and_costs_no_commit_of_its_own(
    store: Watching,
) -> None:
    refund, ledger = declare(), nt.Ledger(store)
    for run in ("a", "b"):
        with ledger.run(run):
            refund(order=1)
            refund(order=2)
    # A claim, two commits per call, and a release, twice. Only the first intent has the tool.
    assert tools_of(store) == [[], ["seen_refund"], *[[]] * 10]
    assert [len(commit.calls) for commit in store.commits[:6]] == [0, 1, 1, 1, 1, 0]
    (known,) = ledger.store.tools()
    assert known.replay_class.value == "unsafe_on_replay"
    assert known.summary == "Refund an order."
    assert known.place is not None
    assert known.place.endswith("test_tools_seen.py:19")
    assert known.result_json == '{"additionalProperties":{"type":"integer"},"type":"object"}'


def test_a_tool_that_is_declared_differently_is_recorded_again(store: Watching) -> None:
    ledger = nt.Ledger(store)
    for title in (None, None, "Refund {order}"):
        refund = declare(title)
        with ledger.run(str(len(store.commits))):
            refund(order=1)
    recorded = [tool.title for commit in store.commits for tool in commit.tools]
    assert recorded == [None, "Refund {order}"]
    (known,) = ledger.store.tools()
    assert known.title == "Refund {order}"


def test_what_a_commit_did_not_write_is_recorded_with_the_next(store: Watching) -> None:
    class FullOnce(Watching):
        def commit(self, commit: Commit) -> None:
            is_first = commit.tools and not any(known.tools for known in self.commits)
            if is_first:
                self.commits.append(commit)
                raise nt.errors.StoreError("the disk is full")
            super().commit(commit)

    refund, full = declare(), FullOnce(store._store)
    with pytest.raises(nt.errors.StoreError, match="full"):
        with nt.Ledger(full).run("a"):
            refund(order=1)
    with nt.Ledger(full).run("b"):
        refund(order=1)
    assert [tool.tool_name for tool in store.tools()] == ["seen_refund"]
    # Refused with the intent, then written with the release.
    assert tools_of(full)[:3] == [[], ["seen_refund"], ["seen_refund"]]
    assert tools_of(full)[3:] == [[]] * 4


def test_rows_of_nottwice_itself_are_no_tools(store: Watching) -> None:
    ledger = nt.Ledger(store)
    with ledger.run("a"):
        nt.now(label="a")
        nt.uuid(label="b")
    assert ledger.store.tools() == []


def test_a_schema_that_cannot_be_made_does_not_stop_a_call(store: Watching) -> None:
    forget_tools()

    @nt.tool("unsafe_on_replay", name="seen_odd")
    def odd() -> Any:
        return 1

    with nt.Ledger(store).run("a"):
        assert odd() == 1
    (known,) = store.tools()
    assert known.result_json in (None, "{}")
