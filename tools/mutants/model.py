"""Mutants of ``model``: what a call is, and what must happen to it."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

MODEL: tuple[Mutant, ...] = (
    Mutant(
        name="a row that is not intact is believed",
        file="model/decision.py",
        old="    if not facts.intact:\n",
        new="    if facts.intact is None:\n",
        tests=("tests/model/test_decision.py::test_every_situation_has_a_decision",),
        why="A changed row would be acted upon.",
    ),
    Mutant(
        name="a key is reissued although the upstream may have forgotten it",
        file="model/decision.py",
        old="    if facts.replay_class.keyed and facts.window_open and not facts.review_open:\n",
        new="    if facts.replay_class.keyed and not facts.review_open:\n",
        tests=("tests/model/test_decision.py::test_an_effect_in_doubt_fires_only_with_a_licence",),
        why="The request takes effect a second time.",
    ),
    Mutant(
        name="a key is reissued although a person is asked about the call",
        file="model/decision.py",
        old="    if facts.replay_class.keyed and facts.window_open and not facts.review_open:\n",
        new="    if facts.replay_class.keyed and facts.window_open:\n",
        tests=("tests/model/test_decision.py::test_an_effect_in_doubt_fires_only_with_a_licence",),
        why="A clock that was put back reopens a window that a person was already asked about.",
    ),
    Mutant(
        name="'did not happen' licenses an attempt while the old one may be alive",
        file="model/decision.py",
        old="            if over and facts.settle is Settle.PASSED:\n",
        new="            if facts.settle is Settle.PASSED:\n",
        tests=("tests/model/test_decision.py::test_an_effect_in_doubt_fires_only_with_a_licence",),
        why="A paused process wakes up and fires, too.",
    ),
    Mutant(
        name="'did not happen' licenses an attempt although no settle time is declared",
        file="model/decision.py",
        old="facts.settle is Settle.PASSED:",
        new="facts.settle is not Settle.WAITING:",
        tests=("tests/model/test_decision.py::test_an_effect_in_doubt_fires_only_with_a_licence",),
        why="A request that is still queued upstream takes effect beside the new one.",
    ),
    Mutant(
        name="a person's 'did not happen' is ignored",
        file="model/decision.py",
        old=("        case DoubtVerdict.DID_NOT_HAPPEN:\n            return Action.NEW_ATTEMPT\n"),
        new=("        case DoubtVerdict.DID_NOT_HAPPEN:\n            return Action.OPEN_REVIEW\n"),
        tests=("tests/model/test_decision.py::test_an_effect_in_doubt_fires_only_with_a_licence",),
        why="The run asks the same question forever.",
    ),
    Mutant(
        name="a retry forgets that an earlier attempt was ambiguous",
        file="model/call.py",
        old="ambiguous=self.ambiguous or self.status.in_doubt,",
        new="ambiguous=self.status.in_doubt,",
        tests=(
            "tests/model/test_call.py"
            "::test_an_attempt_after_one_in_doubt_is_tainted_and_after_a_failed_one_is_not",
        ),
        why="A later failure that is certain would hide an effect that may have happened.",
    ),
    Mutant(
        name="parts of an identity run into each other",
        file="model/call.py",
        old="{len(node)}:{node}{len(checkpoint)}:",
        new="{node}{len(checkpoint)}:",
        tests=(
            "tests/model/test_call.py::test_the_call_id_is_the_same_in_every_process_and_release",
        ),
        why="Two different calls would share one receipt.",
    ),
    Mutant(
        name="an attempt that was stopped from outside counts as over",
        file="model/call.py",
        old="finished_at=now if over else None,",
        new="finished_at=now,",
        tests=(
            "tests/model/test_call.py"
            "::test_unknown_taints_the_call_and_says_whether_its_attempt_is_over",
        ),
        why="What it started may still take effect.",
    ),
    Mutant(
        name="a percent sign in a step's name is not escaped",
        file="model/call.py",
        old='(("%", "%25"), ("/", "%2F")',
        new='(("/", "%2F")',
        tests=(
            "tests/model/test_call.py::test_no_step_can_be_named_like_the_escaped_name_of_another",
        ),
        why="Two steps would share their receipts.",
    ),
    Mutant(
        name="the attempts before the last one are forgotten",
        file="model/call.py",
        old="past=(*self.past, before),",
        new="past=(before,),",
        tests=(
            "tests/model/test_call.py"
            "::test_every_attempt_stays_on_record_however_often_it_is_tried",
        ),
        why="The record would not show how often it was tried.",
    ),
    Mutant(
        name="another attempt has the number of the one before",
        file="model/call.py",
        old="            attempt=self.attempt + 1,\n",
        new="            attempt=self.attempt,\n",
        tests=(
            "tests/model/test_call.py"
            "::test_one_more_attempt_keeps_what_was_stored_and_the_last_one_becomes_history",
        ),
        why="Attempts cannot be told apart upstream.",
    ),
    Mutant(
        name="a decided review no longer holds back new effects",
        file="model/review.py",
        old="        return self.status is ReviewStatus.DECIDED and verb is not Verb.ACCEPT\n",
        new="        return False\n",
        tests=(
            "tests/model/test_review.py::test_new_effects_wait_for_what_is_open_or_not_yet_used",
        ),
        why="New effects overtake the call that was decided about.",
    ),
    Mutant(
        name="a licence that was used counts again",
        file="model/review.py",
        old=(
            "        return self.status is ReviewStatus.DECIDED and verb is Verb.DID_NOT_HAPPEN\n"
        ),
        new="        return verb is Verb.DID_NOT_HAPPEN\n",
        tests=(
            "tests/model/test_review.py"
            "::test_a_licence_allows_one_attempt_and_nothing_once_it_was_used_or_taken_back",
        ),
        why="One 'did not happen' would allow two attempts.",
    ),
    Mutant(
        name="a second, different decision replaces the first",
        file="model/review.py",
        old=(
            "        if self.status is not ReviewStatus.OPEN:\n            raise DecisionConflict"
        ),
        new=("        if self.status is ReviewStatus.CLOSED:\n            raise DecisionConflict"),
        tests=(
            "tests/model/test_review.py"
            "::test_a_second_and_different_decision_is_a_conflict_that_names_the_first",
        ),
        why="The first decision may be acted upon already.",
    ),
    Mutant(
        name="a decision that was used can be undone",
        file="model/review.py",
        old="        if self.status is not ReviewStatus.DECIDED:\n",
        new="        if self.status is ReviewStatus.OPEN:\n",
        tests=("tests/model/test_review.py::test_a_used_decision_cannot_be_changed_any_more",),
        why="What was done on the strength of it stays done.",
    ),
    Mutant(
        name="the failure of an inner call is taken for the tool's own word",
        file="model/failure.py",
        old="failure_class = None if quoted else _spoken(error)",
        new="failure_class = _spoken(error)",
        tests=(
            "tests/model/test_failure.py"
            "::test_the_recorded_failure_of_an_inner_call_is_no_word_about_the_outer_effect",
        ),
        why="The outer effect may have happened, and would be retried.",
    ),
    Mutant(
        name="a broken classifier makes an effectful error certain",
        file="model/failure.py",
        old=(
            "    return (FailureClass.AMBIGUOUS if effectful else FailureClass.PERMANENT), "
            "None, note\n"
        ),
        new="    return FailureClass.PERMANENT, None, note\n",
        tests=(
            "tests/model/test_failure.py::test_a_classifier_that_answers_nonsense_is_not_believed",
        ),
        why="The effect may have happened, and the record says that it failed.",
    ),
    Mutant(
        name="a classifier is asked about an interruption",
        file="model/failure.py",
        old="classifier is not None and not is_interruption(error):",
        new="classifier is not None:",
        tests=(
            "tests/model/test_failure.py"
            "::test_an_interrupted_effect_is_ambiguous_whatever_a_classifier_says",
        ),
        why="Ctrl-C strikes anywhere, also after the effect.",
    ),
    Mutant(
        name="a request that was sent before counts as never started",
        file="model/failure.py",
        old="            if sent_before(error):\n",
        new="            if sent_before(error) is None:\n",
        tests=(
            "tests/model/test_single_request.py"
            "::test_a_redirect_to_a_refused_connection_is_ambiguous",
        ),
        why="A retry inside the client may have taken effect.",
    ),
    Mutant(
        name="of several failures the one that promises most counts",
        file="model/failure.py",
        old=(
            "    if issubclass(kind, Ambiguous):\n"
            "        return FailureClass.AMBIGUOUS\n"
            "    if issubclass(kind, Permanent):\n"
            "        return FailureClass.PERMANENT\n"
            "    return FailureClass.RETRYABLE if issubclass(kind, Retryable) else None\n"
        ),
        new=(
            "    if issubclass(kind, Retryable):\n"
            "        return FailureClass.RETRYABLE\n"
            "    if issubclass(kind, Permanent):\n"
            "        return FailureClass.PERMANENT\n"
            "    return FailureClass.AMBIGUOUS if issubclass(kind, Ambiguous) else None\n"
        ),
        tests=(
            "tests/model/test_failure.py::test_of_two_words_the_one_that_promises_least_counts",
        ),
        why="An ambiguous failure would be retried.",
    ),
    Mutant(
        name="of several policies the mildest counts",
        file="model/policy.py",
        old="return max(rulings, key=_STRICTNESS",
        new="return min(rulings, key=_STRICTNESS",
        tests=("tests/model/test_policy.py::test_the_strictest_ruling_counts",),
        why="One policy that allows would overrule one that denies.",
    ),
    Mutant(
        name="amounts are rounded down",
        file="model/policy.py",
        old="rounding=ROUND_CEILING)",
        new='rounding="ROUND_FLOOR")',
        tests=(
            "tests/model/test_policy.py::test_an_amount_is_counted_in_millionths_and_rounded_up",
        ),
        why="Many small charges would pass a limit uncounted.",
    ),
    Mutant(
        name="a tool's own keep= may be shorter than the longest pause",
        file="model/runs/retention.py",
        old="seconds = max(tool.keep_seconds, LONGEST_PAUSE_SECONDS)",
        new="seconds = tool.keep_seconds",
        tests=(
            "tests/model/runs/test_retention.py"
            "::test_a_tool_decides_for_itself_but_never_below_the_longest_pause",
        ),
        why="A run that is opened again does everything once more.",
    ),
    Mutant(
        name="the row of a key goes before the upstream forgets the key",
        file="model/runs/retention.py",
        old="return max(ended_at + seconds, _window_closes_at(row, tool))",
        new="return ended_at + seconds",
        tests=(
            "tests/model/runs/test_retention.py"
            "::test_a_row_outlives_the_memory_of_the_upstream_however_old_it_is",
        ),
        why="A conflict of keys would no longer be found.",
    ),
    Mutant(
        name="an effect in doubt is kept no longer than a pure call",
        file="model/runs/retention.py",
        old="        if row.status.in_doubt and kind.effectful:\n",
        new="        if row.status.in_doubt and not kind.effectful:\n",
        tests=(
            "tests/model/runs/test_retention.py"
            "::test_each_class_has_its_own_period_and_what_is_in_doubt_the_longest",
        ),
        why="The only trace of an effect in doubt would be removed.",
    ),
    Mutant(
        name="rows may be removed before the checkpoints that need them",
        file="model/runs/retention.py",
        old="        if self.shortest_seconds > shortest[0]:\n",
        new="        if self.shortest_seconds < 0 * shortest[0]:\n",
        tests=(
            "tests/model/runs/test_retention.py::test_checkpoints_are_never_kept_longer_than_rows",
        ),
        why="A checkpoint without its receipts makes effects twice.",
    ),
    Mutant(
        name="a node counts as inside of another that it only begins like",
        file="model/runs/places.py",
        old='node_id.startswith((outer + "/", outer + "["))',
        new="node_id.startswith(outer)",
        tests=(
            "tests/model/runs/test_places.py"
            "::test_a_node_is_inside_itself_its_outer_steps_and_their_branches",
        ),
        why="Effects of step 'pay2' would be looked for in step 'pay'.",
    ),
    Mutant(
        name="a branch counts as another one than what is inside of it",
        file="model/runs/places.py",
        old="return mine[:shorter] != theirs[:shorter]",
        new="return mine != theirs",
        tests=(
            "tests/model/runs/test_places.py::test_only_siblings_of_one_fan_lie_in_different_branches",
        ),
        why="A wait inside a branch would not stop the branch.",
    ),
    Mutant(
        name="a row without a seal is believed",
        file="model/sealing/seal.py",
        old='            return "it has no seal"\n',
        new="            return None\n",
        tests=("tests/model/sealing/test_seal.py::test_a_seal_fits_nothing_else",),
        why="A receipt could be forged.",
    ),
    Mutant(
        name="the head of a run is believed whatever its seal",
        file="model/sealing/seal.py",
        old='flaw = self.flaw("head", (workflow_id, *head[:-1]), head.seal)',
        new="flaw = None",
        tests=("tests/model/sealing/test_seal.py::test_what_is_no_head_is_not_believed",),
        why="Rows could be taken away unnoticed.",
    ),
    Mutant(
        name="a short key is accepted",
        file="model/sealing/keyring.py",
        old="    if len(secret) < LEAST_KEY_BYTES:\n",
        new="    if not secret:\n",
        tests=(
            "tests/model/sealing/test_keyring.py"
            "::test_what_can_be_guessed_or_not_read_is_refused_and_not_repeated",
        ),
        why="Fingerprints of card numbers could be tried out.",
    ),
    Mutant(
        name="numbers that are only equal count as the same item of a list",
        file="model/saving/frozen.py",
        old="        if is_exact and _are_same(before, after):\n",
        new="        if _are_same(before, after):\n",
        tests=(
            "tests/model/saving/test_frozen.py::test_values_that_only_look_alike_are_not_shared",
        ),
        why="A node changes 1 to true in a list, and the change is not kept.",
    ),
    Mutant(
        name="a container that is only equal counts as the same item of a list",
        file="model/saving/frozen.py",
        old="    return equal is True and next(_compared) == asked + 1\n",
        new="    return equal is True\n",
        tests=(
            "tests/model/saving/test_frozen.py::test_values_that_only_look_alike_are_not_shared",
        ),
        why="A node changes 1 to true inside a record of a list, and the change is not kept.",
    ),
    Mutant(
        name="the end of a long list is compared at the wrong place",
        file="model/saving/frozen.py",
        old="slice(-found - size, -found or None) if from_end",
        new="slice(-size, None) if from_end",
        tests=(
            "tests/model/saving/test_frozen.py"
            "::test_one_change_of_a_long_list_is_found_wherever_it_is",
        ),
        why="A change in the middle of a long list is not kept.",
    ),
)
