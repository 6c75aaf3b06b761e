"""An agent that closes a ticket: it looks, refunds, and writes to the customer, each only once.

    python examples/agent.py kill           # it is killed right after the bank has paid
    python examples/agent.py                # the same command again: it resumes where it was
    nottwice show ticket-7 --store support.db
    nottwice talk ticket-7 'Sure?' --app examples/agent.py

Or through the command line, with a worker, from an empty folder:

    nottwice run triage --id ticket-7 --app examples/agent.py --goal 'Close ticket 7' --detach
    nottwice worker --until-idle --app examples/agent.py

It consists of a policy that no run of the app can bypass, a budget, conditions without which no run
is done, and another agent that works for it. The models are scripts, so this runs without an API
key. With a real model, write provider=nt.providers.anthropic("claude-...") or
nt.providers.openai("gpt-...").
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice import policy

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", "."))
OUTBOX = FOLDER / "outbox.txt"
BANK = FOLDER / "bank.txt"
REQUESTS = FOLDER / "requests.txt"


def found_in(file: Path, call: nt.Call, result: str) -> nt.Verification:
    """Every line contains the id of its call."""
    lines = file.read_text().splitlines() if file.exists() else []
    return nt.happened(result) if any(call.id in line for line in lines) else nt.did_not_happen()


@nt.tool("pure")
def get_order(order_id: int) -> dict[str, int | str]:
    """Look an order up."""
    return {"order_id": order_id, "cents": 4000, "customer": "ann@example.com"}


@nt.tool("pure")
def get_refunds(customer: str) -> list[int]:
    """Look up which orders of a customer were paid back before."""
    return []


@nt.tool("unsafe_on_replay", verify=lambda call: found_in(BANK, call, "refunded"), settles="1s")
def refund(order_id: int, cents: int) -> str:
    """Pay an order back."""
    with BANK.open("a") as bank:
        bank.write(f"order {order_id}: {cents} cents {nt.current_call().id}\n")
    if sys.argv[1:] == ["kill"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return "refunded"


@nt.tool(
    "unsafe_on_replay",
    verify=lambda call: found_in(OUTBOX, call, "sent"),
    settles="1s",
    # A different text does not make it another mail.
    once_per=("to",),
)
def send_email(to: str, text: str) -> str:
    """Write to a customer."""
    with OUTBOX.open("a") as outbox:
        outbox.write(f"{to}: {text} {nt.current_call().id}\n")
    return "sent"


MAIL = {"to": "ann@example.com", "text": "You get 40.00 back."}
SCRIPT: list[Any] = [
    [
        "Let me look at the order first.",
        {"make_plan": {"steps": ["look", "refund", "answer the customer"]}},
        {"get_order": {"order_id": 7}},
        {"clerk": {"goal": "Was ann@example.com paid back before?"}},
    ],
    # Two zeros too many. The policy refuses it, and the model receives the reason.
    {"refund": {"order_id": 7, "cents": 400_000}},
    [
        {"finish_step": {"evidence": "order 7 cost 40.00, no refund before"}},
        {"refund": {"order_id": 7, "cents": 4000}},
    ],
    [{"finish_step": {"evidence": "the refund's receipt"}}, {"send_email": MAIL}],
    # It forgets its mail and writes it again, as models do. The first receipt answers.
    {"send_email": {**MAIL, "text": "Your 40.00 are on their way."}},
    # It claims to be done, but has no evidence for the second condition.
    "Ticket 7 is closed.",
    [
        {"finish_step": {"evidence": "the mail's receipt"}},
        {"show_evidence": {"condition": 2, "evidence": "one mail went out"}},
    ],
    "Ticket 7 is closed: 40.00 refunded, the customer knows.",
    "Yes: there is a receipt for it.",
]


def refund_issued(state: nt.agent.RunState) -> str | None:
    """Return the receipt of the refund, if the ledger has it."""
    paid = [one for one in state.asked if one.tool == "refund" and one.outcome == "done"]
    return f"receipt {paid[0].receipt_id}" if paid else None


def small_refunds(call: policy.ProposedCall) -> policy.Ruling:
    """Limit what a model may refund."""
    if call.tool == "refund" and call.arguments["cents"] > 100_00:
        return policy.deny("a model may refund up to 100.00")
    return policy.allow()


clerk = nt.Agent(
    "clerk",
    version="1.0.0",
    description="Knows the books: what a customer bought, and what was paid back. Changes nothing.",
    provider=nt.providers.scripted(
        [{"get_refunds": {"customer": "ann@example.com"}}, "Ann was never paid back before."],
        log=REQUESTS,
    ),
    tools=[get_refunds],
    budget=nt.Budget(usd=0.50),
)
agent = nt.Agent(
    "triage",
    version="1.0.0",
    provider=nt.providers.scripted(SCRIPT, log=REQUESTS),
    tools=[get_order, refund, send_email, clerk],
    budget=nt.Budget(usd=2.00, tokens=200_000),
    done_when=[refund_issued, "the customer was answered [receipt: send_email]"],
)
app = nt.App(graphs=[agent, clerk], store=FOLDER / "support.db", policy=small_refunds)


def main() -> None:
    """Work on the ticket until it is closed."""
    outcome = agent.run("ticket-7", goal="Close ticket 7", store=app)
    state = outcome.state
    print(f"{outcome.run_id} is {outcome.status}: {state.answer}")
    print(f"plan: {state.cursor} of {len(state.plan)} steps; evidence: {len(state.evidence)}")
    print(
        f"{len(BANK.read_text().splitlines())} refund, {len(OUTBOX.read_text().splitlines())} mail"
    )
    print(f"{state.spent.requests} replies, {state.spent.tokens} tokens, ${state.spent.usd:.4f}")


if __name__ == "__main__":
    main()
