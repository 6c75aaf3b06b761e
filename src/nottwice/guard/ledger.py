"""Opening a ledger, and the runs in it: ``nt.Ledger(...)`` and ``nt.run(...)`` (E1, B1).

A ledger opened by its path is shared by everything in this process that names the same file, so
that concurrent runs share their commits.
"""

from __future__ import annotations

import copy
import functools
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from nottwice.engine.clock import Clock, SystemClock
from nottwice.engine.drivers import USUAL
from nottwice.engine.events import Event, Listener, listen
from nottwice.engine.host import Driver, Host, Policy
from nottwice.errors import StoreError, UnknownRun, UsageError
from nottwice.guard.attached import joining
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.frames import shows_one_frame
from nottwice.guard.hosting import Hosting
from nottwice.guard.registry import find_tool
from nottwice.guard.run import Run
from nottwice.guard.sending import tell
from nottwice.guard.settings.keyring import KeySource, find_keyring
from nottwice.guard.settings.notifying import NotifySource, find_notify
from nottwice.guard.settings.policies import Policies, joined, read_policies
from nottwice.guard.settings.project import DEFAULT_STORE as DEFAULT_STORE
from nottwice.guard.settings.project import project_text
from nottwice.guard.stand_ins import current_stand_in, host_here
from nottwice.guard.upkeep import on_record
from nottwice.guard.upkeep.on_record import RecordedCall, RecordedRun, recorded_runs
from nottwice.model.graphs.graph import parse_version
from nottwice.model.run import RunRecord
from nottwice.model.runs.labels import read_labels
from nottwice.model.runs.limits import Limit
from nottwice.model.saving.cadence import Cadence, Checkpoints, read_cadence
from nottwice.model.sealing.keyring import Keyring
from nottwice.model.sealing.seal import Seals
from nottwice.model.tool import Duration, parse_duration, timeout_seconds
from nottwice.store import registry
from nottwice.store.interface import Store
from nottwice.store.machine import whereabouts
from nottwice.store.memory import MemoryStore
from nottwice.store.postgres.place import is_postgres
from nottwice.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from nottwice.guard.attached.handle import Handle

MEMORY = ":memory:"
FOLDER = "file:"
"""The prefix of a store that is a folder of JSON files."""
MOST_OPEN = 16

_shared: dict[tuple[int, int] | str, Store] = {}
_shared_guard = threading.Lock()


def _renew_after_fork() -> None:
    """Replace the lock: another thread may have held it when this process was forked."""
    global _shared_guard
    _shared_guard = threading.Lock()


os.register_at_fork(after_in_child=_renew_after_fork)


class Ledger(Hosting):
    """An open ledger: a path, ``"file:FOLDER"``, ``"postgresql://…"``, ``":memory:"``, or a store.

    Use it as a context manager, or close it. Without a path: ``NOTTWICE_STORE``, else ``store``
    under ``[tool.nottwice]`` in pyproject.toml, else ``nottwice.db`` in the current folder, as for
    every command. With ``create=False`` a missing ledger is an error instead of an empty one.
    ``policy``: one or more functions that see every call before it is made, and may refuse it.
    ``key``: the text of a key, its bytes, or a function that returns either; else
    ``NOTTWICE_KEY``, ``NOTTWICE_KEY_FILE``, or ``key_file`` under ``[tool.nottwice]`` in
    pyproject.toml. ``notify``: who is told of reviews and failures, ``nt.Notify(...)``; else
    ``[tool.nottwice.notify]`` in pyproject.toml; False: no one. ``clock`` replaces the real time,
    in tests. ``driver`` is internal, for replays: see docs/internals/engine.md.
    """

    @shows_one_frame
    def __init__(
        self,
        store: str | Path | Store | None = None,
        *,
        create: bool = True,
        clock: Clock | None = None,
        policy: Policies = None,
        key: KeySource = None,
        driver: Driver = USUAL,
        notify: NotifySource = None,
    ) -> None:
        clock = clock or SystemClock()
        opened = _opened(store, now=clock.now, create=create, key=key)
        self._host = Host(
            store=opened,
            clock=clock,
            driver=driver,
            keys=functools.cache(lambda: find_keyring(key)),
            find_tool=find_tool,
            policies=read_policies(policy),
        )
        self.notify = find_notify(notify, opened, clock)
        """Who is told of what happens in it, and how; None if no one is."""

    @property
    def host(self) -> Host:
        """What its runs are opened and driven with."""
        return host_here(self._host)

    @property
    def store(self) -> Store:
        """Where its runs are recorded."""
        return self.host.store

    @property
    def clock(self) -> Clock:
        """The clock that its runs use."""
        return self.host.clock

    @property
    def keyring(self) -> Keyring | None:
        """The keys of this ledger, loaded when they are first needed; None: there are none."""
        return self._host.keys()

    @property
    def location(self) -> str:
        """Where the ledger is."""
        return self.store.location

    def run(
        self,
        run_id: str,
        *,
        acquire_timeout: Duration | None = None,
        settle_timeout: Duration = "60s",
        policy: Policies = None,
        version: str | None = None,
        checkpoints: Checkpoints | None = None,
        tags: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> Run:
        """Return a run of this ledger, to be entered with ``with`` or ``async with``.

        ``policy`` is asked in addition to those of the ledger; the strictest ruling counts.
        ``version``, ``tags`` and ``group``: see ``nt.run``.
        """
        check_not_importing(f"Run {run_id!r} is opened")
        return Run(
            self.with_policies(read_policies(policy))._host,
            run_id,
            acquire_seconds=timeout_seconds(acquire_timeout, what="acquire_timeout"),
            settle_seconds=parse_duration(settle_timeout, what="settle_timeout"),
            version=None if version is None else parse_version(version, what=f"Run {run_id!r}"),
            cadence=_cadence(run_id, checkpoints),
            labels=read_labels(tags, group, what=f"Run {run_id!r}"),
        )

    def attach(
        self,
        run_id: str | None = None,
        *,
        acquire_timeout: Duration | None = "10s",
        settle_timeout: Duration = "60s",
        policy: Policies = None,
    ) -> Handle:
        """Return a handle of a run, to be entered with ``with`` or ``async with``: ``nt.attach``.

        ``run_id``: None means the run around this code.
        """
        # Imported here: a command that only reads does without what converts values (P226).
        from nottwice.guard.attached.handle import attached

        host = self.with_policies(read_policies(policy))._host
        acquire_seconds = timeout_seconds(acquire_timeout, what="acquire_timeout")
        settle_seconds = parse_duration(settle_timeout, what="settle_timeout")
        return attached(host, run_id, acquire_seconds, settle_seconds)

    def with_policies(self, policies: tuple[Policy, ...]) -> Ledger:
        """Return the same ledger with these policies in addition."""
        asked = joined(self._host.policies, policies)
        return self if asked == self._host.policies else self._with(policies=asked)

    def with_limits(self, limits: tuple[Limit, ...]) -> Ledger:
        """Return the same ledger with these limits in addition."""
        new = tuple(one for one in limits if one not in self._host.limits)
        return self._with(limits=(*self._host.limits, *new)) if new else self

    def driven_by(self, driver: Driver, clock: Clock) -> Ledger:
        """Return the same ledger with another driver and another clock for its runs."""
        return self._with(driver=driver, clock=clock)

    def _with(self, **other: Any) -> Ledger:
        made = copy.copy(self)
        made._host = replace(self._host, **other)
        return made

    def on(
        self, listener: Listener, *, kinds: Collection[type[Event]] | None = None
    ) -> Callable[[], None]:
        """Call ``listener`` with everything this process does in this ledger, from now on.

        See ``nottwice.events`` for the events. ``kinds``: only these kinds, which costs less. Call
        the returned function to stop.
        """
        return listen(listener, of=self._host.store, kinds=kinds)

    def send(
        self,
        run_id: str,
        name: str,
        payload: Any = None,
        *,
        event_id: str | None = None,
        by: str = "a program",
    ) -> str:
        """Send an event to a run of this ledger, as ``nt.send`` does, and return the event's id.

        Durable: when it returns.
        """
        check_not_importing(f"Run {run_id!r} is sent the event {name!r}")
        event = tell(self.host, run_id, name, payload, event_id=event_id, by=by)
        return event.event_id

    def runs(
        self,
        *,
        prefix: str = "",
        graph: str | None = None,
        status: str | None = None,
        tags: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> Iterator[RecordedRun]:
        """The runs of this ledger, last changed first, read a page at a time as you iterate.

        ``prefix``: only runs whose id begins with it. ``graph``: only runs of a graph, by its name
        or by ``name@version``. ``status``: one of the values of ``RecordedRun.status``.
        ``tags``: only runs that have all of these. ``group``: only runs of this group. A run that
        changes while you iterate moves to the front, and may be missed.
        """
        if status is not None and status not in on_record.STATUSES:
            raise UsageError(
                f"{status!r} is not a status of a run. Nothing was read. Give one of: "
                f"{', '.join(on_record.STATUSES)}."
            )
        labels = read_labels(tags, group, what="The runs to list")
        return recorded_runs(self.store, prefix=prefix, graph=graph, status=status, labels=labels)

    def run_record(self, run_id: str) -> RecordedRun:
        """Return one run as recorded, without opening or resuming it. Raises UnknownRun."""
        return on_record.recorded_run(self._known(run_id), self.store.openings(run_id))

    def calls(self, run_id: str) -> Iterator[RecordedCall]:
        """The calls of a run, oldest first, read a page at a time as you iterate.

        Arguments and results are plain data, as they are stored. Raises UnknownRun.
        """
        self._known(run_id)
        return on_record.recorded_calls(self.store, run_id)

    def in_doubt(self, run_id: str | None = None) -> Iterator[RecordedCall]:
        """The calls of this ledger, or of one run, that may or may not have taken effect.

        Oldest first. They include calls that are running now. Raises UnknownRun.
        """
        if run_id is not None:
            self._known(run_id)
        return map(on_record.recorded_call, self.store.calls_in_doubt(run_id))

    def _known(self, run_id: str) -> RunRecord:
        run = self.store.load_run(run_id)
        if run is None:
            raise UnknownRun(
                f"There is no run {run_id!r} in {self.location}. Nothing was changed. List them "
                "with: nottwice runs"
            )
        return run

    def __repr__(self) -> str:
        return f"<Ledger {self._host.store.location!r}>"

    def close(self) -> None:
        """Close the ledger. Everything reported as durable stays durable."""
        joining.release_all(self._host.store)
        self.store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


@runtime_checkable
class Home(Protocol):
    """An object with a ledger, and with policies for everything that runs in it: an app."""

    def open_ledger(self, *, create: bool) -> Ledger: ...


AnyStore = str | Path | Ledger | Store | Home | None
"""Where runs are kept: a path or URL, a ledger, a store, an app; None: as the settings say."""


@shows_one_frame
def run(
    run_id: str,
    *,
    store: AnyStore = None,
    acquire_timeout: Duration | None = None,
    settle_timeout: Duration = "60s",
    policy: Policies = None,
    version: str | None = None,
    checkpoints: Checkpoints | None = None,
    tags: Mapping[str, str] | None = None,
    group: str | None = None,
) -> Run:
    """Open a run: tools called inside are recorded, and no effect happens twice.

    This starts the run or resumes it; you do not have to know which. Calls that an earlier process
    left in doubt are reconciled before the block begins. If that needs a person, ReplayUnsafeError
    says where to decide. ``acquire_timeout``: how long to wait for another holder before RunBusy;
    None: not at all. ``settle_timeout``: how long to repeat ``verify``, and to wait for
    ``settles``, before a person is asked. ``policy``: one or more functions that see every call of
    this run before it is made, and may refuse it. ``version``: the version of this code,
    ``"1.2.0"``. The run keeps the version that it began with. Only the same version or another
    patch of it may continue the run; any other raises WorkflowVersionMismatch. ``checkpoints``:
    when pure results and the ends of steps become durable: ``"effects"`` (with the next effect, or
    within 100 ms; the default), ``"every_step"``, ``"on_exit"``, a number of steps, or a time such
    as ``"30s"``. Effects and model replies are always durable. ``tags``: what you search runs by,
    ``{"customer": "acme"}``. They are added to the tags that the run has; a value given again
    replaces the old one. ``group``: the name of the group that the run belongs to, and stays in.
    """
    # Before the ledger is opened, because that would create its file.
    check_not_importing(f"Run {run_id!r} is opened")
    read_labels(tags, group, what=f"Run {run_id!r}")
    return ledger_of(store).run(
        run_id,
        acquire_timeout=acquire_timeout,
        settle_timeout=settle_timeout,
        policy=policy,
        version=version,
        checkpoints=checkpoints,
        tags=tags,
        group=group,
    )


def send(
    run_id: str,
    name: str,
    payload: Any = None,
    *,
    store: AnyStore = None,
    event_id: str | None = None,
    by: str = "a program",
) -> str:
    """Send an event to a run; ``nt.receive(name)`` in the run gets ``payload``, once.

    Any process may send it: before the run exists, before it waits, or after. An event whose id
    the run already has is the same event, and is not delivered again. Returns the id.
    Durable: when it returns.
    """
    check_not_importing(f"Run {run_id!r} is sent the event {name!r}")
    return ledger_of(store).send(run_id, name, payload, event_id=event_id, by=by)


def ledger_of(store: AnyStore, *, create: bool = True) -> Ledger:
    """Return the ledger for a ``store=`` argument; one named by path is shared in this process.

    To only read, pass ``create=False``: then a mistyped path raises NoLedger instead of creating
    an empty ledger.
    """
    if isinstance(store, Ledger):
        return store
    if store is None or isinstance(store, str | Path):
        return Ledger(_shared_store(store, create=create))
    if isinstance(store, Home):
        return store.open_ledger(create=create)
    if isinstance(store, bytes | int | float | list | tuple | dict):
        raise UsageError(
            f"store={store!r} names no ledger: it is of type {type(store).__name__}. Nothing was "
            "opened. Give a path, a URL, or an nt.Ledger."
        )
    return Ledger(store)


def _cadence(run_id: str, checkpoints: Checkpoints | None) -> Cadence | None:
    return None if checkpoints is None else read_cadence(checkpoints, what=f"Run {run_id!r}")


def default_store() -> str:
    """Return the default ledger, which is the same for programs and commands (P119)."""
    if os.environ.get("NOTTWICE_STORE"):
        return os.environ["NOTTWICE_STORE"]
    folder, configured = project_text("store")
    if configured is None:
        return DEFAULT_STORE
    if _is_url(configured) or configured == MEMORY:
        return configured
    prefix = FOLDER if configured.startswith(FOLDER) else ""
    return prefix + str(folder / configured.removeprefix(FOLDER))


def check_spelling(given: str | Path) -> None:
    """Refuse text that cannot name a file or a server, such as half a surrogate pair.

    White space around a name is a slip, as of a settings file with Windows line ends. It would name
    another ledger, in which everything happens a second time (P119).
    """
    if isinstance(given, str) and given != given.strip():
        raise UsageError(
            f"{given!r} begins or ends with white space, so it would be another ledger than "
            f"{given.strip()!r}. Nothing was opened. Remove the white space."
        )
    try:
        os.fsencode(given)
    except UnicodeEncodeError as error:
        shown = ascii(str(given)[:200])
        raise UsageError(
            f"{shown} does not name a ledger ({error.reason}). Nothing was opened. Name it in "
            "characters that can be written as UTF-8."
        ) from None


def _opened(
    given: str | Path | Store | None, *, now: Callable[[], float], create: bool, key: KeySource
) -> Store:
    """Open the store of a ledger on its own; it is not shared with others in this process."""
    if given is None:
        given = default_store()
    if not isinstance(given, str | Path):
        return given
    check_spelling(given)
    stand_in = current_stand_in()
    known = None if stand_in is None else stand_in.opened(given)
    if known is not None:
        return known
    if str(given) == MEMORY:
        return MemoryStore(now=now())
    return _store_at(given, now=now(), create=create, key=key)


def _shared_store(given: str | Path | None, *, create: bool) -> Store:
    if given is None:
        given = default_store()
    check_spelling(given)
    stand_in = current_stand_in()
    opened = None if stand_in is None else stand_in.opened(given)
    if opened is not None:
        return opened
    if _is_url(given):
        return _shared_server(str(given), create=create)
    path = local_path(given)
    if ".." in path.parts:
        # A store resolves its path, also through a folder that does not exist.
        path = path.resolve()
    if str(path) == MEMORY:
        raise UsageError(
            "A ledger in memory is gone when its block ends, so a run cannot open one by name. "
            "Nothing happened. Keep one: ledger = nt.Ledger(':memory:'), then ledger.run(...)."
        )
    with _shared_guard:
        try:
            status = os.stat(path)
            known = _shared.pop((status.st_dev, status.st_ino), None)
        except OSError:
            known = None
        if known is None:
            known = _store_at(given, now=SystemClock().now(), create=create)
            status = os.stat(path)
        _keep((status.st_dev, status.st_ino), known)
        return known


def _shared_server(url: str, *, create: bool) -> Store:
    with _shared_guard:
        known = _shared.pop(url, None)
        if known is None:
            known = _store_at(url, now=SystemClock().now(), create=create)
        _keep(url, known)
        return known


def _keep(where: tuple[int, int] | str, store: Store) -> None:
    """The dict is kept in order of use. A store that is closed here while in use reopens its
    files."""
    _shared[where] = store
    for oldest in list(_shared)[:-MOST_OPEN]:
        _shared.pop(oldest).close()


def _store_at(
    given: str | Path, *, now: float, create: bool = True, key: KeySource = None
) -> Store:
    """A URL means PostgreSQL or an installed store. A folder holds, or will hold, JSON files.
    Anything else is SQLite."""
    keyring = find_keyring(key)
    seals = None if keyring is None else Seals(keyring)
    if is_postgres(given):
        return _on_postgres(str(given), now=now, create=create, seals=seals)
    if registry.is_installed(given):
        return registry.open_installed(str(given), now=now, create=create, seals=seals)
    path = local_path(given)
    if not str(given).startswith(FOLDER) and not path.is_dir():
        return SqliteStore(path, now=now, create=create, seals=seals)
    # Imported here, because most programs keep their ledger in one file and do not need this store.
    from nottwice.store.files.store import OWN_FOLDER, JsonFileStore

    if not str(given).startswith(FOLDER):
        if not (path / OWN_FOLDER).is_dir():
            raise StoreError(
                f"{path} is a folder, and not a nottwice ledger. Nothing was opened. For a SQLite "
                f"ledger in it, name a file: {path / DEFAULT_STORE}. To keep runs as JSON files "
                f"in it, write: {FOLDER}{path}"
            )
    if path.is_file():
        raise UsageError(
            f"{given} names a folder of JSON files, and {path} is a file. Nothing was opened. Give "
            "the path of a SQLite ledger without 'file:'."
        )
    return JsonFileStore(path, now=now, create=create, seals=seals)


def _on_postgres(url: str, *, now: float, create: bool, seals: Seals | None) -> Store:
    try:
        # Imported here, because the driver is an optional dependency.
        from nottwice.store.postgres.store import PostgresStore
    except ImportError as error:
        if not (error.name or "").startswith("psycopg"):
            raise
        raise UsageError(
            "A ledger on PostgreSQL needs its driver, which is not installed. Nothing was opened. "
            "Install it: pip install 'nottwice[postgres]'"
        ) from None
    return PostgresStore(url, now=now, create=create, seals=seals)


def _is_url(given: str | Path) -> bool:
    return is_postgres(given) or registry.is_installed(given)


def refuse_url(text: str) -> None:
    """Refuse a URL where the path of a ledger is expected, and say what to write instead."""
    if _SQLITE_URL.match(text):
        raise UsageError(
            f"{text!r} is a URL, and a SQLite ledger is named by its path. Nothing was opened. "
            f"Give the path: {_path_in(text)!r}"
        )
    if "://" in text:
        raise UsageError(
            f"{text.partition('://')[0]!r} is not a store that this version knows. Nothing was "
            "opened. Give the path of a SQLite file, file: and a folder, or postgresql://…, or "
            "install the package that has this store."
        )


def local_path(given: str | Path) -> Path:
    """The path that a user gave for a ledger. UsageError if it cannot be one."""
    text = str(given).removeprefix(FOLDER)
    refuse_url(text)
    if text.startswith("//") and text != str(given):
        raise UsageError(
            f"{str(given)!r} is not a path. Nothing was opened. Write: "
            f"{FOLDER + '/' + text.lstrip('/')!r}"
        )
    if str(given) in ("memory:", FOLDER + MEMORY):
        raise UsageError(f"{str(given)!r} is not a path. {_NOT} A ledger in memory is {MEMORY!r}.")
    if not text or "\0" in text:
        raise UsageError(f"{str(given)!r} is not a path. {_NOT}")
    path = Path(os.path.expanduser(text))
    try:
        path.exists()
    except (OSError, ValueError) as error:
        # Too long, or in a folder without permission, or with half a surrogate pair.
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{str(given)[:200]!r} is not a path that can be used ({why}). {_NOT}"
        ) from None
    return path if str(path) == MEMORY else whereabouts.told().path_of(path)


def _path_in(url: str) -> str:
    """Return the path in a SQLite URL: three slashes before a relative path, four before others."""
    path = _SQLITE_URL.sub("", url, count=1).partition("?")[0]
    return path or DEFAULT_STORE


# SQLAlchemy names a driver behind a plus sign.
_SQLITE_URL = re.compile(r"sqlite(\+\w+)?:(///|//)?")
_NOT = "Nothing was opened."
