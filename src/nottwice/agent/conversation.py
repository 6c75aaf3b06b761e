"""Speaking to a run: a message of the user, and the next round of a conversation that had ended.

A message is an event, so it is on record before anybody reacts to it, is taken in once, and may be
sent by any process at any time. A run that had reached its end goes on from its beginning, with all
it has: transcript, plan, receipts, money. The same line twice is one message as long as nobody has
answered it, and tells the answer again when somebody has. Promise kept here: P72.
"""

from __future__ import annotations

import hashlib

from nottwice.agent.loop import MESSAGE
from nottwice.engine import ownership
from nottwice.engine.asks import Doing, Read
from nottwice.engine.drivers import Seat
from nottwice.errors import RunBusy, UsageError
from nottwice.guard import registry
from nottwice.guard.sending import telling
from nottwice.model import position as positions
from nottwice.model.checkpoint import save
from nottwice.model.graph import GraphDefinition
from nottwice.model.image import load_image, resume_image
from nottwice.model.position import Position
from nottwice.model.run import CheckpointRecord, RunStatus
from nottwice.model.shapes import not_believed
from nottwice.store.interface import Store


def send_message(
    seat: Seat, run_id: str, text: str, *, message_id: str | None = None, by: str = "a program"
) -> Doing[None]:
    """Say something to a run, once.

    Durable: when it returns. Without an id, the same text is the same message until the run has
    answered it; after that it is taken for the same line typed again, too, until something else
    was said.
    """
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"message={text!r} says nothing. Nothing was sent. Write some text.")
    if message_id is None:
        number = yield Read(lambda store: _round_to_speak_in(store, run_id, text))
        hashed = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        message_id = f"message-{number}-{hashed}"
    yield from telling(seat, run_id, MESSAGE, {"text": text}, event_id=message_id, by=by)


def busy_but_heard(busy: RunBusy) -> RunBusy:
    """What is told to whoever said something to a run that another process drives."""
    driven = busy.message.partition(" Nothing was done.")[0]
    return RunBusy(
        f"{driven} Your message is on record, and is taken in there at the beginning of the next "
        "turn, or when the run is next opened; do not send it again. To wait for the answer: "
        "agent.run(run_id, wait_seconds=...).",
        **busy.facts,
    )


def _round_to_speak_in(store: Store, run_id: str, text: str) -> int:
    """The round that a message belongs to; one that was answered last is not said again."""
    run = store.load_run(run_id)
    chain = [] if run is None else store.checkpoint_chain(run_id)
    if run is None or not chain:
        return 1
    ended = run.status is RunStatus.COMPLETED
    with not_believed(f"The state of run {run_id!r}"):
        now = load_image(chain)["state"]["round"]
        number = int(now["number"])
        return number - 1 if ended and now["last_message"] == text else number


def is_spoken_to(run_id: str) -> Read:
    """Ask whether a run has ended and somebody has said something since."""

    def look(store: Store) -> bool:
        run = store.load_run(run_id)
        ended = run is not None and run.status is RunStatus.COMPLETED
        return ended and _has_unheard(store, run_id)

    return Read(look)


def reopen(seat: Seat, graph: GraphDefinition, run_id: str, *, wait_seconds: float) -> Doing[None]:
    """Let a run that has ended begin its next round.

    Durable: when it returns. Whoever comes second finds that it has happened, and changes nothing.
    """
    opening = ownership.Opening(
        store=seat.store,
        clock=seat.clock,
        run_id=run_id,
        find_tool=registry.find_tool,
        wait_seconds=wait_seconds,
    )
    session = yield from ownership.take(opening)
    chain: list[CheckpointRecord] = yield Read(lambda store: store.checkpoint_chain(run_id))
    unheard = yield Read(lambda store: _has_unheard(store, run_id))
    image, saved = resume_image(chain)
    position = Position.from_plain(image["position"])
    status = RunStatus.RUNNING
    if position.node is None and unheard:
        again = positions.restart(graph, position)
        record, _ = save(
            saved,
            workflow_id=run_id,
            node_id="/",
            old=image,
            new={**image, "position": again.to_plain()},
            now=seat.clock.now(),
        )
        session.riding.add_checkpoint(record)
    elif position.node is None:
        # Somebody else was faster: the message was heard, and answered.
        status = RunStatus.COMPLETED
    yield from ownership.release(session, None, status=status)


def _has_unheard(store: Store, run_id: str) -> bool:
    return any(event.received_by is None for event in store.events(run_id, MESSAGE))
