"""A recorded checkpoint with pseudonyms in place of its secrets, in state and rows."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

from nottwice.model import values
from nottwice.model.call import (
    ROOT_NODE,
    CallIdentity,
    CallRow,
    ResultKind,
    StoredResult,
    branch_node,
)
from nottwice.model.failure import Failure
from nottwice.model.review import Decision, Review
from nottwice.model.run import EventRecord, Wait
from nottwice.testing.replay.fixture import Fixture
from nottwice.testing.replay.pseudonyms import Pseudonyms, normal_name
from nottwice.testing.replay.runner import is_own_branch

RUN_ID = ("run_id",)
"""The name under which run ids are declared secret."""
_WHOLE_QUESTION = ("question", "options", "about")


def look_at(fixture: Fixture, pseudonyms: Pseudonyms) -> None:
    """Collect every secret in a checkpoint and in what followed it."""
    pseudonyms.look(fixture.run_id, RUN_ID)
    for data in (fixture.input, fixture.state, fixture.position):
        pseudonyms.look(data)
    for row in fixture.calls:
        pseudonyms.look(values.decode_object(row.args_json))
        pseudonyms.look(row.label or "")
        pseudonyms.look(row.identity.checkpoint_id)
        if row.result is not None:
            pseudonyms.look(values.decode(row.result.json), _under(row.identity.tool_name))
        if row.failure is not None:
            pseudonyms.look(row.failure.message)
    for review in fixture.reviews:
        pseudonyms.look(values.decode(review.about or "null"))
        if review.decision is not None and review.decision.result is not None:
            pseudonyms.look(values.decode(review.decision.result.json))
    for event in fixture.events:
        pseudonyms.look([event.event_id, values.decode(event.json)])


def disguised(fixture: Fixture, pseudonyms: Pseudonyms) -> Fixture:
    """Return the checkpoint without any secret in it.

    If the arguments of a call change, its hash is computed again, provided that it depends on the
    arguments only. Otherwise only the code can compute it (``learning.py``).
    """
    work = _Disguise(pseudonyms)
    return replace(
        fixture,
        run_id=work.run(fixture.run_id),
        input=pseudonyms.replace(fixture.input),
        state=pseudonyms.replace(fixture.state),
        position=work.position(fixture.position),
        waits=tuple(work.wait(wait) for wait in fixture.waits),
        steps=tuple(
            replace(
                step,
                workflow_id=work.run(step.workflow_id),
                node_id=work.text(step.node_id),
                checkpoint_id=work.text(step.checkpoint_id),
            )
            for step in fixture.steps
        ),
        calls=tuple(work.call(row) for row in fixture.calls),
        reviews=tuple(work.review(review) for review in fixture.reviews),
        events=tuple(work.event(event) for event in fixture.events),
    )


def _under(tool: str) -> tuple[str, ...]:
    """Return where the result of a tool is, for declaring it secret."""
    return (normal_name(tool),)


class _Disguise:
    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self._pseudonyms = pseudonyms

    def text(self, text: str) -> str:
        found: str = self._pseudonyms.replace(text)
        return found

    def run(self, run_id: str) -> str:
        found: str = self._pseudonyms.replace(run_id, RUN_ID)
        return found

    def position(self, position: Any) -> Any:
        """Disguise the state changes in branches. The rest contains only node names and counts."""
        if "branches" not in position:
            return position
        branches = [
            {**branch, "update": self._pseudonyms.replace(branch["update"])}
            for branch in position["branches"]
        ]
        return {**position, "branches": branches}

    def wait(self, wait: Wait) -> Wait:
        return replace(wait, subject=self.text(wait.subject), node_id=self.text(wait.node_id))

    def call(self, row: CallRow) -> CallRow:
        args = values.decode_object(row.args_json)
        hidden = self._pseudonyms.replace(args)
        label = None if row.label is None else self.text(row.label)
        identity = self._identity(row.identity)
        if hidden != args or label != row.label:
            identity = _hashed(identity, _hash_again(row, args, hidden, label))
        return row._replace(
            identity=identity,
            call_id=identity.call_id,
            args_json=values.encode(hidden),
            label=label,
            result=self._result(row.result, row.identity.tool_name),
            failure=self._failure(row.failure),
        )

    def review(self, review: Review) -> Review:
        identity = self._identity(review.identity)
        about = None if review.about is None else values.decode(review.about)
        hidden = self._pseudonyms.replace(about)
        if hidden != about:
            identity = _hashed(identity, _hash_of_question(review, about, hidden))
        decision = review.decision
        return replace(
            review,
            identity=identity,
            call_id=identity.call_id,
            summary="",
            about=None if hidden is None else values.encode(hidden),
            decision=None if decision is None else self._decision(decision),
        )

    def event(self, event: EventRecord) -> EventRecord:
        return replace(
            event,
            workflow_id=self.run(event.workflow_id),
            event_id=self.text(event.event_id),
            json=values.encode(self._pseudonyms.replace(values.decode(event.json))),
        )

    def _identity(self, identity: CallIdentity) -> CallIdentity:
        return identity._replace(
            workflow_id=self.run(identity.workflow_id),
            node_id=self.text(identity.node_id),
            checkpoint_id=self.text(identity.checkpoint_id),
        )

    def _result(self, result: StoredResult | None, tool: str | None = None) -> StoredResult | None:
        if result is None:
            return None
        path = () if tool is None else _under(tool)
        plain = values.decode(result.json)
        if result.kind is ResultKind.NOT_KEPT:
            # Its text is of no use here and may contain anything.
            plain = {**plain, "text": ""}
        hidden = self._pseudonyms.replace(plain, path)
        return StoredResult(result.kind, values.encode(hidden))

    def _failure(self, failure: Failure | None) -> Failure | None:
        if failure is None:
            return None
        return dataclasses.replace(failure, message=self.text(failure.message))

    def _decision(self, decision: Decision) -> Decision:
        return replace(decision, result=self._result(decision.result))


def _hashed(identity: CallIdentity, hashed: str) -> CallIdentity:
    """Return the identity with another hash, and the matching name if a branch is named by it."""
    if is_own_branch(identity):
        identity = identity._replace(node_id=branch_node(ROOT_NODE, int(hashed[:8], 16)))
    return identity._replace(input_hash=hashed)


def _hash_again(row: CallRow, args: Any, hidden: Any, label: str | None) -> str:
    """Return the hash of the new arguments, if the old one depended on the arguments only."""
    stored = row.identity.input_hash
    if row.label is None and values.hash_of(args) == stored:
        return values.hash_of(hidden)
    if row.label is not None and values.hash_of([args, row.label, {}]) == stored:
        return values.hash_of([hidden, label, {}])
    return stored


def _hash_of_question(review: Review, about: Any, hidden: Any) -> str:
    stored = review.identity.input_hash
    return values.hash_of(_told(hidden)) if values.hash_of(_told(about)) == stored else stored


def _told(about: Any) -> dict[str, Any]:
    """Return what the identity of a question without a label consists of."""
    names = ("question", "options") if about.get("about") is None else _WHOLE_QUESTION
    return {name: about.get(name) for name in names}
