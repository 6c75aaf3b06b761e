"""What is examined: a piece of code, what the world answers it, and what people answer.

The code under test never reaches the real world. The parent process answers every effectful tool
and counts its calls. An effectful tool without an answer is refused when it is called, and its
function never runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from nottwice.errors import UsageError
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.store.interface import Store

Raises = type[BaseException] | str | tuple[type[BaseException] | str, ...]
"""Which exception ends the work: its class, its name, or several."""


class CrashTestRefused(UsageError):
    """The crash test cannot examine this code. The text says why. Nothing real was called."""


class LevelsUnavailable(CrashTestRefused):
    """This machine can examine none of the chosen levels, so nothing was examined."""


class NotDeterministic(CrashTestRefused):
    """Two uninterrupted runs differed, so a difference after a crash would prove nothing."""


@frozen_record(frozen=True, slots=True)
class Asking:
    """A request to the world: one attempt of one tool."""

    tool: str
    args: dict[str, Any]
    key: str | None
    call_id: str
    attempt: int
    earlier: int
    """How many earlier attempts of this call the world has seen, in all processes."""


@frozen_record(frozen=True, slots=True)
class Lost:
    """A canned answer: the effect takes place, but its response never arrives."""

    result: Any = None


@frozen_record(frozen=True, slots=True)
class Late:
    """A canned answer: no response arrives, and the effect takes place ``seconds`` later."""

    result: Any = None
    seconds: float = 1.0


@frozen_record(frozen=True, slots=True)
class FailsFirst:
    """A canned answer: the first attempts of each call fail without effect, then it succeeds."""

    error: Exception
    result: Any = None
    times: int = 1

    def __call__(self, args: dict[str, Any], asking: Asking) -> Any:
        if asking.earlier < self.times:
            raise self.error
        return self.result


@frozen_record(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A piece of code and everything that it needs to run without the real world."""

    work: Callable[[], Any]
    """Starts or resumes. It takes no arguments and is called again after every crash."""
    tools: Mapping[str, Any] = field(default_factory=dict)
    """By tool name: a canned result, or a function of the arguments that the parent calls."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """By question, event name or tool name: the answer, the payload, or ``"reject"``.

    Without one, the first option is the answer, an approval is given, and an event never arrives.
    """
    name: str = "the work"
    """How a person would name it. Commands that reproduce a failure use it."""
    raises: Raises = ()
    """The exception with which the work ends even without a crash. If empty, it must return."""
    effects: bool = True
    """False: the work should change nothing in the world."""
    store: Callable[[Path], Store] | None = None
    """Opens a third-party store in a folder of the examination, in place of the real one."""
    at_most_repeated: int | None = None
    """How many calls of any tool one fault may repeat. None: those that were in progress, and pure
    ones whose results wait for a commit."""

    def __post_init__(self) -> None:
        if not callable(self.work):
            raise CrashTestRefused(
                f"{self.work!r} cannot be called, so it cannot be killed while it runs. Nothing "
                "was run. Pass a function without arguments: lambda: handle('ticket-7')."
            )
        if self.store is not None and not callable(self.store):
            raise CrashTestRefused(
                f"store= is {self.store!r}, which cannot be called. Nothing was run. Pass a "
                "function that opens your store in an empty folder: lambda folder: MyStore(folder)."
            )
        given = self.at_most_repeated
        if given is not None and (type(given) is not int or given < 0):
            raise CrashTestRefused(
                f"at_most_repeated= is {given!r}, which is not a number of calls. Nothing was run. "
                "Pass 0, 1, 2 and so on, or omit it."
            )
        for expected in self.expected:
            if not (expected if isinstance(expected, str) else _is_exception(expected)):
                raise CrashTestRefused(
                    f"raises= is {self.raises!r}, which names no exception. Nothing was run. Pass "
                    "a class, like raises=LookupError, or a tuple of classes."
                )
        for name, answer in self.tools.items():
            if not callable(answer):
                _check_canned(name, answer)

    @property
    def expected(self) -> tuple[type[BaseException] | str, ...]:
        """The exceptions that the work may raise, one by one."""
        return self.raises if isinstance(self.raises, tuple) else (self.raises,)

    def expects(self, error: BaseException) -> bool:
        """Whether the work should end with this error."""
        names = {kind.__name__ for kind in type(error).__mro__}
        return any(
            one in names if isinstance(one, str) else isinstance(error, one)
            for one in self.expected
        )

    def answer(self, asking: Asking) -> Any:
        """Return what the world does about one attempt. An exception is the tool's failure."""
        canned = self.tools[asking.tool]
        if not callable(canned):
            return canned
        wanted = (asking.args, asking)[: _takes(canned)]
        return canned(*wanted)


def _check_canned(name: str, answer: Any) -> None:
    result = answer.result if isinstance(answer, Lost | Late) else answer
    if not values.is_plain(result):
        raise CrashTestRefused(
            f"The answer for tool {name!r} is a {type(result).__name__}, which is not plain data. "
            "Nothing was run. Pass it as JSON would have it. The tool's annotation converts it to "
            "its own type."
        )


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _takes(function: Callable[..., Any]) -> int:
    """Return how much of (arguments, asking) a function takes."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return 1
    places = [
        one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    return 2 if any(one.kind is one.VAR_POSITIONAL for one in parameters) else min(len(places), 2)
