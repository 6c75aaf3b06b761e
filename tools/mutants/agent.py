"""Mutants of ``agent``, and of what tools declare for it: what a model may make happen."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

AGENT: tuple[Mutant, ...] = (
    Mutant(
        name="effects of one reply happen together",
        file="agent/calls/order.py",
        old="        if lane is Lane.EFFECT:\n",
        new="        if False:\n",
        tests=(
            "tests/agent/calls/test_order.py"
            "::test_effects_of_one_reply_happen_in_the_order_of_the_reply[sync]",
        ),
        why="A commit would be made before the file is written.",
    ),
    Mutant(
        name="what follows an effect that did not happen is done",
        file="agent/calls/acting.py",
        old="                if self._failed is not None and self._would_be_new(one):\n",
        new="                if False:\n",
        tests=(
            "tests/agent/calls/test_order.py::test_the_mail_about_a_refund_that_was_rejected_is_not_sent",
        ),
        why="A customer would be told of a refund that a person has rejected.",
    ),
    Mutant(
        name="what must stop the run is told to the model",
        file="agent/calls/acting.py",
        old="        return min(serious, key=stops.urgency) if serious else None\n",
        new="        return None\n",
        tests=(
            "tests/agent/calls/test_acting.py"
            "::test_an_error_of_the_program_stops_the_run_and_is_not_told_to_the_model",
        ),
        why="A model that sees an error tries again.",
    ),
    Mutant(
        name="no person is asked about a repeat",
        file="agent/toolbox.py",
        old='            if request.tool.repeat == "ask":\n',
        new="            if False:\n",
        tests=(
            "tests/agent/test_toolbox.py"
            "::test_a_repeat_waits_for_a_person_who_is_told_of_the_earlier_receipt[unsafe]",
        ),
        why="A model that was taught how to repeat would refund five times.",
    ),
    Mutant(
        name="a repeat that a person must approve is taken for new without a look",
        file="engine/calls/expected.py",
        old="    if tool.approve or request.ask is not None or held:\n",
        new="    if tool.approve or held:\n",
        tests=(
            "tests/agent/test_toolbox.py"
            "::test_an_approved_repeat_that_is_asked_for_once_more_is_answered_by_its_receipt",
        ),
        why="A person would be asked about a repeat that has happened.",
    ),
    Mutant(
        name="a tool that says never is repeated",
        file="agent/toolbox.py",
        old='    if tool.replay_class.effectful and tool.repeat != "never":\n',
        new="    if tool.replay_class.effectful:\n",
        tests=(
            "tests/agent/test_toolbox.py"
            "::test_a_tool_that_says_never_is_not_repeated_and_its_model_is_told_so",
        ),
        why="What must happen once only would happen again.",
    ),
    Mutant(
        name="other words are another effect although the tool says otherwise",
        file="guard/arguments/binding.py",
        old="volatile if once_per is None else self._all_but(once_per)",
        new="volatile",
        tests=(
            "tests/guard/test_once_per.py"
            "::test_in_a_plain_run_the_second_wording_gets_the_first_receipt",
        ),
        why="Every mail that a model words again would go out.",
    ),
    Mutant(
        name="another attempt sends other words than the record says",
        file="engine/calls/invocation.py",
        old="    if tool.volatile and (tool.once_per is None or not",
        new="    if tool.volatile and (True or not",
        tests=(
            "tests/guard/test_once_per.py"
            "::test_wherever_a_run_dies_the_words_on_record_are_the_words_that_were_sent",
        ),
        why="The ledger would show a mail that was never sent.",
    ),
    Mutant(
        name="an approval counts for words that no person saw",
        file="engine/calls/approvals.py",
        old="    if _is_for_other_words(last, tool, intent):\n",
        new="    if False:\n",
        tests=(
            "tests/guard/test_once_per.py::test_an_approval_is_for_the_words_that_a_person_saw",
        ),
        why="A person would have approved a mail that says something else.",
    ),
    Mutant(
        name="what tells calls apart may change under a version",
        file="model/graphs/bump.py",
        old="        if not {name} <= _arguments(old) & _arguments(new):\n",
        new="        if True:\n",
        tests=(
            "tests/guard/test_once_per.py"
            "::test_another_answer_to_which_call_it_is_needs_a_new_major_version",
        ),
        why="An open run would take its own receipts for those of other calls.",
    ),
    Mutant(
        name="the ids of a model go back to it as it made them up",
        file="agent/loop.py",
        old="messages=with_own_ids(tuple(refusal.shown_to_model(context.messages))),\n",
        new="messages=tuple(refusal.shown_to_model(context.messages)),\n",
        tests=(
            "tests/agent/requests/test_wire_ids.py::test_what_is_on_record_is_what_the_model_said",
        ),
        why="One reply with a duplicate id would poison every later request.",
    ),
    Mutant(
        name="a worker reserves without a limit above it",
        file="agent/delegating/workers.py",
        old="ChargeWrite(record, boss.at_most(name) if limited else None)",
        new="ChargeWrite(record, None)",
        tests=(
            "tests/agent/delegating/test_workers.py::test_two_workers_at_once_cannot_both_take_the_last_of_it",
        ),
        why="Two workers that look at the same moment would both take the last dollar.",
    ),
    Mutant(
        name="what a worker took is not charged to its boss",
        file="agent/requests/reserving.py",
        old="        taken = lost + Amount(tokens, usd or 0.0)\n",
        new="        taken = lost\n",
        tests=(
            "tests/agent/delegating/test_workers.py::test_workers_cannot_spend_past_the_budget_of_their_boss",
        ),
        why="Fifteen workers would spend seven times what their boss may.",
    ),
    Mutant(
        name="a reservation without an answer is forgotten",
        file="agent/requests/reserving.py",
        old="    lost, of_workers, lent = yield from _on_meters(asking)\n",
        new="    lost, of_workers, lent = yield from _on_meters(asking)\n    lost = Amount()\n",
        tests=("tests/agent/requests/test_asking.py::test_what_earlier_turns_lost_stays_counted",),
        why="A process that dies again and again could spend past the budget.",
    ),
    Mutant(
        name="an outage is asked about before its time",
        file="agent/requests/outage.py",
        old="    if asking.session.clock.now() < known.due:\n",
        new="    if False:\n",
        tests=(
            "tests/agent/requests/test_outage.py"
            "::test_a_provider_that_says_when_to_come_back_is_not_asked_before",
        ),
        why="A provider that asked to be left alone would be asked by every resume.",
    ),
    Mutant(
        name="what a refused reply asks for is done",
        file="agent/loop.py",
        old="    return () if refusal.is_refused(state.plain) else _reply(state).tool_calls\n",
        new="    return _reply(state).tool_calls\n",
        tests=(
            "tests/agent/requests/test_refusal.py::test_what_a_refused_reply_asks_for_is_not_done",
        ),
        why="An effect would come of a reply that was broken off.",
    ),
    Mutant(
        name="a model that refused is asked again by itself",
        file="agent/loop.py",
        old="        if self._harness.provider.model not in refused_by:\n",
        new="        if self._harness.provider.model != refused_by[-1]:\n",
        tests=(
            "tests/agent/requests/test_refusal.py"
            "::test_models_that_all_refuse_are_not_asked_in_turn_forever",
        ),
        why="Two models that both refuse would be asked and paid for in turn.",
    ),
    Mutant(
        name="a removed worker that is not over is told of",
        file="agent/delegating/gone_workers.py",
        old="        if child.status not in _OVER:\n",
        new="        if False:\n",
        tests=(
            "tests/agent/delegating/test_gone_workers.py"
            "::test_a_run_waits_for_a_removed_worker_and_continues_when_it_is_deployed_again",
        ),
        why="A model would have done in another way what the worker does when it is back.",
    ),
    Mutant(
        name="what a removed worker did is denied",
        file="agent/calls/gone.py",
        old="    found.update((yield from gone_workers.on_record(scope, told, left)))\n",
        new="",
        tests=(
            "tests/agent/delegating/test_gone_workers.py"
            "::test_killed_at_any_commit_a_boss_is_never_told_that_a_removed_worker_did_nothing",
        ),
        why="A model that is told that nothing was done does it again.",
    ),
)
