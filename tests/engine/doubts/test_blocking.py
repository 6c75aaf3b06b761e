"""A run that waits for a person says why, and what to type."""

from __future__ import annotations

import pickle
import shlex

import pytest

import nottwice as nt
from nottwice.engine.doubts.blocking import MOST_ARGUMENT_CHARACTERS, decide_command
from nottwice.model.run import RunStatus
from tests.fakes import Host

KEPT: list[object] = []
"""A tool without a reference is no longer declared, whenever its memory is freed."""


def blocked(host: Host, argument: str = "ann") -> nt.errors.ReplayUnsafeError:
    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        raise TimeoutError("no answer")

    KEPT[:] = [send]
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.ReplayUnsafeError) as caught:
            send(argument)
    return caught.value


def test_the_error_carries_call_evidence_and_the_command(host: Host) -> None:
    error = blocked(host)
    assert error.facts["call"].args == {"to": "ann"}
    assert error.facts["run_id"] == "r"
    assert any("no verify hook" in item for item in error.facts["evidence"])
    assert error.facts["command"] == f"nottwice decide {error.review_id} --store :memory:"
    assert error.facts["command"] in str(error)


def test_the_error_survives_a_trip_to_another_process(host: Host) -> None:
    error = blocked(host)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, nt.errors.ReplayUnsafeError)
    assert (str(again), again.review_id) == (str(error), error.review_id)
    assert again.non_retryable


def test_review_and_status_are_written_by_one_commit(host: Host) -> None:
    commits: list[tuple[int, RunStatus | None]] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        raise TimeoutError

    with host.process() as ledger:
        whole = ledger.store.commit

        def watching(commit: object) -> None:
            run = getattr(commit, "run", None)
            commits.append((len(commit.reviews), run.status if run else None))  # type: ignore[attr-defined]
            whole(commit)  # type: ignore[arg-type]

        ledger.store.commit = watching  # type: ignore[method-assign]
        with ledger.run("r"), pytest.raises(nt.errors.ReplayUnsafeError):
            send("a")
    assert (1, RunStatus.WAITING) in commits


def test_long_arguments_are_cut_in_texts_but_not_in_facts(host: Host) -> None:
    error = blocked(host, "x" * 10_000)
    assert len(str(error)) < MOST_ARGUMENT_CHARACTERS + 800
    assert error.facts["call"].args == {"to": "x" * 10_000}


def test_the_command_is_safe_to_paste() -> None:
    path = "/data/my ledger;rm.db"
    command = decide_command("1a2b", path)
    assert shlex.split(command) == ["nottwice", "decide", "1a2b", "--store", path]


def test_the_error_of_the_tool_is_the_cause(host: Host) -> None:
    error = blocked(host)
    assert isinstance(error.__cause__, TimeoutError)
    assert str(error.__cause__) == "no answer"


def test_opening_a_waiting_run_again_adds_no_evidence(host: Host) -> None:
    blocked(host)
    before = list(host.data.evidence)
    for _ in range(3):
        host.clock.advance(1)
        with pytest.raises(nt.errors.ReplayUnsafeError), host.process() as ledger, ledger.run("r"):
            raise AssertionError("the run must wait")
    assert list(host.data.evidence) == before
