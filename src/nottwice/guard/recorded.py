"""Values that a resume must see again: ``nt.now``, ``nt.random``, ``nt.recorded`` and so on (L7).

Code that reads a clock or a random number gets another answer after a crash, and then asks for
other effects than the ledger holds. These answers are recorded like the result of any pure tool,
and written with the next commit. Inside a step, the n-th answer stays the n-th one. Outside steps
nothing is counted, so each answer needs a label there. A question asked with ``nt.recorded`` may
cost money, so its answer does not stay pending: it is durable before it is returned. Promises kept
here: P27, P151, P249.
"""

from __future__ import annotations

import inspect
import uuid as uuids
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar, overload

from nottwice.engine.calls.dispatch import perform
from nottwice.engine.calls.requests import Request
from nottwice.engine.clock import Clock
from nottwice.engine.drivers import drive
from nottwice.engine.session import Scope, current_attempt
from nottwice.errors import NotPlainData, ResultNotKept, UsageError
from nottwice.guard.arguments.binding import Signature
from nottwice.guard.declare import call_async
from nottwice.guard.frames import shows_one_frame
from nottwice.guard.plain_data.codec import Codec, DoesNotFit
from nottwice.guard.plain_data.results import MAX_RESULT_CHARACTERS
from nottwice.guard.scopes import scope_of
from nottwice.model import values
from nottwice.model.call import CallIdentity, ResultKind, StoredResult, check_id
from nottwice.model.data.records import frozen_record
from nottwice.model.replay_class import ReplayClass
from nottwice.model.tool import OWN_PREFIX, Tool

T = TypeVar("T")


@shows_one_frame
def now(*, label: str | None = None) -> datetime:
    """The time in UTC, recorded: a resume gets the same time."""
    found: datetime = _value("nt.now", _NOW, label)
    return found


@shows_one_frame
def uuid(*, label: str | None = None) -> uuids.UUID:
    """A random UUID, recorded: a resume gets the same one."""
    found: uuids.UUID = _value("nt.uuid", _UUID, label)
    return found


@shows_one_frame
def random(*, label: str | None = None) -> float:
    """A random number from 0 to 1, recorded: a resume gets the same one."""
    found: float = _value("nt.random", _RANDOM, label)
    return found


@overload
def recorded(
    label: str,
    ask: Callable[[], Coroutine[Any, Any, T]],
    *,
    replies: int | None = None,
    returns: Any = None,
) -> Coroutine[Any, Any, T]: ...


@overload
def recorded(
    label: str, ask: Callable[[], T], *, replies: int | None = None, returns: Any = None
) -> T: ...


def recorded(
    label: str, ask: Callable[[], Any], *, replies: int | None = None, returns: Any = None
) -> Any:
    """Ask for something once, such as a model's reply, and get the same answer in every resume.

    ``label`` identifies the answer in its step, in its tool's call, or in the run outside both:
    one label is one answer. ``ask`` is called without arguments. If it is an ``async def``, await
    what this returns. An exception that it raises is not recorded: the next resume asks again.
    ``replies``: how many model replies the conversation has so far. With it, one label and number
    are one answer, so a loop needs no label of its own for each reply. ``returns``: the type of an
    answer that is not plain data, if ``ask`` has no annotation.
    Durable: the answer, before it is returned.
    """
    label = check_id(label, what="The label of nt.recorded")
    _check_function(label, ask)
    check_replies(replies)
    tool = _asking(label, ask, returns)
    if tool.is_async:
        return _recorded_async(tool, label, replies)
    request = _labelled(tool, label, replies)
    return drive(perform(request, current_attempt.get()), request.scope.session.host).value


def _check_function(label: str, given: Any) -> None:
    if not callable(given):
        if inspect.iscoroutine(given):
            given.close()
        raise UsageError(
            f"nt.recorded({label!r}, ...) was given {type(given).__name__}, and needs a function "
            "to call. Nothing was recorded. Write: "
            f"nt.recorded({label!r}, lambda: ask_model(prompt))"
        )


def check_replies(replies: Any) -> None:
    """Refuse what is not a number of model replies."""
    if replies is not None and (type(replies) is not int or replies < 0):
        raise UsageError(
            f"replies={replies!r} is not a number of model replies. Nothing was done. Count the "
            "replies that the conversation has: replies=0 before the first one."
        )


async def _recorded_async(tool: Tool, label: str, replies: int | None) -> Any:
    # Not before it is awaited, because it may be awaited in a branch of nt.gather.
    return (await call_async(_labelled(tool, label, replies))).value


def _labelled(tool: Tool, label: str, replies: int | None) -> Request:
    scope = scope_of(f"nt.recorded({label!r}, ...)")
    attempt = current_attempt.get()
    told: dict[str, Any] = {"label": label}
    if replies is not None:
        told["replies"] = replies
    if attempt is not None and attempt.row is not None:
        # Two calls of one tool ask for two things, even if its body uses the same label.
        told["inside"] = attempt.row.call_id
    return request_for(scope, tool, told)


def _asking(label: str, ask: Callable[[], Any], returns: Any) -> Tool:
    """Return the tool whose only call is this question."""
    where = f"the answer to nt.recorded({label!r}, ...)"
    codec: Codec | None = None
    if returns is None and "return" in getattr(ask, "__annotations__", {}):
        # Made now, while the frames that define the annotation's names still exist.
        codec = Signature(ask, tool=where).result_codec()
    is_async = _is_coroutine_function(ask)

    def asked() -> Any:
        answer = ask()
        if inspect.iscoroutine(answer) and not is_async:
            answer.close()
            raise UsageError(
                f"The function in nt.recorded({label!r}, ...) returned a coroutine, which was not "
                "run. Nothing was recorded. Only an async def can be awaited: async def ask(): "
                f"return await ...; then await nt.recorded({label!r}, ask)"
            )
        return answer

    advice = " If it has a type, name it: nt.recorded(..., returns=Reply)."
    tool = own_tool("recorded", asked, returns or Any, what=where, codec=codec, advice=advice)
    return replace(tool, is_async=is_async, durable=True, only_answers=True)


def _is_coroutine_function(ask: Any) -> bool:
    made = getattr(ask, "__call__", None)  # noqa: B004 - an object may have an async one
    return inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(made)


def own_tool(
    name: str,
    function: Callable[..., Any],
    returns: Any,
    *,
    what: str,
    codec: Codec | None = None,
    advice: str = "",
) -> Tool:
    """Return what the engine needs to record a value of this type; it is not a user's tool."""
    codec = codec or Codec(returns, where=what)

    def encode(value: Any) -> StoredResult:
        try:
            encoded = codec.encode(value)
        except NotPlainData as error:
            raise UsageError(f"{error.message} Nothing was recorded.{advice}") from None
        kind = ResultKind.TYPED if encoded.typed else ResultKind.PLAIN
        text = values.encode_known(encoded.plain)
        if len(text) > MAX_RESULT_CHARACTERS:
            raise UsageError(
                f"There are {len(text):,} characters in {what}, and at most "
                f"{MAX_RESULT_CHARACTERS:,} are kept. Nothing was recorded. Write it to a file "
                "and return the path."
            )
        return StoredResult(kind, text)

    def decode(stored: StoredResult) -> Any:
        try:
            return codec.decode(values.decode(stored.json), typed=stored.kind is ResultKind.TYPED)
        except DoesNotFit as error:
            raise ResultNotKept(
                f"What is recorded cannot be returned: {error}. Nothing was asked for again. "
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
    """Return the request for the next value of its kind here, or for the one with this label."""
    told: dict[str, Any] = {} if name is None else {"name": name}
    clock = (scope.session.clock,)
    if label is not None:
        told["label"] = check_id(label, what=f"The label of {what}")
        return request_for(scope, tool, told, args=clock, label=label)
    place = _place(scope, tool, what, name or "")
    last = request_for(scope, tool, {**told, **place.told()}, args=clock)
    if last.identity in scope.session.stops:
        # The run waits for exactly this, so asking again means the same request, not a new one.
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
    """Return a request that is identified by ``told``."""
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
    """Return which value of its kind this is: the n-th of a step's visit, or of a tool's attempt.

    A tool's body has its own count: when its receipt is replayed the body does not run, and the
    code after it must not get the body's values.
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
        f"{what} was used outside any step, where a resume cannot tell one use from another. "
        f"Nothing happened. Give it a label, {what}(..., label='a name'), or use it inside a step: "
        "with nt.step('a name'): ..."
    )


def _value(what: str, tool: Tool, label: str | None) -> Any:
    scope = scope_of(what)
    request = numbered(scope, tool, what, label)
    return drive(perform(request, current_attempt.get()), scope.session.host).value


def _read_clock(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC)


def _roll_dice(clock: Clock) -> float:
    return clock.random_unit()


def _make_uuid(clock: Clock) -> uuids.UUID:
    return uuids.uuid4()


_NOW = own_tool("now", _read_clock, datetime, what="the value of nt.now")
_UUID = own_tool("uuid", _make_uuid, uuids.UUID, what="the value of nt.uuid")
_RANDOM = own_tool("random", _roll_dice, float, what="the value of nt.random")
