"""Values that a resume must see again: ``nt.now``, ``nt.uuid``, ``nt.random`` (L7).

Code that reads a clock or a die gets another answer after a crash, and then asks for other effects
than the ledger holds. These answers are recorded like the result of any pure tool, and ride with
the next commit. Inside a step the n-th one is the n-th one again; outside of steps nothing counts
behind the user's back, so there each needs a label. Promise kept here: P27.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from nottwice.engine.clock import Clock
from nottwice.engine.dispatch import Request, perform
from nottwice.engine.drivers import drive
from nottwice.engine.session import Scope, current_attempt
from nottwice.errors import NotPlainData, ResultNotKept, UsageError
from nottwice.guard.codec import Codec, DoesNotFit
from nottwice.guard.scopes import scope_of
from nottwice.model import values
from nottwice.model.call import CallIdentity, ReplayClass, ResultKind, StoredResult, check_id
from nottwice.model.records import frozen_record
from nottwice.model.tool import OWN_PREFIX, Tool


def now(*, label: str | None = None) -> datetime:
    """The time, in UTC, recorded: after a resume it is the time it was."""
    found: datetime = _value("nt.now", _NOW, label)
    return found


def uuid(*, label: str | None = None) -> uuids.UUID:
    """A random UUID, recorded: after a resume it is the same one."""
    found: uuids.UUID = _value("nt.uuid", _UUID, label)
    return found


def random(*, label: str | None = None) -> float:
    """A random number from 0 to 1, recorded: after a resume it is the same one."""
    found: float = _value("nt.random", _RANDOM, label)
    return found


def own_tool(name: str, function: Callable[..., Any], returns: Any, *, what: str) -> Tool:
    """What the engine needs to record a value of this type; it is no tool that users declare."""
    codec = Codec(returns, where=what)

    def encode(value: Any) -> StoredResult:
        try:
            encoded = codec.encode(value)
        except NotPlainData as error:
            raise UsageError(f"{error.message} Nothing was recorded.") from None
        kind = ResultKind.TYPED if encoded.typed else ResultKind.PLAIN
        return StoredResult(kind, values.encode_known(encoded.plain))

    def decode(stored: StoredResult) -> Any:
        try:
            return codec.decode(values.decode(stored.json), typed=stored.kind is ResultKind.TYPED)
        except DoesNotFit as error:
            raise ResultNotKept(
                f"What is recorded cannot be handed out: {error}. Nothing was asked for again. "
                "Restore the type that it was recorded with."
            ) from error

    return Tool(
        name=OWN_PREFIX + name,
        replay_class=ReplayClass.PURE,
        function=function,
        is_async=False,
        result_type=codec.type_text,
        encode_result=encode,
        decode_result=decode,
        adopt_result=lambda plain: encode(codec.validate_plain(plain)),
        rebuild=None,
    )


def numbered(
    scope: Scope, tool: Tool, what: str, label: str | None, *, name: str | None = None
) -> Request:
    """The request for the next value of its kind here, or for the one with this label."""
    told: dict[str, Any] = {} if name is None else {"name": name}
    clock = (scope.session.clock,)
    if label is not None:
        told["label"] = check_id(label, what=f"The label of {what}")
        return request_for(scope, tool, told, args=clock, label=label)
    place = _place(scope, tool, what, name or "")
    last = request_for(scope, tool, {**told, **place.told()}, args=clock)
    if last.identity in scope.session.stops:
        # It was asked for, and the code asks again: nothing new can be meant behind a wait.
        return last
    place.count()
    return request_for(scope, tool, {**told, **place.told()}, args=clock)


def request_for(
    scope: Scope,
    tool: Tool,
    told: dict[str, Any],
    *,
    args: tuple[Any, ...] = (),
    label: str | None = None,
) -> Request:
    """A request whose identity is everything that is told."""
    identity = CallIdentity(
        scope.session.run_id, scope.node_id, scope.checkpoint_id, tool.name, values.hash_of(told)
    )
    return Request(
        tool=tool,
        scope=scope,
        identity=identity,
        args_json=values.encode(told),
        args=args,
        kwargs={},
        label=label,
    )


@frozen_record(frozen=True, slots=True)
class _Place:
    """Where values of one kind are counted."""

    counts: dict[tuple[str, str], int]
    key: tuple[str, str]
    inside: str | None = None
    """The call whose body asks for them."""

    def count(self) -> None:
        self.counts[self.key] = self.counts.get(self.key, 0) + 1

    def told(self) -> dict[str, Any]:
        number = {"number": self.counts.get(self.key, 0)}
        return number if self.inside is None else {**number, "inside": self.inside}


def _place(scope: Scope, tool: Tool, what: str, name: str) -> _Place:
    """Which one of its kind this is: the n-th of a step's visit, or of a tool's attempt.

    A tool's body counts for itself: when its receipt is replayed the body does not run, and what
    comes after it must not get the body's values.
    """
    attempt = current_attempt.get()
    row = attempt.row if attempt is not None else None
    kind = f"{tool.name} {name}"
    if attempt is not None and row is not None:
        counts = attempt.counts = {} if attempt.counts is None else attempt.counts
        return _Place(counts, (f"{row.attempt_id} {scope.node_id}", kind), row.call_id)
    if scope.steps:
        return _Place(scope.steps[0].counts, (scope.node_id, kind))
    raise UsageError(
        f"{what} was used outside of any step, where nothing tells one use of it from another when "
        "the run is resumed. Nothing happened. Give it a name of its own, "
        f"{what}(..., label='a name'), or use it inside a step: with nt.step('a name'): ..."
    )


def _value(what: str, tool: Tool, label: str | None) -> Any:
    scope = scope_of(what)
    request = numbered(scope, tool, what, label)
    return drive(perform(request, current_attempt.get()), scope.session).value


def _read_clock(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC)


def _roll_dice(clock: Clock) -> float:
    return clock.random_unit()


def _make_uuid(clock: Clock) -> uuids.UUID:
    return uuids.uuid4()


_NOW = own_tool("now", _read_clock, datetime, what="the value of nt.now")
_UUID = own_tool("uuid", _make_uuid, uuids.UUID, what="the value of nt.uuid")
_RANDOM = own_tool("random", _roll_dice, float, what="the value of nt.random")
