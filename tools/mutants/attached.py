"""Mutants of what adapters build on: attaching to a run, calls of a model, answers, verdicts."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_CALLING = "tests/guard/attached/test_calling.py"
_JOINING = "tests/guard/attached/test_joining.py"
_SPEC = "tests/guard/attached/test_spec.py"
_ANSWERS = "tests/adapters/test_answers.py"

ATTACHED: tuple[Mutant, ...] = (
    Mutant(
        name="an attached call passes every review, an abort too",
        file="engine/calls/dispatch.py",
        old="one.is_about_one_call and one.identity != self.request.identity for one in",
        new="True or one.identity != self.request.identity for one in",
        tests=(f"{_CALLING}::test_a_run_that_a_person_aborted_makes_no_call_at_all",),
        why="A run that a person has stopped would continue.",
    ),
    Mutant(
        name="a doubt holds back every other call of an attached run",
        file="engine/calls/dispatch.py",
        old="            if self._may_pass(blocked.reviews):\n",
        new="            if False:\n",
        tests=(
            f"{_CALLING}"
            "::test_each_call_raises_for_its_own_review_and_new_effects_are_made_beside_it",
        ),
        why="A framework would pause for a call that has nothing to do with it.",
    ),
    Mutant(
        name="a call whose body comes with it is taken for one of a missing tool",
        file="engine/doubts/reconcile.py",
        old="    if session.run.graph_id is None and own_branch(row.identity) == row.identity:\n",
        new="    if False:\n",
        tests=(
            f"{_CALLING}::test_a_call_in_doubt_waits_for_its_body_and_is_never_made_without_it",
        ),
        why="People would be asked to import a module that does not exist.",
    ),
    Mutant(
        name="a call without a key is sent again while its holder may be alive",
        file="model/decision.py",
        old="        if not facts.keyless or facts.attempt is Attempt.OVER:\n",
        new="        if True:\n",
        tests=(
            f"{_SPEC}::test_an_idempotent_call_is_not_sent_again_while_its_holder_may_be_alive",
        ),
        why="A late first PUT would put the old value back.",
    ),
    Mutant(
        name="a read that is not recorded is answered from its first result",
        file="guard/attached/calling.py",
        old="told = session.new_attempt_id() if self.replies is None else self.replies\n",
        new="told = self.replies\n",
        tests=(f"{_CALLING}::test_read_write_read_returns_the_new_value_under_a_policy",),
        why="A model would read what was there before it wrote.",
    ),
    Mutant(
        name="a result that is an error becomes a receipt",
        file="guard/attached/spec.py",
        old="        raise _failure_of(said, result)\n",
        new="        return result\n",
        tests=(f"{_SPEC}::test_a_result_that_is_an_error_never_becomes_a_receipt",),
        why="A declined card would stay declined forever.",
    ),
    Mutant(
        name="a run is released although a part has attached again",
        file="guard/attached/joining.py",
        old="joined.parts or visit not in (None, joined.visits):\n",
        new="visit not in (None, joined.visits):\n",
        tests=(f"{_JOINING}::test_a_part_that_attaches_in_time_keeps_the_run",),
        why="A tool would lose its run in the middle of its work.",
    ),
    Mutant(
        name="a run between two turns counts as completed",
        file="engine/ownership.py",
        old="    if session.opening.joins or session.run.graph_id is not None:\n",
        new="    if session.run.graph_id is not None:\n",
        tests=(f"{_JOINING}::test_a_run_between_two_turns_is_idle_and_not_completed",),
        why="A conversation would be shown as over between two turns.",
    ),
    Mutant(
        name="an answer decides whichever review is asked about",
        file="adapters/answers.py",
        old="    if told is None or told.review_id != review.review_id:\n",
        new="    if told is None:\n",
        tests=(f"{_ANSWERS}::test_an_answer_to_another_review_decides_nothing",),
        why="A second charge would be licensed by what was said about another one.",
    ),
    Mutant(
        name="the yes of a framework is applied to a doubt",
        file="adapters/answers.py",
        old="    if review.kind is not ReviewKind.APPROVAL or review.status",
        new="    if review.status",
        tests=(f"{_ANSWERS}::test_the_yes_of_a_framework_decides_no_doubt",),
        why="A yes to an approval would repeat an effect.",
    ),
)
