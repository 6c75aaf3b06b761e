"""The commits that every step of every run makes, as functions of the database.

To plan such a statement takes the server longer than to execute it. The plans of a function are
kept by the server's own connection, also behind a pooler that hands connections around, where a
prepared statement would be missing. But a plan that is kept must not be one for small tables: on a
new ledger all are empty, and any index looks as good as any other. So there is only one index that
each statement can use, however little the planner knows:

- a run is found by its only key; reading the whole table is switched off;
- a review that blocks is found by an expression that only its own index has;
- a call is found as the first one from its own key on, in the order of the key. Asked for by
  "equals" it may as well be looked for by run and time, which is slower with every call.

Their names end with a hash of what they do, so that every nottwice calls its own, also while others
are still being upgraded. They act with the rights of whoever calls them.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
from collections.abc import Sequence

from nottwice.store import effects
from nottwice.store.postgres.statements import HERE, SQL, marks, types_of
from nottwice.store.tables import CALLS, CHECKPOINTS, STEPS

_SETTINGS = (
    "SET enable_seqscan = off SET enable_sort = off SET plan_cache_mode = force_generic_plan"
)
_RECEIPT = (*CALLS.key, "attempt_id", *effects.RECEIPT)


def functions_script() -> str:
    """The SQL that makes the functions, in the schema nottwice. It is harmless to repeat."""
    return _script().replace("{digest}", _digest())


def name_of(function: str) -> str:
    """How a function is called by this nottwice."""
    return "".join(("nottwice.", function, "_", _digest()))


def _call(function: str, *given: Sequence[str]) -> str:
    """A call of a function, with a parameter for each of these columns."""
    return "".join((name_of(function), "(", ", ".join(marks(names) for names in given), ")"))


def _riding(call: str) -> str:
    """The same, and with it what rides along."""
    arrays = (*_arrays(STEPS.names), *_arrays(CHECKPOINTS.names))
    given = ", ".join((call, *("%s::" + one for one in arrays)))
    return "".join((name_of("ride"), "(", given, ")"))


def _arrays(names: Sequence[str]) -> list[str]:
    return [one + "[]" for one in types_of(names)]


def _numbered(names: Sequence[str], *, after: int) -> list[str]:
    """How a function calls what it is given for these columns."""
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
    """What stands in braces in the script."""
    words = {"settings": _SETTINGS, "blocked_run": SQL.part("_blocked_run")}
    for name, names in (("intent", effects.INTENT), ("call", CALLS.names)):
        words[name + "_columns"] = ", ".join(names)
        words[name + "_types"] = ", ".join(types_of(names))
        words[name + "_values"] = ", ".join(_numbered(names, after=2))
    new = _numbered(_RECEIPT, after=2)[-len(effects.RECEIPT) :]
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


_FENCE = ("epoch", "holder_id")
_HOLDS_RUN = _call("holds_run", _FENCE, ("workflow_id",))
_WRITE_INTENT = _call("write_intent", _FENCE, effects.INTENT)
_WRITE_CALL = _call("write_call", _FENCE, CALLS.names)
_WRITE_RECEIPT = _call("write_receipt", _FENCE, _RECEIPT)


def _if_here(call: str) -> str:
    """One row if everything was written, none if not. Another server than the one that is meant
    calls nothing (postgres/failover.py)."""
    return "".join(("SELECT 1 WHERE CASE WHEN ", HERE, " THEN ", call, " ELSE false END"))


HOLDS_RUN = _if_here(_HOLDS_RUN)
INTENT = _if_here(_WRITE_INTENT)
CALL = _if_here(_WRITE_CALL)
RECEIPT = _if_here(_WRITE_RECEIPT)
WITH_RIDERS = {
    _if_here(call): _if_here(_riding(call))
    for call in (_HOLDS_RUN, _WRITE_INTENT, _WRITE_CALL, _WRITE_RECEIPT)
}
