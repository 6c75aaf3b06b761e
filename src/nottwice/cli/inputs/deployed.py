"""Which graphs does the user's code deploy, and in which ledger do they run?

Graphs are imported only by commands that need the user's code: a command that only looks at a
ledger starts faster without them.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nottwice.cli.inputs.application import Application, load_application, need_application
from nottwice.cli.inputs.settings import Settings
from nottwice.errors import UsageError
from nottwice.guard.ledger import MEMORY, Ledger, ledger_of
from nottwice.model.data.records import frozen_record
from nottwice.store.postgres.place import is_postgres

if TYPE_CHECKING:
    from nottwice.graphs.app import App

_HOW = "Name an nt.App or an nt.Graph: --app module:app."


@frozen_record(frozen=True, slots=True)
class Deployed:
    """An app, with everything that its import declared, which must not be collected."""

    application: Application
    app: App

    def in_ledger(self, ledger: Ledger) -> App:
        """The same graphs in this ledger."""
        from nottwice.graphs.app import App

        app = self.app
        return App(
            graphs=app.graphs,
            store=ledger,
            admins=app.admins,
            policy=app.policies,
            limits=app.limits,
            notify=app.notify,
        )


def need_app(settings: Settings, *, what_for: str) -> Deployed:
    """The app; UsageError if none is named, or if the name is not an app."""
    application = need_application(
        settings, what_for=what_for, needed="graphs", example="agent:app"
    )
    return Deployed(application, app_of(application))


def app_of(application: Application) -> App:
    """What an import deploys: the app or the graph that was named, or all that the module has."""
    from nottwice.graphs.app import App
    from nottwice.graphs.declare import Graph

    named = application.named
    if isinstance(named, App):
        return named
    if isinstance(named, Graph):
        return App(graphs=[named])
    if not isinstance(named, ModuleType):
        raise UsageError(
            f"{application.name} is {type(named).__name__}, neither an app nor a graph. Nothing "
            f"was done. {_HOW}"
        )
    apps = _distinct(named, App)
    if len(apps) == 1:
        app: App = apps[0]
        return app
    graphs = _distinct(named, Graph)
    if apps or not graphs:
        found = "several apps" if apps else "neither an app nor a graph"
        raise UsageError(f"{application.name} has {found}. Nothing was done. {_HOW}")
    return App(graphs=graphs)


def ledger_for(settings: Settings, app: App, *, create: bool) -> Ledger:
    """The ledger of an app: what --store says, else its own, else what settings say.

    Settings remember it, so that commands which are printed name the same one.
    """
    if settings.store is not None or app.store is None:
        return settings.open_ledger(create=create)
    if isinstance(app.store, str | Path):
        settings.store = str(app.store)
        return settings.open_ledger(create=create)
    ledger = ledger_of(app.store)
    if ledger.location == MEMORY:
        raise UsageError(
            "The app keeps its ledger in memory, where no other process can resume the run. "
            "Nothing was done. Give the app a path, or name one with --store PATH."
        )
    settings.store = ledger.location
    if is_postgres(ledger.location):
        # Its name holds no password, so it could not be opened by that.
        return ledger
    return Ledger(ledger.location, create=create)


def named_ledger(settings: Settings) -> Ledger:
    """The ledger to look at: what --store says, else that of the app after --app.

    Only an app that is named on the line: one in pyproject.toml is not imported to look at a run.
    """
    if settings.store is not None or settings.app is None:
        return settings.open_ledger()
    application = load_application(settings.app)
    try:
        app = app_of(application)
    except UsageError:
        # A module of tools alone has no ledger of its own.
        return settings.open_ledger()
    return ledger_for(settings, app, create=False)


def _distinct(module: ModuleType, kind: type[Any]) -> list[Any]:
    """What a module has of a kind, each once: one thing may have two names."""
    found = {id(value): value for value in vars(module).values() if isinstance(value, kind)}
    return list(found.values())
