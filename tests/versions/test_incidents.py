"""The incidents that versioned graphs prevent, each as it happens, and how it ends here.

The names are those of the rows in the tables that the specification was written from: what goes
wrong with checkpoints when code is deployed, and the gotchas of resuming from them.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import nottwice as nt
from nottwice.errors import (
    GraphChangedInPlace,
    NotPlainData,
    UnclassifiedTool,
    VersionError,
    WorkflowVersionMismatch,
)
from nottwice.model.review import ReviewKind, Verb
from nottwice.testing.replay.gate import replay_folder
from nottwice.testing.replay.recording import record
from nottwice.versions.lock import compare, read_lock, write_lock
from tests.fakes import Host

DONE: list[str] = []


@nt.tool("unsafe_on_replay")
def incident_mail(to: str) -> str:
    DONE.append(to)
    return f"mailed {to}"


@nt.tool("unsafe_on_replay", approve=True)
def incident_refund(cents: int) -> str:
    DONE.append(f"refund {cents}")
    return "refunded"


class Broken(Exception):
    """The process ended here."""


broken: set[str] = set()


def stop_if_broken(where: str) -> None:
    if where in broken:
        raise Broken(where)


@pytest.fixture
def host() -> Host:
    DONE.clear()
    broken.clear()
    return Host()


def linear(version: str, *nodes: str, state: type[Any] = dict) -> nt.Graph[Any]:
    flow: nt.Graph[Any] = nt.Graph("support", version=version, state=state)
    for name in nodes:
        flow.node(name=name)(_mails(name))
    return flow


def _mails(name: str) -> Any:
    def node(state: Any) -> None:
        stop_if_broken(name)
        incident_mail(name)

    return node


def run(host: Host, run_id: str, *graphs: nt.Graph[Any], given: Any = None) -> nt.Outcome[Any]:
    with host.process() as ledger:
        return nt.App(graphs=graphs, store=ledger).run("support", run_id, given)


def interrupt(host: Host, run_id: str, flow: nt.Graph[Any], given: Any = None) -> None:
    with pytest.raises(Broken):
        run(host, run_id, flow, given=given)
    broken.clear()


class Before(BaseModel):
    order: int


class After(BaseModel):
    order: str
    """It was a number."""


def test_state_serialization_drift_between_versions(host: Host) -> None:
    """Open runs drain on the code that wrote them; new ones take the new code."""
    broken.add("b")
    old, new = linear("1.0.0", "a", "b", state=Before), linear("2.0.0", "a", "b", state=After)
    interrupt(host, "old", old, {"order": 7})
    sneaked = linear("1.0.1", "a", "b", state=After)
    with pytest.raises(GraphChangedInPlace, match='"order" of the state has another type'):
        run(host, "old", sneaked)
    assert run(host, "new", new, old, given={"order": "7"}).graph == "support@2.0.0"
    assert run(host, "old", new, old).state == Before(order=7)
    assert DONE == ["a", "a", "b", "b"]


def test_a_pickled_lambda_or_closure_becomes_unloadable(host: Host) -> None:
    """It never gets into a checkpoint: state is plain data, and code stays in the graph."""
    flow: nt.Graph[Any] = nt.Graph("support", version="1.0.0")
    flow.node(name="a")(lambda state: {"callback": lambda: 1})
    with pytest.raises(NotPlainData, match="callback"):
        run(host, "r", flow)


def test_a_node_renamed_without_explicit_mapping_at_resume(host: Host) -> None:
    broken.add("notify")
    interrupt(host, "r", linear("1.0.0", "pay", "notify"))
    renamed = linear("1.0.1", "pay", "tell")
    with pytest.raises(GraphChangedInPlace, match='node "notify" renamed to "tell"') as caught:
        run(host, "r", renamed)
    assert caught.value.needs == "2.0.0"
    assert DONE == ["pay"]
    assert run(host, "r", linear("1.0.0", "pay", "notify")).status == "completed"
    assert DONE == ["pay", "notify"]


def test_a_node_renamed_without_explicit_mapping_in_ci() -> None:
    before = write_lock([linear("1.0.0", "pay", "notify").fingerprint()])
    locked = read_lock(before, path="nottwice.lock")
    (found,) = compare(locked, [linear("1.0.0", "pay", "tell").fingerprint()])
    assert found.says_too_little
    assert 'node "notify" renamed to "tell"' in found.text
    assert found.text.endswith("→ needs 2.0.0, found 1.0.0")


def test_the_receipts_of_another_version_are_never_met(host: Host) -> None:
    """The same node, tool and arguments under two versions are two identities."""
    old, new = linear("1.0.0", "a"), linear("2.0.0", "a")
    run(host, "old", old)
    run(host, "new", new, old)
    scopes = [row.identity.checkpoint_id for row in host.calls]
    assert scopes == ["support@1.0.0/1", "support@2.0.0/1"]


def test_a_patch_resumes_with_the_ids_that_are_stored(host: Host) -> None:
    broken.add("b")
    interrupt(host, "r", linear("1.0.0", "a", "b"))
    assert run(host, "r", linear("1.0.1", "a", "b")).graph == "support@1.0.0"
    assert DONE == ["a", "b"]
    assert {row.identity.checkpoint_id[:13] for row in host.calls} == {"support@1.0.0"}


def test_resume_after_a_version_bump_that_changed_module_paths(host: Host) -> None:
    """Bytes at rest name no code, so it may move."""
    broken.add("b")
    interrupt(host, "r", linear("1.0.0", "a", "b"))
    moved: nt.Graph[Any] = nt.Graph("support", version="1.0.0")
    elsewhere = types.ModuleType("somewhere.else_entirely")
    for name in ("a", "b"):
        function = _mails(name)
        function.__module__, function.__qualname__ = elsewhere.__name__, f"Elsewhere.{name}"
        moved.node(name=name)(function)
    assert run(host, "r", moved).status == "completed"
    assert DONE == ["a", "b"]


def test_old_checkpoints_reference_dead_node_ids(host: Host) -> None:
    """The new major version does not touch them; nothing crashes in the middle."""
    broken.add("notify")
    interrupt(host, "r", linear("1.0.0", "pay", "notify"))
    with pytest.raises(WorkflowVersionMismatch, match=r"bound to support@1\.0\.0"):
        run(host, "r", linear("2.0.0", "pay", "tell"))
    assert DONE == ["pay"]


def approving(version: str) -> nt.Graph[Any]:
    flow: nt.Graph[Any] = nt.Graph("support", version=version)

    @flow.node
    def refund(state: dict[str, Any]) -> Any:
        return {"said": incident_refund(state["cents"])}

    if version != "1.0.0":
        flow.node(name="notify")(_mails("notify"))
    return flow


def test_a_deploy_strands_an_approval(host: Host) -> None:
    """The approval of Friday is for code that is gone on Monday: people are told, nothing lost."""
    assert run(host, "r", approving("1.0.0"), given={"cents": 5}).status == "waiting"
    with pytest.raises(WorkflowVersionMismatch):
        run(host, "r", approving("2.0.0"))
    kinds = {review.kind: review.review_id for review in host.open_reviews}
    assert kinds.keys() == {ReviewKind.APPROVAL, ReviewKind.UNDEPLOYABLE}
    with host.process() as ledger:
        nt.Reviews(ledger).decide(kinds[ReviewKind.APPROVAL], Verb.APPROVE.value, by="ann")
    assert DONE == []
    outcome = run(host, "r", approving("2.0.0"), approving("1.0.0"))
    assert outcome.state == {"cents": 5, "said": "refunded"}
    assert DONE == ["refund 5"]
    assert host.open_reviews == []


def test_a_queue_runner_retries_an_error_that_retrying_cannot_mend() -> None:
    for error in (WorkflowVersionMismatch, GraphChangedInPlace):
        assert issubclass(error, VersionError)
        assert error.non_retryable


def test_a_deployed_graph_uses_a_tool_without_a_class() -> None:
    def delete_everything(path: str) -> None: ...

    with pytest.raises(UnclassifiedTool, match="delete_everything"):
        nt.Graph("support", version="1.0.0", tools=[delete_everything])


def test_a_tool_is_declared_harmless_under_running_work(host: Host) -> None:
    """A class may be tightened under a run, never loosened; and it takes the right version."""
    flow, loose = linear("1.0.0", "a"), linear("1.1.0", "a")
    run(host, "r", flow)
    prints = loose.fingerprint().to_plain()
    prints["tools"]["incident_mail"]["class"] = "pure"
    old, new = flow.fingerprint(), type(loose.fingerprint()).from_plain(prints)
    (found,) = compare({"support@1.0.0": old}, [new])[:1]
    assert "loosened from unsafe_on_replay to pure → needs 2.0.0, found 1.1.0" in found.text


# The same in a pull request: checkpoints of the deployment are resumed by its code.


def gate(host: Host, tmp_path: Path, deployed: nt.Graph[Any], changed: nt.Graph[Any]) -> set[str]:
    """What the replay gate says to a change, of checkpoints that the deployed code left."""
    with host.process() as ledger:
        recorded = record(nt.App(graphs=[deployed]), ledger.store, tmp_path)
    assert recorded.kept
    assert recorded.left_out == ()
    assert all(one.passed for one in replay_folder(deployed, tmp_path))
    before = list(DONE)
    results = replay_folder(changed, tmp_path)
    assert before == DONE
    return {one.cause.value for one in results if one.cause is not None}


def test_state_serialization_drift_is_caught_in_ci(host: Host, tmp_path: Path) -> None:
    broken.add("b")
    old = linear("1.0.0", "a", "b", state=Before)
    interrupt(host, "r", old, {"order": 7})
    drifted = linear("1.0.1", "a", "b", state=After)
    assert gate(host, tmp_path, old, drifted) == {"state no longer loads"}


def test_a_node_renamed_without_mapping_is_caught_in_ci(host: Host, tmp_path: Path) -> None:
    broken.add("notify")
    old = linear("1.0.0", "pay", "notify")
    interrupt(host, "r", old)
    found = gate(host, tmp_path, old, linear("1.0.1", "pay", "tell"))
    assert found == {"node renamed without mapping"}


def test_receipts_of_a_prior_version_are_no_receipts_of_the_next_in_ci(
    host: Host, tmp_path: Path
) -> None:
    broken.add("b")
    old = linear("1.0.0", "a", "b")
    interrupt(host, "r", old)
    assert gate(host, tmp_path, old, linear("2.0.0", "a", "b")) == {"graph version missing"}


def test_code_that_moved_to_another_module_is_no_alarm_in_ci(host: Host, tmp_path: Path) -> None:
    old = linear("1.0.0", "a", "b")
    run(host, "r", old)
    moved: nt.Graph[Any] = nt.Graph("support", version="1.0.0")
    for name in ("a", "b"):
        function = _mails(name)
        function.__module__, function.__qualname__ = "somewhere.else_entirely", f"Other.{name}"
        moved.node(name=name)(function)
    assert gate(host, tmp_path, old, moved) == set()


@nt.tool("unsafe_on_replay")
def incident_order(lines: Any) -> str:
    DONE.append("order")
    return "ordered"


def ordering(version: str, lines: Any) -> nt.Graph[Any]:
    flow: nt.Graph[Any] = nt.Graph("support", version=version)
    flow.node(name="order")(lambda state: {"said": incident_order(lines)})
    return flow


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ({"amount": 10.0, "article": 2**60 + 1}, set()),
        ({"article": 2**60 + 1, "amount": 10}, set()),
        ({"article": 2**60, "amount": 10}, {"arguments changed"}),
        ({"article": str(2**60 + 1), "amount": 10}, {"arguments changed"}),
    ],
)
def test_a_cache_miss_although_the_result_is_recorded(
    host: Host, tmp_path: Path, lines: Any, found: set[str]
) -> None:
    """Another spelling of the same arguments is no other call, and the same spelling of others is
    none either: canonical JSON, without rounding."""
    old = ordering("1.0.0", {"article": 2**60 + 1, "amount": 10})
    run(host, "r", old)
    assert gate(host, tmp_path, old, ordering("1.0.1", lines)) == found


def test_a_deploy_that_would_strand_an_approval_is_caught_in_ci(host: Host, tmp_path: Path) -> None:
    old = approving("1.0.0")
    assert run(host, "r", old, given={"cents": 5}).status == "waiting"
    assert gate(host, tmp_path, old, approving("2.0.0")) == {"graph version missing"}
    other: nt.Graph[Any] = nt.Graph("support", version="1.0.1")
    other.node(name="refund")(lambda state: {"said": incident_refund(state["cents"] + 1)})
    assert gate(host, tmp_path, old, other) == {"arguments changed"}
