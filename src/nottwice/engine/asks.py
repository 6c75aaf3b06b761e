"""What the engine asks for. Engine generators yield these asks, and drivers answer them.

No generator does I/O itself. So sync, async and the crash kit share every line of logic, and a
driver can stop between any two asks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from nottwice.engine.calls.in_flight import InFlight
from nottwice.model.call import Call
from nottwice.model.data.records import light_record
from nottwice.model.policy import ProposedCall
from nottwice.model.tool import Tool
from nottwice.store.interface import Commit, Store

T = TypeVar("T")


@light_record(frozen=True, slots=True)
class Read:
    """Look something up. Answer: the result of the query."""

    query: Callable[[Store], Any]


@light_record(frozen=True, slots=True)
class Write:
    """Make a change durable. Answer: None, once it is durable."""

    commit: Commit


@light_record(frozen=True, slots=True)
class Fire:
    """Invoke a tool once. Answer: an :class:`Invoked`. The tool's exception is never raised."""

    tool: Tool
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    in_flight: InFlight
    late: Callable[[Invoked], None]
    """Called from any thread when an attempt ends after its time limit."""


@light_record(frozen=True, slots=True)
class Verify:
    """Ask a tool's ``verify`` hook about a call. Answer: an :class:`Invoked`."""

    tool: Tool
    call: Call
    limit_seconds: float
    """How long it may take: what the tool declares, or less if a host waits less (P304)."""


@light_record(frozen=True, slots=True)
class Rule:
    """Ask a policy about a call before it is made. Answer: an :class:`Invoked`."""

    policy: Callable[[ProposedCall], Any]
    call: ProposedCall
    limit_seconds: float


@light_record(frozen=True, slots=True)
class CanInvoke:
    """Ask whether a tool and its hook can be invoked from here. Answer: yes or no."""

    tool: Tool


@light_record(frozen=True, slots=True)
class Pause:
    """Let time pass."""

    seconds: float


@light_record(frozen=True, slots=True)
class Join:
    """Wait until another attempt in this process has ended. Answer: whether it has."""

    in_flight: InFlight
    seconds: float | None


@light_record(frozen=True, slots=True)
class Invoked:
    """How an invocation ended: a value, an error, or not within its time limit."""

    value: Any = None
    error: BaseException | None = None
    still_running: bool = False
    invoked: bool = False
    """The tool was invoked just now and returned ``value``."""
    interrupt: BaseException | None = None
    """What interrupted the waiter (Ctrl-C, for example). Raised once the outcome is recorded."""
    stopped: bool = False
    """It was cancelled. What it had started (a thread, for example) may still be running."""


@light_record(frozen=True, slots=True)
class Visit:
    """Run a node's function once, in its scope. Answer: an :class:`Invoked`."""

    function: Callable[[Any], Any]
    is_async: bool
    argument: Any
    scope: Any


@light_record(frozen=True, slots=True)
class Apart:
    """Do something to its end even if the caller is cancelled. Answer: its result.

    The caller is told of the cancellation after that. If it is cancelled again, it leaves.
    """

    doing: Doing[Any]


@light_record(frozen=True, slots=True)
class Together:
    """Do several things concurrently. Answer: one :class:`Invoked` each, when all have ended."""

    doings: tuple[Doing[Any], ...]


Ask = Read | Write | Fire | Verify | Rule | CanInvoke | Pause | Join | Visit | Apart | Together
Doing = Generator[Ask, Any, T]
