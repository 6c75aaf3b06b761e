"""What does one tool declare, is it declared well, and what are the four answers about it? (T7)

This only inspects: no tool, hook or client is run. An *error* is a declaration that defeats its own
purpose. A *warning* is a declaration that works but will cause trouble later.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, assert_never

from nottwice.guard.arguments.annotations import read_signature
from nottwice.guard.check.clients import SENDS_NOTHING, Opinion, Retries, form_opinion
from nottwice.guard.check.references import (
    References,
    find_function,
    is_own_module,
    read_references,
)
from nottwice.guard.scopes import current_call
from nottwice.model.data.records import frozen_record
from nottwice.model.replay_class import ReplayClass
from nottwice.model.retry import RetryPolicy
from nottwice.model.tool import Tool

# The fields by which a verify hook can identify this call, or at least its time.
_TELLS_THE_CALL = {"id", "key", "first_started_at", "started_at"}
# A hook that passes on the whole call may read these from it.
_READS_ANYTHING = {"getattr", "asdict", "astuple", "vars", "attrgetter"}
# Reading these from a protected tool does not run it.
_ONLY_ASKS = {"tool", "notes", "__name__", "__doc__", "__qualname__", "__module__"}
ANY_CALL_WILL_DO = "any_call_will_do"
"""An attribute of a verify hook that checks for a state, no matter which call caused it."""
_LOOKS_LIKE_WRITING = {"post", "put", "patch", "delete", "send", "sendmail", "send_message"}


class Level(enum.Enum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


@frozen_record(frozen=True, slots=True)
class Finding:
    """Something about a declaration that should change, and how."""

    level: Level
    text: str
    fix: str
    place: str | None = None
    """File and line, if it is about a line of code."""
    chain: tuple[str, ...] = ()
    """The calls that lead to this line, each with its own file and line."""


@frozen_record(frozen=True, slots=True)
class Answers:
    """The four answers of T7 in words, and the last one in a comparable form."""

    second_run: str
    detection: str
    detection_is_free: str
    client_retries: str
    retries: Retries


@frozen_record(frozen=True, slots=True, kw_only=True)
class ToolReport:
    """Everything that the declaration and the code say about one tool."""

    name: str
    place: str
    """File and line of the function."""
    replay_class: ReplayClass
    is_async: bool
    result_type: str
    key: str | None
    window_seconds: float | None
    verify: str | None
    settles_seconds: float | None
    time_limit_seconds: float | None
    retry: RetryPolicy
    volatile: tuple[str, ...]
    once_per: tuple[str, ...] | None
    durable: bool
    bound_by: tuple[str, ...] | None
    tags: tuple[str, ...]
    approve: bool
    approval_seconds: float | None
    repeat: str
    parallel: bool
    keep_seconds: float | None
    rate_class: str | None
    answers: Answers
    findings: tuple[Finding, ...]


def report_on(protected: Callable[..., Any]) -> ToolReport:
    """Inspect one protected function."""
    tool: Tool = vars(protected)["tool"]
    body = read_references(tool.function)
    hook = read_references(tool.verify) if tool.verify is not None else None
    opinions = _opinions(body)
    return ToolReport(
        name=tool.name,
        place=_place(tool.function),
        replay_class=tool.replay_class,
        is_async=tool.is_async,
        result_type=tool.result_type(),
        key=tool.key_text,
        window_seconds=tool.window_seconds,
        verify=None if tool.verify is None else _name(tool.verify),
        settles_seconds=tool.settles_seconds,
        time_limit_seconds=tool.time_limit_seconds,
        retry=tool.retry,
        volatile=tool.volatile,
        once_per=tool.once_per,
        durable=tool.durable or tool.replay_class.effectful,
        bound_by=tool.bound_by,
        tags=tool.tags,
        approve=tool.approve,
        approval_seconds=tool.approval_seconds,
        repeat=tool.repeat,
        parallel=tool.parallel,
        keep_seconds=tool.keep_seconds,
        rate_class=tool.rate_class,
        answers=Answers(
            second_run=_second_run(tool),
            detection=_detection(tool),
            detection_is_free=_detection_is_free(tool, hook),
            client_retries=_client_retries(body, opinions),
            retries=_verdict(body, opinions),
        ),
        findings=tuple(_findings(protected, tool, body, hook, opinions)),
    )


# ---- The four answers -------------------------------------------------------------------------


def _second_run(tool: Tool) -> str:
    window = duration_text(tool.window_seconds or 0.0)
    return tool.replay_class.second_run.format(window=window)


def _detection(tool: Tool) -> str:
    first = "by its receipt in the ledger"
    if tool.replay_class.may_rerun:
        return f"{first}; without one it is simply run again"
    by_verify = f"verify {_name(tool.verify)} is asked, then a person" if tool.verify else None
    if tool.replay_class.keyed:
        window = duration_text(tool.window_seconds or 0.0)
        after = by_verify or "a person is asked"
        return (
            f"{first}; in doubt the upstream recognises the key {tool.key_text!r} for {window}, "
            f"after that {after}"
        )
    return f"{first}; in doubt {by_verify or 'only a person can tell'}"


def _detection_is_free(tool: Tool, hook: References | None) -> str:
    if hook is None:
        return "yes: nothing is called"
    used = [name for name, kind in _tools_used(hook) if kind.effectful]
    if used:
        return f"no: verify runs {', '.join(sorted(set(used)))}"
    if not hook.readable:
        return "cannot tell: the code of verify cannot be read"
    writing = sorted(hook.attributes & _LOOKS_LIKE_WRITING)
    if writing:
        return f"cannot tell: verify uses {', '.join(f'.{name}' for name in writing)}"
    return "yes, as far as its code shows: verify runs no effectful tool and nothing that writes"


def _client_retries(body: References, opinions: list[Opinion]) -> str:
    verdict = _verdict(body, opinions)
    match verdict:
        case Retries.YES:
            texts = [each.text for each in opinions if each.retries is Retries.YES]
            return f"yes: {'; '.join(texts)}"
        case Retries.CANNOT_TELL:
            return f"cannot tell: {_obstacle(body)}"
        case Retries.NONE_KNOWN:
            texts = [each.text for each in opinions]
            return f"none known{': ' if texts else ''}{', '.join(texts)}"
        case _:
            assert_never(verdict)


def _verdict(body: References, opinions: list[Opinion]) -> Retries:
    if any(each.retries is Retries.YES for each in opinions):
        return Retries.YES
    return Retries.CANNOT_TELL if _obstacle(body) else Retries.NONE_KNOWN


def _obstacle(body: References) -> str:
    """Say why it is unknown whether a client retries; empty if it is known."""
    if not body.readable:
        return "its code cannot be read"
    strangers = sorted(set(_strangers(body)))
    if strangers:
        return f"it uses {', '.join(strangers)}, about which nothing is known here"
    return "it uses what its instance holds" if body.uses_instance else ""


def _opinions(body: References) -> list[Opinion]:
    """Return one opinion per package; an existing client tells more than its module."""
    found: dict[str, Opinion] = {}
    for value, module in _origins(body):
        # A module with the name of a client may be the user's own, but only if it is loaded.
        is_users = is_own_module(module) and module in sys.modules
        opinion = None if is_users else form_opinion(value, module)
        if opinion is None:
            continue
        own = not isinstance(value, ModuleType) and not callable(value)
        if own or opinion.package not in found:
            found[opinion.package] = opinion
    return [found[package] for package in sorted(found)]


def _strangers(body: References) -> Iterator[str]:
    """Yield packages that are neither the user's own, nor Python's, nor known to nottwice."""
    for value, module in _origins(body):
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names or top in SENDS_NOTHING or top == "nottwice":
            continue
        if not is_own_module(module) and form_opinion(value, module) is None:
            yield top.lstrip("_")


def _origins(body: References) -> Iterator[tuple[Any, str]]:
    """Yield every value that the code refers to, with the module it comes from."""
    for module in body.wrappers:
        yield None, module
    for module in sorted(body.imports):
        yield sys.modules.get(module), module
    for reference in body.found:
        for value in reference.values:
            yield value, _module_of(value)


def _module_of(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type) or callable(value):
        name = getattr(value, "__module__", None)
        if isinstance(name, str):
            return name
    return str(type(value).__module__)


# ---- Findings ---------------------------------------------------------------------------------


def _findings(
    protected: Callable[..., Any],
    tool: Tool,
    body: References,
    hook: References | None,
    opinions: list[Opinion],
) -> Iterator[Finding]:
    effectful = tool.replay_class.effectful
    if hook is not None:
        yield from _findings_about_verify(tool, hook)
    if tool.replay_class.needs_proof:
        if tool.verify is None:
            yield Finding(
                Level.WARNING,
                "it has no verify hook, so every interruption waits for a person",
                "give it verify=..., a function that looks in the upstream whether it happened",
            )
        yield from _findings_about_retries(opinions)
    if tool.replay_class.keyed and not _reads_current_call(body):
        yield Finding(
            Level.WARNING,
            "its code never reads nt.current_call(), so the key does not reach the upstream",
            "send nt.current_call().key as the idempotency key",
        )
    for note in _notes(protected):
        yield Finding(Level.WARNING, note, "correct the annotation")
    if effectful and not _has_return_annotation(tool.function):
        yield Finding(
            Level.WARNING,
            "it has no return annotation, so only plain data comes back from a receipt: after a "
            "tuple or an object a resumed run stops and asks a person, whose answer is not checked",
            "annotate what it returns, -> None if nothing",
        )
    elif effectful and not _can_come_back(tool):
        yield Finding(
            Level.WARNING,
            f"its return annotation {tool.result_type()!r} cannot be brought back from a receipt: "
            "a resumed run that needs the result stops and asks a person",
            "return plain data, a dataclass or a pydantic model",
        )


def _findings_about_verify(tool: Tool, hook: References) -> Iterator[Finding]:
    for name in sorted({name for name, kind in _tools_used(hook) if kind.effectful}):
        yield Finding(
            Level.ERROR,
            f"its verify hook runs {name}, which is effectful: the check would have an effect",
            "let verify only read from the upstream",
        )
    if not hook.readable or hook.attributes & _TELLS_THE_CALL:
        return
    if getattr(tool.verify, ANY_CALL_WILL_DO, False):
        return
    if any(reference.path[-1] in _READS_ANYTHING for reference in hook.found):
        return
    yield Finding(
        Level.WARNING,
        "its verify hook reads neither the id of the call nor its start, so it may take an "
        "effect of another call for this one",
        "put call.id into the upstream as a marker and look for it, or compare with "
        "call.first_started_at",
    )


def _findings_about_retries(opinions: list[Opinion]) -> Iterator[Finding]:
    for opinion in opinions:
        if opinion.retries is Retries.YES and not opinion.harmless:
            yield Finding(
                Level.WARNING,
                f"one attempt may take effect more than once: {opinion.text}",
                "leave retries to nottwice, which records each before it is made",
            )


def _tools_used(references: References) -> Iterator[tuple[str, ReplayClass]]:
    """Yield the protected tools that the code runs, under any name."""
    for reference in references.found:
        for index, value in enumerate(reference.values):
            tool = vars(value).get("tool") if hasattr(value, "__dict__") else None
            following = reference.path[index + 1 : index + 2]
            if isinstance(tool, Tool) and not _ONLY_ASKS.intersection(following):
                yield tool.name, tool.replay_class


def _reads_current_call(body: References) -> bool:
    if not body.readable or "current_call" in body.attributes:
        return True
    return any(value is current_call for reference in body.found for value in reference.values)


def _notes(protected: Callable[..., Any]) -> tuple[str, ...]:
    try:
        notes: tuple[str, ...] = vars(protected)["notes"]()
    except Exception as error:
        return (f"its annotations cannot be used ({type(error).__name__}: {error})",)
    return notes


def _can_come_back(tool: Tool) -> bool:
    """Whether plain data can be turned into what the tool returns; an arbitrary class cannot."""
    try:
        return tool.schemas()[1] is not None
    except Exception:
        # Annotations that cannot be looked up have their own finding.
        return True


def _has_return_annotation(function: Callable[..., Any]) -> bool:
    signature = read_signature(function)
    return signature.return_annotation is not signature.empty


# ---- Words ------------------------------------------------------------------------------------


def duration_text(seconds: float) -> str:
    """A duration as a declaration would spell it: 24h, 30s, 500ms."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        # A window of one day is usually declared as 24h.
        if seconds >= size * (2 if unit == "d" else 1) and (seconds / size).is_integer():
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


def _name(function: Callable[..., Any] | None) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _place(function: Callable[..., Any]) -> str:
    found = find_function(function)
    if found is None:
        return "unknown"
    return f"{found.__code__.co_filename}:{found.__code__.co_firstlineno}"
