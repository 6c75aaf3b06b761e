"""Mutants of ``engine``: how a call happens, and how a run resumes."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

ENGINE: tuple[Mutant, ...] = (
    Mutant(
        name="an approval that is too old still counts",
        file="engine/calls/approvals.py",
        old="    return not -FUTURE_SECONDS <= now - decision.at <= tool.approval_seconds\n",
        new="    return not -FUTURE_SECONDS <= now - decision.at\n",
        tests=(
            "tests/engine/calls/test_approvals.py::test_an_approval_that_is_too_old_is_asked_for_again",
        ),
        why="A call would be made long after a person agreed to it.",
    ),
    Mutant(
        name="an approval from the future still counts",
        file="engine/calls/approvals.py",
        old="return not -FUTURE_SECONDS <= now - decision.at <= tool",
        new="return not now - decision.at <= tool",
        tests=(
            "tests/engine/calls/test_approvals.py::test_an_approval_from_the_future_does_not_count",
        ),
        why="With a clock that was put back it would never expire.",
    ),
    Mutant(
        name="a rejection covers one more attempt",
        file="engine/calls/approvals.py",
        old="        one.decision is not None and one.decision.verb is Verb.APPROVE\n",
        new="        one.decision is not None\n",
        tests=(
            "tests/engine/calls/test_approvals.py"
            "::test_a_caller_that_still_wants_a_rejected_call_must_ask_again",
        ),
        why="What a person refused would be done.",
    ),
    Mutant(
        name="an approval of another call covers this one",
        file="engine/calls/approvals.py",
        old=("        if one.identity == before.identity\n        and (one.kind"),
        new="        if (one.kind",
        tests=(
            "tests/engine/calls/test_approvals.py"
            "::test_the_used_approval_of_one_call_covers_no_attempt_of_another",
        ),
        why="A call without an approval would be made.",
    ),
    Mutant(
        name="an approval is not used up",
        file="engine/calls/approvals.py",
        old="    return (ReviewWrite(last.used(now=session.clock.now()), last.version),)\n",
        new="    return ()\n",
        tests=(
            "tests/engine/calls/test_approvals.py"
            "::test_nothing_is_sent_before_a_person_approves_and_then_once",
        ),
        why="One approval would serve for two calls.",
    ),
    Mutant(
        name="an intent is recorded although a review is open",
        file="engine/calls/attempt.py",
        old="=not past_doubts and (before is None or not before.status.in_doubt),\n",
        new="=False,\n",
        tests=(
            "tests/engine/calls/test_dispatch.py"
            "::test_a_receipt_is_handed_out_while_the_run_waits_though_the_call_was_expected_to_be_new",
        ),
        why="New effects would overtake a doubt.",
    ),
    Mutant(
        name="one ambiguous attempt is forgotten when the next one fails for certain",
        file="engine/calls/attempt.py",
        old="    if intent.ambiguous or failure.failure_class is FailureClass.AMBIGUOUS:\n",
        new="    if failure.failure_class is FailureClass.AMBIGUOUS:\n",
        tests=(
            "tests/engine/calls/test_attempt.py"
            "::test_after_one_ambiguous_attempt_no_failure_ends_the_call",
        ),
        why="The first attempt may have taken effect, and the record says that it failed.",
    ),
    Mutant(
        name="an overtaken holder leaves a licence as it is",
        file="engine/calls/attempt.py",
        old=(
            "    writes = [ReviewWrite(one.undone(), one.version) for one in about if "
            "one.is_licence]\n"
        ),
        new="    writes: list[ReviewWrite] = []\n",
        tests=(
            "tests/engine/calls/test_attempt.py"
            "::test_evidence_that_it_happened_takes_back_an_unused_licence",
        ),
        why="It happened, and the licence lets it happen again.",
    ),
    Mutant(
        name="an outcome that could not be written is dropped",
        file="engine/calls/attempt.py",
        old=("        session.keep_outcome(write)\n        raise\n"),
        new="        raise\n",
        tests=(
            "tests/engine/test_attacks.py"
            "::test_an_outcome_that_could_not_be_written_is_written_on_leaving",
        ),
        why="The same process would doubt what it saw itself.",
    ),
    Mutant(
        name="evidence that comes after the review was closed opens no new one",
        file="engine/calls/attempt.py",
        old="    if about and all(review.closed_at is not None for review in about):\n",
        new="    if about and not all(review.closed_at for review in about):\n",
        tests=(
            "tests/engine/calls/test_attempt.py::test_evidence_about_a_closed_review_opens_a_new_one",
        ),
        why="A person decided wrongly, and is not told.",
    ),
    Mutant(
        name="what is not a ruling counts as one",
        file="engine/calls/gate.py",
        old="        if outcome.error is not None or not _is_ruling(outcome.value):\n",
        new="        if outcome.error is not None:\n",
        tests=(
            "tests/engine/calls/test_gate.py::test_a_policy_that_gives_no_ruling_lets_nothing_through",
        ),
        why="A policy that forgets to return would allow everything.",
    ),
    Mutant(
        name="an approval lifts limits that deny",
        file="engine/calls/gate.py",
        old="        waived = approved and charge.otherwise is RulingKind.ASK\n",
        new="        waived = approved\n",
        tests=(
            "tests/engine/calls/test_gate.py::test_a_persons_yes_does_not_lift_a_limit_that_denies",
        ),
        why="A person's yes to one thing would spend any amount.",
    ),
    Mutant(
        name="a limit may allow what exceeds it",
        file="engine/calls/gate.py",
        old="            if kind is RulingKind.ALLOW:\n",
        new="            if kind is RulingKind.STOP:\n",
        tests=(
            "tests/engine/calls/test_gate.py::test_a_limit_that_would_allow_what_exceeds_it_denies",
        ),
        why="It would be no limit.",
    ),
    Mutant(
        name="a policy that does not ask any more overrules an open question",
        file="engine/calls/gate.py",
        old="    if must_ask or identity in session.stops.asked:\n",
        new="    if must_ask:\n",
        tests=(
            "tests/engine/calls/test_gate.py"
            "::test_a_person_who_was_asked_is_not_overruled_by_a_policy_that_allows",
        ),
        why="A person who was asked would be passed over.",
    ),
    Mutant(
        name="a policy's error lets the call pass",
        file="engine/calls/gate.py",
        old="    return is_interruption(error) or is_ledger_trouble(error)\n",
        new="    return False\n",
        tests=(
            "tests/engine/calls/test_gate.py"
            "::test_a_meter_that_cannot_be_read_lets_nothing_through_and_is_no_fault_of_the_policy",
        ),
        why="An interruption would be recorded as a refusal of the policy.",
    ),
    Mutant(
        name="a wait is not seen from inside of its branch",
        file="engine/waits/stops.py",
        old="    yield path[-1], True\n",
        new="    yield path[-1], False\n",
        tests=("tests/engine/waits/test_stops.py::test_only_other_branches_are_not_behind_a_wait",),
        why="Steps inside would make new effects while their branch waits.",
    ),
    Mutant(
        name="code that swallows the abort of its run continues",
        file="engine/doubts/aborting.py",
        old="        session.stops.end(aborted)\n",
        new="",
        tests=(
            "tests/guard/test_ended.py"
            "::test_code_that_swallows_the_end_of_its_run_sends_nothing_more",
        ),
        why="Effects would be sent after a person has ended the run.",
    ),
    Mutant(
        name="a plain run does not hear that it was cancelled",
        file="engine/calls/dispatch.py",
        old="        yield from stop_if_cancelled(session)\n",
        new="",
        tests=(
            "tests/guard/test_ended.py::test_a_plain_run_that_was_cancelled_sends_nothing_more",
        ),
        why="Effects would be sent after a person has ended the run.",
    ),
    Mutant(
        name="a cancelled run is recorded as its code ends",
        file="engine/ownership.py",
        old="    error = session.stops.aborted or error\n",
        new="",
        tests=(
            "tests/guard/test_ended.py"
            "::test_an_interrupt_after_the_end_of_a_run_does_not_open_it_again",
        ),
        why="The next process would resume a run that a person has ended.",
    ),
    Mutant(
        name="a child that begins at the moment of a cancellation goes on",
        file="engine/ownership.py",
        old="        yield from stop_if_parent_was_cancelled(session)\n",
        new="",
        tests=(
            "tests/graphs/test_cancel.py"
            "::test_a_child_that_begins_when_its_parent_was_just_cancelled_does_nothing",
        ),
        why="Its effects would be sent after a person has ended its parent.",
    ),
    Mutant(
        name="a run that a policy has stopped continues",
        file="engine/waits/stops.py",
        old=(
            "        if self.ended is not None:\n"
            "            raise self.ended.with_traceback(None)\n"
            "        if not self._stops:\n"
        ),
        new="        if not self._stops:\n",
        tests=("tests/engine/calls/test_gate.py::test_no_step_finishes_in_a_run_that_was_stopped",),
        why="Effects behind the refused call would be made.",
    ),
    Mutant(
        name="word of a cancelled run is not looked for after the clock was put back",
        file="engine/waits/cancelled.py",
        old="    if words == heard and 0 <= now - looked_at < LOOK_SECONDS and not looks_now:\n",
        new="    if words == heard and now - looked_at < LOOK_SECONDS and not looks_now:\n",
        tests=(
            "tests/engine/waits/test_cancelled.py"
            "::test_a_clock_that_was_put_back_does_not_keep_it_from_looking",
        ),
        why="A cancelled run would continue for as long as the clock was put back.",
    ),
    Mutant(
        name="a run is not held although its ledger is a copy",
        file="engine/doubts/restored.py",
        old="    if mark is None or run.created_at > mark.at:\n",
        new="    if mark is None or run.updated_at > mark.at:\n",
        tests=(
            "tests/guard/upkeep/test_backup.py"
            "::test_what_was_done_since_the_backup_is_not_done_again_without_a_person",
        ),
        why="What it did since the copy was made would be done again.",
    ),
    Mutant(
        name="a run continues with another key than the one it knows its secrets by",
        file="engine/secret_key.py",
        old="    found = ring.find(key_id)\n",
        new="    found = ring.find(key_id) or ring.current\n",
        tests=("tests/engine/test_secret_key.py::test_a_run_whose_key_is_gone_sends_nothing",),
        why="It would not recognise its own calls, and make them again.",
    ),
    Mutant(
        name="a result that repeats a secret is kept",
        file="engine/hiding.py",
        old="    if given is not None and given.is_in(text):\n",
        new="    if given is not None and not text:\n",
        tests=(
            "tests/engine/test_hiding.py"
            "::test_a_result_that_repeats_the_secret_is_handed_out_once_and_not_kept",
        ),
        why="The secret would be in the ledger.",
    ),
    Mutant(
        name="an aborted run can be opened",
        file="engine/ownership.py",
        old=(
            "        if run is not None and run.status is RunStatus.ABORTED:\n"
            "            raise RunAborted("
        ),
        new=(
            "        if run is not None and run.status is RunStatus.REMOVED:\n"
            "            raise RunAborted("
        ),
        tests=("tests/engine/doubts/test_reconcile.py::test_an_aborted_run_stays_aborted",),
        why="What a person stopped would continue.",
    ),
    Mutant(
        name="a run that read a changed row outside of any call waits for no person",
        file="engine/ownership.py",
        old="    if isinstance(error, LedgerTampered) and error.review_id is None:\n",
        new="    if False:\n",
        tests=(
            "tests/guard/upkeep/test_seals.py"
            "::test_a_row_that_is_read_outside_of_any_call_makes_the_run_wait",
        ),
        why="No person would be asked, and a worker would open the run again and again.",
    ),
    Mutant(
        name="a living holder is overtaken",
        file="engine/ownership.py",
        old=("is Life.ALIVE:\n                other"),
        new=("is Life.NOT_PROVEN:\n                other"),
        tests=("tests/engine/test_ownership.py::test_a_live_holder_is_not_overtaken_and_is_named",),
        why="Two processes would drive one run.",
    ),
    Mutant(
        name="a wait does not keep a waiter from waiting for itself",
        file="engine/calls/in_flight.py",
        old="        if one in ours:\n",
        new="        if one is target and one in ours[1:]:\n",
        tests=(
            "tests/engine/calls/test_in_flight.py::test_waiting_for_oneself_or_an_ancestor_is_refused",
        ),
        why="A tool that calls itself would hang forever.",
    ),
    Mutant(
        name="retention does not look for effects in doubt",
        file="engine/upkeep/retention.py",
        old=(
            "    return any(row.replay_class.effectful for row in "
            "store.calls_in_doubt(run.workflow_id))\n"
        ),
        new="    return False\n",
        tests=(
            "tests/engine/upkeep/test_retention.py"
            "::test_nothing_of_a_run_is_removed_while_an_effect_in_it_is_in_doubt",
        ),
        why="The only trace of an effect in doubt would be removed.",
    ),
    Mutant(
        name="retention removes runs whose holder may live",
        file="engine/upkeep/retention.py",
        old="store.life_of(run.holder_id) is not Life.DEAD:",
        new="store.life_of(run.holder_id) is Life.ALIVE:",
        tests=(
            "tests/engine/upkeep/test_retention.py"
            "::test_nothing_of_a_run_is_removed_while_its_holder_is_not_proven_dead",
        ),
        why="A holder on another machine may still write.",
    ),
    Mutant(
        name="an answer that is none of the options is used",
        file="engine/waits/waiting.py",
        old="    if question.options and plain not in question.options:\n",
        new="    if question.options and plain is None:\n",
        tests=(
            "tests/engine/waits/test_waiting.py"
            "::test_an_answer_that_was_written_past_the_check_is_not_taken_for_an_option",
        ),
        why="The run would take a way that was not offered.",
    ),
    Mutant(
        name="what was written by a commit and has changed since is forgotten",
        file="engine/pending.py",
        old="                if pending is write:\n",
        new="                if pending is not None:\n",
        tests=(
            "tests/engine/test_pending.py"
            "::test_what_changes_while_a_commit_writes_it_is_written_by_the_next_one",
        ),
        why="A result would be lost that another commit was to write.",
    ),
    Mutant(
        name="a tool that returned a coroutine has done nothing",
        file="engine/drivers.py",
        old="        failed = Ambiguous if tool.replay_class.effectful else Permanent\n",
        new="        failed = Permanent\n",
        tests=(
            "tests/engine/test_drivers.py"
            "::test_a_coroutine_from_an_effectful_sync_tool_leaves_the_call_in_doubt",
        ),
        why="Its body has run, so a retry would repeat its effect.",
    ),
    Mutant(
        name="a result that cannot be kept is accepted from a person",
        file="reviews/decide.py",
        old="    if stored.kind is not ResultKind.NOT_KEPT or _is_masked(stored):\n",
        new="    if stored is not None:\n",
        tests=(
            "tests/reviews/test_decide.py::"
            "test_a_result_that_the_run_cannot_keep_is_refused_until_the_annotation_is_changed",
        ),
        why="Every resume would ask for it again, without an end.",
    ),
    Mutant(
        name="an interrupt is raised again while a loop ends its tasks",
        file="engine/drivers.py",
        old="        if task.done() and isinstance(error_of(task), Exception):\n",
        new="        if task.done() and error_of(task) is not None:\n",
        tests=(
            "tests/engine/test_drivers.py"
            "::test_what_ends_a_loop_is_not_raised_again_while_the_loop_ends_its_tasks",
        ),
        why="Other tasks of the loop could not release their runs.",
    ),
    Mutant(
        name="a forked child commits as its parent",
        file="engine/session.py",
        old=(
            "        if self.pid != os.getpid():\n"
            "            raise forked(self)\n"
            "        if reviews:\n"
        ),
        new="        if reviews:\n",
        tests=("tests/engine/test_session.py::test_a_forked_child_cannot_commit_as_its_parent",),
        why="Two processes would write with the fence of one.",
    ),
    Mutant(
        name="an attempt whose body still runs in this process counts as over",
        file="engine/doubts/doubt.py",
        old="    if row.attempt_id in living:\n",
        new="    if row.attempt_id in ():\n",
        tests=(
            "tests/engine/test_attacks.py"
            "::test_a_thread_whose_waiter_was_cancelled_is_not_taken_for_over",
            "tests/engine/test_attacks.py"
            "::test_a_thread_that_a_cancelled_async_tool_started_is_not_taken_for_over",
        ),
        why="A second attempt would be made while the first one takes effect.",
    ),
    Mutant(
        name="a new try of a step repeats what the killed try has done",
        file="engine/stepping/steps.py",
        old="            if visit != state.record.checkpoint_id:\n",
        new="            if visit == state.record.checkpoint_id:\n",
        tests=(
            "tests/engine/stepping/test_steps.py"
            "::test_a_retry_that_counts_tries_does_not_repeat_what_the_killed_try_had_done",
        ),
        why="A host that counts tries would make the effect twice.",
    ),
    Mutant(
        name="a call that was interrupted where it ends is waited for",
        file="guard/run.py",
        old="    session.in_flight.drop_what_was_interrupted()\n",
        new="",
        tests=(
            "tests/kill/test_interrupts.py"
            "::test_an_interrupt_anywhere_leaves_the_ledger_and_the_run_usable",
        ),
        why="After Ctrl-C the program would hang for a minute, and its run would stay busy.",
    ),
    Mutant(
        name="code after an interrupt seems to be inside of the tool",
        file="engine/drivers.py",
        old="                _return_to(*place)\n",
        new="                pass\n",
        tests=(
            "tests/kill/test_interrupts.py"
            "::test_an_interrupt_anywhere_leaves_the_ledger_and_the_run_usable",
        ),
        why="The program could not ask a person, and its next calls would belong to an old one.",
    ),
    Mutant(
        name="code after an interrupt seems to be inside of the run",
        file="guard/run.py",
        old="            current_scope.set(outer)\n            raise\n",
        new="            raise\n",
        tests=(
            "tests/kill/test_interrupts.py"
            "::test_an_interrupt_anywhere_leaves_the_ledger_and_the_run_usable",
        ),
        why="A later block would belong to a run that is over.",
    ),
    Mutant(
        name="a release that an interrupt kept from beginning is forgotten",
        file="engine/ownership.py",
        old="        if not stop():\n",
        new="        if False:\n",
        tests=(
            "tests/kill/test_interrupts.py"
            "::test_an_interrupt_anywhere_leaves_the_ledger_and_the_run_usable",
        ),
        why="The run of a graph would stay busy until its process ends.",
    ),
)
