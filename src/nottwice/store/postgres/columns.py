"""What every statement to a ledger on PostgreSQL has to agree on: types, and words used twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_NUMBERS = frozenset(
    "created_at attempt started_at finished_at retry_at key_since epoch updated_at claimed_at"
    " wake_at ordinal opened_at version closed_at at snapshot sent_at received_at"
    " recorded_at amount nth writes".split()
)
_OTHER_TYPES = {
    "ambiguous": "smallint",
    "if_failed": "smallint",
    "window_seconds": "double precision",
}


def types_of(columns: str) -> list[str]:
    """The types of columns, as the schema has them."""
    names = columns.split(", ")
    return ["bigint" if name in _NUMBERS else _OTHER_TYPES.get(name, "text") for name in names]


def marks(columns: str) -> str:
    """A parameter for each column, with its type: the server cannot guess that of an empty one."""
    return ", ".join("%s::" + one for one in types_of(columns))


def as_arrays(written: Sequence[Sequence[Any]], *, width: int) -> list[str]:
    """Rows as arrays, one a column, in the spelling of PostgreSQL.

    The driver would do the same, at several times the cost of everything else in a commit.
    """
    columns = [[_element(row[number]) for row in written] for number in range(width)]
    return ["".join(("{", ",".join(column), "}")) for column in columns]


def _element(value: str | float | None) -> str:
    if value is None:
        return "NULL"
    if not isinstance(value, str):
        return repr(value)
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + value + '"'


# Whether this is the server that a commit is meant for, by when it started (postgres/failover.py).
HERE = "pg_postmaster_start_time() = %s::timestamptz"
# A commit that another one overtook may still carry the mark of before: what is done stays done.
STEP_KNOWN = (
    " ON CONFLICT (workflow_id, node_id, checkpoint_id) DO UPDATE SET status = excluded.status,"
    " finished_at = excluded.finished_at, failure_json = excluded.failure_json,"
    " output_file = excluded.output_file, seal = excluded.seal WHERE steps.status <> 'done'"
)
CHECKPOINT_KNOWN = (
    " ON CONFLICT (workflow_id, version) DO UPDATE SET snapshot = excluded.snapshot,"
    " node_id = excluded.node_id, created_at = excluded.created_at,"
    " state_json = excluded.state_json, seal = excluded.seal"
)
# The run that a review holds back, if it does. Questions and approvals hold back only who asked, so
# that a thousand branches can ask at once; but one of them may be decided with an abort. The same
# words as in the index reviews_blocking.
BLOCKED_RUN = (
    "CASE WHEN status IN ('open', 'decided')"
    " AND (kind NOT IN ('question', 'approval') OR strpos(decision_json, '\"abort\"') > 0)"
    " THEN workflow_id END"
)
