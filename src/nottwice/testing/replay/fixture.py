"""One checkpoint of a run as a file: everything needed to resume it, readable and diffable.

It contains the graph as the ledger knew it, where the run was and its state, and everything that
the ledger recorded from there on. It does not contain who held the run, when its attempts were
made, and what came before the checkpoint. User data keeps the order of its keys, because a node may
depend on it. So the same ledger always gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nottwice.errors import NottwiceError, UsageError
from nottwice.model import values
from nottwice.model.call import (
    CallIdentity,
    CallRow,
    CallStatus,
    ResultKind,
    StoredResult,
    check_id,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import UNREADABLE
from nottwice.model.failure import Failure
from nottwice.model.graphs.fingerprint import Fingerprint
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.graphs.position import Position
from nottwice.model.replay_class import ReplayClass
from nottwice.model.review import Decision, Review, ReviewKind, ReviewStatus, Verb
from nottwice.model.run import EventRecord, RunStatus, StepRecord, StepStatus, Wait
from nottwice.testing.replay.visits import Visits

FORMAT = 1
MARK = "nottwice_checkpoint"
"""The first key in every file. Its value is the format."""
LEFT_OUT_FILE = "left-out.json"
_UNREADABLE = (*UNREADABLE, NottwiceError)


class InvalidFixture(UsageError):
    """A file has no recorded checkpoint that this nottwice can read. Nothing was replayed."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Fixture:
    """A recorded checkpoint, and what followed it."""

    run_id: str
    graph_id: str
    status: RunStatus
    at: float
    """When the run last changed. This is the current time in a replay."""
    input: Any
    after: str
    """The node that had just ended, or ``/`` for the input."""
    version: int
    state: Any
    position: Any
    definition: Any
    """The fingerprint of the graph, as the ledger had it."""
    steps: tuple[StepRecord, ...] = ()
    calls: tuple[CallRow, ...] = ()
    reviews: tuple[Review, ...] = ()
    events: tuple[EventRecord, ...] = ()
    waits: tuple[Wait, ...] = ()
    work: str | None = None
    """For a run without a graph: the name of the function that resumes it. There is no checkpoint
    then, and the record contains the whole run."""

    @property
    def is_plain(self) -> bool:
        """Whether its run has no graph, because ``nt.run`` opened it."""
        return self.work is not None

    @property
    def name(self) -> str:
        """The name of its file: graph, node, and what distinguishes it from all others."""
        graph = self.graph_id.partition("@")[0] or self.work or "run"
        node = "start" if self.after == "/" else self.after
        mark = hashlib.sha256(f"{self.version}:{self.graph_id}:{self.run_id}".encode()).hexdigest()
        return f"{_slug(graph)}-{_slug(node)}-{mark[:10]}.json"

    def to_plain(self) -> dict[str, Any]:
        """Return the file as plain data."""
        return {
            MARK: FORMAT,
            "graph": None if self.is_plain else self.graph_id,
            **({"work": self.work} if self.is_plain else {}),
            "run": {
                "id": self.run_id,
                "status": self.status.value,
                "at": self.at,
                "input": self.input,
                "waits": [wait.to_plain() for wait in self.waits],
            },
            "checkpoint": {
                "version": self.version,
                "after": self.after,
                "position": self.position,
                "state": self.state,
            },
            "steps": [_step_to_plain(step) for step in self.steps],
            "calls": [_call_to_plain(row) for row in self.calls],
            "reviews": [_review_to_plain(review) for review in self.reviews],
            "events": [_event_to_plain(event) for event in self.events],
            "definition": self.definition,
        }

    def to_text(self) -> str:
        """Return the text of its file."""
        return json.dumps(self.to_plain(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_fixture(text: str, *, where: str) -> Fixture:
    """Parse a file. InvalidFixture if it is not ours, or if a newer nottwice wrote it."""
    try:
        plain = values.decode(text)
    except NottwiceError as error:
        raise _invalid(where, error) from error
    written_as = plain.get(MARK) if isinstance(plain, dict) else None
    if type(written_as) is not int:
        raise _invalid(where, f"it has no {MARK!r}")
    if written_as > FORMAT:
        raise InvalidFixture(
            f"{where} was recorded by a newer nottwice: it has format {written_as}, and this one "
            f"reads up to {FORMAT}. It was not replayed. Install the newer version here too, "
            "or record the checkpoints again with this one."
        )
    try:
        return _read(plain)
    except _UNREADABLE as error:
        raise _invalid(where, repr(error)) from error


def fixture_paths(folder: Path) -> list[Path]:
    """Return all recorded checkpoints in a folder and its subfolders, by name."""
    return sorted(path for path in folder.rglob("*.json") if path.name != LEFT_OUT_FILE)


def is_fixture(path: Path) -> bool:
    """Return whether a recording wrote this file, whatever else it contains."""
    try:
        return re.match(rf'\s*{{\s*"{MARK}"\s*:', path.read_text(encoding="utf-8")) is not None
    except (OSError, ValueError):
        return False


def nameless(row: CallRow, *, order: int, at: float) -> CallRow:
    """Return a row without its holder and its times, with everything that a resume needs.

    ``order`` replaces its time. Calls of one place with the same order were made concurrently.
    """
    return CallRow(
        row.identity,
        row.identity.call_id,
        row.status,
        row.replay_class,
        1,
        "",
        "",
        row.args_json,
        float(order),
        float(order),
        finished_at=None if row.status.in_doubt else at,
        result=row.result,
        failure=row.failure,
        retry_at=row.retry_at,
        label=row.label,
        parent_call_id=row.parent_call_id,
    )


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:40] or "x"


def _invalid(where: str, why: object) -> InvalidFixture:
    return InvalidFixture(
        f"{where} is not a readable recorded checkpoint: {why}. It was not replayed. Undo your "
        "changes to it, or record it again: nottwice replay --record 50 FOLDER"
    )


def _read(plain: Mapping[str, Any]) -> Fixture:
    run, checkpoint = plain["run"], plain["checkpoint"]
    run_id, at = check_id(run["id"], what="The run id"), float(run["at"])
    work = None if plain["graph"] is not None else _text(plain["work"])
    if work is None:
        # These raise if the text is invalid. Later code relies on that.
        split_graph_id(_text(plain["graph"]))
        Visits(plain["graph"], Fingerprint.from_plain(plain["definition"]).graph)
        _check_position(Position.from_plain(checkpoint["position"]))
    return Fixture(
        run_id=run_id,
        work=work,
        graph_id="" if work is not None else _text(plain["graph"]),
        status=RunStatus(run["status"]),
        at=at,
        input=run["input"],
        waits=tuple(Wait.from_plain(wait) for wait in run["waits"]),
        after=_text(checkpoint["after"]),
        version=int(checkpoint["version"]),
        state=dict(checkpoint["state"]),
        position=dict(checkpoint["position"]),
        definition=dict(plain["definition"]),
        steps=tuple(_read_steps(run_id, plain["steps"], at)),
        calls=tuple(_read_call(run_id, one, at) for one in plain["calls"]),
        reviews=tuple(_read_review(run_id, one, at) for one in plain["reviews"]),
        events=tuple(_read_event(run_id, one) for one in plain["events"]),
    )


def _check_position(position: Position) -> None:
    for name in (position.node, *(branch.node for branch in position.branches)):
        if name is not None:
            _text(name)
    if any(type(number) is not int for number in position.visits.values()):
        raise TypeError("a visit has no number")
    if any(type(branch.update) is not dict for branch in position.branches):
        raise TypeError("a branch has an unreadable update")


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is not text")
    return value


def _step_to_plain(step: StepRecord) -> dict[str, Any]:
    plain = {"node": step.node_id, "visit": step.checkpoint_id, "status": step.status.value}
    if step.failure is not None:
        plain["failure"] = step.failure.error_type
    return plain


def _read_steps(run_id: str, plain: list[Any], at: float) -> Iterator[StepRecord]:
    for number, one in enumerate(plain):
        failure = None
        if "failure" in one:
            failure = Failure.from_plain(
                {
                    "failure_class": "permanent",
                    "error_type": one["failure"],
                    "message": "",
                    "retry_after_seconds": None,
                }
            )
        yield StepRecord(
            workflow_id=run_id,
            node_id=_text(one["node"]),
            checkpoint_id=_text(one["visit"]),
            status=StepStatus(one["status"]),
            ordinal=number,
            started_at=at,
            failure=failure,
        )


def _call_to_plain(row: CallRow) -> dict[str, Any]:
    _, node, visit, tool, hashed = row.identity
    plain: dict[str, Any] = {
        "node": node,
        "visit": visit,
        "tool": tool,
        "class": row.replay_class.value,
        "status": row.status.value,
        "order": int(row.created_at),
        "args": values.decode_object(row.args_json),
    }
    if row.label is not None:
        plain["label"] = row.label
    if row.result is not None:
        plain["result"] = _result_to_plain(row.result)
    if row.failure is not None:
        plain["failure"] = row.failure.to_plain()
    if row.retry_at is not None:
        plain["retry_at"] = row.retry_at
    return {**plain, "hash": hashed}


def _read_call(run_id: str, plain: Mapping[str, Any], at: float) -> CallRow:
    identity = _read_identity(run_id, plain)
    return CallRow(
        identity,
        identity.call_id,
        CallStatus(plain["status"]),
        ReplayClass(plain["class"]),
        1,
        "",
        "",
        values.encode(dict(plain["args"])),
        float(plain["order"]),
        float(plain["order"]),
        finished_at=None if CallStatus(plain["status"]).in_doubt else at,
        result=_read_result(plain.get("result")),
        failure=Failure.from_plain(plain["failure"]) if "failure" in plain else None,
        retry_at=plain.get("retry_at"),
        label=plain.get("label"),
    )


def _read_identity(run_id: str, plain: Mapping[str, Any]) -> CallIdentity:
    node, visit, tool, hashed = (_text(plain[key]) for key in ("node", "visit", "tool", "hash"))
    if len(bytes.fromhex(hashed)) != 32:
        raise ValueError(f"{hashed!r} is not a hash")
    return CallIdentity(run_id, node, visit, tool, hashed)


def _result_to_plain(result: StoredResult) -> dict[str, Any]:
    return {"kind": result.kind.value, "value": values.decode(result.json)}


def _read_result(plain: Mapping[str, Any] | None) -> StoredResult | None:
    if plain is None:
        return None
    return StoredResult(ResultKind(plain["kind"]), values.encode(plain["value"]))


def _review_to_plain(review: Review) -> dict[str, Any]:
    _, node, visit, tool, hashed = review.identity
    decision = review.decision
    plain: dict[str, Any] = {
        "id": review.review_id,
        "kind": review.kind.value,
        "node": node,
        "visit": visit,
        "tool": tool,
        "about": None if review.about is None else values.decode(review.about),
    }
    if decision is not None:
        plain["decision"] = {
            "verb": decision.verb.value,
            "by": decision.by,
            "why": decision.why,
            "result": None if decision.result is None else _result_to_plain(decision.result),
        }
    return {**plain, "hash": hashed}


def _read_review(run_id: str, plain: Mapping[str, Any], at: float) -> Review:
    identity = _read_identity(run_id, plain)
    said = plain.get("decision")
    decision = None
    if said is not None:
        result = _read_result(said["result"])
        decision = Decision(Verb(said["verb"]), _text(said["by"]), _text(said["why"]), at, result)
    return Review(
        review_id=_text(plain["id"]),
        kind=ReviewKind(plain["kind"]),
        status=ReviewStatus.OPEN if decision is None else ReviewStatus.DECIDED,
        identity=identity,
        call_id=identity.call_id,
        attempt_id="",
        summary="",
        opened_at=at,
        decision=decision,
        about=None if plain["about"] is None else values.encode(plain["about"]),
    )


def _event_to_plain(event: EventRecord) -> dict[str, Any]:
    return {
        "id": event.event_id,
        "name": event.name,
        "data": values.decode(event.json),
        "sent_at": event.sent_at,
    }


def _read_event(run_id: str, plain: Mapping[str, Any]) -> EventRecord:
    return EventRecord(
        workflow_id=run_id,
        event_id=_text(plain["id"]),
        name=_text(plain["name"]),
        json=values.encode(plain["data"]),
        sent_at=float(plain["sent_at"]),
        sent_by="",
    )
