"""Talk to a run: send a message of the user, and continue a conversation that had ended.

A message is an event, so it is on record before a run reacts to it, is received once, and may be
sent by any process at any time. A run that had ended continues from its first beat, with its
transcript, plan, receipts and costs. The same words twice in a row are one message: they resume the
run, or repeat its answer. After another message, the same words are a new message. A conversation
that had ended continues in the version of the agent that receives the message. That is possible
because all versions have the same beats, and because an effect that a model asked for is identified
by its arguments and not by the version. The audit trail records the move. Promises kept here: P72,
P199, P233.
"""

from __future__ import annotations

from collections.abc import Sequence

from nottwice.agent.messages import Spoken, spoken, to_payload
from nottwice.agent.requests.hearing import MESSAGE
from nottwice.engine import ownership
from nottwice.engine.asks import Apart, Doing, Read, Write
from nottwice.engine.host import Host
from nottwice.engine.opening import Opening
from nottwice.engine.session import Session
from nottwice.errors import CommitUnknown, RunAborted, RunBusy
from nottwice.graphs.running import Runnable, fits
from nottwice.guard.sending import telling
from nottwice.model import values
from nottwice.model.graphs import position as positions
from nottwice.model.graphs.position import Position
from nottwice.model.review import MIGRATE, AuditEntry
from nottwice.model.run import (
    CheckpointRecord,
    EventRecord,
    GraphRecord,
    RunRecord,
    RunStatus,
)
from nottwice.model.saving.checkpoint import save
from nottwice.model.saving.image import resume_image
from nottwice.store.interface import Commit, RunUpdate, Store


def send_message(
    host: Host,
    run_id: str,
    message: Spoken,
    *,
    message_id: str | None = None,
    by: str = "a program",
) -> Doing[None]:
    """Send a message to a run, once.

    Durable: when it returns. Without an id, the same words are the same message until another
    message is sent.
    """
    payload = to_payload(spoken(message))
    if message_id is None:
        hashed = values.hash_of(payload)[:16]
        message_id = yield Read(lambda store: _id_of(hashed, store.events(run_id, MESSAGE)))
    yield from telling(host, run_id, MESSAGE, payload, event_id=message_id, by=by)


def check_hears(run_id: str, run: RunRecord | None) -> None:
    """Refuse a message to a run that will never read it."""
    if run is not None and run.status is RunStatus.ABORTED:
        raise RunAborted(
            f"Run {run_id!r} was aborted, so it receives no more messages. Your message was not "
            "sent. Send it to a run with another id: agent.run('...', goal='...').",
            run_id=run_id,
        )


def is_on_record(busy: RunBusy) -> RunBusy:
    """Return RunBusy with a note that the caller's message is on record."""
    text = busy.message.replace(
        "Nothing was done.",
        "Your message is on record, and the run reads it before its next turn. Nothing else was "
        "done.",
    )
    return RunBusy(text, **busy.facts)


def _id_of(hashed: str, before: Sequence[EventRecord]) -> str:
    """Return the newest message's id, if it is generated and has the same words; else a new id."""
    if before and before[-1].event_id.startswith("message-"):
        if before[-1].event_id.endswith(f"-{hashed}"):
            return before[-1].event_id
    known, number = {event.event_id for event in before}, len(before) + 1
    while f"message-{number}-{hashed}" in known:
        number += 1
    return f"message-{number}-{hashed}"


def is_spoken_to(run_id: str) -> Read:
    """Ask whether a run has ended and has a message that it has not read."""

    def look(store: Store) -> bool:
        run = store.load_run(run_id)
        ended = run is not None and run.status is RunStatus.COMPLETED
        return ended and _has_unheard(store, run_id)

    return Read(look)


def reopen(graph: Runnable, opening: Opening) -> Doing[None]:
    """Let a run that has ended start its next round, in this version of its agent.

    Durable: when it returns. A second caller finds the run already reopened and changes nothing.
    """
    run_id = opening.run_id
    session = yield from ownership.take(
        Opening(
            host=opening.host,
            run_id=run_id,
            acquire_seconds=opening.acquire_seconds,
            # If the process is killed here, the run stays ended, and a message can reopen it.
            as_it_is=True,
        )
    )
    # A caller that is cancelled here must not keep the run (P381).
    yield Apart(_begin_round(graph, session))


def _begin_round(graph: Runnable, session: Session) -> Doing[None]:
    run_id = session.run_id
    chain: list[CheckpointRecord] = yield Read(lambda store: store.checkpoint_chain(run_id))
    unheard = yield Read(lambda store: _has_unheard(store, run_id))
    image, saved = resume_image(chain)
    position = Position.from_plain(image["position"])
    status = RunStatus.RUNNING
    if position.node is None and unheard:
        again = positions.restart(graph.definition(), position)
        moves = not fits(graph, session.run)
        record, _ = save(
            saved,
            workflow_id=run_id,
            node_id=f"/{graph.id}" if moves else "/",
            old=image,
            new={**image, "position": again.to_plain()},
            now=session.clock.now(),
        )
        if moves:
            yield from _move(session, graph, record)
            return
        session.pending.add_checkpoint(record)
    elif position.node is None:
        # Another process was faster: the run has read the message and answered.
        status = RunStatus.COMPLETED
    yield from ownership.release(session, None, status=status)


def _move(session: Session, graph: Runnable, record: CheckpointRecord) -> Doing[None]:
    """Bind the run to this version and start the round, in one commit; then release it."""
    now, run = session.clock.now(), session.run
    moved = AuditEntry(
        run.workflow_id,
        now,
        "nottwice",
        MIGRATE,
        f"{run.graph_id} to {graph.id}",
        "the run had ended and was spoken to",
    )
    commit = Commit(
        workflow_id=run.workflow_id,
        fence=session.fence,
        run=RunUpdate(RunStatus.RUNNING, now, release=True, graph_id=graph.id, saved=session.saved),
        audit=(moved,),
        checkpoints=(record,),
        graph=GraphRecord(graph.id, graph.record_json, now),
    )
    try:
        yield Write(commit)
    except CommitUnknown:
        # It may be durable, so nothing may be undone. The next claim reads what is stored.
        ownership.let_go(session)
        raise
    except BaseException:
        yield from ownership.put_back(session)
        raise
    ownership.let_go(session)


def _has_unheard(store: Store, run_id: str) -> bool:
    return any(event.received_by is None for event in store.events(run_id, MESSAGE))
