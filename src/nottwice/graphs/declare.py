"""A graph as users write it: ``flow = nt.Graph("refund", version="1.0.0")`` and ``@flow.node``."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, MutableSet, Sequence
from typing import Any, Generic, Protocol, overload

from typing_extensions import TypeVar

from nottwice.engine.advance import Ending, NodeCode
from nottwice.engine.host import Policy
from nottwice.engine.upkeep import history
from nottwice.engine.upkeep.history import SavedVersion
from nottwice.errors import InvalidGraph
from nottwice.graphs import fork as forking
from nottwice.graphs import running
from nottwice.graphs.binding import find_place
from nottwice.graphs.fingerprint import check_tools, take_fingerprint
from nottwice.graphs.outcome import Outcome
from nottwice.graphs.policed import Bonds
from nottwice.graphs.state import StateType
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.frames import shows_one_frame
from nottwice.guard.ledger import AnyStore, ledger_of
from nottwice.model import values
from nottwice.model.call import check_id
from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.drawing import mermaid
from nottwice.model.graphs.fingerprint import Fingerprint
from nottwice.model.graphs.graph import (
    END,
    MOST_VISITS,
    DeclaredNode,
    GraphDefinition,
    Then,
    define,
    parse_version,
)
from nottwice.model.runs.labels import read_labels
from nottwice.model.saving.cadence import Checkpoints, read_cadence
from nottwice.model.saving.changes import Change
from nottwice.model.tool import Duration
from nottwice.store.interface import Store

S = TypeVar("S", default=dict[str, Any])
T = TypeVar("T")
Given = TypeVar("Given")


class Declarer(Protocol[Given]):
    """What ``graph.node(...)`` returns: it takes a function of the state, or of nothing."""

    @overload
    def __call__(self, function: Callable[[Given], T], /) -> Callable[[Given], T]: ...

    @overload
    def __call__(self, function: Callable[[], T], /) -> Callable[[], T]: ...


class Graph(Generic[S]):
    """A versioned workflow: nodes over a state of plain data.

    Nodes run in the order in which they are declared, unless ``then=`` defines another one. A node
    returns an update of the state, and every node ends with a checkpoint. ``append`` names lists of
    the state to which nodes only add. ``checkpoints`` defines when checkpoints become durable:
    ``"effects"`` (with the next effect, or within 100 ms), ``"every_step"``, ``"on_exit"``, a
    number of steps, or a time such as ``"30s"``. Effects and model replies are always durable.
    ``tools`` names the tools that the nodes look up or receive, which reading their code misses.
    """

    converses = False
    """Whether a new message continues a finished run, in the newest version."""

    @shows_one_frame
    def __init__(
        self,
        name: str,
        *,
        version: str,
        state: type[S] = dict,  # type: ignore[assignment]
        append: Iterable[str] = (),
        checkpoints: Checkpoints = "effects",
        tools: Iterable[Callable[..., Any]] = (),
    ) -> None:
        self.name = check_id(name, what="The graph's name")
        if "@" in name:
            raise InvalidGraph(f"The graph's name {name!r} contains '@'. Use another character.")
        self.version = parse_version(version, what=f"Graph {name!r}")
        if isinstance(append, str):
            append = (append,)
        self.state = StateType(state, graph=name, append=tuple(append))
        self.cadence = read_cadence(checkpoints, what=f"{type(self).__name__} {name!r}")
        self._tools = check_tools(name, tools)
        self._declared: dict[str, DeclaredNode] = {}
        self._code: dict[str, NodeCode] = {}
        self._definition: GraphDefinition | None = None
        self._fingerprint: Fingerprint | None = None
        self.place = find_place()
        """File and line of the declaration, for messages that ask to change the version."""
        self.found_whole: MutableSet[Store] = weakref.WeakSet()
        self.bonds = Bonds()
        self.beside: tuple[Graph[Any], ...] = ()
        self._guard = threading.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r}: {', '.join(self._declared) or 'no nodes'}>"

    @property
    def id(self) -> str:
        """The graph's name and version, ``refund@1.0.0``."""
        return f"{self.name}@{self.version}"

    @overload
    def node(self, function: Callable[[S], T], /) -> Callable[[S], T]: ...

    @overload
    def node(self, function: Callable[[], T], /) -> Callable[[], T]: ...

    @overload
    def node(
        self,
        /,
        *,
        then: Then = None,
        join: str | None = None,
        most: int = MOST_VISITS,
        name: str | None = None,
        phase: str | None = None,
    ) -> Declarer[S]: ...

    def node(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        then: Then = None,
        join: str | None = None,
        most: int = MOST_VISITS,
        name: str | None = None,
        phase: str | None = None,
    ) -> Any:
        """Declare a node: a function that takes the state and returns what changes.

        ``then`` is the next node (``nt.END`` ends the run), a dict that maps what the node returns
        to the next node, or a list of branches that run in parallel and meet in the node ``join``.
        ``most`` limits how often a run may visit the node. ``phase`` makes the node a step of that
        phase. Its name is then ``phase/name`` everywhere.
        """

        def declare(decorated: Any) -> Any:
            named = self._name(decorated, name, phase)
            self._declare(decorated, DeclaredNode(named, then, join, most, phase))
            return decorated

        return declare if function is None else declare(function)

    def definition(self) -> GraphDefinition:
        """Return the whole graph, checked. After this, no node can be added."""
        with self._guard:
            if self._definition is None:
                self._definition = define(
                    self.name,
                    self.version,
                    tuple(self._declared.values()),
                    append=self.state.append,
                    state=self.state.schema(),
                )
            return self._definition

    def fingerprint(self) -> Fingerprint:
        """Return what identifies this graph: structure, tools, and the code of its nodes.

        It is computed at the first run, when every class that an annotation names is defined.
        """
        definition = self.definition()
        with self._guard:
            if self._fingerprint is None:
                self._fingerprint = take_fingerprint(definition, self._code, self._tools)
            return self._fingerprint

    @functools.cached_property
    def record_json(self) -> str:
        """What the ledger records when it first sees this graph."""
        return values.encode(self.fingerprint().to_plain())

    def belong_to(self, policies: tuple[Policy, ...], beside: Sequence[Graph[Any]]) -> None:
        """Make this graph part of an app: its runs cannot bypass the app's policies."""
        self.bonds.add_app(policies)
        # If it is in several apps, the last one counts. The others may no longer be deployed.
        self.beside = tuple(beside)
        for one in beside:
            if one.name == self.name and one is not self:
                self.bonds.share_starters(one.bonds)

    @property
    def code(self) -> Mapping[str, NodeCode]:
        return self._code

    @shows_one_frame
    def run(
        self,
        run_id: str,
        input: Any = None,
        *,
        store: AnyStore = None,
        acquire_timeout: Duration | None = None,
        settle_timeout: Duration = "60s",
        wait: Duration | None = None,
        tags: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> Outcome[S]:
        """Start a run, resume it, or return its finished result. The call is the same for all.

        It returns when the run is finished or waits for something. ``store`` is a path, a ledger,
        or the app, whose policies then apply. ``wait`` is how long to wait here, so that the run
        resumes as soon as what it waits for arrives. ``acquire_timeout`` and ``settle_timeout``
        are those of ``nt.run``, and so are ``tags`` and ``group``; child runs inherit both. An
        exception of a node is recorded as the failure of the run and
        then raised. The same call then tries that node again.
        """
        check_not_importing(f"Run {run_id!r} is opened")
        labels = read_labels(tags, group, what=f"Run {run_id!r}")
        times = acquire_timeout, settle_timeout, wait
        opening = running.asked(ledger_of(store).host, run_id, input, *times, labels=labels)
        return running.run(self, opening)

    @shows_one_frame
    async def arun(
        self,
        run_id: str,
        input: Any = None,
        *,
        store: AnyStore = None,
        acquire_timeout: Duration | None = None,
        settle_timeout: Duration = "60s",
        wait: Duration | None = None,
        tags: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> Outcome[S]:
        """Like ``run``, without blocking the event loop. Sync nodes run in threads."""
        check_not_importing(f"Run {run_id!r} is opened")
        labels = read_labels(tags, group, what=f"Run {run_id!r}")
        times = acquire_timeout, settle_timeout, wait
        opening = running.asked(ledger_of(store).host, run_id, input, *times, labels=labels)
        return await running.arun(self, opening)

    def outcome(self, run_id: str, *, store: AnyStore = None) -> Outcome[S]:
        """Return how far a run got, without running anything."""
        return running.outcome_of(ledger_of(store, create=False).store, self, run_id)

    def mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart, which Markdown pages can show."""
        return mermaid(self.definition())

    def history(self, run_id: str, *, store: AnyStore = None) -> list[SavedVersion]:
        """Return all versions of a run that are kept: number, node and time of each."""
        return history.history(ledger_of(store, create=False).store, run_id)

    def load(self, run_id: str, version: int | None = None, *, store: AnyStore = None) -> S:
        """Return the state of a version, by default the newest, as ``Outcome.state`` would."""
        image = history.load_whole(ledger_of(store, create=False).store, run_id, version)
        state: S = self.state.show(image["state"])
        return state

    def compare(self, run_id: str, one: int, other: int, *, store: AnyStore = None) -> list[Change]:
        """Return what changed in the state from one version to another: path, before, after."""
        return history.compare(ledger_of(store, create=False).store, run_id, one, other)

    def prune(self, run_id: str, *, versions: Collection[int], store: AnyStore = None) -> None:
        """Remove versions of a run. The other versions stay loadable."""
        history.prune(ledger_of(store, create=False).store, run_id, versions=versions)

    def fork(
        self,
        run_id: str,
        *,
        to: str,
        at: int | None = None,
        update: Any = None,
        store: AnyStore = None,
    ) -> None:
        """Create run ``to`` from checkpoint ``at`` of a run. ``run(to)`` then advances it.

        The fork reuses the receipts of its origin and makes no new effects. ``at=None`` is the
        newest checkpoint. ``update`` changes the state that the fork starts with.
        """
        check_not_importing(f"Run {run_id!r} is forked")
        forking.fork(ledger_of(store, create=False), self, run_id, to=to, at=at, update=update)

    def _name(self, function: Any, name: str | None, phase: str | None) -> str:
        given = getattr(function, "__name__", "") if name is None else name
        named = check_id(given, what=f"The name of a node of graph {self.name!r}")
        if "/" in named or "/" in (phase or ""):
            raise InvalidGraph(f"Node {named!r} cannot have '/' in its name or phase.")
        if phase is None:
            return named
        return f"{check_id(phase, what='The phase of a node')}/{named}"

    def _declare(self, function: Any, node: DeclaredNode) -> None:
        name = node.name
        if name == END or name in self._declared:
            raise InvalidGraph(
                f"Graph {self.name!r} already has a node {name!r}, or the name is reserved. "
                "Nothing happened. Give it another name: @graph.node(name='...')."
            )
        if self._definition is not None:
            raise InvalidGraph(
                f"Node {name!r} was declared too late: graph {self.name!r} is in use. Declare all "
                "nodes before the first run."
            )
        if isinstance(node.most, bool) or not isinstance(node.most, int) or node.most < 1:
            raise InvalidGraph(f"Node {name!r} has most={node.most!r}. Use a number above 0.")
        takes = _takes(function, name)
        self._code[name] = _Code(function, _is_async(function), self.state, name, takes)
        self._declared[name] = node


@frozen_record(frozen=True, slots=True)
class _Code:
    """A node's function, and how the state goes in and comes out of it."""

    bare: Callable[..., Any]
    is_async: bool
    state: StateType
    name: str
    takes_state: bool

    @property
    def function(self) -> Callable[[Any], Any]:
        return self.bare if self.takes_state else lambda state: self.bare()

    def hand_out(self, state: Mapping[str, Any]) -> Any:
        return self.state.lend(state)

    def read(self, handed: Any, returned: Any, state: Mapping[str, Any]) -> Ending:
        return self.state.read(handed, returned, state, self.name)


def _is_async(function: Any) -> bool:
    called = type(function).__call__ if callable(function) else None
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _takes(function: Any, name: str) -> bool:
    """Return whether a node takes the state. A node may also take nothing."""
    if not callable(function):
        raise InvalidGraph(f"Node {name!r} is not a function. Nothing happened.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidGraph(f"Node {name!r} is a generator. A node must return what changes.")
    try:
        inspect.signature(function).bind(None)
    except ValueError:
        # Some builtins have no signature.
        return True
    except TypeError:
        try:
            inspect.signature(function).bind()
        except TypeError:
            raise InvalidGraph(
                f"Node {name!r} must take the state, and nothing else. Nothing happened."
            ) from None
        return False
    return True
