"""A tool declared from data: its body arrives with each call (P240).

An adapter knows a tool by its name and its JSON schema, and has a function for it only while a
framework calls it. So nothing here is registered: a call in doubt stays in doubt until its caller
asks for it with a body. nottwice never makes such a call by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from nottwice.errors import (
    Ambiguous,
    InvalidArguments,
    InvalidTool,
    Permanent,
    Retryable,
    ToolFailure,
)
from nottwice.guard.arguments.binding import Signature
from nottwice.guard.attached.binding import is_coroutine_function
from nottwice.guard.declaration import Declaration, Duration, VerifyHook
from nottwice.guard.declare import read_replay_class
from nottwice.guard.keys import KeyFunction, KeyTemplate, repeated_key
from nottwice.guard.plain_data.results import Results
from nottwice.guard.request import key_per_call
from nottwice.model import values
from nottwice.model.call import check_id
from nottwice.model.data.records import frozen_record
from nottwice.model.failure import FailureClass
from nottwice.model.replay_class import KEYLESS, ReplayClass
from nottwice.model.retry import RetryPolicy
from nottwice.model.tool import OWN_PREFIX, Repeat, Tool, parse_duration

MOST_SHOWN_CHARACTERS = 500
Body = Callable[[dict[str, Any]], Any]
"""Does the work of one call. It gets the arguments, and may be async."""
Meaning = FailureClass | ToolFailure | type[ToolFailure] | None
ClassifyOutcome = Callable[[Any], Meaning]
"""Says what an exception or a result means. None: an exception means what it usually means, and a
result is a result."""


@frozen_record(frozen=True, slots=True)
class ToolSpec:
    """A tool that was declared from data. Made by ``nt.adapters.declare``."""

    name: str
    schema: Mapping[str, Any]
    """The JSON schema of its arguments."""
    tool: Tool
    """What the engine knows about it. Its function only says that a body is missing."""
    key: KeyTemplate | KeyFunction | None
    key_is_call_id: bool
    classify: ClassifyOutcome | None
    once_per: tuple[str, ...] | None
    volatile: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<ToolSpec {self.name!r}, {self.replay_class}>"

    @property
    def replay_class(self) -> str:
        """What a second run of it does to the world."""
        return KEYLESS if self.tool.keyless else str(self.tool.replay_class.value)

    @property
    def is_effectful(self) -> bool:
        """Whether running it changes something."""
        return self.tool.replay_class.effectful

    def with_body(self, body: Body) -> Tool:
        """Return the tool for one call."""
        if not callable(body):
            raise InvalidTool(
                f"Tool {self.name!r} was not run: its body must be a function of the arguments, "
                f"not {type(body).__name__}."
            )
        is_async = is_coroutine_function(body)
        function = self._judged_async(body) if is_async else self._judged(body)
        return replace(self.tool, function=function, is_async=is_async)

    def identity_of(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that identify a call: those that count, unless at their default."""
        counted = {
            name: value
            for name, value in arguments.items()
            if name not in self.volatile and (self.once_per is None or name in self.once_per)
        }
        known = self.schema.get("properties")
        known = known if isinstance(known, Mapping) else {}
        return {
            name: value
            for name, value in counted.items()
            if not _is_default(known.get(name), value)
        }

    def key_of(self, arguments: dict[str, Any], call_id: str, *, label: str | None) -> str | None:
        """Return the idempotency key of a call. A deliberate repeat has its own."""
        if self.key_is_call_id:
            return call_id
        if self.key is None:
            return None
        full = {**_defaults(self.schema), **arguments}
        given = full if isinstance(self.key, KeyTemplate) else {"arguments": full}
        return repeated_key(self.key.render(given), label, tool=self.name)

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the arguments of one call; they must be plain data with text keys."""
        if not isinstance(arguments, Mapping):
            raise InvalidArguments(
                f"Tool {self.name!r} was not run: its arguments are {type(arguments).__name__}, "
                "and not an object.",
                tool=self.name,
            )
        plain = dict(arguments)
        values.check_plain(plain, root="arguments")
        missing = [name for name in _required(self.schema) if name not in plain]
        if missing:
            raise InvalidArguments(
                f"Tool {self.name!r} was not run: the argument {missing[0]!r} is missing.",
                tool=self.name,
                parameter=missing[0],
            )
        own: dict[str, Any] = values.decode(values.encode(plain))
        return own

    def _judged(self, body: Body) -> Body:
        @functools.wraps(body)
        def judged(arguments: dict[str, Any]) -> Any:
            return self._kept(body(arguments))

        return judged

    def _judged_async(self, body: Body) -> Body:
        @functools.wraps(body)
        async def judged(arguments: dict[str, Any]) -> Any:
            return self._kept(await body(arguments))

        return judged

    def _kept(self, result: Any) -> Any:
        """Return a result, or raise what ``classify`` says that it means (P243)."""
        if self.classify is None:
            return result
        try:
            said = self.classify(result)
        except Exception as error:
            # The tool has run. What its result means is not known, so neither is what it did.
            raise Ambiguous(
                f"the tool's classify raised {type(error).__name__} for its result: {error}"
            ) from error
        if said is None:
            return result
        raise _failure_of(said, result)


def declare(
    name: str,
    *,
    replay: Literal["pure", "idempotent_with_key", "idempotent", "unsafe_on_replay"],
    schema: Mapping[str, Any] | None = None,
    key: str | Callable[..., str] | None = None,
    window: Duration | None = None,
    verify: VerifyHook | None = None,
    settles: Duration | None = None,
    classify: ClassifyOutcome | None = None,
    retry: RetryPolicy | None = None,
    time_limit: Duration | None = None,
    verify_limit: Duration = "30s",
    volatile: Iterable[str] = (),
    once_per: Iterable[str] | None = None,
    returns: Any = Any,
    tags: Iterable[str] = (),
    approve: bool | Duration = False,
    repeat: Repeat | None = None,
    keep: Duration | None = None,
    rate: str | None = None,
    redact: Callable[[str], str] | None = None,
) -> ToolSpec:
    """Declare a tool from data. Its body is passed with each call: ``handle.call(spec, ...)``.

    ``name``: its name in the ledger. Give tools of several origins a namespace: ``"pay/charge"``.
    ``replay``: what a second run of it does, as for ``nt.tool``. ``schema``: the JSON schema of its
    arguments. Required arguments are checked; an argument at its default does not change the
    identity of a call. ``key``: a template that may look into the arguments,
    ``"order-{order.id}"``, a function of ``arguments``, or ``nt.key_per_call``. ``classify``: a
    function of an exception or a result that says what it means; a result that it calls a failure
    never becomes a receipt. ``returns``: the type of the result, if it is not plain data. All other
    options are those of ``nt.tool``.
    """
    declared = Declaration(
        name := check_id(name, what="The tool's name"),
        key=key,
        window=window,
        verify=verify,
        settles=settles,
        classify=classify,
        retry=retry,
        time_limit=time_limit,
        verify_limit=verify_limit,
        volatile=volatile,
        once_per=once_per,
        tags=tags,
        approve=approve,
        repeat=repeat,
        keep=keep,
        rate=rate,
        redact=redact,
    )
    shape = dict(schema) if schema is not None else {"type": "object"}
    return _checked_spec(name, replay, declared, shape, returns)


def _checked_spec(
    name: str, replay: str, declared: Declaration, schema: dict[str, Any], returns: Any
) -> ToolSpec:
    if name.startswith(OWN_PREFIX):
        raise InvalidTool(
            f"Tool {name!r} was not declared: names that begin with {OWN_PREFIX!r} are reserved "
            "for nottwice. Give it another name."
        )
    kind, keyless, key = read_replay_class(name, replay), replay == KEYLESS, declared.key
    declared.check(name, kind, keyless=keyless)
    read = None if key is None or key is key_per_call else _read_key(name, key, schema, declared)
    return ToolSpec(
        name=name,
        schema=schema,
        tool=replace(_tool(name, kind, declared, schema, returns), keyless=keyless),
        key=read,
        key_is_call_id=key is key_per_call,
        classify=declared.classify,
        once_per=declared.once_per,
        volatile=() if declared.volatile == "*" else declared.volatile,
    )


def _tool(
    name: str,
    kind: ReplayClass,
    declared: Declaration,
    schema: Mapping[str, Any],
    returns: Any,
) -> Tool:
    def body(arguments: dict[str, Any]) -> Any:
        raise InvalidTool(f"Tool {name!r} was not run: its body was not passed with the call.")

    body.__annotations__["return"] = returns
    signature = Signature(body, tool=name)
    results = Results(signature, tool=name)

    def seconds(given: Duration | None, what: str) -> float | None:
        return None if given is None else parse_duration(given, what=f"Tool {name!r}: {what}")

    return Tool(
        name=name,
        replay_class=kind,
        function=body,
        is_async=False,
        result_type=results.type_text,
        encode_result=results.encode,
        decode_result=results.decode,
        adopt_result=results.adopt,
        # Only a caller that brings a body uses it: the tool is in no registry (P240).
        rebuild=lambda record: ((record,), {}),
        schemas=lambda: (dict(schema), signature.schemas()[1]),
        key_text=_key_text(declared.key),
        window_seconds=seconds(declared.window, "window"),
        verify=declared.verify,
        settles_seconds=seconds(declared.settles, "settles"),
        classify=declared.classify,
        retry=declared.retry,
        time_limit_seconds=seconds(declared.time_limit, "time_limit"),
        verify_limit_seconds=seconds(declared.verify_limit, "verify_limit") or 30.0,
        once_per=declared.once_per,
        tags=declared.tags,
        approve=declared.approve,
        approval_seconds=declared.approval_seconds,
        repeat=declared.repeat,
        keep_seconds=declared.keep_seconds,
        rate_class=declared.rate,
        redact=declared.redact,
    )


def _key_text(key: str | Callable[..., str] | None) -> str | None:
    if key is None or isinstance(key, str):
        return key
    return "per call" if key is key_per_call else f"{getattr(key, '__name__', 'a function')}(…)"


def _read_key(
    name: str, key: str | Callable[..., str], schema: Mapping[str, Any], declared: Declaration
) -> KeyTemplate | KeyFunction:
    known = schema.get("properties")
    names = list(known) if isinstance(known, Mapping) and known else None
    if isinstance(key, str):
        unused = [one for one in names or () if one not in (declared.once_per or names or ())]
        volatile = (*(() if declared.volatile == "*" else declared.volatile), *unused)
        return KeyTemplate(key, tool=name, parameters=names, volatile=volatile, paths=True)
    return KeyFunction(key, tool=name, parameters=["arguments"])


def _required(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    return [one for one in required if isinstance(one, str)] if isinstance(required, list) else []


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the schema gives a default."""
    known = schema.get("properties")
    found = known.items() if isinstance(known, Mapping) else ()
    return {
        name: one["default"]
        for name, one in found
        if isinstance(one, Mapping) and "default" in one and values.is_plain(one["default"])
    }


def _is_default(described: Any, value: Any) -> bool:
    """Whether an argument is at the default that the schema gives."""
    if not isinstance(described, Mapping) or "default" not in described:
        return False
    default = described["default"]
    return type(default) is type(value) and bool(default == value)


_KINDS: dict[FailureClass, type[ToolFailure]] = {
    FailureClass.RETRYABLE: Retryable,
    FailureClass.PERMANENT: Permanent,
    FailureClass.AMBIGUOUS: Ambiguous,
}


def _failure_of(said: Any, result: Any) -> ToolFailure:
    """Return the failure that a result means."""
    if isinstance(said, ToolFailure):
        return said
    shown = values.encode(result) if values.is_plain(result) else type(result).__name__
    text = f"it returned an error: {shown[:MOST_SHOWN_CHARACTERS]}"
    if isinstance(said, FailureClass):
        said = _KINDS[said]
    if isinstance(said, type) and issubclass(said, ToolFailure):
        return said(text)
    return Ambiguous(f"{text}. The tool's classify answered with {type(said).__name__}")
