"""Waiting as user code writes it: ``nt.ask``, ``nt.sleep``, ``nt.receive`` (H1).

These are plain functions, for sync and async code alike. Each returns or raises immediately: no
process has to stay while a run waits. They commit before they raise, which blocks an event loop
for the duration of one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nottwice.engine.calls.in_flight import InFlight
from nottwice.engine.drivers import drive
from nottwice.engine.session import Scope, current_attempt
from nottwice.engine.waits import waiting
from nottwice.errors import UsageError
from nottwice.guard.arguments.annotations import describe
from nottwice.guard.plain_data.codec import Codec
from nottwice.guard.plain_data.keepable import never_kept
from nottwice.guard.recorded import numbered, own_tool, request_for
from nottwice.guard.scopes import scope_of
from nottwice.model import values
from nottwice.model.asking.asked import SIMPLE_TYPES, Question, check_options
from nottwice.model.call import check_id
from nottwice.model.tool import Duration, Tool, parse_duration


def ask(
    question: str,
    *,
    options: Sequence[str] | None = None,
    about: Any = None,
    returns: Any = str,
    label: str | None = None,
) -> Any:
    """Ask a person, and return the answer.

    Until there is one, QuestionOpen ends the block and says which command answers. The run waits,
    for days if necessary, and no process has to stay. When the run is opened again, the same
    question returns its answer, from then on. ``options``: the answer must be one of them.
    ``about``: plain data that is shown beside the question. ``returns``: the type of the answer.
    The same question, options and ``about`` in one step are one question; a ``label`` makes it
    another one.
    """
    scope, parent = _here("nt.ask")
    codec = Codec(returns, where="the answer")
    answer_type = codec.type_text()
    _check_keepable(returns)
    asked = Question(
        text=_text(question),
        options=check_options(options),
        about=_shown(about),
        answer_type=answer_type,
        schema=None if answer_type in SIMPLE_TYPES else codec.json_schema(),
    )
    told: dict[str, Any] = {"question": asked.text, "options": list(asked.options)}
    if asked.about is not None:
        told["about"] = asked.about
    if label is not None:
        told["label"] = check_id(label, what="The label of nt.ask")
    tool = own_tool("ask", ask, returns, what="the answer", codec=codec)
    if returns is not str:
        _check_fit(asked, tool)
    request = request_for(scope, tool, told, label=label)
    return drive(waiting.ask(request, asked, parent), scope.session.host)


def sleep(duration: Duration, *, label: str | None = None) -> None:
    """Wait, for days if necessary, without a process.

    The first call records when the wait ends, and raises RunWaits; its ``until`` says when to open
    the run again. After that time it returns. Changing the duration later does not move it.
    """
    scope, parent = _here("nt.sleep")
    seconds = parse_duration(duration, what="nt.sleep: the duration")
    request = numbered(scope, _SLEEP, "nt.sleep", label)
    drive(waiting.sleep(request, seconds, parent), scope.session.host)


def receive(name: str, *, within: Duration | None = None, label: str | None = None) -> Any:
    """Take the oldest event of this name that has not been taken, and return its payload.

    Until there is one, RunWaits ends the block. With ``within``, an event that is not sent within
    that time after the first wait is too late: EventTimeout, now and in every replay.
    """
    scope, parent = _here("nt.receive")
    name = check_id(name, what="The event's name")
    seconds = None if within is None else parse_duration(within, what="nt.receive: within")
    request = numbered(scope, _RECEIVE, "nt.receive", label, name=name)
    return drive(waiting.receive(request, name, seconds, parent), scope.session.host)


_SLEEP = own_tool("sleep", sleep, float, what="the time of nt.sleep")
_RECEIVE = own_tool("receive", receive, Any, what="the event")


def _here(what: str) -> tuple[Scope, InFlight | None]:
    """Return where the code is. An effect cannot wait: once started it has or may have happened."""
    scope, attempt = scope_of(what), current_attempt.get()
    chain = attempt.chain() if attempt is not None else []
    for one in chain:
        if one.row is not None and one.row.replay_class.effectful:
            raise UsageError(
                f"{what} was used inside tool {one.identity.tool_name!r}, which is effectful: "
                "waiting there would leave its effect in doubt. Nothing was asked or waited for. "
                "Wait before the tool is called; to have its call approved, declare approve=True."
            )
    return scope, attempt


def _text(question: object) -> str:
    if not isinstance(question, str) or not question.strip():
        raise UsageError(
            f"nt.ask was given {question!r}, which is not a question. No person was asked. Write "
            "it as text, and put data that helps to answer it into about=..."
        )
    values.check_plain(question, root="question")
    return question


def _check_keepable(returns: Any) -> None:
    """Refuse a type that no answer can have: the same question would be asked forever."""
    bad = never_kept(returns)
    if bad is not None:
        raise UsageError(
            f"nt.ask: an answer of type {describe(returns)} can never be kept, because "
            f"{describe(bad)} is not plain data. No person was asked. Ask for plain data, such as "
            "returns=str or returns=list[int], and convert the answer."
        )


def _check_fit(asked: Question, tool: Tool) -> None:
    """Refuse an option that cannot be the answer: who chooses it would be asked again."""
    for option in asked.options:
        try:
            tool.adopt_result(option)
        except UsageError as error:
            raise UsageError(
                f"nt.ask: the option {option!r} cannot be an answer of type {asked.answer_type}. "
                "No person was asked. Change the options, or returns=..."
            ) from error


def _shown(about: Any) -> Any:
    """Return what is shown beside a question, as plain data. Raises NotPlainData."""
    if about is None:
        return None
    codec = Codec(type(about), where="about=", outcome="No person was asked.")
    return codec.encode(about, root="about").plain
