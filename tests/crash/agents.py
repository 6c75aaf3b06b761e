"""Agents that are killed everywhere: with tools of every class, a budget, a second round, workers.

The model is a script, and every effect is answered by the crash test.
"""

from __future__ import annotations

from typing import Any

import nottwice as nt
from nottwice.agent.provider import ModelRequest
from tests.crash.scenarios import Agent, look_up, mail, note, refund, wire

MAIL = {"crash_mail": {"to": "ann"}}


def agent(name: str, script: Any, **options: Any) -> nt.Agent:
    given = {"tools": [look_up, refund, mail, note, wire], **options}
    provider = nt.providers.scripted(script)
    return nt.Agent(name, version="1.0.0", provider=provider, **given)


TRIAGE = agent(
    "crash-triage",
    [
        [{"make_plan": {"steps": ["look", "pay"]}}, {"crash_look_up": {"order": 7}}],
        [{"crash_refund": {"order": 7, "cents": 5}}, MAIL, {"crash_note": {"text": "paid"}}],
        [MAIL, {"crash_mail": {"to": "ann", "repeat": "second"}}],
        [{"finish_step": {"evidence": "seen"}}, {"no_such_tool": {}}],
        "Closed.",
    ],
)
FRUGAL = agent(
    "crash-frugal",
    [MAIL, {"crash_note": {"text": "more"}}, "Closed."],
    # Not in tokens: a request that was lost counts, so a killed run may need to be raised sooner.
    budget=nt.Budget(turns=1),
    checkpoints="every_step",
)
CHAT = agent("crash-chat", [MAIL, "Written.", MAIL, {"crash_wire": {"cents": 9}}, "Paid."])


def _each(request: ModelRequest) -> Any:
    number = int(request.messages[0].text.split()[3])
    return {"crash_refund": {"order": number, "cents": 1}} if request.turn == 1 else "refunded"


WORKER = agent("crash-worker", _each)
BOSS = agent(
    "crash-boss",
    [[{"crash-worker": {"goal": f"refund {number}"}} for number in (1, 2)], MAIL, "All done."],
    tools=[WORKER, mail],
)


def triage(store: str) -> Any:
    return _shown(TRIAGE.run("t", goal="close it", store=store))


def frugal(store: str) -> Any:
    return _shown(FRUGAL.run("f", goal="close it", store=store))


def chat(store: str) -> Any:
    first = CHAT.run("c", goal="write", store=store)
    if not first.finished:
        # A message to a run that still waits is read in its first round.
        return _shown(first)
    return _shown(CHAT.run("c", message="and pay", store=store))


def boss(store: str) -> Any:
    return _shown(BOSS.run("b", goal="close all", store=store))


def _shown(outcome: nt.Outcome[nt.agent.RunState]) -> Any:
    """What must be the same however often it was killed: what was said, planned, and spent."""
    state = outcome.state
    words = [message.to_plain() for message in state.transcript]
    return [outcome.status, words, list(state.plan), state.cursor, state.spent.usd]


AGENTS: dict[str, Agent] = {
    "agent": Agent(triage),
    "agent with a budget": Agent(frugal),
    "agent in a second round": Agent(chat),
    "agent with workers": Agent(boss),
}
