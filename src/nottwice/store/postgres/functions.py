"""The commits that every step of every run makes, as functions of the database.

The server takes longer to plan such a statement than to execute it. It keeps the plans of a
function per server connection, even behind a pooler that switches connections, where a prepared
statement would be missing. But a kept plan must not be one for small tables: on a new ledger all
tables are empty, and every index looks equally good. So each statement can use only one index,
however little the planner knows:

- A run is found by its only key. Sequential scans are switched off.
- A blocking review is found by an expression that only its own index has.
- A call is found as the first one from its key on, in the order of the key. A search by "equals"
  might use the index by run and time, which becomes slower with every call.

The names of the functions end with a hash of their text. So every nottwice calls its own version,
even while other processes are still being upgraded. The functions run with the rights of the
caller.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
from collections.abc import Sequence

from nottwice.store import effects
from nottwice.store.postgres.statements import SQL, types_of
from nottwice.store.statements import Statements, for_postgres
from nottwice.store.tables import CALLS, CHECKPOINTS, OPENINGS, RUNS, STEPS

_SETTINGS = (
    "SET enable_seqscan = off SET enable_sort = off SET plan_cache_mode = force_generic_plan"
)
_RECEIPT = (*CALLS.key, "attempt_id", *effects.RECEIPT)
ENDED = ("ended_at", "ended", "receipts", "duplicates", "tokens", "usd")
"""What the end of a run writes about its opening."""
_END = {
    "workflow_id": "text",
    "unless_blocked": "boolean",
    **{name: RUNS.postgres_types[name] for name in ("status", "updated_at", "failure_json")},
    **{name: OPENINGS.postgres_types[name] for name in ENDED},
    **dict.fromkeys(("notice_id", "kind"), "text"),
    "created_at": "bigint",
    "payload_json": "text",
}
"""The parameters of the end of a run, and their types."""


def functions_script() -> str:
    """The SQL that creates the functions, in the schema nottwice. It can be repeated safely."""
    return _script().replace("{digest}", _digest())


def name_of(function: str) -> str:
    """The full name of a function in this version of nottwice."""
    return f"nottwice.{function}_{_digest()}"


def _arrays(names: Sequence[str]) -> list[str]:
    return [one + "[]" for one in types_of(names)]


def _numbered(names: Sequence[str], *, after: int) -> list[str]:
    """The parameters of a function for these columns."""
    return ["$" + str(after + number) for number in range(1, len(names) + 1)]


@functools.cache
def _digest() -> str:
    return hashlib.sha256(_script().encode()).hexdigest()[:12]


@functools.cache
def _script() -> str:
    file = importlib.resources.files("nottwice.store") / "sql" / "postgres_functions.sql"
    script = file.read_text(encoding="utf-8")
    for word, text in _words().items():
        script = script.replace("{" + word + "}", text)
    return script


def _words() -> dict[str, str]:
    """The texts that replace names in braces in the script."""
    words = {"settings": _SETTINGS, "blocked_run": SQL.part("_blocked_run")}
    words["p_run"] = ", ".join("p." + name for name in RUNS.names)
    words["no_run"] = ", ".join("NULL::" + one for one in types_of(RUNS.names))
    for name, names in (("intent", effects.INTENT), ("call", CALLS.names)):
        words[name + "_columns"] = ", ".join(names)
        words[name + "_types"] = ", ".join(types_of(names))
        words[name + "_values"] = ", ".join(_numbered(names, after=2))
    new = _numbered(_RECEIPT, after=2)[-len(effects.RECEIPT) :]
    words["end_types"] = ", ".join(_END.values())
    words["receipt_types"] = ", ".join(types_of(_RECEIPT))
    words["receipt_changes"] = ", ".join(map(" = ".join, zip(effects.RECEIPT, new, strict=True)))
    after = 1
    for name, table in (("step", STEPS), ("checkpoint", CHECKPOINTS)):
        words[name + "_columns"] = table.columns
        words[name + "_types"] = ", ".join(_arrays(table.names))
        words[name + "_values"] = ", ".join(_numbered(table.names, after=after))
        words[name + "_known"] = SQL.part(f"_{name}_known")
        after += len(table.names)
    return words


_CALLING = Statements("postgres_calls.sql", spell=for_postgres, words={"digest": _digest()})
HOLDS_RUN = _CALLING["holds_run"]
INTENT = _CALLING["write_intent"]
CALL = _CALLING["write_call"]
RECEIPT = _CALLING["write_receipt"]
END_RUN = _CALLING["end_run"]
CLAIM_READY = _CALLING["claim_ready"]
WITH_PENDING = {
    _CALLING[name]: _CALLING[name + "_pending"]
    for name in ("holds_run", "write_intent", "write_call", "write_receipt", "end_run")
}
"""The same calls, each together with its pending writes."""
