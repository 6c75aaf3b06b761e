"""How does a visit of an adapter become durable on PostgreSQL? (store/visits.py)

It is a transaction by itself, on the server that this process knows: another server is examined
first, as for every commit (failover.py). If the connection breaks before COMMIT is sent, nothing
was written and the visit is repeated. If it breaks after that, the visit is in doubt and is
repeated, too, which leaves the same rows behind. Promises kept here: P7, P120, P255.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from nottwice.errors import CommitUnknown, NottwiceError
from nottwice.store.postgres.connections import (
    ConnectionLost,
    PostgresConnections,
    patiently,
    store_error,
)
from nottwice.store.postgres.failover import Elsewhere, Witness
from nottwice.store.postgres.schema import commits_may_be_lost, in_schema
from nottwice.store.postgres.statements import SQL, storable
from nottwice.store.statements import Parameters
from nottwice.store.visits import VisitCommit

MOST_REPETITIONS = 5
LOCK_TIMEOUT = "20s"

# Two processes created the tables, or wrote the same rows, at the same moment.
_WORTH_REPEATING = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UniqueViolation,
)


def visit(
    commit: VisitCommit,
    connections: PostgresConnections,
    witness: Witness,
    look: Callable[[], None],
    patience_seconds: float,
) -> BaseException | None:
    """Make a visit. Durable: when it returns None. ``look``: examine a server that ``witness``
    does not know."""
    place = connections.place
    in_doubt = False

    def once() -> None:
        nonlocal in_doubt
        with connections.use() as connection:
            _begin(connection, connections, witness)

            def ask(sql: str, given: Parameters) -> list[Any]:
                cursor = connection.execute(in_schema(sql, place.schema), storable(given))
                return cursor.fetchall() if cursor.description else []

            try:
                commit.work(ask)
            except NottwiceError:
                connection.execute("ROLLBACK")
                raise
            in_doubt = True
            connection.execute("COMMIT")
            in_doubt = False

    def once_here() -> None:
        try:
            once()
        except Elsewhere:
            look()
            try:
                once()
            except Elsewhere as again:
                raise ConnectionLost(again) from again

    for left in reversed(range(MOST_REPETITIONS)):
        try:
            patiently(once_here, patience_seconds=patience_seconds)
        except _WORTH_REPEATING as error:
            if not left:
                return store_error(error, place)
        except NottwiceError as error:
            return error
        except (ConnectionLost, psycopg.Error, UnicodeEncodeError) as error:
            if in_doubt and isinstance(error, ConnectionLost):
                return CommitUnknown(
                    f"The connection to {place.location} broke during a commit "
                    f"({place.hide_secrets(' '.join(str(error).split()))}). It may or may not be "
                    "durable. When the database is back, resume the thread."
                )
            return store_error(error, place)
        else:
            return None
    raise AssertionError("unreachable")


def _begin(
    connection: psycopg.Connection, connections: PostgresConnections, witness: Witness
) -> None:
    """Begin a transaction, on the server that this process knows and with durable commits."""
    limits = {"lock_timeout": LOCK_TIMEOUT, "server": witness.server}
    connection.execute(SQL["begin"])
    row = connection.execute(SQL["limits"], limits).fetchone()
    assert row is not None
    _, _, synchronous_commit, is_here = row
    if not is_here:
        connection.execute("ROLLBACK")
        raise Elsewhere("another server, or one that has restarted")
    if synchronous_commit == "off":
        connection.execute("ROLLBACK")
        raise commits_may_be_lost(connections.place)
