"""Is nothing real ever called, and does everything that a run can ask for find its answer?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.model.review import ReviewKind, Verb
from nottwice.testing.replay.gate import Result, Terms, replay_file, replay_folder
from nottwice.testing.replay.recording import record
from tests.fakes import Host
from tests.nursery import starting
from tests.testing.replay.deployment import Deployment, causes

DEADLY = Path(__file__).with_name("deadly.py")


def travelled(place: Deployment, run_id: str, *, until: str, **given: Any) -> None:
    """A run of the trip that is at a given point."""
    place.run("trip", run_id, {"city": "Rome", "order": f"order-{run_id}", **given})
    if until == "question":
        return
    place.decide(run_id, "yes")
    place.run("trip", run_id)
    place.host.clock.advance(10)
    place.run("trip", run_id)
    if until == "approval":
        return
    (review,) = [
        one
        for one in place.host.open_reviews
        if one.kind is ReviewKind.APPROVAL and one.identity[0] == run_id
    ]
    with place.host.process() as ledger:
        nt.Reviews(ledger).decide(review.review_id, Verb.APPROVE.value, by="ann")
    place.run("trip", run_id)
    if until == "event":
        return
    with place.host.process() as ledger:
        ledger.send(run_id, "news", {"paper": "yesterday's"})
    assert place.run("trip", run_id).status == "completed"


@pytest.fixture(scope="module")
def journeys(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Runs in every state that there is, recorded."""
    place = Deployment(tmp_path_factory.mktemp("journeys"), DEADLY.read_text(encoding="utf-8"))
    for until in ("question", "approval", "event", "end"):
        travelled(place, f"{until}-1", until=until)
    # One whose last mail is unknown.
    travelled(place, "doubt-1", until="question", last="broken@example.org")
    place.decide("doubt-1", "yes")
    place.run("trip", "doubt-1")
    place.host.clock.advance(10)
    assert place.run("trip", "doubt-1").reviews[0].kind is ReviewKind.IN_DOUBT
    recorded = place.record(number=45)
    assert recorded.left_out == ()
    assert len(recorded.kept) == 45
    return place


def test_what_a_run_can_ask_for_finds_its_answer(journeys: Deployment) -> None:
    results = journeys.replay()
    assert [line for one in results for problem in one.problems for line in problem.lines()] == []
    statuses = {one.fixture.status.value for one in results if one.fixture is not None}
    assert statuses == {"waiting", "completed"}


def test_no_tool_and_no_hook_is_ever_entered(journeys: Deployment, tmp_path: Path) -> None:
    """Their bodies kill the process: it ends itself, with everything as recorded."""
    shutil.copy(DEADLY, tmp_path / "deadly.py")
    shutil.copytree(journeys.checkpoints, tmp_path / "checkpoints")

    def nottwice(*words: str) -> int:
        command = [sys.executable, "-m", "nottwice", *words, "--app", "deadly:app"]
        return starting.run(command, cwd=tmp_path, env={**os.environ, "DEADLY": "1"}).returncode

    assert nottwice("replay", "checkpoints") == 0
    # They really do: a run kills its process at the first tool.
    given = '{"city": "Rome", "order": "7"}'
    killed = nottwice("run", "trip", "--id", "r", "--input", given, "--store", "agent.db")
    assert killed == -signal.SIGKILL


CHANGES = {
    "in a branch": ("left@example.org", "west@example.org"),
    "in a parallel map": ('f"a{each}"', 'f"b{each}"'),
    "in a step": ('deadly_mail.again("once more")', 'deadly_mail.again("twice")'),
    "in a loop": ("the same every time", "the same always"),
    "of a keyed tool": ("cents=100", "cents=101"),
    "of a child": ('{"to": "child@example.org"}', '{"to": "kid@example.org"}'),
    "that needs approval": ("deadly_wire(cents=5)", "deadly_wire(cents=6)"),
    "of an async tool": ("city=f\"{state['city']} {day}\"", "city=f\"{state['city']} +{day}\""),
    "in doubt": ('body="the end"', 'body="The end"'),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_arguments_are_found(journeys: Deployment, change: str) -> None:
    journeys.deploy(('version="1.0.0"', 'version="1.0.1"'), CHANGES[change])
    assert causes(journeys.replay()) == {"arguments changed"}


def test_a_changed_question_is_found_wherever_the_run_is(journeys: Deployment) -> None:
    journeys.deploy(('version="1.0.0"', 'version="1.0.1"'), ("Go to", "Travel to"))
    results = journeys.replay()
    assert causes(results) == {"question changed"}
    failed = {one.fixture.run_id for one in results if one.fixture is not None and one.problems}
    assert {"question-1", "end-1"} <= failed


def test_a_result_that_cannot_be_read_any_more_is_found(journeys: Deployment) -> None:
    journeys.deploy(("    degrees: int", "    celsius: int"), ("found.degrees", "found.celsius"))
    assert "result no longer loads" in causes(journeys.replay())


def test_other_runs_of_the_process_are_driven_as_ever(tmp_path: Path) -> None:
    """While something is replayed, a run in another ledger makes its effects."""
    made: list[int] = []
    inside, go_on = threading.Event(), threading.Event()

    @nt.tool("unsafe_on_replay")
    def real_effect(number: int) -> int:
        made.append(number)
        return number

    flow: nt.Graph[Any] = nt.Graph("slow", version="0.0.1")

    @flow.node
    def wait(state: dict[str, Any]) -> None:
        inside.set()
        go_on.wait(30)

    go_on.set()
    with nt.Ledger(":memory:") as ledger:
        flow.run("slow-1", {}, store=ledger)
        record(nt.App(graphs=[flow]), ledger.store, tmp_path, number=2)
    inside.clear()
    go_on.clear()
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.extend(replay_folder(flow, tmp_path)))
    thread.start()
    assert inside.wait(30)
    with nt.Ledger(":memory:") as ledger, ledger.run("real-1"):
        real_effect(7)
    go_on.set()
    thread.join(30)
    assert made == [7]
    assert [one.passed for one in results] == [True]


def test_a_node_that_hangs_is_reported_and_can_never_fire(tmp_path: Path) -> None:
    made: list[str] = []
    words = ["once"]
    go_on, over = threading.Event(), threading.Event()
    go_on.set()

    @nt.tool("unsafe_on_replay")
    def late_effect(word: str) -> None:
        made.append(word)

    flow: nt.Graph[Any] = nt.Graph("hanging", version="0.0.1")

    @flow.node
    def wait(state: dict[str, Any]) -> None:
        try:
            go_on.wait(30)
            late_effect(words[-1])
        finally:
            over.set()

    with nt.Ledger(":memory:") as ledger:
        flow.run("hanging-1", {}, store=ledger)
        record(nt.App(graphs=[flow]), ledger.store, tmp_path, number=2)
    words.append("again")
    go_on.clear()
    over.clear()
    (path,) = tmp_path.glob("hanging-start-*.json")
    result = replay_file(flow, path, terms=Terms(limit_seconds=0.05))
    assert [problem.cause.value for problem in result.problems] == ["does not end"]
    go_on.set()
    assert over.wait(30)
    assert made == ["once"]


def test_wherever_a_run_was_killed_the_code_that_made_it_resumes_it(tmp_path: Path) -> None:
    """No checkpoint of any killed run is left out, and none fails."""
    place = Deployment(tmp_path)
    app = place.app
    killed = 0
    for point in range(1, 60):
        place.host = Host()
        survived = False
        with place.host.process(dies_at=point) as ledger:
            nt.App(graphs=app.graphs, store=ledger).run("approval", "ticket-7", {"order_id": 7})
            survived = True
        if survived:
            break
        if place.host.data.checkpoints:
            killed += 1
            recorded = place.record()
            assert recorded.left_out == ()
            assert causes(place.replay()) == set()
    assert killed > 5


def test_a_call_that_was_killed_must_be_asked_for_again(tmp_path: Path) -> None:
    """What may have happened is not forgotten, and not replaced by something like it."""
    place = Deployment(tmp_path)
    for point in range(1, 60):
        place.host = Host()
        with place.host.process(dies_at=point) as ledger:
            nt.App(graphs=place.app.graphs, store=ledger).run("approval", "r", {"order_id": 7})
        if any(row.status.in_doubt for row in place.host.calls):
            break
    assert [row.status.in_doubt for row in place.host.calls].count(True) == 1
    place.record()
    patch = ('version="1.0.0"', 'version="1.0.1"')
    place.deploy(patch, ("We look into", "We check"))
    assert causes(place.replay()) == {"arguments changed"}
    mail = (
        'example_email(to=state.customer, body=f"We look into your refund of {state.cents} cents.")'
    )
    place.deploy(patch, (mail, f"if state.cents > 9999:\n        {mail}"))
    assert causes(place.replay()) == {"effect no longer asked for"}
    place.deploy(patch, (mail, f"example_refund(order_id=1, cents=1)\n    {mail}"))
    assert causes(place.replay()) == {"new effect"}


class Trouble(Exception):
    """What a node may raise."""


@nt.tool("unsafe_on_replay")
def troubled(word: str) -> str:
    if word == "refused":
        raise nt.Permanent("no such address")
    return word


def in_trouble(version: str, *words: str, raises: type[Exception] | None = None) -> nt.Graph[Any]:
    flow: nt.Graph[Any] = nt.Graph("trouble", version=version)

    @flow.node(name="try")
    def try_all(state: dict[str, Any]) -> None:
        for word in words:
            troubled(word)
        if raises is not None:
            raise raises("on purpose")

    return flow


def told(old: nt.Graph[Any], new: nt.Graph[Any], folder: Path) -> set[str]:
    """What is said about new code after the old one has run, by a clock that moves."""
    with nt.Ledger(":memory:") as ledger:
        with contextlib.suppress(Trouble, nt.Permanent):
            old.run("r", {}, store=ledger)
        assert record(nt.App(graphs=[old]), ledger.store, folder).left_out == ()
    return causes(replay_folder(new, folder))


def test_a_run_that_failed_is_resumed_to_the_same_failure(tmp_path: Path) -> None:
    failed = in_trouble("0.0.1", "a", raises=Trouble)
    assert told(failed, failed, tmp_path) == set()
    assert told(failed, in_trouble("0.0.1", "a", raises=KeyError), tmp_path) == {"node raises"}
    # Code that fixes it is not stopped.
    assert told(failed, in_trouble("0.0.1", "a"), tmp_path) == set()
    assert told(failed, in_trouble("0.0.1", "a", "b"), tmp_path) == set()
    refused = in_trouble("0.0.1", "a", "refused")
    assert told(refused, refused, tmp_path) == set()


def test_effects_that_change_places_are_found(tmp_path: Path) -> None:
    """A run that was killed between them would be asked for the second before the first."""
    old = in_trouble("0.0.1", "a", "b", "c")
    assert told(old, old, tmp_path) == set()
    assert told(old, in_trouble("0.0.1", "a", "c", "b"), tmp_path) == {"effects reordered"}


def test_effects_that_were_made_at_once_have_no_order(tmp_path: Path) -> None:
    @nt.tool("unsafe_on_replay")
    async def at_once(word: str) -> str:
        await asyncio.sleep(0.01)
        return word

    def flow(*words: str) -> nt.Graph[Any]:
        made: nt.Graph[Any] = nt.Graph("at-once", version="0.0.1")

        @made.node(name="try")
        async def try_all(state: dict[str, Any]) -> None:
            await asyncio.gather(*(at_once(word) for word in words))

        return made

    assert told(flow("a", "b"), flow("b", "a"), tmp_path) == set()


def test_a_draft_whose_node_is_gone_is_no_pass(tmp_path: Path) -> None:
    def flow(*names: str) -> nt.Graph[Any]:
        made: nt.Graph[Any] = nt.Graph("draft", version="0.0.1")
        for name in names:
            made.node(name=name)(lambda state: None)
        return made

    assert told(flow("a", "b"), flow("a", "b"), tmp_path) == set()
    assert told(flow("a", "b", "c"), flow("a", "d", "c"), tmp_path) == {
        "node renamed without mapping",
        "route changed",
    }
    assert told(flow("a", "b", "c"), flow("a", "c"), tmp_path) == {"node removed", "route changed"}


def test_a_policy_is_not_asked_and_what_it_asked_people_for_stays_the_same(tmp_path: Path) -> None:
    asked: list[str] = []

    def careful(call: Any) -> Any:
        asked.append(call.tool)
        return policy.ask("it is careful")

    old = in_trouble("0.0.1", "a")
    with nt.Ledger(":memory:", policy=[careful]) as ledger:
        assert old.run("r", {}, store=ledger).status == "waiting"
        assert record(nt.App(graphs=[old]), ledger.store, tmp_path).left_out == ()
        assert asked == ["troubled"]
    assert causes(replay_folder(nt.App(graphs=[old], policy=[careful]), tmp_path)) == set()
    assert causes(replay_folder(in_trouble("0.0.1", "b"), tmp_path)) == {"arguments changed"}
    assert asked == ["troubled"]
