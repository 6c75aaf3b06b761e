"""Five nodes: read the context, plan, send an e-mail, wait for a person, commit the refund.

    python examples/approval.py          # ticket 7: sends one e-mail, then waits for you
    python examples/approval.py 1.1.0    # a deploy in between: 1.1.0 beside 1.0.0, with ticket 8
    nottwice decide ...                  # the commands that it prints
    python examples/approval.py 1.1.0    # pays once; ticket 7 ends on 1.0.0, its own version

Kill it at any point and run it again. A patch can also resume a ticket: edit `commit` and write
version 1.0.1. An edit that keeps the version is refused.
"""

import os
import sys
from pathlib import Path
from typing import Any

import nottwice as nt

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", "."))
WORLD = FOLDER / "approval-world.txt"  # e-mails and refunds are lines in here
State = dict[str, Any]


def in_the_world(call: nt.Call) -> nt.Verification:
    """Return whether a call left its mark: every line contains the id of its call."""
    lines = WORLD.read_text().splitlines() if WORLD.exists() else []
    found = [line for line in lines if call.id in line]
    return nt.happened(found[0].split()[0]) if found else nt.did_not_happen()


@nt.tool("unsafe_on_replay", verify=in_the_world, settles="1s")
def happen(what: str) -> str:
    """Do something that cannot be undone: send an e-mail, move money."""
    with WORLD.open("a") as world:
        world.write(f"{what} {nt.current_call().id}\n")
    return what


def read_context(state: State) -> State:
    return {"customer": "ann@example.com"}


def plan(state: State) -> State:
    return {"cents": 4000 + state["order_id"]}


def send_email(state: State) -> None:
    happen(f"email:{state['customer']}")


def wait_for_approval(state: State) -> str:
    return nt.ask(f"Refund {state['cents']} cents?", options=["approve", "reject"])


def commit(state: State) -> State:
    return {"refund": happen(f"refund:{state['order_id']}:{state['cents']}")}


def commit_and_thank(state: State) -> State:
    return {"thanks": happen(f"thanks:{state['customer']}"), **commit(state)}


old = nt.Graph("approval", version="1.0.0")
new = nt.Graph("approval", version="1.1.0")
for flow, last in ((old, commit), (new, commit_and_thank)):
    for node in (read_context, plan, send_email):
        flow.node(node)
    flow.node(then={"approve": "commit", "reject": nt.END})(wait_for_approval)
    flow.node(name="commit")(last)

NEW = sys.argv[1:] == ["1.1.0"]
app = nt.App(graphs=[old, new] if NEW else [old], store=FOLDER / "approval.db")

if __name__ == "__main__":
    for number in (7, 8) if NEW else (7,):
        outcome = app.run("approval", f"ticket-{number}", {"order_id": number})
        print(f"{outcome.run_id} is {outcome.status}: {outcome.graph}, {outcome.state}")
        for review in outcome.reviews:
            print(f"  nottwice decide {review.review_id} approve --store {FOLDER / 'approval.db'}")
