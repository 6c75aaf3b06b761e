"""What happens to a run that no deployed version of its graph can resume? (V2)

None of its code runs. To make the problem visible, nottwice opens a review. It closes by itself
when a fitting version advances the run. A person can only decide to abort the run.
Promise kept here: P38.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence

from nottwice.engine import ownership
from nottwice.engine.asks import Doing, Read, Write
from nottwice.engine.host import Host
from nottwice.engine.opening import Opening
from nottwice.errors import (
    LedgerCorrupt,
    NottwiceError,
    RunAborted,
    WorkflowVersionMismatch,
)
from nottwice.graphs.cancel import cancel_children
from nottwice.graphs.recorded import recorded_definition, recorded_fingerprint
from nottwice.model import values
from nottwice.model.call import FIRST_CHECKPOINT, ROOT_NODE, CallIdentity
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.graphs.mapping import nodes_at
from nottwice.model.graphs.position import Position, start
from nottwice.model.review import Review, ReviewKind, ReviewStatus
from nottwice.model.run import Life, RunRecord
from nottwice.model.saving.image import load_image
from nottwice.model.tool import OWN_PREFIX
from nottwice.store.interface import Commit, Outdated, ReviewWrite, Store

_ABOUT = f"{OWN_PREFIX}version"
_MOST_INPUT_CHARACTERS = 300


def version_mismatch(
    run: RunRecord, deployed: Sequence[str], *, store: Store, review: Review | None = None
) -> WorkflowVersionMismatch:
    """Return the error for a run whose version is not deployed, with what can be done."""
    bound = run.graph_id or ""
    name, run_id = split_graph_id(bound)[0], run.workflow_id
    here = ", ".join(deployed) or f"no version of {name}"
    ledger = f" --store {shlex.quote(store.location)}"
    told = "" if review is None else f" Review {review.review_id} was opened for this."
    ways = [
        f"Deploy the old version beside the new one, nt.App(graphs=[..., <{bound}>]), and repeat "
        "the same call to let the run finish",
        f"cancel it: nottwice cancel {shlex.quote(run_id)} --why TEXT{ledger}",
    ]
    if deployed:
        command = migrate_command(store, run, deployed[-1])
        node = f"NODE is the node of {deployed[-1]} where it resumes, and "
        where = f"where {node if '=NODE' in command else ''}MODULE has your nt.App with its admins"
        again = f"nottwice run {shlex.quote(name)} --id {shlex.quote(run_id + '-2')} --app MODULE"
        ways.insert(
            1,
            f"start it again under another id: {again} --input {_input(run)}{ledger}; effects that "
            "this run has already made would be made again",
        )
        ways.insert(
            1,
            f"migrate it: {command}{ledger}, {where}; add --dry-run to see what would change",
        )
    return WorkflowVersionMismatch(
        f"Run {run_id!r} is bound to {bound}, and no deployed graph can resume it: this code has "
        f"{here}. Nothing was done.{told} You can: "
        + "; ".join(f"({number}) {way}" for number, way in enumerate(ways, 1)),
        run_id=run_id,
        bound=bound,
        deployed=deployed[-1] if deployed else None,
        review_id=None if review is None else review.review_id,
    )


def migrate_command(store: Store, run: RunRecord, to: str) -> str:
    """Return the command that migrates a run. Its placeholders are NODE, TEXT and MODULE."""
    words = ["nottwice", "migrate", run.workflow_id, "--to", to]
    # This only builds advice for a person, so a failing lookup must not raise.
    with contextlib.suppress(NottwiceError):
        for node in () if _is_agent(store, run) else nodes_at(position_of(store, run)):
            words += ["--map", f"{node}=NODE"]
    return f"{shlex.join(words)} --why TEXT --app MODULE"


def _is_agent(store: Store, run: RunRecord) -> bool:
    """Whether this is a run of an agent, whose nodes are the same in every version."""
    record = store.load_graph(run.graph_id or "")
    return record is not None and recorded_fingerprint(record).is_agent


def position_of(store: Store, run: RunRecord) -> Position:
    """Return where a graph run is. A run without a checkpoint is at its start."""
    chain = store.checkpoint_chain(run.workflow_id)
    if chain:
        return Position.from_plain(load_image(chain)["position"])
    graph = store.load_graph(run.graph_id or "")
    if graph is None:
        raise LedgerCorrupt(
            f"The ledger has a run of graph {run.graph_id!r} but no record of that graph. The run "
            "was not used. Restore the ledger from a backup."
        )
    return start(recorded_definition(graph))


def parking(host: Host, run: RunRecord, deployed: Sequence[str]) -> Doing[NottwiceError]:
    """Open a review for such a run, or apply its decision. Return the error to raise.

    Durable: when it returns, the review, or the fact that the run is aborted.
    """
    reviews: list[Review] = yield Read(lambda store: store.reviews(run.workflow_id))
    mine = [review for review in reviews if review.kind is ReviewKind.UNDEPLOYABLE]
    last = mine[-1] if mine else None
    if last is not None and last.status is ReviewStatus.DECIDED:
        aborted = yield from _abort(host, run, last)
        if aborted is not None:
            return aborted
    review = last if last is not None and last.status is ReviewStatus.OPEN else None
    if review is None and not (yield from _needs_no_review(run)):
        ways = f"deploy {run.graph_id} beside the others"
        if deployed:
            command = yield Read(lambda store: migrate_command(store, run, deployed[-1]))
            ways += f", or: {command}"
        review = _review(run, ways, number=len(mine), now=host.clock.now())
        # Outdated: another process has just opened the same review for this run.
        with contextlib.suppress(Outdated):
            yield Write(Commit(workflow_id=run.workflow_id, reviews=(ReviewWrite(review),)))
    opened = review
    mismatch: NottwiceError = yield Read(
        lambda store: version_mismatch(run, deployed, store=store, review=opened)
    )
    return mismatch


def _abort(host: Host, run: RunRecord, review: Review) -> Doing[NottwiceError | None]:
    # Abort is the only decision that this kind of review allows.
    assert review.decision is not None
    opening = Opening(host=host, run_id=run.workflow_id)
    try:
        session = yield from ownership.claim(opening)
    except RunAborted as aborted:
        by, why = review.decision.by, review.decision.why
        yield from cancel_children(host, run.workflow_id, by=by, why=why)
        return aborted
    # The decision has just been withdrawn.
    yield from ownership.release(session, None, status=run.status)
    return None


def _needs_no_review(run: RunRecord) -> Doing[bool]:
    """Whether the run has ended, or a live process that has its code holds it."""
    if run.status.is_final:
        return True
    if run.holder_id is None:
        return False
    holder_id = run.holder_id
    life: Life = yield Read(lambda store: store.life_of(holder_id))
    return life is Life.ALIVE


def _review(run: RunRecord, ways: str, *, number: int, now: float) -> Review:
    bound = run.graph_id or ""
    about = {"graph": bound, "number": number}
    identity = CallIdentity(
        run.workflow_id, ROOT_NODE, FIRST_CHECKPOINT, _ABOUT, values.hash_of(about)
    )
    return Review(
        # Derived from its subject, so that two processes that find the run open one review.
        review_id=identity.call_id[:8],
        kind=ReviewKind.UNDEPLOYABLE,
        status=ReviewStatus.OPEN,
        identity=identity,
        call_id=identity.call_id,
        attempt_id="",
        summary=f"no deployed version can resume this run; {ways}",
        opened_at=now,
    )


def _input(run: RunRecord) -> str:
    """Return the input of the run in a form that can be typed."""
    text = run.input_json or "{}"
    return shlex.quote(text) if len(text) <= _MOST_INPUT_CHARACTERS else "@input.json"
