"""Writes docs/concepts/decision-table.md from the decision function itself."""

from __future__ import annotations

import sys
from pathlib import Path

from nottwice.model.call import CallStatus
from nottwice.model.decision import Answer, Attempt, DoubtVerdict, Facts, Settle, decide
from nottwice.model.replay_class import ReplayClass

PAGE = Path(__file__).parents[1] / "docs" / "concepts" / "decision-table.md"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"

_IN_DOUBT = {"status": CallStatus.UNKNOWN}
_OVER = {**_IN_DOUBT, "attempt": Attempt.OVER, "can_verify": True}
_ALIVE = {**_IN_DOUBT, "attempt": Attempt.MAYBE_ALIVE, "can_verify": True}

# What the reader sees, and the facts that it stands for.
SITUATIONS: list[tuple[str, dict[str, object]]] = [
    ("no row", {"status": None}),
    ("DONE", {"status": CallStatus.DONE}),
    ("DONE, its result could not be kept", {"status": CallStatus.DONE, "result_kept": False}),
    ("FAILED", {"status": CallStatus.FAILED}),
    ("FAILED, a retry was granted", {"status": CallStatus.FAILED, "retry_granted": True}),
    ("in doubt, the attempt runs in this process", {**_OVER, "attempt": Attempt.ALIVE_HERE}),
    ("in doubt, a person says it happened", {**_OVER, "verdict": DoubtVerdict.HAPPENED}),
    (
        "in doubt, a person says it did not happen",
        {**_OVER, "verdict": DoubtVerdict.DID_NOT_HAPPEN},
    ),
    ("in doubt, the key's window is open", {**_OVER, "window_open": True}),
    (
        "in doubt, the window is open, the old attempt may be alive",
        {**_ALIVE, "window_open": True},
    ),
    (
        "in doubt, the window is open, a person was asked and has not answered",
        {**_OVER, "window_open": True, "review_open": True, "can_verify": False},
    ),
    (
        "in doubt, it is idempotent without a key, the old attempt is over",
        {**_OVER, "window_open": True, "keyless": True},
    ),
    (
        "in doubt, it is idempotent without a key, the old attempt may be alive",
        {**_ALIVE, "window_open": True, "keyless": True, "can_verify": False},
    ),
    ("in doubt, there is no verify", {**_OVER, "can_verify": False}),
    ("in doubt, verify was not asked yet", _OVER),
    ("in doubt, verify: happened", {**_OVER, "answer": Answer.HAPPENED}),
    ("in doubt, verify: still running", {**_OVER, "answer": Answer.STILL_RUNNING}),
    (
        "in doubt, verify: still running, the settle timeout has passed",
        {**_OVER, "answer": Answer.STILL_RUNNING, "patience": False},
    ),
    ("in doubt, verify: cannot tell", {**_OVER, "answer": Answer.UNKNOWN}),
    (
        "in doubt, verify: did not happen, settle time passed",
        {**_OVER, "answer": Answer.DID_NOT_HAPPEN, "settle": Settle.PASSED},
    ),
    (
        "in doubt, verify: did not happen, settle time passed, a person was asked and has not "
        "answered",
        {**_OVER, "answer": Answer.DID_NOT_HAPPEN, "settle": Settle.PASSED, "review_open": True},
    ),
    (
        "in doubt, verify: did not happen, settle time not passed",
        {**_OVER, "answer": Answer.DID_NOT_HAPPEN, "settle": Settle.WAITING},
    ),
    (
        "in doubt, verify: did not happen, no settle time declared",
        {**_OVER, "answer": Answer.DID_NOT_HAPPEN},
    ),
    (
        "in doubt, the old attempt may be alive, verify: happened",
        {**_ALIVE, "answer": Answer.HAPPENED},
    ),
    (
        "in doubt, the old attempt may be alive, verify: did not happen",
        {**_ALIVE, "answer": Answer.DID_NOT_HAPPEN, "settle": Settle.PASSED},
    ),
    ("the row was tampered with", {"status": CallStatus.DONE, "intact": False}),
]


def table() -> str:
    """The decision table as Markdown, one row a situation, one column a replay class."""
    classes = list(ReplayClass)
    lines = [
        "| the ledger shows | " + " | ".join(f"`{kind.value}`" for kind in classes) + " |",
        "|---" * (len(classes) + 1) + "|",
    ]
    for name, facts in SITUATIONS:
        actions = [decide(Facts(replay_class=kind, **facts)).value for kind in classes]  # type: ignore[arg-type]
        lines.append(f"| {name} | " + " | ".join(actions) + " |")
    return "\n".join(lines)


def page_with_table(text: str) -> str:
    """The page with its generated part made again."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> int:
    """Write the page."""
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
