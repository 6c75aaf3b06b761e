"""A hundred letters, one unsafe call each, in parallel. After a kill, none is sent twice.

    python examples/hundred_items.py     # kill it, run it again: it resumes where it was

The letters are lines in a file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nottwice as nt

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", "."))
OUTBOX = FOLDER / "letters.txt"


def in_outbox(call: nt.Call) -> nt.Verification:
    """Every letter contains the id of its call."""
    lines = OUTBOX.read_text().splitlines() if OUTBOX.exists() else []
    return nt.happened(None) if any(call.id in line for line in lines) else nt.did_not_happen()


@nt.tool("unsafe_on_replay", verify=in_outbox, settles="1s")
def post_letter(to: str) -> None:
    """Post one letter."""
    with OUTBOX.open("a") as outbox:
        outbox.write(f"{to} {nt.current_call().id}\n")


flow = nt.Graph("letters", version="1.0.0")


@flow.node
def post_all(state: dict[str, Any]) -> dict[str, Any]:
    """Use one branch per item: a finished branch stays finished, whatever its siblings do."""
    nt.map(lambda name: post_letter(to=name), state["names"])
    return {"posted": len(state["names"])}


app = nt.App(graphs=[flow], store=FOLDER / "letters.db")


def main() -> None:
    """Post what is not posted yet."""
    names = [f"customer-{number}" for number in range(100)]
    outcome = app.run("letters", "spring-mailing", {"names": names})
    lines = OUTBOX.read_text().splitlines()
    twice = len(lines) - len({line.split()[0] for line in lines})
    print(f"{outcome.run_id} is {outcome.status}: {len(lines)} letters, {twice} of them twice")


if __name__ == "__main__":
    main()
