"""The connections of one process to one ledger on PostgreSQL: a few, opened when they are needed.

A connection keeps nothing from one transaction to the next: no prepared statements, no session
locks, no settings. So a pooler in between may use another server connection each time.

psycopg_pool is not used, for two reasons. Its threads do not survive a fork. And when the database
is away, it answers with its own timeout, but a commit must learn immediately that the connection
broke, and when.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from nottwice.errors import StoreError
from nottwice.store.machine.descriptors import occupy_standard_streams
from nottwice.store.postgres.place import Place
from nottwice.store.statements import Statement

T = TypeVar("T")
_PAUSES_SECONDS = (0.02, 0.05, 0.1, 0.2, 0.4)
# A server that vanished silently is noticed within half a minute instead of hours.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "nottwice",
}

# Neither a URL nor PGCLIENTENCODING may change this: with any other encoding there is text that
# cannot be sent, and a receipt could be refused after its effect (P285).
_ALWAYS = {"client_encoding": "utf8"}


_SOON = ("starting up", "shutting down", "recovery", "not yet accept", "too many", "administrator")


class ConnectionLost(Exception):
    """The connection broke, or none could be opened. Work in progress may or may not be durable.

    Internal: the caller knows what was in progress and reports what this means.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error).strip())
        self.error = error


class PostgresConnections:
    """Hands out connections, never more than ``most_connections`` at a time."""

    def __init__(self, place: Place, *, busy_seconds: float) -> None:
        self.place = place
        self._busy_seconds = busy_seconds
        self._free = threading.BoundedSemaphore(place.most_connections)
        self._guard = threading.Lock()
        self._idle: list[psycopg.Connection] = []

    @contextlib.contextmanager
    def use(self) -> Iterator[psycopg.Connection]:
        """A connection outside of any transaction. ConnectionLost if it broke or did not open."""
        if not self._free.acquire(timeout=self._busy_seconds):
            raise StoreError(
                f"All {self.place.most_connections} connections to {self.place.location} have been "
                f"in use for {self._busy_seconds:g} s. Nothing was done. Allow more with "
                "?connections=N in the URL, or start fewer threads."
            )
        try:
            connection = self._idle_one() or self._connect()
            try:
                yield connection
            except psycopg.Error as error:
                if _is_lost(connection, error) or not _is_rolled_back(connection):
                    # A server that restarted has dropped all other connections, too.
                    self.close()
                    raise ConnectionLost(error) from error
                raise
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def close(self) -> None:
        """Close the idle connections. Those in use stay open."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            _close(connection)

    def _idle_one(self) -> psycopg.Connection | None:
        with self._guard:
            return self._idle.pop() if self._idle else None

    def _connect(self) -> psycopg.Connection:
        occupy_standard_streams()
        try:
            return psycopg.connect(
                **{**_DEFAULTS, **self.place.connection, **_ALWAYS},  # type: ignore[arg-type]
                autocommit=True,
                prepare_threshold=None,
            )
        except psycopg.Error as error:
            raise ConnectionLost(error) from error

    def _give_back(self, connection: psycopg.Connection) -> None:
        """Keep it for the next user, unless it is still inside a transaction."""
        if not connection.closed and _status(connection) is TransactionStatus.IDLE:
            with self._guard:
                self._idle.append(connection)
        else:
            _close(connection)


def together(connection: psycopg.Connection, statements: Sequence[Statement]) -> list[Any]:
    """Send all statements, then wait once. Returns a cursor for each."""
    with connection.pipeline():
        return [connection.execute(sql, parameters) for sql, parameters in statements]


def patiently(action: Callable[[], T], *, patience_seconds: float) -> T:
    """Do something repeatable that a lost connection may interrupt.

    Raises the last ConnectionLost if the database stays away for longer than ``patience_seconds``.
    """
    left_seconds = patience_seconds
    pauses = iter(_PAUSES_SECONDS)
    while True:
        try:
            return action()
        except ConnectionLost:
            if left_seconds <= 0:
                raise
        pause_seconds = next(pauses, _PAUSES_SECONDS[-1])
        left_seconds -= pause_seconds
        threading.Event().wait(pause_seconds)


def store_error(error: BaseException, place: Place) -> StoreError:
    """What an error of the database means for the caller. Nothing was written."""
    cause = error.error if isinstance(error, ConnectionLost) else error
    text = place.hide_secrets(" ".join(str(cause).split()))
    if isinstance(cause, psycopg.errors.ProgramLimitExceeded):
        return StoreError(
            f"{place.location} cannot index names as long as these ({text}). Nothing was written. "
            "Use shorter names for the run, its steps and its tools."
        )
    if isinstance(cause, psycopg.errors.InsufficientPrivilege):
        return StoreError(
            f"This user may not do that in {place.location} ({text}). Nothing was written. "
            "Connect as a user with the role nottwice_writer; removing runs also needs the role "
            "nottwice_keeper."
        )
    if isinstance(error, ConnectionLost):
        away = StoreError(
            f"{place.location} cannot be reached ({text}). Nothing was written. Check that the "
            "server is running and accepts this user, then try again."
        )
        # A server that answers "FATAL" is running. It will accept this user later, or never.
        away.is_away = "FATAL" not in text or any(word in text for word in _SOON)
        return away
    return StoreError(f"{place.location} refused ({text}). Nothing was written.")


def _is_lost(connection: psycopg.Connection, error: psycopg.Error) -> bool:
    if connection.closed or _status(connection) is TransactionStatus.UNKNOWN:
        return True
    # The last message of a server that ends the connection; the end itself may arrive later.
    return error.diag.severity_nonlocalized in ("FATAL", "PANIC")


def _is_rolled_back(connection: psycopg.Connection) -> bool:
    """Whether the connection could be rolled back. If a server goes away during a pipeline, the
    connection is neither closed nor usable."""
    try:
        connection.rollback()
    except psycopg.Error:
        return False
    return True


def _status(connection: psycopg.Connection) -> TransactionStatus:
    return TransactionStatus(connection.pgconn.transaction_status)


def _close(connection: psycopg.Connection) -> None:
    with contextlib.suppress(psycopg.Error):
        connection.close()
