"""Forks the children of examinations, answers their requests, and runs several side by side.

An examination is a generator that yields what it needs (a child started, awaited, woken), like the
engine does. So one thread serves them all, and it can fork without other threads.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import time
import warnings
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar, assert_never

from typing_extensions import TypedDict

from nottwice.graphs.declare import Graph
from nottwice.guard.registry import declared_tools
from nottwice.model.data.records import frozen_record
from nottwice.store.sqlite.schema import known_scripts
from nottwice.testing.crash import view
from nottwice.testing.crash.inside.child import OUTPUT, ChildErrand, run_errand
from nottwice.testing.crash.inside.link import ChildLink, make_link
from nottwice.testing.crash.inside.stubs import error_to_plain
from nottwice.testing.crash.scenario import Asking, CrashTestRefused, Scenario
from nottwice.testing.crash.upstream import Answered, CountingUpstream, Invocation, UpstreamWrite
from nottwice.testing.crash.view import View

CHILD_LIMIT_SECONDS = 60.0
T = TypeVar("T")


@frozen_record(frozen=True, slots=True)
class StageEnding:
    """How the work ended in one child: what it returned, or what it raised."""

    returned: str | None = None
    error: str | None = None
    text: str = ""
    ours: bool = False
    """The error is one of nottwice's own."""
    expected: bool = False
    """The error is one with which the work should end."""

    @property
    def shown(self) -> str:
        """How it ended, in a form that can be compared."""
        return f"returned {self.returned}" if self.error is None else f"raised {self.error}"


@dataclass(slots=True, eq=False)
class Child:
    """A forked process, and what it has reported so far."""

    pid: int
    errand: ChildErrand
    upstream: CountingUpstream
    link: ChildLink
    give_up_at: float
    met_at: str | None = None
    """The name of the point at which it met its fault."""
    stopped: bool = False
    over: bool = False
    before: View | None = None
    after: View | None = None
    ending: StageEnding | None = None
    passed: int = 0
    names: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    writes: dict[int, int] = field(default_factory=dict)
    """Where in the world's list each of its commits is, by the child's number for it."""
    under_way: set[str] = field(default_factory=set)
    """The ids of its current calls whose results are durable before they are returned."""
    broken: str | None = None
    """Why it ended in the wrong way: it hung, or the kit itself failed in it."""

    @property
    def idle(self) -> bool:
        """Whether nothing more will happen in it unless it is woken."""
        return self.over or self.stopped


@frozen_record(frozen=True, slots=True)
class Begin:
    """Fork a child. Answer: the running child."""

    errand: ChildErrand
    upstream: CountingUpstream


@frozen_record(frozen=True, slots=True)
class Until:
    """Wait until a child has ended or is stopped. Answer: None."""

    child: Child


@frozen_record(frozen=True, slots=True)
class Wake:
    """Let a stopped child continue. Answer: None."""

    child: Child


Want = Begin | Until | Wake
Examining = Generator[Want, Any, T]


class Stage:
    """Where examinations are performed."""

    def __init__(self, scenario: Scenario, *, side_by_side: int = 2) -> None:
        self._scenario = scenario
        self._side_by_side = side_by_side
        self._selector = selectors.DefaultSelector()
        self._children: list[Child] = []
        _warm_up()

    def perform(self, examinations: Iterable[Examining[T]]) -> Iterator[T]:
        """Perform all, a few at a time. Yield each outcome as soon as it is known."""
        source = iter(examinations)
        acts: list[_Act] = []
        try:
            while True:
                while len(acts) < self._side_by_side and (one := next(source, None)) is not None:
                    acts.append(_Act(one))
                if not acts:
                    return
                for act in acts:
                    self._continue(act)
                done = [act for act in acts if act.done]
                acts = [act for act in acts if not act.done]
                for act in done:
                    yield act.outcome
                if acts and not done:
                    self._serve()
        finally:
            self._end_all()

    def perform_one(self, examination: Examining[T]) -> T:
        """Perform one and return its outcome."""
        (outcome,) = self.perform([examination])
        return outcome

    def _continue(self, act: _Act) -> None:
        """Advance an examination as far as possible without waiting."""
        while not act.done and (act.waits_for is None or act.waits_for.idle):
            act.waits_for = None
            want = act.next_want()
            match want:
                case None:
                    return
                case Begin():
                    act.answer = self._fork(want)
                case Until():
                    act.waits_for = want.child
                case Wake():
                    want.child.stopped = False
                    os.kill(want.child.pid, signal.SIGCONT)
                case _:
                    assert_never(want)

    def _fork(self, begin: Begin) -> Child:
        ours, theirs = make_link()
        with warnings.catch_warnings():
            # The child does only what is defined here. Threads of the test runner stay behind.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            self._be_child(begin, ours, theirs)
        theirs.close()
        child = Child(
            pid=pid,
            errand=begin.errand,
            upstream=begin.upstream,
            link=ours,
            give_up_at=time.monotonic() + CHILD_LIMIT_SECONDS,
        )
        self._children.append(child)
        self._selector.register(ours, selectors.EVENT_READ, child)
        return child

    def _be_child(self, begin: Begin, ours: ChildLink, theirs: ChildLink) -> NoReturn:
        # Garbage collection in a child would copy all memory that it shares with its parent.
        gc.freeze()
        ours.close()
        for sibling in self._children:
            sibling.link.close()
        self._selector.close()
        run_errand(
            begin.errand,
            self._scenario,
            theirs,
            now=begin.upstream.now,
            limit=CHILD_LIMIT_SECONDS - 5,
        )

    def _serve(self) -> None:
        """Wait for messages of the children, and handle them."""
        for key, _ in self._selector.select(timeout=1.0):
            child: Child = key.data
            messages = child.link.read()
            if messages is None:
                self._bury(child)
                continue
            for message in messages:
                self._hear(child, message)
        for child in list(self._children):
            if time.monotonic() > child.give_up_at and not child.stopped:
                child.broken = f"it did not end within {CHILD_LIMIT_SECONDS:g} s"
                os.kill(child.pid, signal.SIGKILL)
                self._bury(child)

    def _hear(self, child: Child, message: dict[str, Any]) -> None:
        if "ask" in message:
            if message["ask"] == "effect":
                _count(child, Invocation(message["call_id"], message["tool"], kept=True))
            reply = self._answer(child.upstream, message)
            child.upstream.mark()
            child.link.reply(reply)
            return
        upstream = child.upstream
        match message["tell"]:
            case "writing":
                child.writes[message["number"]] = len(upstream.writes)
                done = tuple(message["done"])
                upstream.writes.append(
                    UpstreamWrite(child.pid, message["run"], message["epoch"], done=done)
                )
            case "wrote":
                place = child.writes[message["number"]]
                written = replace(upstream.writes[place], accepted=True)
                upstream.writes[place] = written
                child.under_way.difference_update(written.done)
            case "seen":
                setattr(child, message["moment"], view.from_plain(message["view"]))
            case "invoking":
                _count(child, Invocation(message["call_id"], message["tool"], kept=message["kept"]))
                # Work that a power loss destroys was still done before it (P160).
                upstream.mark()
            case "over":
                child.under_way.discard(message["call_id"])
            case "dying":
                child.met_at = message["at"]
                upstream.faults += 1
            case "stopping":
                child.met_at = message["at"]
                upstream.faults += 1
                os.waitpid(child.pid, os.WUNTRACED)
                child.stopped = True
            case "refused":
                raise CrashTestRefused(message["text"])
            case "ended":
                _take_ending(child, message)

    def _answer(self, upstream: CountingUpstream, message: dict[str, Any]) -> dict[str, Any]:
        match message["ask"]:
            case "effect":
                asking = _asking(message)
                window = message["window"]
                return _plain(upstream.attempt(self._scenario, asking, window_seconds=window))
            case "read":
                return _plain(upstream.read(self._scenario, _asking(message)))
            case "verify":
                upstream.verified.append(message["call_id"])
                found = upstream.find(message["call_id"])
                return {"result_json": None if found is None else found.result_json}
            case _:
                upstream.now += message["seconds"]
                return {"now": upstream.now}

    def _bury(self, child: Child) -> None:
        self._selector.unregister(child.link)
        self._children.remove(child)
        child.link.close()
        _, status = os.waitpid(child.pid, 0)
        child.over = True
        met = child.met_at is not None
        if child.ending is None and not met and child.broken is None:
            child.broken = f"it ended with status {status} without a report"
        if child.broken is not None:
            with contextlib.suppress(OSError):
                said = (child.errand.folder / OUTPUT).read_text(errors="replace")
                child.broken += f"; its last output:\n{said[-3000:]}"

    def _end_all(self) -> None:
        for child in list(self._children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            self._bury(child)


def _warm_up() -> None:
    """Do once, here, what every child would otherwise repeat: read signatures, load plugins.

    This excludes the fingerprints of the graphs: a graph with a fingerprint accepts no more nodes.
    """
    for protected in declared_tools():
        with contextlib.suppress(Exception):
            # A signature that cannot be read is reported when the tool is called.
            protected.tool.result_type()  # type: ignore[attr-defined]
    known_scripts()
    some = Graph("warm-up", version="0.0.0", state=_SomeState)
    some.node(_some_node)
    some.fingerprint()


class _SomeState(TypedDict, total=False):
    """An ordinary state."""

    text: str


def _some_node(state: _SomeState) -> _SomeState:
    return state


class _Act:
    """A running examination."""

    def __init__(self, examination: Examining[Any]) -> None:
        self._examination = examination
        self.answer: Any = None
        self.outcome: Any = None
        self.done = False
        self.waits_for: Child | None = None

    def next_want(self) -> Want | None:
        """Return what it needs next, or None if it is done."""
        answer, self.answer = self.answer, None
        try:
            return self._examination.send(answer)
        except StopIteration as stop:
            self.outcome, self.done = stop.value, True
            return None


def _count(child: Child, made: Invocation) -> None:
    upstream = child.upstream
    upstream.invoked.append(made)
    if made.kept:
        child.under_way.add(made.call_id)
        upstream.widest = max(upstream.widest, len(child.under_way))


def _asking(message: dict[str, Any]) -> Asking:
    return Asking(
        tool=message["tool"],
        args=message["args"],
        key=message["key"],
        call_id=message["call_id"],
        attempt=message["attempt"],
        earlier=0,
    )


def _plain(answered: Answered) -> dict[str, Any]:
    error = None if answered.error is None else error_to_plain(answered.error)
    return {"result_json": answered.result_json, "error": error}


def _take_ending(child: Child, message: dict[str, Any]) -> None:
    child.ending = StageEnding(
        returned=message.get("returned"),
        error=message.get("error"),
        text=message.get("text", ""),
        ours=message.get("ours", False),
        expected=message.get("expected", False),
    )
    child.passed = message["passed"]
    child.names = tuple(message["names"])
    child.used = tuple(message["used"])
    child.declared = tuple(message["declared"])
