"""Which hash does a call have after its arguments got pseudonyms? The code that calls can tell.

A hash is computed from the arguments that matter, in a form that only the tool's declaration
defines. So the code that made the call is resumed with the pseudonyms. If it makes a call with
exactly the arguments of a recorded row, it is that row, and the row gets the hash of the call.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from nottwice.graphs.app import App
from nottwice.guard import registry
from nottwice.model import values
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.review import Review, ReviewKind
from nottwice.model.sealing.secrets import covered
from nottwice.testing.replay.blind import BLIND
from nottwice.testing.replay.fixture import Fixture
from nottwice.testing.replay.gate import Terms, observe, resumer
from nottwice.testing.replay.runner import Trace, is_same_place


def learned(app: App, fixture: Fixture, terms: Terms) -> Fixture:
    """Return the checkpoint with the hashes that its code uses, as far as it makes the calls."""
    graph = resumer(app, fixture, terms)
    if graph is None:
        return fixture
    for _ in range(len(fixture.calls) + len(fixture.reviews)):
        trace = observe(graph, fixture, terms)
        better = _rebound(fixture, trace)
        if better == fixture:
            break
        fixture = better
    return fixture


def _rebound(fixture: Fixture, trace: Trace) -> Fixture:
    calls = {row.identity: row for row in fixture.calls}
    for miss in trace.misses:
        _rebind(calls, trace, miss.identity, miss.args)
    reviews = {review.review_id: review for review in fixture.reviews}
    for review in trace.reviews.values():
        if review.review_id in reviews:
            continue
        known = next((one for one in reviews.values() if _same_question(one, review)), None)
        if known is not None:
            reviews[known.review_id] = dataclasses.replace(
                known, identity=review.identity, call_id=review.call_id
            )
        elif review.kind is ReviewKind.APPROVAL:
            # A receipt that is not found under its new hash needs approval again.
            _rebind(calls, trace, review.identity, values.decode(review.about or "{}")["args"])
    return dataclasses.replace(
        fixture, calls=tuple(calls.values()), reviews=tuple(reviews.values())
    )


def _rebind(
    calls: dict[CallIdentity, CallRow], trace: Trace, identity: CallIdentity, args: Any
) -> None:
    """Give the row with these arguments this identity, unless another row already has it."""
    if identity in calls:
        return
    for old, row in calls.items():
        same_place = is_same_place(old, identity) and old not in trace.asked
        if same_place and _counting(row, values.decode(row.args_json)) == _counting(row, args):
            found = row._replace(identity=identity, call_id=identity.call_id)
            # Keep its position: rows are in the order in which the calls were made.
            rows = [found if one is row else one for one in calls.values()]
            calls.clear()
            calls.update((one.identity, one) for one in rows)
            return


def _counting(row: CallRow, args: Any) -> Any:
    """Return the arguments that are part of a call's identity."""
    tool = registry.find_tool(row.identity.tool_name)
    volatile = () if tool is None else tool.volatile
    counting = {name: args[name] for name in args if name not in volatile}
    return values.hash_of(covered(counting, BLIND))


def _same_question(one: Review, other: Review) -> bool:
    same_place = one.kind is other.kind and is_same_place(one.identity, other.identity)
    return same_place and _shown(one) == _shown(other)


def _shown(review: Review) -> Any:
    return covered(values.decode(review.about or "{}"), BLIND)
