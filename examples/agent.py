"""An agent that closes a ticket: it looks, refunds, and writes to the customer, each of it once.

    python examples/agent.py                # kill it, run it again: it goes on where it was
    nottwice run triage --id ticket-7 --app examples/agent.py --goal 'Close ticket 7'

The model is a script, so that this runs without a key. With a real one, write instead:
provider=nt.providers.anthropic("claude-...") or nt.providers.openai("gpt-...").
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nottwice as nt

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", "."))
OUTBOX = FOLDER / "outbox.txt"
BANK = FOLDER / "bank.txt"


def found_in(file: Path, call: nt.Call, result: str) -> nt.Verification:
    """Every line carries the id of its call."""
    lines = file.read_text().splitlines() if file.exists() else []
    return nt.happened(result) if any(call.id in line for line in lines) else nt.did_not_happen()


@nt.tool("pure")
def get_order(order_id: int) -> dict[str, int | str]:
    """Look an order up."""
    return {"order_id": order_id, "cents": 4000, "customer": "ann@example.com"}


@nt.tool("unsafe_on_replay", verify=lambda call: found_in(BANK, call, "refunded"), settles="1s")
def refund(order_id: int, cents: int) -> str:
    """Pay an order back."""
    with BANK.open("a") as bank:
        bank.write(f"order {order_id}: {cents} cents {nt.current_call().id}\n")
    return "refunded"


@nt.tool(
    "unsafe_on_replay",
    verify=lambda call: found_in(OUTBOX, call, "sent"),
    settles="1s",
    # Other words are not another mail.
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
    ],
    [
        {"finish_step": {"evidence": "order 7 cost 40.00"}},
        {"refund": {"order_id": 7, "cents": 4000}},
    ],
    [{"finish_step": {"evidence": "the refund's receipt"}}, {"send_email": MAIL}],
    # It has forgotten its mail and finds other words, as models do. The first receipt answers.
    {"send_email": {**MAIL, "text": "Your 40.00 are on their way."}},
    [
        {"finish_step": {"evidence": "the mail's receipt"}},
        {"show_evidence": {"condition": 1, "evidence": "one mail, by its receipt"}},
    ],
    "Ticket 7 is closed: 40.00 refunded, the customer knows.",
    "Yes: there is a receipt for it.",
]


def refund_issued(state: nt.RunState) -> str | None:
    """Whether the ledger has a receipt of the refund."""
    paid = [one for one in state.asked if one.tool == "refund" and one.outcome == "done"]
    return f"receipt {paid[0].receipt_id}" if paid else None


agent = nt.Agent(
    "triage",
    version="1.0.0",
    provider=nt.providers.scripted(SCRIPT, log=FOLDER / "requests.txt"),
    tools=[get_order, refund, send_email],
    budget=nt.Budget(usd=2.00, tokens=200_000),
    done_when=[refund_issued],
)
app = nt.App(graphs=[agent], store=FOLDER / "agent.db")


def main() -> None:
    """Work on the ticket until it is closed."""
    outcome = agent.run(
        "ticket-7",
        goal="Close ticket 7",
        done_when=["the customer was answered once", refund_issued],
        store=FOLDER / "agent.db",
    )
    state = outcome.state
    print(f"{outcome.run_id} is {outcome.status}: {state.answer}")
    print(f"plan: {state.cursor} of {len(state.plan)} steps; evidence: {len(state.evidence)}")
    print(
        f"{len(BANK.read_text().splitlines())} refund, {len(OUTBOX.read_text().splitlines())} mail"
    )
    print(f"{state.spent.requests} replies, {state.spent.tokens} tokens, ${state.spent.usd:.4f}")


if __name__ == "__main__":
    main()
