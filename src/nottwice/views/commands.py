"""What does a person type for what a view shows? Command lines that work as printed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from nottwice.model.data.records import frozen_record
from nottwice.store.postgres.place import without_secrets


@frozen_record(frozen=True, slots=True)
class ListCommand:
    """The command that lists what a page shows."""

    text: str
    lacks: tuple[str, ...]
    """The filters of the page that it has no option for."""


@frozen_record(frozen=True, slots=True)
class CommandLine:
    """The options that every printed command needs: the ledger and the application."""

    store: str | None = None
    """The value of ``--store``; None for the default ledger."""
    app: str | None = None
    """The value of ``--app``; None if it was not given."""
    has_app: bool = False
    """Whether an application is known, from ``--app`` or from pyproject.toml."""

    def command(self, words: str, name: str = "") -> str:
        """A command that works as printed.

        ``name`` is an id that a user chose, so it may look like an option, or like shell.
        """
        if name.startswith("-"):
            return f"nottwice {words}{self.store_words()} -- {shlex.quote(name)}"
        quoted = f" {shlex.quote(name)}" if name else ""
        return f"nottwice {words}{quoted}{self.store_words()}"

    def resume(self, run_id: str) -> str:
        """The command that resumes a run of a graph."""
        return f"nottwice run --id {shlex.quote(run_id)}{self._app_words()}{self.store_words()}"

    def worker(self) -> str:
        """The command that starts a worker."""
        return f"nottwice worker{self._app_words()}{self.store_words()}"

    def store_words(self) -> str:
        """The ``--store`` option with a leading space; empty for the default ledger."""
        if self.store is None:
            return ""
        return f" --store {shlex.quote(without_secrets(self.store))}"

    def listing(
        self, words: Sequence[str], name: str = "", *, lacks: Sequence[str] = ()
    ) -> ListCommand:
        """The command for what a page shows; ``lacks``: the filters that it has no option for."""
        return ListCommand(self.command(shlex.join(words), name), tuple(lacks))

    def _app_words(self) -> str:
        return "" if self.app is None else f" --app {shlex.quote(self.app)}"
