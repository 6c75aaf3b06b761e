"""Which policies apply to a run of a graph, and may the graph run where they would not? (L9)

A graph that belongs to an app with a policy must run through that app. Opening the app's ledger by
path would bypass the policy and allow calls that it denies, so this is refused. An agent's own
policies apply wherever it runs. They also apply to the runs that it starts on other agents, even
when another process advances such a run. Promise kept here: P195.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nottwice.engine.asks import Doing, Read
from nottwice.engine.calls.gate import policy_name
from nottwice.engine.host import Policy
from nottwice.errors import UsageError
from nottwice.guard.settings.policies import NoneAsked, joined
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.run import RunRecord
from nottwice.store.interface import Store


class Bonds:
    """What a graph is bound to: its own policies, its apps, and the agents that start it."""

    def __init__(self, own: tuple[Policy, ...] = ()) -> None:
        self.own = own
        self._apps: list[tuple[Policy, ...]] = []
        self._starters: list[Policed] = []

    def add_app(self, policies: tuple[Policy, ...]) -> None:
        """Add an app that the graph belongs to, with its policies."""
        if policies and policies not in self._apps:
            self._apps.append(policies)

    def add_starter(self, starter: Policed) -> None:
        """Add an agent that hands tasks to this one."""
        self._starters.append(starter)

    def share_starters(self, other: Bonds) -> None:
        """Share starters between versions: an agent may have started runs of either one."""
        self._starters += [one for one in other._starters if one not in self._starters]
        other._starters += [one for one in self._starters if one not in other._starters]

    def find_missing(self, asked: Sequence[Policy]) -> list[Policy]:
        """Return the app policies that are not asked. One of several apps is enough."""
        missing = [[one for one in app if one not in asked] for app in self._apps]
        return min(missing, key=len, default=[])

    def starter_of(self, parent: RunRecord) -> Policed | None:
        """Return the agent whose run has started a run of this graph."""
        name = split_graph_id(parent.graph_id)[0] if parent.graph_id else None
        return next((one for one in self._starters if one.name == name), None)


class Policed(Protocol):
    """A graph, as far as policies are concerned."""

    name: str
    bonds: Bonds


def check_policed(policies: tuple[Policy, ...], graph: Policed, run_id: str) -> None:
    """Refuse to run a graph where a policy of its app would not be asked."""
    missing = graph.bonds.find_missing(joined(policies, graph.bonds.own))
    if not missing or isinstance(policies, NoneAsked):
        return
    names = ", ".join(policy_name(policy) for policy in missing)
    raise UsageError(
        f"Run {run_id!r} would not ask the policy of the app that {graph.name!r} belongs to "
        f"({names}). Nothing was started. Run it through the app: "
        f"app.run({graph.name!r}, {run_id!r}, ...), or name the app as the store: "
        f"run({run_id!r}, ..., store=app)."
    )


def policies_of(
    given: tuple[Policy, ...], graph: Policed, run: RunRecord | None
) -> Doing[tuple[Policy, ...]]:
    """Return the policies for a run's calls: these, its graph's own, and those of its starters."""
    if isinstance(given, NoneAsked):
        return given
    asked = joined(given, graph.bonds.own)
    while run is not None and run.parent_id is not None:
        parent: RunRecord | None = yield _load(run.parent_id)
        starter = None if parent is None else graph.bonds.starter_of(parent)
        if starter is None:
            return asked
        asked, graph, run = joined(asked, starter.bonds.own), starter, parent
    return asked


def _load(run_id: str) -> Read:
    def load(store: Store) -> RunRecord | None:
        return store.load_run(run_id)

    return Read(load)
