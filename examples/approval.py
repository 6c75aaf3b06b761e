"""Five nodes: read the context, plan, send an e-mail, wait for a person, commit the refund.

    python examples/approval.py          # sends one e-mail, then waits for you
    nottwice decide ...                  # the command that it prints
    python examples/approval.py          # continues: pays once, however often you run it

Kill it wherever you like and run it again. Or deploy while it waits: change what `commit` does,
write version 1.0.1, and run it again. The patch resumes the run. An edit that keeps the version is
refused.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import nottwice as nt

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", "."))
WORLD = FOLDER / "approval-world.txt"  # e-mails and refunds are lines in here


@dataclass
class Ticket:
    order_id: int
    customer: str = ""
    cents: int = 0
    refund: str = ""


def in_the_world(call: nt.Call) -> nt.Verification:
    """Whether a call left its mark: every line carries the id of its call."""
    lines = WORLD.read_text().splitlines() if WORLD.exists() else []
    found = [line for line in lines if call.id in line]
    return nt.happened(found[0].split()[0]) if found else nt.did_not_happen()


@nt.tool("unsafe_on_replay", verify=in_the_world, settles="1s")
def happen(what: str) -> str:
    """Do something that cannot be taken back: send an e-mail, move money."""
    with WORLD.open("a") as world:
        world.write(f"{what} {nt.current_call().id}\n")
    return what


flow = nt.Graph("approval", version="1.0.0", state=Ticket)


@flow.node
def read_context(state: Ticket) -> dict[str, object]:
    return {"customer": "ann@example.com"}


@flow.node
def plan(state: Ticket) -> dict[str, object]:
    return {"cents": 4000 + state.order_id}


@flow.node
def send_email(state: Ticket) -> None:
    happen(f"email:{state.customer}")


@flow.node(then={"approve": "commit", "reject": nt.END})
def wait_for_approval(state: Ticket) -> str:
    return nt.ask(f"Refund {state.cents} cents?", options=["approve", "reject"])


@flow.node
def commit(state: Ticket) -> dict[str, object]:
    return {"refund": happen(f"refund:{state.order_id}:{state.cents}")}


app = nt.App(graphs=[flow], store=FOLDER / "approval.db")

if __name__ == "__main__":
    outcome = app.run("approval", "ticket-7", {"order_id": 7})
    print(f"{outcome.run_id} is {outcome.status}: {outcome.state}")
    for review in outcome.reviews:
        print(f"  nottwice decide {review.review_id} approve --store {FOLDER / 'approval.db'}")
