"""Mutants of what hosts rely on: runs of one call, groups, deadlines, notices, verdicts."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_ONCE = "tests/guard/test_once.py"
_VERDICT = "tests/hosts/test_verdict.py"

HOSTS: tuple[Mutant, ...] = (
    Mutant(
        name="a doubt does not stop new effects of its group",
        file="store/rules.py",
        old="        waiting += reviews_of_group(data, commit.group, but=commit.workflow_id)\n",
        new="",
        tests=(f"{_ONCE}::test_a_doubt_stops_new_effects_of_its_group_and_of_no_other",),
        why="A task would continue while it is not known what one part of it has done.",
    ),
    Mutant(
        name="one name stands for any number of calls",
        file="engine/calls/single.py",
        old="if row.identity != request.identity and row.status is not CallStatus.FAILED:\n",
        new="if False:\n",
        tests=(f"{_ONCE}::test_one_name_stands_for_one_call",),
        why="Changed code that a host runs again would make a second effect in place of the first.",
    ),
    Mutant(
        name="a run of one call is claimed before its intent",
        file="engine/ownership.py",
        old="        unclaimed = claims if run is None and opening.is_single else None\n",
        new="        unclaimed = None\n",
        tests=(f"{_ONCE}::test_a_call_costs_two_commits_and_its_receipt_none",),
        why="Every activity would wait for the disk once more.",
    ),
    Mutant(
        name="nottwice waits longer than its host",
        file="engine/doubts/doubt.py",
        old="        if until is None or now + seconds < until:\n",
        new="        if True:\n",
        tests=(f"{_ONCE}::test_the_host_is_told_when_to_come_back_and_no_person_is_asked",),
        why="The host would end the process, and a second one would begin the same wait.",
    ),
    Mutant(
        name="a verify that was cancelled counts as an answer",
        file="engine/drivers.py",
        old="    if interrupt is not None:\n        raise interrupt\n    return outcome\n",
        new="    return outcome\n",
        tests=(f"{_ONCE}::test_a_caller_that_is_cancelled_before_it_began_leaves_nothing_behind",),
        why="A person would be asked because a worker was shut down.",
    ),
    Mutant(
        name="a host gives up what waits for a person",
        file="hosts/verdict.py",
        old="    errors.RunBlocked: PERSON_SECONDS,\n",
        new="",
        tests=(f"{_VERDICT}::test_nothing_that_waits_for_a_person_is_given_up",),
        why="A workflow would fail for good, and the decision would be of no use.",
    ),
)
