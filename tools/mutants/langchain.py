"""Mutants of ``langchain``: checkpoints that hold together, and calls that wait for theirs."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

LANGCHAIN: tuple[Mutant, ...] = (
    Mutant(
        name="a checkpoint builds upon pieces that are gone",
        file="langchain/rows.py",
        old="            self._check(ask, thread_id, needed)\n",
        new="",
        tests=(
            "tests/langchain/test_rows.py"
            "::test_a_checkpoint_that_builds_on_a_removed_thread_is_not_written",
        ),
        why="The next resume would find a conversation that cannot be read.",
    ),
    Mutant(
        name="a fork takes the piece of the other branch for its own",
        file="langchain/rows.py",
        old="            self._check(ask, thread_id, sorted(new))\n",
        new="",
        tests=("tests/langchain/test_rows.py::test_a_fork_leaves_both_branches_as_they_were",),
        why="Time travel would show the messages of another branch.",
    ),
    Mutant(
        name="checkpoints are pruned while others build upon them (PostgreSQL)",
        file="langchain/rows.py",
        old='        if self._dialect == "postgres":\n            ask(',
        new='        if self._dialect == "":\n            ask(',
        tests=(
            "tests/langchain/test_rows.py"
            "::test_a_checkpoint_waits_for_a_removal_that_has_begun_and_then_is_not_written",
        ),
        why="A conversation would lose its first messages, and could not be read.",
    ),
    Mutant(
        name="a call does not wait for its checkpoint",
        file="langchain/durable.py",
        old="            if known or self._look(key):\n",
        new="            if True:\n",
        tests=(
            "tests/langchain/test_durable.py"
            "::test_a_call_waits_until_the_checkpoint_that_led_to_it_is_saved",
        ),
        why="After a crash the model would be asked again, and an effect be on no list.",
    ),
    Mutant(
        name="a checkpoint that follows a failed one is waited for",
        file="langchain/durable.py",
        old="            graph = [each for each in self._waiting if each[:2] == key[:2]]\n",
        new="            graph: list[CheckpointKey] = []\n",
        tests=(
            "tests/langchain/test_durable.py"
            "::test_a_checkpoint_that_could_not_be_saved_fails_the_calls_of_its_graph_immediately",
        ),
        why="A full disk would hold up every tool for half a minute.",
    ),
    Mutant(
        name="an approval answers a doubt",
        file="langchain/questions.py",
        old="    if kind not in allowed:\n        return None\n",
        new="",
        tests=("tests/langchain/test_questions.py::test_the_yes_of_a_framework_decides_no_doubt",),
        why="A click on yes would decide what only a look at the bank can tell.",
    ),
    Mutant(
        name="an answer of LangGraph counts again for the next question",
        file="langchain/questions.py",
        old='        is_old = self.plain is None or self._mark.get("seen") == digest(self.plain)\n',
        new="        is_old = self.plain is None\n",
        tests=(
            "tests/langchain/test_calls.py"
            "::test_doubts_of_one_task_are_answered_each_on_its_own_call",
        ),
        why="The result of one call would become the receipt of another.",
    ),
    Mutant(
        name="a tool of a task replaces the question that a person sees",
        file="langchain/calls.py",
        old="        if review is not None and review.status is ReviewStatus.OPEN:\n",
        new="        if False:\n",
        tests=(
            "tests/langchain/test_calls.py"
            "::test_doubts_of_one_task_are_answered_each_on_its_own_call",
        ),
        why="The answer to what is shown would decide something else.",
    ),
    Mutant(
        name="effects run while another saver still saves",
        file="langchain/order.py",
        old='    if durability == "sync":\n',
        new='    if durability != "exit":\n',
        tests=("tests/langchain/test_order.py::test_another_saver_that_saves_later_is_refused",),
        why="After a crash the model would say something else, and act a second time.",
    ),
    Mutant(
        name="an aborted run stays open for the next attachment",
        file="guard/attached/handle.py",
        old="isinstance(error, OwnershipLost | RunAborted)",
        new="isinstance(error, OwnershipLost)",
        tests=(
            "tests/guard/attached/test_calling.py"
            "::test_an_aborted_run_stays_aborted_for_those_who_attach_later",
        ),
        why="A person ended the run, and the agent would continue to act.",
    ),
)
