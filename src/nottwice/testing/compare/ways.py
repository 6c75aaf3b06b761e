"""Three ways of keeping the state of a run: in memory, act then save, and nottwice.

The comparison is fair. The second way is what most people write: it saves safely after every beat.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice.testing.compare.journey import Journey
from nottwice.testing.compare.tasks import Beat, ComparedTask, TaskKind, task_named

CHECKPOINT = "checkpoint.json"
LEDGER = "agent.db"
QUESTION = "Shall it continue?"
ANSWERS = ["yes", "no"]

Results = dict[str, Any]
Way = Callable[[ComparedTask, Journey], Results | None]
"""Runs a task, from where it was. Returns None if it waits for a person."""


def in_memory(task: ComparedTask, journey: Journey) -> Results:
    """The run is a variable of the process and is lost with it."""
    results: Results = {}
    for beat_id, beat in _leaves(task.beats):
        results[beat_id] = _do(beat, beat_id, journey)
    return results


def act_then_save(task: ComparedTask, journey: Journey) -> Results:
    """The run is saved after every beat. A resume skips what is saved."""
    path = journey.folder / CHECKPOINT
    results: Results = json.loads(path.read_text()) if path.exists() else {}
    for beat_id, beat in _leaves(task.beats):
        if beat_id not in results:
            results[beat_id] = _do(beat, beat_id, journey)
            _save(results, path)
    return results


def _save(results: Results, path: Path) -> None:
    """Replace the file atomically, after the new content has reached the disk."""
    draft = path.with_suffix(".draft")
    with draft.open("w") as file:
        json.dump(results, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _leaves(beats: tuple[Beat, ...], around: str = "") -> Iterator[tuple[str, Beat]]:
    """Yield the beats, including those of children, each named by its place."""
    for place, beat in enumerate(beats):
        if beat.kind is TaskKind.CHILD:
            yield from _leaves(beat.beats, f"{around}{place}.")
        else:
            yield f"{around}{place}", beat


def _do(beat: Beat, beat_id: str, journey: Journey) -> Any:
    journey.come_to(beat_id, "begin")
    match beat.kind:
        case TaskKind.ASK:
            return ANSWERS[0]
        case TaskKind.TOGETHER:
            return [journey.act(beat.tool, f"{beat_id}/{one}") for one in range(beat.width)]
        case _:
            # In these two ways, a failure without effect and its retry leave no trace.
            return journey.act(beat.tool, beat_id)


# nottwice

_journeys: list[Journey] = []
"""The journey of this process. Tools have no other way to find it."""


def _happened(call: nt.Call) -> nt.Verification:
    found = _journeys[-1].client.find("note", call_id=call.id)
    return nt.did_not_happen() if found is None else nt.happened(found.result)


def _act(tool: str, beat_id: str, *, fails_first: bool) -> str:
    call = nt.current_call()
    if fails_first and call.attempt == 1:
        raise nt.Retryable("busy, and nothing was done")
    return _journeys[-1].act(tool, beat_id, key=call.key, call_id=call.id)


_PATIENT = nt.RetryPolicy(attempts=3, first_seconds=0.001)


@nt.tool(
    "idempotent_with_key", key=nt.key_per_call, window="24h", retry=_PATIENT, name="compare.pay"
)
def pay(run: str, beat_id: str, fails_first: bool = False) -> str:
    return _act("pay", beat_id, fails_first=fails_first)


@nt.tool("unsafe_on_replay", verify=_happened, settles="0.01s", retry=_PATIENT, name="compare.note")
def note(run: str, beat_id: str, fails_first: bool = False) -> str:
    return _act("note", beat_id, fails_first=fails_first)


@nt.tool("unsafe_on_replay", retry=_PATIENT, name="compare.mail")
def mail(run: str, beat_id: str, fails_first: bool = False) -> str:
    return _act("mail", beat_id, fails_first=fails_first)


_TOOLS: dict[str, Any] = {"pay": pay, "note": note, "mail": mail}

# Save after every beat, as the second way does.
graph: nt.Graph[Any] = nt.Graph(
    "compare", version="1.0.0", append=["done"], checkpoints="every_step"
)


@graph.node(then={"next": "beat", "end": nt.END})
def beat(state: dict[str, Any]) -> Any:
    """Run one beat per visit: the graph is the loop of an agent."""
    beats = _beats_of(task_named(state["task"]), state["around"])
    place = len(state["done"])
    if place == len(beats):
        return nt.goto("end", {})
    beat_id = f"{state['around']}{place}"
    return nt.goto("next", {"done": [_do_with_nottwice(beats[place], beat_id, state)]})


def _beats_of(task: ComparedTask, around: str) -> tuple[Beat, ...]:
    beats = task.beats
    for place in around.split(".")[:-1]:
        beats = beats[int(place)].beats
    return beats


def _do_with_nottwice(one: Beat, beat_id: str, state: dict[str, Any]) -> Any:
    run, use = state["run"], _TOOLS[one.tool]
    if one.kind is TaskKind.CHILD:
        below = _first_state(run, state["task"], around=f"{beat_id}.")
        return nt.spawn(graph, below).state["done"]
    if _journeys:
        _journeys[-1].come_to(beat_id, "begin")
    match one.kind:
        case TaskKind.ASK:
            return nt.ask(QUESTION, options=ANSWERS)
        case TaskKind.TOGETHER:
            places = [f"{beat_id}/{place}" for place in range(one.width)]
            return nt.map(lambda place: use(run=run, beat_id=place), places)
        case _:
            return use(run=run, beat_id=beat_id, fails_first=one.kind is TaskKind.FLAKY)


def _first_state(run: str, task: str, *, around: str = "") -> dict[str, Any]:
    return {"run": run, "task": task, "around": around, "done": []}


def run_graph(task: ComparedTask, run: str, store: str) -> nt.Outcome[Any]:
    """Start or resume a task with nottwice."""
    return graph.run(run, _first_state(run, task.name), store=store)


def with_nottwice(task: ComparedTask, journey: Journey) -> Results | None:
    """Every beat is a node of a graph, every act a tool."""
    _journeys.append(journey)
    outcome = run_graph(task, journey.name, str(journey.folder / LEDGER))
    if outcome.status == "waiting":
        return None
    return dict(_flat(task.beats, outcome.state["done"]))


def _flat(beats: tuple[Beat, ...], done: list[Any], around: str = "") -> Iterator[tuple[str, Any]]:
    for place, (one, result) in enumerate(zip(beats, done, strict=True)):
        if one.kind is TaskKind.CHILD:
            yield from _flat(one.beats, result, f"{around}{place}.")
        else:
            yield f"{around}{place}", result


WAYS: dict[str, Way] = {
    "in memory": in_memory,
    "act, then save": act_then_save,
    "nottwice": with_nottwice,
}
