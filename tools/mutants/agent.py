"""Mutants of ``agent``: what a model may cost, and when it is asked."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

AGENT: tuple[Mutant, ...] = (
    Mutant(
        name="a worker reserves without a limit above it",
        file="agent/workers.py",
        old="ChargeWrite(record, boss.at_most(name) if limited else None)",
        new="ChargeWrite(record, None)",
        tests=(
            "tests/agent/test_workers.py::test_two_workers_at_once_cannot_both_take_the_last_of_it",
        ),
        why="Two workers that look at the same moment would both take the last dollar.",
    ),
    Mutant(
        name="what a worker took is not charged to its boss",
        file="agent/reserving.py",
        old="        taken = lost + Amount(tokens, usd or 0.0)\n",
        new="        taken = lost\n",
        tests=(
            "tests/agent/test_workers.py::test_workers_cannot_spend_past_the_budget_of_their_boss",
        ),
        why="Fifteen workers would spend seven times what their boss may.",
    ),
    Mutant(
        name="a reservation without an answer is forgotten",
        file="agent/reserving.py",
        old="    lost, of_workers, lent = yield from _on_meters(asking)\n",
        new="    lost, of_workers, lent = yield from _on_meters(asking)\n    lost = Amount()\n",
        tests=("tests/agent/test_asking.py::test_what_earlier_turns_lost_stays_counted",),
        why="A process that dies again and again could spend past the budget.",
    ),
    Mutant(
        name="an outage is asked about before its time",
        file="agent/outage.py",
        old="    if asking.session.clock.now() < known.due:\n",
        new="    if False:\n",
        tests=(
            "tests/agent/test_outage.py"
            "::test_a_provider_that_says_when_to_come_back_is_not_asked_before",
        ),
        why="A provider that asked to be left alone would be asked by every resume.",
    ),
    Mutant(
        name="what a refused reply asks for is done",
        file="agent/loop.py",
        old="    return () if refusal.is_refused(state.plain) else _reply(state).tool_calls\n",
        new="    return _reply(state).tool_calls\n",
        tests=("tests/agent/test_refusal.py::test_what_a_refused_reply_asks_for_is_not_done",),
        why="An effect would come of a reply that was broken off.",
    ),
    Mutant(
        name="a model that refused is asked again by itself",
        file="agent/loop.py",
        old="        if self._harness.provider.model not in refused_by:\n",
        new="        if self._harness.provider.model != asked:\n",
        tests=(
            "tests/agent/test_refusal.py"
            "::test_models_that_all_refuse_are_not_asked_in_turn_for_ever",
        ),
        why="Two models that both refuse would be asked and paid for in turn.",
    ),
)
