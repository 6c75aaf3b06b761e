"""Mutants of what workers say about themselves: who is shown, for how long, and at which cost."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_PRESENCE = "tests/worker/test_presence.py"
_CHOICE = "tests/worker/test_choice.py"
_RECORDS = "tests/model/runs/test_workers.py"

WORKERS: tuple[Mutant, ...] = (
    Mutant(
        name="an announcement that fails ends the worker",
        file="worker/presence.py",
        old="        except Exception as error:\n",
        new="        except ZeroDivisionError as error:\n",
        tests=(
            f"{_PRESENCE}::test_a_worker_on_a_ledger_that_cannot_be_announced_to_does_its_work",
        ),
        why="A record that only informs would stop all runs of a worker.",
    ),
    Mutant(
        name="a worker announces itself at every look",
        file="worker/presence.py",
        old="        if last is not None and 0 <= now - last < HEARTBEAT_SECONDS:\n",
        new="        if last is not None and now < 0:\n",
        tests=(f"{_PRESENCE}::test_a_heartbeat_is_one_write_and_between_two_there_is_none",),
        why="An idle worker would write to the ledger five times a second.",
    ),
    Mutant(
        name="a worker whose clock was set back is not heard from",
        file="worker/presence.py",
        old="        if last is not None and 0 <= now - last < HEARTBEAT_SECONDS:\n",
        new="        if last is not None and now - last < HEARTBEAT_SECONDS:\n",
        tests=(f"{_PRESENCE}::test_a_heartbeat_is_one_write_and_between_two_there_is_none",),
        why="A living worker would be called silent for as long as the clock was set back.",
    ),
    Mutant(
        name="a worker that stops stays on record",
        file="worker/worker.py",
        old="            shift.presence.leave()\n",
        new="",
        tests=(f"{_PRESENCE}::test_a_worker_is_seen_while_it_works_and_while_it_drains",),
        why="Every deploy would look like a crash.",
    ),
    Mutant(
        name="a worker that drains is not heard from",
        file="worker/worker.py",
        old=(
            "            self.presence.renew()\n            self._hear(min(POLL_SECONDS, limit))\n"
        ),
        new="            self._hear(min(POLL_SECONDS, limit))\n",
        tests=(f"{_PRESENCE}::test_a_worker_is_seen_while_it_works_and_while_it_drains",),
        why="A worker that finishes a long node would be called silent.",
    ),
    Mutant(
        name="records of dead workers stay forever",
        file="worker/presence.py",
        old="            self._forget_others(now)\n",
        new="            pass\n",
        tests=(f"{_PRESENCE}::test_a_worker_that_starts_removes_what_the_dead_have_left",),
        why="The table would grow with every crash.",
    ),
    Mutant(
        name="a copy of a ledger has the workers of the ledger",
        file="store/sqlite/copy.py",
        old='        connection.execute(SQL["forget_all_workers"])\n',
        new="",
        tests=(
            "tests/guard/upkeep/test_backup.py::"
            "test_the_workers_of_a_ledger_are_not_those_of_its_copy",
        ),
        why="The page of a copy would wait for workers that do not serve it.",
    ),
    Mutant(
        name="a silent worker is forgotten by the next one",
        file="model/runs/workers.py",
        old="                return abs(now - self.seen_at) > FORGOTTEN_SECONDS\n",
        new="                return True\n",
        tests=(f"{_RECORDS}::test_a_record_is_removed_if_its_worker_is_dead_or_silent_for_a_day",),
        why="An operator would not see that a worker hangs.",
    ),
    Mutant(
        name="a stopped worker counts as alive",
        file="model/runs/workers.py",
        old="        is_silent = abs(now - self.seen_at) > SILENT_SECONDS\n",
        new="        is_silent = life is not Life.ALIVE and now - self.seen_at > SILENT_SECONDS\n",
        tests=(
            f"{_RECORDS}::test_a_worker_is_silent_after_some_heartbeats_unless_it_is_proven_dead",
        ),
        why="The page would wait for a worker that does nothing.",
    ),
    Mutant(
        name="a worker with any version of a graph is said to continue a run",
        file="model/runs/workers.py",
        old='        line = graph_id.rpartition(".")[0]\n'
        '        return any(mine.rpartition(".")[0] == line for mine in self.graphs)\n',
        new='        line = graph_id.rpartition("@")[0]\n'
        '        return any(mine.rpartition("@")[0] == line for mine in self.graphs)\n',
        tests=(
            f"{_RECORDS}::test_a_worker_has_the_code_of_its_versions_and_of_their_other_patches",
        ),
        why="The page would say that a run continues by itself, and no worker could take it.",
    ),
    Mutant(
        name="a silent worker is said to continue a run",
        file="views/run/resuming.py",
        old="    serving = _processes(able, WorkerState.ALIVE, holders)\n",
        new="    serving = _processes(able, WorkerState.SILENT, holders)\n",
        tests=(
            "tests/views/run/test_resuming.py::test_an_idle_worker_that_has_the_code_continues_the_run",
        ),
        why="A decision would wait for a worker that does nothing.",
    ),
    Mutant(
        name="the clock of a reader says how old a heartbeat on a server is",
        file="store/sql_store.py",
        old="seconds(micros(worker.seen_at) - row[-1] + micros(now))",
        new="seconds(micros(worker.seen_at))",
        tests=(
            "tests/views/ledger/test_workers.py::test_on_a_server_the_clocks_of_machines_may_differ",
        ),
        why="Machines with different clocks would call each other's workers silent.",
    ),
    Mutant(
        name="only one version of a graph at its limit is left out",
        file="worker/choice.py",
        old="                self._limited[name].add(versions[name])\n",
        new="                versions.pop(name)\n",
        tests=(
            f"{_CHOICE}::test_a_graph_at_its_limit_hides_no_other_graph_however_many_versions_it_has",
        ),
        why="Runs of its other version would be picked up again and again; other graphs starve.",
    ),
    Mutant(
        name="a queue behind a limit is taken for an empty one",
        file="worker/choice.py",
        old="        return waits or bool(self._at_limit(now)) or self._has_more_children\n",
        new="        return self._has_more_children\n",
        tests=(
            "tests/engine/waits/test_limited.py::test_until_idle_a_worker_continues_while_only_a_limit_holds_runs_back",
        ),
        why="A nightly job would end with exit code 0 and most of its queue undone.",
    ),
    Mutant(
        name="children of other graphs are listed among the runs of a worker",
        file="worker/choice.py",
        old="            left = [run for run in found if not self._has(str(run.graph_id))]\n",
        new=(
            "            left = [\n"
            "                run\n"
            "                for run in found\n"
            "                if run.parent_id is None and not self._has(str(run.graph_id))\n"
            "            ]\n"
        ),
        tests=(f"{_CHOICE}::test_children_of_other_graphs_hide_no_run_however_many_there_are",),
        why="Children that only other workers can continue would hide its own runs.",
    ),
    Mutant(
        name="a failed fork is enqueued again",
        file="graphs/enqueue.py",
        old="    if known.status is RunStatus.FAILED and known.origin is not None:\n",
        new="    if known.status is None and known.origin is not None:\n",
        tests=(
            "tests/graphs/test_enqueue.py::test_a_fork_that_failed_is_not_enqueued_because_no_worker_would_take_it",
        ),
        why="It would wait forever, because no worker takes a fork.",
    ),
)
