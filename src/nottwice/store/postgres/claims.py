"""How does a worker claim many runs at once on PostgreSQL? By one call of a function (P308).

The function is ``claim_ready`` in sql/postgres_functions.sql. Rows that another transaction has
locked are skipped, so two workers never wait for the same run and never want the same one. What it
writes is what as many commits would write: the claim and the opening of each run. If the
connection breaks, the runs may be claimed for a process that does not know it. The worker of this
process finds them as runs that it holds and does not drive (P128); if the process dies, another
worker does.
"""

from __future__ import annotations

import psycopg

from nottwice.model.run import Standing
from nottwice.store.claiming import ClaimedRun, ClaimRequest, claimed
from nottwice.store.postgres.connections import PostgresConnections
from nottwice.store.postgres.failover import Elsewhere, Witness
from nottwice.store.postgres.functions import CLAIM_READY
from nottwice.store.postgres.schema import commits_may_be_lost, in_schema
from nottwice.store.tables import RUNS, micros

_WIDTH = len(RUNS.names)


def claim_ready(
    connections: PostgresConnections,
    witness: Witness,
    wanted: ClaimRequest,
    *,
    holder_id: str,
    has_key: bool,
) -> list[ClaimedRun]:
    """Claim runs for this process. Durable: when it returns.

    Raises Elsewhere if this is not the server that the process knows, and UndefinedFunction if the
    ledger lacks the function. Nothing was claimed then.
    """
    given = (
        *(witness.server, holder_id, micros(wanted.at), wanted.most, wanted.begun_first),
        *(list(wanted.graphs), [one for one in wanted.besides if "\0" not in one], has_key),
    )
    sql = in_schema(CLAIM_READY, connections.place.schema)
    with connections.use() as connection:
        found = connection.execute(sql, given).fetchall()
    if found and found[0][0] is None:
        if found[0][-2]:
            raise commits_may_be_lost(connections.place)
        raise Elsewhere("another server, or one that has restarted")
    # Times are stored in whole microseconds.
    at = micros(wanted.at) / 1_000_000
    result = []
    for row in found:
        run = RUNS.record(row[:_WIDTH])
        *standing, is_claimed, _ = row[_WIDTH:]
        now = claimed(run, holder_id, at) if is_claimed else None
        result.append(ClaimedRun(run, now, Standing(*standing)))
    return result


LACKING = psycopg.errors.UndefinedFunction
"""What is raised if the ledger has no such function."""
