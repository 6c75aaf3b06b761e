"""Mutants of what hosts rely on: runs of one call, groups, deadlines, notices, verdicts."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_ONCE = "tests/guard/test_once.py"
_CHILDREN = "tests/graphs/test_children.py"
_HOOKS = "tests/engine/test_hooks.py"
_WATCHED = "tests/hosts/test_watched.py"
_LEAVES = "test_a_call_that_is_cancelled_while_verify_runs_leaves_it_and_records_nothing"
_LEAVING = "tests/graphs/test_leaving.py"
_ANYWHERE = "tests/graphs/test_cancelled_anywhere.py"
_IS_FREE = f"{_ANYWHERE}::test_the_run_is_free_wherever_its_driver_is_cancelled"
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
        name="an interrupt while verify runs counts as an answer",
        file="engine/hooks.py",
        old="    except BaseException:\n        said.cancel()\n        raise\n\n\n"
        "async def ask_async",
        new="    except BaseException:\n        return Invoked(still_running=True)\n\n\n"
        "async def ask_async",
        tests=(f"{_HOOKS}::test_an_interrupt_while_verify_runs_is_raised_and_asks_no_person",),
        why="Ctrl-C and the soft time limit of Celery would be lost, and a person would be asked.",
    ),
    Mutant(
        name="a host that stops leaves its calls behind",
        file="guard/once.py",
        old="        await asyncio.wait(mine)\n",
        new="        return\n",
        tests=(f"{_ONCE}::test_a_host_can_wait_for_the_calls_whose_callers_were_cancelled",),
        why="Each deploy of a Temporal worker would ask a person about its async tools in flight.",
    ),
    Mutant(
        name="a cancelled caller waits for verify",
        file="engine/hooks.py",
        old="        said.cancel()\n        raise\n    if not done:\n",
        new="        await lazy.asyncio.wait([said])\n        raise\n    if not done:\n",
        tests=(f"{_HOOKS}::test_a_cancelled_caller_leaves_a_verify_in_a_thread_immediately",),
        why="A run would stay held by a worker that its host has cancelled.",
    ),
    Mutant(
        name="an async verify may end when it likes",
        file="engine/hooks.py",
        old="    if not done:\n        said.cancel()\n        return Invoked(still_running=True)\n",
        new="    if not done:\n        said.cancel()\n        await lazy.asyncio.wait([said])\n",
        tests=(f"{_HOOKS}::test_a_verify_that_hangs_does_not_outlast_the_host",),
        why="A hook that does not end when it is cancelled would outlast the deadline of the host.",
    ),
    Mutant(
        name="a person is asked because the host had no time for verify",
        file="engine/doubts/reconcile.py",
        old="            doubt.leave_if_cut_short(outcome)\n",
        new="",
        tests=(f"{_HOOKS}::test_a_verify_that_hangs_does_not_outlast_the_host",),
        why="Every deadline would ask a person what verify could have found out.",
    ),
    Mutant(
        name="a verify is cut short forever",
        file="engine/doubts/doubt.py",
        old="        if is_cut_short and self.session.clock.now() < self.deadline:\n",
        new="        if is_cut_short:\n",
        tests=(f"{_HOOKS}::test_a_person_is_asked_if_no_host_has_time_enough_for_verify",),
        why="A call whose verify needs longer than any host has would never be decided.",
    ),
    Mutant(
        name="a host is not asked while verify runs",
        file="hosts/watched.py",
        old="    return ledger.driven_by(driver, clock)\n",
        new="    return ledger.driven_by(ledger.host.driver, clock)\n",
        tests=(f"{_WATCHED}::test_a_host_is_asked_while_verify_runs",),
        why="A verify longer than the heartbeat timeout of Temporal would fail every attempt.",
    ),
    Mutant(
        name="a cancelled call in an event loop is watched until verify answers",
        file="hosts/watched.py",
        old="                _raise_if_ended(await asyncio.to_thread(self._look))\n"
        "                await asyncio.wait",
        new="                await asyncio.to_thread(self._look)\n"
        "                await asyncio.wait",
        tests=(f"{_WATCHED}::{_LEAVES}",),
        why="The cancellation of an activity would be heard only when verify has answered.",
    ),
    Mutant(
        name="a cancelled call in a thread is watched until verify answers",
        file="hosts/watched.py",
        old="            _raise_if_ended(self._look())\n            wait_for",
        new="            self._look()\n            wait_for",
        tests=(f"{_WATCHED}::{_LEAVES}",),
        why="The cancellation of a DBOS workflow would be heard only when verify has answered.",
    ),
    Mutant(
        name="a cancelled run waits for what may be repeated",
        file="engine/advance.py",
        old="        session.in_flight.stop()\n",
        new="",
        tests=(f"{_LEAVING}::test_in_a_tool_without_effects",),
        why="A host that cancels a run would wait for whatever its nodes are looking up.",
    ),
    Mutant(
        name="a node that was left makes calls",
        file="engine/calls/in_flight.py",
        old="if self.is_stopped and (parent is None or not parent.is_part_of_effect):\n",
        new="if False:\n",
        tests=(f"{_LEAVING}::test_while_an_effect_is_waited_for_no_other_thread_begins_a_call",),
        why="A thread that no process waits for would act in a run that another process has.",
    ),
    Mutant(
        name="a call that was left makes another attempt",
        file="engine/calls/in_flight.py",
        old="            if self.is_stopped and not mine.is_part_of_effect:\n",
        new="            if False:\n",
        tests=(f"{_LEAVING}::test_while_an_effect_is_waited_for_no_other_thread_begins_a_call",),
        why="An effect would begin after its host has cancelled it.",
    ),
    Mutant(
        name="a cancelled run waits for the retry of an effect that failed",
        file="engine/calls/in_flight.py",
        old="            is_over = mine.is_left or self.is_stopped\n",
        new="            is_over = mine.is_left\n",
        tests=(f"{_LEAVING}::test_an_effect_that_fails_after_the_cancellation_is_not_tried_again",),
        why="A retry policy of minutes would keep the run from the next process.",
    ),
    Mutant(
        name="the parts of an effect in flight are refused",
        file="engine/calls/in_flight.py",
        old="        return any(one.acting for one in self.chain())\n",
        new="        return self.acting\n",
        tests=(f"{_LEAVING}::test_an_effect_may_make_the_calls_that_it_is_made_of",),
        why="An effect would end half-way, in doubt, because its host was cancelled.",
    ),
    Mutant(
        name="another attempt at a doubt is cancelled with its caller",
        file="engine/doubts/reconcile.py",
        old="    attempted: Attempted = yield Apart(made)\n",
        new="    attempted: Attempted = yield from made\n",
        tests=(f"{_LEAVING}::test_another_attempt_at_a_call_in_doubt_is_waited_for",),
        why="A doubt that was resolved would become one again.",
    ),
    Mutant(
        name="a run is released while an attempt is being made",
        file="engine/calls/in_flight.py",
        old="            if mine.acting or self._calls.get(mine.identity) is not mine:\n",
        new="            if self._calls.get(mine.identity) is not mine:\n",
        tests=(f"{_LEAVING}::test_another_attempt_at_a_call_in_doubt_is_waited_for",),
        why="The outcome of the attempt could not be recorded, and a person would be asked.",
    ),
    Mutant(
        name="a run that is cancelled twice is held forever",
        file="engine/advance.py",
        old="released when the last effect has ended.\n"
        "        yield from ownership.leave(session, error, failure, status=status)\n",
        new="released when the last effect has ended.\n",
        tests=(f"{_LEAVING}::test_an_effect_is_waited_for_and_no_other_begins",),
        why="No other process could continue the run while this one lives.",
    ),
    Mutant(
        name="a child run does not hear that its parent is left",
        file="graphs/children.py",
        old="    return parent.in_flight.is_stopped or (told",
        new="    return (told",
        tests=(f"{_LEAVING}::test_a_child_run_is_left_with_its_parent",),
        why="A child would continue to act after its parent was cancelled.",
    ),
    Mutant(
        name="what led to a child is not durable when it begins",
        file="graphs/children.py",
        old="    if session.pending:\n        yield from session.commit()\n",
        new="",
        tests=(f"{_CHILDREN}::test_what_led_to_a_child_is_durable_before_it_begins",),
        why="A killed parent could get other values and start a second child, with its effects.",
    ),
    Mutant(
        name="a step has no note of the children that it starts",
        file="graphs/children.py",
        old="        if row is None:\n            session.pending.add_call(",
        new="        if row is not None:\n            session.pending.add_call(",
        tests=(f"{_CHILDREN}::test_another_child_than_the_one_that_has_begun_is_drift",),
        why="A resumed parent with another input would start a second child, with its effects.",
    ),
    Mutant(
        name="a child that never began is outstanding",
        file="engine/stepping/steps.py",
        old="if child is not None and child.parent_id == run:",
        new="if child is None or child.parent_id == run:",
        tests=(f"{_CHILDREN}::test_a_child_that_was_noted_and_never_began_is_no_drift",),
        why="A person would be asked about a child that does not exist.",
    ),
    Mutant(
        name="a child that has begun waits for other children",
        file="engine/stepping/steps.py",
        old="    has_begun = identity.tool_name == SPAWN and identity.call_id in asked_for\n",
        new="    has_begun = False\n",
        tests=(f"{_CHILDREN}::test_children_that_have_begun_are_asked_for_in_any_order",),
        why="Code that has not drifted would wait for a person.",
    ),
    Mutant(
        name="a child run is not waited for",
        file="graphs/children.py",
        old="        session.in_flight.begin(mine)\n",
        new="",
        tests=(f"{_LEAVING}::test_a_child_run_is_left_with_its_parent",),
        why="The event loop of a cancelled parent would end while its child acts.",
    ),
    Mutant(
        name="a cancelled claim is kept",
        file="engine/ownership.py",
        old="                yield from give_back(opening.host, run, claimed)\n",
        new="                pass\n",
        tests=(_IS_FREE,),
        why="No other process could drive the run as long as the one that was cancelled lives.",
    ),
    Mutant(
        name="a cancelled driver does not release its run",
        file="engine/ownership.py",
        old="            yield Apart(release_now())\n"
        "            return\n"
        "    except (Exception, GeneratorExit):\n",
        new="            yield from release_now()\n            return\n    except BaseException:\n",
        tests=(_IS_FREE,),
        why="A caller that is cancelled while it leaves would keep the run.",
    ),
    Mutant(
        name="a cancellation overtakes a commit",
        file="engine/drivers.py",
        old="                    await _until_over(soon)\n                    raise\n",
        new="                    raise\n",
        tests=(f"{_ANYWHERE}::test_a_commit_that_has_begun_ends_before_its_waiter_is_cancelled",),
        why="The claim could become durable after the run was given back.",
    ),
    Mutant(
        name="a cancelled run keeps its place under a limit",
        file="engine/waits/limited.py",
        old="        yield from _end(use)\n        raise\n    return full\n",
        new="        raise\n    return full\n",
        tests=(f"{_ANYWHERE}::test_a_cancelled_driver_leaves_its_place_under_a_limit",),
        why="With a limit of one run, no other run would start while this process lives.",
    ),
    Mutant(
        name="a run that is cancelled before its first node is kept",
        file="engine/advance.py",
        old="        return (yield from limited.enter_run(session))\n    except GeneratorExit:\n"
        "        raise\n    except BaseException:\n"
        "        yield from ownership.leave(session, None, None, status=RunStatus.RUNNING)\n",
        new="        return (yield from limited.enter_run(session))\n    except GeneratorExit:\n"
        "        raise\n    except BaseException:\n",
        tests=(f"{_ANYWHERE}::test_a_cancelled_driver_leaves_its_place_under_a_limit",),
        why="No other process could drive the run as long as the one that was cancelled lives.",
    ),
    Mutant(
        name="a host gives up what waits for a person",
        file="hosts/verdict.py",
        old="    errors.RunBlocked: PERSON_SECONDS,\n",
        new="",
        tests=(f"{_VERDICT}::test_nothing_that_waits_for_a_person_is_given_up",),
        why="A workflow would fail permanently, and the decision would be of no use.",
    ),
    Mutant(
        name="a failure that stays on record invites the host to call again",
        file="engine/calls/failures.py",
        old='        **({"non_retryable": True} if stays and kind is Retryable else {}),\n',
        new="",
        tests=(f"{_VERDICT}::test_a_failure_that_stays_on_record_is_given_up[pure]",),
        why="The host would call forever, and each call would get the same failure.",
    ),
)
