"""What is a model told about a call that was not made, was made before, or failed?

A model reads no manual and has no terminal. So each text says what was not done and what the model
itself can do next. It contains no command and no advice for a programmer. A recorded call is shown
with its own words: a receipt is never passed off as that of a call with other words.
Promises kept here: P71, P203.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nottwice.agent.messages import ToolCall
from nottwice.agent.state import RunState
from nottwice.errors import (
    Ambiguous,
    DeniedByPolicy,
    InvalidArguments,
    InvalidId,
    InvalidKey,
    KeyConflict,
    NotPlainData,
    RejectedByReviewer,
    Retryable,
    ToolFailure,
)
from nottwice.graphs.outcome import Outcome
from nottwice.model.failure import Failure
from nottwice.model.tool import Tool

TOLD = (ToolFailure, InvalidArguments, InvalidKey, KeyConflict, NotPlainData, InvalidId)
"""What a model is told: nothing took effect, or the effect is on record."""
_OURS = "nottwice.errors."
_NOT_CALLED = "Nothing was done."
_MOST_CALLS = 20


def unreadable(call: ToolCall) -> str:
    """The arguments are not a JSON object, or were cut off."""
    return (
        f"The arguments of {call.name} are not a complete JSON object. {_NOT_CALLED} Call "
        "it again with its arguments as one complete JSON object."
    )


def no_such_tool(call: ToolCall, known: Sequence[str], *, gone: bool = False) -> str:
    """``gone``: this run has receipts of it, so it existed before."""
    if gone:
        return (
            f"The tool {call.name!r} is gone: it was there before, and was removed. Nothing was "
            f"done now. What you did with it before stays done. You have: {', '.join(known)}"
        )
    return f"There is no tool {call.name!r}. {_NOT_CALLED} You have: {', '.join(known)}"


def done_and_gone(name: str, written: str, result: str, known: Sequence[str]) -> str:
    """``written``: the call as it was made."""
    return (
        f"{result}\n\n(That is the receipt of {written}: it was done. The tool {name!r} was "
        f"removed afterwards, so you cannot call it again. You have: {', '.join(known)})"
    )


def failed_and_gone(name: str, written: str, why: str, known: Sequence[str]) -> str:
    return (
        f"{written} failed: {why.rstrip('.')}. {_NOT_CALLED} The tool {name!r} was removed "
        f"afterwards, so you cannot call it again. You have: {', '.join(known)}"
    )


def did_not_happen_and_gone(name: str, written: str, known: Sequence[str]) -> str:
    """A person has decided this about a call that was in doubt."""
    return (
        f"{written} did not happen: a person has looked, and decided so. {_NOT_CALLED} The tool "
        f"{name!r} was removed afterwards, so you cannot call it again. You have: "
        f"{', '.join(known)}"
    )


def no_goal(call: ToolCall) -> str:
    return (
        f"{call.name} needs a goal, a text that says what it is to do. {_NOT_CALLED} Call it "
        "again with a goal."
    )


def not_begun(before: ToolCall, number: int) -> str:
    """About a call after another one of the same reply that did not happen."""
    return (
        f"Not begun: you asked for this after call {number} of the same reply, {before.name}, "
        f"which did not happen. {_NOT_CALLED} Call it again if you still want it."
    )


def of_error(call: ToolCall, tool: Tool | None, error: BaseException) -> str:
    """Say what went wrong with a call, and what a model can do about it."""
    if isinstance(error, ToolFailure):
        return _failed(call, tool, error)
    if isinstance(error, InvalidArguments):
        why = _fact(error, "why") or "its arguments do not fit"
        return f"{call.name} was not called: {why}. {_NOT_CALLED} Correct that and call it again."
    if isinstance(error, NotPlainData):
        return (
            f"{call.name} was not called: {_fact(error, 'path') or 'an argument'} holds a value "
            f"that cannot be kept. {_NOT_CALLED} Use plain JSON values: text without broken "
            "characters, finite numbers, lists and objects that are not too deep."
        )
    if isinstance(error, KeyConflict):
        return (
            f"{call.name} was not called: it was asked for before, for the same thing and with "
            f"other arguments, and is done only once for it. {_NOT_CALLED} If you mean another "
            "thing, use the arguments that tell it apart; otherwise continue with what was done."
        )
    if isinstance(error, InvalidKey):
        return (
            f"{call.name} was not called: these arguments are empty or too long to tell this call "
            f"from others. {_NOT_CALLED} Use shorter ones that are not empty."
        )
    return (
        f"{call.name} was not called: its label is too long, or holds characters that cannot be "
        f"printed. {_NOT_CALLED} Use a short label of plain words."
    )


def _failed(call: ToolCall, tool: Tool | None, error: ToolFailure) -> str:
    detail = str(_fact(error, "detail") or error.message).rstrip(".")
    kind = str(_fact(error, "error_type") or "")
    if kind and not kind.startswith(_OURS):
        detail = f"{kind.removeprefix('builtins.')}: {detail}"
    effectful = tool is not None and tool.replay_class.effectful
    effect = f" {_NOT_CALLED}" if effectful else ""
    if isinstance(error, DeniedByPolicy | RejectedByReviewer):
        return (
            f"{call.name} was not allowed: {detail}.{effect} Do not look for a way around it. "
            "Continue without it, or say in your answer that it was not allowed."
        )
    after = _fact(error, "attempts") or 1
    tried = f" after {after} attempts" if isinstance(after, int) and after > 1 else ""
    if isinstance(error, Retryable | Ambiguous):
        then = "It may work later: you can call it again."
    else:
        then = "The same call would fail again: change it, or find another way."
    return f"{call.name} failed{tried}: {detail}.{effect} {then}"


def _fact(error: BaseException, name: str) -> Any:
    return getattr(error, "facts", {}).get(name)


# What was done before


def of_earlier(
    call: ToolCall, tool: Tool | None, before: ToolCall, turn: int, *, repeat: str | None
) -> str:
    """Say that nothing was done now, because it was done in an earlier turn."""
    again = _how_to_repeat(tool, repeat)
    if tool is not None and (other := other_words(tool, before, call)):
        return (
            f"(You did this in turn {turn} already, with another {_listed(other)}. "
            f"{_once(tool)} It was not done again: your new {_listed(other)} went nowhere, and "
            f"this is the receipt from that turn.{again})"
        )
    return (
        f"(You asked for this in turn {turn} already. It was not done again: this is the receipt "
        f"from that turn.{again})"
    )


def of_earlier_failure(turn: int) -> str:
    return f"(You asked for this in turn {turn} already. This is how it failed then.)"


def of_twin(call: ToolCall, tool: Tool | None, before: ToolCall, *, repeat: str | None) -> str:
    """Say that the same reply asks for it twice."""
    again = _how_to_repeat(tool, repeat)
    if tool is not None and (other := other_words(tool, before, call)):
        return (
            f"(You asked for this twice in one reply, with another {_listed(other)}. {_once(tool)} "
            f"It was done once, as you asked for it first.{again})"
        )
    return f"(You asked for this twice in one reply. It was done once.{again})"


def of_failed_twin(call: ToolCall, tool: Tool | None, before: ToolCall) -> str:
    """Say the same about a call that failed without effect."""
    if tool is not None and (other := other_words(tool, before, call)):
        return (
            f"(You asked for this twice in one reply, with another {_listed(other)}. It was tried "
            f"once, as you asked for it first. To try this {_listed(other)}, call it again.)"
        )
    return "(You asked for this twice in one reply. It was tried once.)"


def other_words(tool: Tool, before: ToolCall, call: ToolCall) -> list[str]:
    """Return the differing arguments that do not tell one effect from another."""
    one, other = before.arguments, call.arguments
    return [name for name in tool.volatile if one.get(name) != other.get(name)]


def call_of(state: RunState, asked: Mapping[str, Any]) -> ToolCall:
    """Return the tool call by which a model asked for an effect."""
    message, index = int(asked["message"]), int(asked["index"])
    return state.transcript[message].tool_calls[index]


def _once(tool: Tool) -> str:
    per = tool.once_per
    return "It is done only once." if per is None else f"It is done once for each {_listed(per)}."


def _how_to_repeat(tool: Tool | None, repeat: str | None) -> str:
    if tool is None:
        return ""
    if repeat is None:
        return " It cannot be done a second time."
    asks = "; a person is asked first" if tool.repeat == "ask" else ""
    return f" To do it a second time on purpose, add {repeat}='a new label'{asks}."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)


# What a worker reports


def of_worker(name: str, outcome: Outcome[Any]) -> str:
    """Return the result of a task: the worker's answer, or how it ended."""
    if outcome.status == "completed" and isinstance(outcome.state, RunState):
        return report_of(outcome.state)
    return worker_ended(name, outcome.failure, stopped=outcome.status == "aborted")


def report_of(state: RunState) -> str:
    """Return the answer of a worker that has finished, with its evidence."""
    evidence = [f"- {name}: {why}" for name, why in state.evidence.items()]
    return "\n".join([state.answer or "It is done.", *evidence])


def worker_ended(name: str, failure: Failure | None, *, stopped: bool) -> str:
    """Say how a worker ended without finishing its task."""
    how = "was stopped by a person" if stopped else "could not finish its task"
    return (
        f"{name} {how}{_why_failed(failure)}. What it had done by then stays done. Do not count on "
        "the rest."
    )


def worker_gone(
    name: str,
    report: str,
    done: Sequence[str],
    unknown: Sequence[str],
    known: Sequence[str],
) -> str:
    """Say what a worker did that was removed before it reported; ``done``: its effects."""
    told = [f"{name} was removed afterwards, so you cannot call it again."]
    told.append(f"Its receipts: {_some(done)}." if done else "It has no receipt of an effect.")
    if unknown:
        told.append(
            f"It is not known whether this happened: {_some(unknown)}. Do not do it again in "
            "another way; say in your answer that it is not known."
        )
    return f"{report}\n\n({' '.join(told)} You have: {', '.join(known)})"


def _some(calls: Sequence[str]) -> str:
    more = len(calls) - _MOST_CALLS
    return ", ".join(calls[:_MOST_CALLS]) + (f" and {more} more" if more > 0 else "")


def _why_failed(failure: Failure | None) -> str:
    if failure is None:
        return ""
    if failure.error_type.startswith(_OURS) and not _is_told(failure):
        # Its text is for the people who run it.
        return ": its program had an error"
    return f": {failure.message.rstrip('.')}"


def _is_told(failure: Failure) -> bool:
    return failure.error_type.removeprefix(_OURS) in {kind.__name__ for kind in _all(ToolFailure)}


def _all(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*(_all(each) for each in kind.__subclasses__()))
