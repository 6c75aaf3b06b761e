"""Is a recording complete, stable, free of secrets, and resumable by its own code?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import UsageError
from nottwice.model.run import CheckpointRecord
from nottwice.store.memory import MemoryStore
from nottwice.testing.replay.fixture import LEFT_OUT_FILE, read_fixture
from nottwice.testing.replay.recording import key_of, record
from tests.testing.replay.deployment import Deployment, approvals, causes

CUSTOMER = '"ann@example.com"'
COMPUTED = 'f"ann{order_id}@example." + "net"'
"""An address that no source spells out."""


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def deployed(tmp_path: Path) -> Deployment:
    return approvals(tmp_path)


def secretive(folder: Path, *changes: tuple[str, str]) -> Deployment:
    """A deployment whose customers have addresses."""
    place = Deployment(folder)
    place.deploy((CUSTOMER, COMPUTED), *changes)
    for number in (1, 2):
        place.run("approval", f"ticket-{number}", {"order_id": number})
    place.decide("ticket-1", "approve")
    place.run("approval", "ticket-1")
    return place


def test_recording_again_gives_the_same_bytes(deployed: Deployment) -> None:
    deployed.record()
    before = files(deployed.checkpoints)
    assert len(before) == 18
    deployed.record()
    assert files(deployed.checkpoints) == before


def test_the_ledger_is_only_read(deployed: Deployment) -> None:
    data = deployed.host.data
    before = {name: dict(vars(data)[name]) for name in ("runs", "calls", "steps", "checkpoints")}
    with deployed.host.process() as ledger:
        store = _ReadOnly(ledger.store)
        record(deployed.app, store, deployed.checkpoints)
    assert {name: vars(data)[name] for name in before} == before


class _ReadOnly:
    """A store that refuses every write."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        assert name not in ("commit", "commit_soon", "holder"), name
        return getattr(self._store, name)


def test_of_every_kind_there_is_one_however_few_are_recorded(deployed: Deployment) -> None:
    for number in range(10, 20):
        deployed.run("approval", f"ticket-{number}", {"order_id": number})
    deployed.record(number=10)
    found = [read_fixture(text.decode(), where="") for text in files(deployed.checkpoints).values()]
    assert len(found) == 10
    # Runs that were decided are few, and all of their nodes are in that have one after them.
    after = {one.after for one in found if one.status.value == "completed"}
    assert after == {"/", "read_context", "plan", "notify", "wait_for_approval"}
    assert {one.after for one in found if one.status.value == "waiting"} == {
        "/",
        "read_context",
        "plan",
        "notify",
    }


def test_secrets_have_pseudonyms_and_all_still_matches(tmp_path: Path) -> None:
    place = secretive(tmp_path)
    recorded = place.record()
    assert recorded.left_out == ()
    assert recorded.secrets == 2
    texts = b"".join(files(place.checkpoints).values()).decode()
    assert "ann1@" not in texts
    assert "ann2@" not in texts
    assert "Refund 4001 cents to user-" in texts
    assert causes(place.replay()) == set()


def test_a_declared_secret_is_replaced_in_state_arguments_and_questions(tmp_path: Path) -> None:
    place = secretive(tmp_path, ('"cents": 4000', '"cents": 40000'))
    recorded = place.record(secrets=["cents"])
    assert recorded.left_out == ()
    assert "40001" not in b"".join(files(place.checkpoints).values()).decode()
    assert causes(place.replay()) == set()


def test_hashes_that_only_the_declaration_knows_are_learned(tmp_path: Path) -> None:
    """Defaults, volatile arguments and labels are no plain part of the hash."""
    place = secretive(
        tmp_path,
        (
            '@nt.tool("unsafe_on_replay", verify=in_the_world, settles="1s")\n'
            "def example_email(to: str, body: str)",
            '@nt.tool("unsafe_on_replay", volatile=("body",))\n'
            'def example_email(to: str, body: str, kind: str = "text")',
        ),
        ("    example_email(to=", "    example_email.again(state.customer)(to="),
    )
    assert place.record().left_out == ()
    assert causes(place.replay()) == set()
    place.deploy((CUSTOMER, COMPUTED), ("to=state.customer, body", 'to="x" + state.customer, body'))
    assert "arguments changed" in causes(place.replay())


def test_a_node_that_takes_a_secret_apart_is_left_out_with_the_reason(tmp_path: Path) -> None:
    place = secretive(
        tmp_path, ("to=state.customer, body", 'to=state.customer.partition("@")[2], body')
    )
    recorded = place.record()
    assert {one.why for one in recorded.left_out} == {"arguments changed"}
    text = recorded.left_out[0].text
    assert "but not with pseudonyms" in text
    assert recorded.kept
    written = json.loads((place.checkpoints / LEFT_OUT_FILE).read_text())
    assert written[0]["text"] == text
    assert "ann" not in (place.checkpoints / LEFT_OUT_FILE).read_text()
    # Those that are kept are all resumed.
    assert causes(place.replay()) == set()


def test_what_its_own_code_does_not_resume_is_left_out(deployed: Deployment) -> None:
    deployed.deploy(("We look into", "We check"), ('version="1.0.0"', 'version="1.0.1"'))
    recorded = deployed.record()
    assert {one.why for one in recorded.left_out} == {"arguments changed"}
    assert "does not resume it as recorded" in recorded.left_out[0].text
    assert causes(deployed.replay()) == set()


def test_files_of_an_earlier_recording_go_and_all_others_stay(deployed: Deployment) -> None:
    deployed.record()
    kept = deployed.checkpoints / "kept"
    kept.mkdir()
    (first, *_) = deployed.checkpoints.glob("*.json")
    first.rename(kept / first.name)
    (deployed.checkpoints / "notes.json").write_text("[]")
    recorded = deployed.record(number=3)
    assert len(recorded.removed) == 14
    assert len(list(deployed.checkpoints.glob("approval-*.json"))) == 3
    assert (deployed.checkpoints / "notes.json").exists()
    (deployed.checkpoints / "notes.json").unlink()
    assert len(deployed.replay()) == 4


def test_a_run_that_moves_on_while_it_is_read_is_left_out(deployed: Deployment) -> None:
    class Moving(MemoryStore):
        reads = 0

        def load_run(self, workflow_id: str) -> Any:
            self.reads += 1
            run = super().load_run(workflow_id)
            if workflow_id == "ticket-3" and run is not None:
                self.data.runs[workflow_id] = replace(run, updated_at=float(self.reads))
            return self.data.runs.get(workflow_id)

    recorded = record(deployed.app, Moving(deployed.host.data), deployed.checkpoints)
    assert {one.why for one in recorded.left_out} == {"the run was in progress"}
    assert len(recorded.left_out) == 4


def test_a_ledger_without_graphs_has_nothing_to_record(tmp_path: Path) -> None:
    with nt.Ledger(":memory:") as ledger:
        with ledger.run("plain"):
            pass
        with pytest.raises(UsageError, match="Nothing was recorded"):
            record(nt.App(graphs=[]), ledger.store, tmp_path / "checkpoints")
    assert not (tmp_path / "checkpoints").exists()


def test_the_key_is_the_ledgers_own_and_in_no_file(deployed: Deployment) -> None:
    with deployed.host.process() as ledger:
        key = key_of(ledger.store)
        assert key == key_of(ledger.store)
        attempts = {row.attempt_id for row in deployed.host.calls}
    deployed.record()
    texts = b"".join(files(deployed.checkpoints).values())
    assert not any(attempt.encode() in texts for attempt in attempts if attempt)


def test_forks_and_aborted_runs_are_not_recorded(deployed: Deployment) -> None:
    with deployed.host.process() as ledger:
        app = nt.App(graphs=deployed.app.graphs, store=ledger)
        app.graphs[0].fork("ticket-1", to="fork-1", store=ledger)
        assert app.cancel("ticket-3", by="ann", why="enough")
    deployed.record()
    names = {
        read_fixture(text.decode(), where="").run_id
        for text in files(deployed.checkpoints).values()
    }
    assert names == {"ticket-1", "ticket-2", "ticket-4"}


def test_a_checkpoint_that_was_pruned_meanwhile_is_left_out(deployed: Deployment) -> None:
    class Pruned(MemoryStore):
        def checkpoint_chain(
            self, workflow_id: str, version: int | None = None
        ) -> list[CheckpointRecord]:
            return [] if version == 2 else super().checkpoint_chain(workflow_id, version)

    recorded = record(deployed.app, Pruned(deployed.host.data), deployed.checkpoints)
    assert [one.after for one in recorded.left_out] == ["plan"] * 4


@pytest.mark.parametrize("where", ["agent.db", "file:runs"])
def test_every_ledger_is_recorded_alike(tmp_path: Path, where: str) -> None:
    place = Deployment(tmp_path)
    (tmp_path / "runs").mkdir()
    prefix, _, name = where.rpartition(":")
    path = f"{prefix}:{tmp_path / name}" if prefix else str(tmp_path / name)
    for number in (1, 2):
        with nt.Ledger(path) as ledger:
            app = nt.App(graphs=place.app.graphs, store=ledger)
            assert app.run("approval", f"t-{number}", {"order_id": number}).status == "waiting"
    kept = []
    for _ in range(2):
        with nt.Ledger(path, create=False) as ledger:
            recorded = record(place.app, ledger.store, place.checkpoints)
        assert recorded.left_out == ()
        kept.append(files(place.checkpoints))
    assert len(kept[0]) == 8
    assert kept[0] == kept[1]
    assert causes(place.replay()) == set()


def test_graphs_that_the_app_does_not_have_are_told_once(deployed: Deployment) -> None:
    other: nt.Graph[Any] = nt.Graph("other", version="1.0.0")
    other.node(name="only")(lambda state: None)
    with deployed.host.process() as ledger:
        for number in range(3):
            other.run(f"other-{number}", {}, store=ledger)
    (left_out,) = deployed.record(number=5).left_out
    assert (left_out.graph, left_out.why) == ("other@1.0.0", "graph version missing")
    assert left_out.text.startswith("3 checkpoints: ")
    assert len(deployed.replay()) == 5


def test_a_recording_that_would_keep_nothing_leaves_what_was_there(deployed: Deployment) -> None:
    deployed.record()
    before = files(deployed.checkpoints)
    deployed.deploy(('version="1.0.0"', 'version="2.0.0"'))
    with pytest.raises(UsageError, match=r"None of 1 .* 18 checkpoints: no graph of this app"):
        deployed.record()
    assert files(deployed.checkpoints) == before


def test_an_address_that_the_code_spells_out_is_kept(deployed: Deployment) -> None:
    """Of the example, whose customer is a constant."""
    recorded = deployed.record()
    assert (recorded.secrets, recorded.left_out) == (0, ())
    assert "ann@example.com" in b"".join(files(deployed.checkpoints).values()).decode()


def test_a_fixture_of_a_version_that_was_packed_names_the_node_that_had_ended(
    tmp_path: Path,
) -> None:
    flow = nt.Graph("rally", version="1.0.0", append=("log",), checkpoints="every_step")

    @flow.node(then="pong")
    def ping(state: dict[str, Any]) -> dict[str, Any]:
        return {"number": state["number"] + 1, "log": ["ping " * 4_000]}

    @flow.node(then={"more": "ping", "done": nt.END})
    def pong(state: dict[str, Any]) -> Any:
        return nt.goto("done" if state["number"] == 5 else "more", {"log": ["pong " * 4_000]})

    with nt.Ledger(tmp_path / "ledger.db") as ledger:
        flow.run("r", {"number": 0, "log": []}, store=ledger)
        record(nt.App(graphs=[flow]), ledger.store, tmp_path / "fixtures")
        nodes = {one.version: one.node_id for one in ledger.store.checkpoints("r")}
        turned = {one.version for one in ledger.store.checkpoints("r") if one.is_turned}
    paths = [path for path in (tmp_path / "fixtures").iterdir() if path.name != LEFT_OUT_FILE]
    fixtures = [read_fixture(path.read_text(), where=path.name) for path in paths]
    found = {one.version: one.after for one in fixtures}
    assert found.keys() & turned
    assert found == {version: nodes[version] for version in found}
