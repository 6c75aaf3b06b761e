"""Does one line start, resume and finish a run, and report its state to people and to scripts?

Real processes throughout: the claims here are about a command that a person types.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from tests.cli.workplace import PROGRAM, Ended, Workplace

ORDER = """order --id t1 --input '{"order_id": 7}'"""


def document(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_a_run_is_started_and_its_end_is_told(empty: Workplace) -> None:
    ended = empty.run(ORDER)
    assert ended.exit_code == 0, ended
    lines = ended.stdout.splitlines()
    assert lines[0] == "Run t1: completed"
    assert 'state       {"order_id":7,"answer":"","log":["worth 700","paid","sent"]}' in lines[4]
    assert "Next" not in ended.stdout
    assert empty.world() == ["pay 700", "send customer 7"]


def test_the_same_line_again_runs_nothing_and_tells_the_same(empty: Workplace) -> None:
    first, second = empty.run(ORDER), empty.run(ORDER)
    assert second == Ended(0, first.stdout, "")
    assert len(empty.world()) == 2


def test_progress_is_one_line_as_a_node_begins_and_as_it_ends(empty: Workplace) -> None:
    ended = empty.run(ORDER)
    shown = [line for line in ended.stderr.splitlines() if "prints" not in line]
    assert shown[0] == "Run t1 of order starts."
    assert [line.split()[:2] for line in shown[1:]] == [
        [what, node] for node in ("read", "charge", "ship") for what in ("begin", "done")
    ]
    assert shown[2].endswith(" s, 1 call")


def test_what_the_code_prints_never_reaches_stdout(empty: Workplace) -> None:
    ended = empty.run(f"{ORDER} --json")
    assert "look_up prints this" in ended.stderr
    assert "a process prints this" in ended.stderr
    assert document(ended)["state"]["log"] == ["worth 700", "paid", "sent"]


def test_quiet_prints_only_the_state_of_the_run(empty: Workplace) -> None:
    ended = empty.run(f"{ORDER} --quiet")
    assert ended.stdout.startswith("Run t1: completed")
    assert ended.stderr.splitlines() == ["look_up prints this", "a process prints this"]


def test_a_killed_run_is_finished_by_the_same_line(empty: Workplace) -> None:
    killed = empty.run(ORDER, FLOW_KILL="send")
    assert killed.exit_code == -signal.SIGKILL
    assert empty.world() == ["pay 700"]
    shown = empty.shell("nottwice show t1 --store agent.db").stdout
    assert "cut off      during attempt 1 of send(to='customer 7')" in shown
    ended = empty.run(ORDER)
    assert ended.exit_code == 0
    assert "settle  send: record the intent of one more attempt, run" in ended.stderr
    assert "resume  ship" in ended.stderr
    assert "begin   charge" not in ended.stderr
    assert empty.world() == ["pay 700", "send customer 7"]


def test_a_run_that_asks_waits_with_3_and_continues_when_a_person_answered(
    empty: Workplace,
) -> None:
    asked = empty.run("asking --id q1")
    assert asked.exit_code == 3
    assert "Run q1: waiting" in asked.stdout
    commands = [
        line.partition(": ")[2] for line in asked.stdout.splitlines() if " nottwice " in line
    ]
    assert len(commands) == 2
    assert empty.run("asking --id q1").exit_code == 3
    # The first command decides, the second one continues; both work as they are printed.
    decided = empty.shell(commands[0].replace(" --store", " yes --why asked --store"))
    assert decided.exit_code == 0, decided
    assert "run your program" in decided.stdout
    ended = empty.shell(commands[1])
    assert ended.exit_code == 0, ended
    assert '{"paid":"paid","sent":"sent"}' in ended.stdout
    assert empty.world() == ["pay 7", "send ann"]


def test_what_a_child_waits_for_is_what_its_parent_says(empty: Workplace) -> None:
    found = document(empty.run("parent --id p1 --json"))
    assert [wait["kind"] for wait in found["run"]["waits"]] == ["child"]
    decide, resume = found["next"]
    assert decide.startswith("nottwice decide ")
    assert resume == "nottwice run --id p1 --app flows:app --store agent.db"
    assert empty.shell(decide.replace(" --store", " no --why x --store")).exit_code == 0
    assert document(empty.shell(f"{resume} --json"))["run"]["state"] == "completed"


def test_an_event_is_sent_with_the_command_that_is_printed(empty: Workplace) -> None:
    found = document(empty.run("listening --id l1 --json"))
    assert empty.shell(f"{found['next'][0]} --data 7").exit_code == 0
    after = document(empty.shell(f"{found['next'][1]} --json"))
    assert after["state"] == {"heard": 7}
    assert after["run"]["waits"][0]["kind"] == "timer"
    assert after["run"]["waits"][0]["until"] is not None
    # Time passes without a command: the only thing to type is what continues the run.
    assert len(after["next"]) == 1


def test_a_failed_node_shows_the_users_own_lines_and_is_tried_again(empty: Workplace) -> None:
    (empty.folder / "broken").touch()
    failed = empty.run(ORDER)
    assert failed.exit_code == 1
    assert "Run t1: failed" in failed.stdout
    trace = failed.stderr[failed.stderr.index("Traceback") :]
    assert "flows.py" in trace
    assert "nottwice/" not in trace
    assert "\x1b" not in failed.stderr + failed.stdout
    found = document(empty.run(f"{ORDER} --json"))
    assert found["run"]["failure"]["error_type"] == "RuntimeError"
    assert [node["status"] for node in found["nodes"]] == ["done", "done", "failed"]
    (empty.folder / "broken").unlink()
    assert empty.run("--id t1").exit_code == 0
    assert empty.world() == ["pay 700", "send customer 7"]


def test_ctrl_c_says_how_to_resume(empty: Workplace) -> None:
    ended = empty.run("stopping --id s1", FLOW_STOP="ctrl-c")
    assert ended.exit_code == 130
    assert ended.stdout == ""
    command = ended.stderr.splitlines()[-1].rpartition(": ")[2]
    assert empty.shell(command).exit_code == 0


def test_code_that_ends_the_process_has_not_finished_the_run(empty: Workplace) -> None:
    ended = empty.run("stopping --id s1", FLOW_STOP="exit")
    assert ended.exit_code == 1
    assert "Your code ended the process" in ended.stderr
    assert empty.run("--id s1").exit_code == 0


def test_waiting_for_a_while_tells_what_for_and_continues_when_it_comes(empty: Workplace) -> None:
    def answer() -> str:
        review_id = empty.review_of("q1")
        assert empty.cli("decide", review_id, "yes", "--why", "asked").exit_code == 0
        return ""

    line = "nottwice run asking --id q1 --wait 60s --app flows:app --store agent.db"
    ended = empty.terminal(line, ("waits   for review", answer))
    assert ended.exit_code == 0
    assert "Run q1: completed" in ended.stdout
    assert empty.world() == ["pay 7", "send ann"]


def test_waiting_ends_when_the_time_is_over(empty: Workplace) -> None:
    ended = empty.run("asking --id q1 --wait 300ms")
    assert ended.exit_code == 3
    assert "waits   for review" in ended.stderr


def test_input_comes_from_a_file_or_a_pipe(empty: Workplace) -> None:
    (empty.folder / "order.json").write_text('{"order_id": 1}')
    assert empty.run("order --id a --input @order.json").exit_code == 0
    piped = empty.shell(
        "nottwice run order --id b --input - --app flows --store agent.db < order.json"
    )
    assert piped.exit_code == 0
    assert empty.world().count("pay 100") == 2


REFUSED = [
    ("order --id t1 --input '{'", 2, "not JSON that can be kept"),
    ("order --id t1 --input '{\"a\": NaN}'", 2, "not JSON that can be kept"),
    ('order --id t1 --input \'{"a": 1, "a": 2}\'', 2, "the same name twice"),
    ("order --id t1 --input @nothing.json", 2, "No such file"),
    ("order --id t1 --input '{\"order\": 1}'", 1, "order_id: Field required"),
    ("order --id t1 --wait soon", 2, "not a duration"),
    ("order", 2, "Missing option '--id'"),
    ("nothing --id t1", 1, "It has: asking, listening, order, parent, stopping"),
    ("--id t1", 1, "There is no ledger at"),
    ("--id t1", 1, "To start run 't1', name its graph: nottwice run GRAPH --id t1. The app has"),
    ("order@2.0.0 --id t1", 1, "order@1.0.0, parent@1.0.0"),
]
NO_APP = [
    ("", "run needs your graphs. Nothing was done. Name the module"),
    ("--app missing", "could not be imported"),
    ("--app flows:missing", "has no attribute 'missing'. Nothing was done. "),
    ("--app flows:ap", "has no attribute 'ap'. Nothing was done. Did you mean app"),
    ("--app flows:send", "neither an app nor a graph"),
    ("--app agent", "neither an app nor a graph"),
]


def test_what_cannot_be_meant_is_refused_and_creates_nothing(empty: Workplace) -> None:
    typed = [f"run {words} --app flows:app --store agent.db" for words, _, _ in REFUSED]
    for (words, code, text), ended in zip(REFUSED, empty.lines(*typed), strict=True):
        assert (ended.exit_code, ended.stdout) == (code, ""), words
        assert text in ended.stderr
        assert "Traceback" not in ended.stderr
    assert not (empty.folder / "agent.db").exists()


def test_an_app_that_is_none_is_refused(empty: Workplace) -> None:
    typed = [f"run order --id t1 --store agent.db {app}" for app, _ in NO_APP]
    for (app, text), ended in zip(NO_APP, empty.lines(*typed), strict=True):
        assert (ended.exit_code, ended.stdout) == (1, ""), app
        assert text in ended.stderr
    assert not (empty.folder / "agent.db").exists()


def test_a_mistyped_id_another_input_and_another_graph_start_nothing(empty: Workplace) -> None:
    more = "--app flows:app --store agent.db"
    first, mistyped, other_input, other_graph, listed = empty.lines(
        f"run {ORDER} {more}",
        f"run --id t2 {more}",
        f"run {ORDER.replace('7', '8')} {more}",
        f"run asking --id t1 {more}",
        "runs --json --store agent.db",
    )
    assert first.exit_code == 0
    assert "There is no run 't2'" in mistyped.stderr
    assert "nottwice run GRAPH --id t2" in mistyped.stderr
    assert "started with another input" in other_input.stderr
    assert "is a run of graph 'order'" in other_graph.stderr
    assert {mistyped.exit_code, other_input.exit_code, other_graph.exit_code} == {1}
    assert len(json.loads(listed.stdout)["runs"]) == 1
    assert len(empty.world()) == 2


def test_a_run_that_another_process_drives_is_left_to_it(empty: Workplace) -> None:
    os.mkfifo(empty.folder / "gate")
    seen: list[Ended] = []

    def meddle() -> str:
        seen.append(empty.run("--id s1"))
        seen.append(empty.shell("nottwice cancel s1 --why x --store agent.db"))
        (empty.folder / "gate").write_text("go")
        return ""

    line = "nottwice run stopping --id s1 --app flows:app --store agent.db"
    ended = empty.terminal(f"FLOW_STOP=hold {line}", ("begin   stop", meddle))
    assert ended.exit_code == 0, ended
    assert seen[0].exit_code == 1
    assert "Run 's1' is driven by pid" in seen[0].stderr
    assert "stops before its next effect or node" in seen[1].stdout


def test_a_run_that_waits_in_one_process_is_free_for_another(empty: Workplace) -> None:
    line = "nottwice run asking --id q1 --wait 60s --app flows:app --store agent.db"

    def run_beside() -> str:
        assert empty.run("--id q1").exit_code == 3
        review_id = empty.review_of("q1")
        assert empty.cli("decide", review_id, "no", "--why", "x").exit_code == 0
        return ""

    assert empty.terminal(line, ("waits   for review", run_beside)).exit_code == 0


def test_a_run_without_a_graph_belongs_to_its_program(killed: Workplace) -> None:
    ended = killed.shell("nottwice run --id ticket-7 --app flows:app --store agent.db")
    assert ended.exit_code == 1
    assert "not a run of a graph" in ended.stderr


def test_the_app_and_the_ledger_are_found_in_pyproject(empty: Workplace) -> None:
    project = '[tool.nottwice]\napp = "flows.py:app"\nstore = "agent.db"\n'
    (empty.folder / "pyproject.toml").write_text(project)
    assert empty.shell(f"nottwice run {ORDER}").exit_code == 0
    (empty.folder / "deeper").mkdir()
    ended = empty.shell("cd deeper && nottwice run --id t1")
    assert ended.stdout.startswith("Run t1: completed")


def test_progress_that_no_reader_takes_stops_nothing(empty: Workplace) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", PROGRAM, "run", "listening", "--id", "l1"]
    done = subprocess.run(
        [*command, "--app", "flows:app", "--store", "agent.db", "--json"],
        cwd=empty.folder,
        env=empty.environment(),
        stdout=subprocess.PIPE,
        stderr=write,
        timeout=60,
        check=False,
    )
    os.close(write)
    assert done.returncode == 3
    assert json.loads(done.stdout)["run"]["state"] == "waiting"


def test_on_a_terminal_nothing_hostile_is_shown(empty: Workplace) -> None:
    (empty.folder / "broken").touch()
    line = "nottwice run order --id t1 --input '{\"order_id\": 7}' --app flows:app --store agent.db"
    ended = empty.terminal(line)
    assert ended.exit_code == 1
    assert "failed  ship" in ended.stdout
    assert "\x1b[31mis broken" not in ended.stdout


def test_a_run_whose_version_is_not_deployed_is_told_and_listed(graph_place: Workplace) -> None:
    file = graph_place.folder / "flows.py"
    text = file.read_text()
    file.write_text(text.replace('"order", version="1.0.0"', '"order", version="2.0.0"'))
    before = graph_place.world()
    ended = graph_place.run("--id failed-1")
    assert ended.exit_code == 1
    assert "bound to order@1.0.0" in ended.stderr
    assert "nottwice cancel failed-1 --why TEXT" in ended.stderr
    review_id = graph_place.review_of("failed-1")
    shown = graph_place.cli("decide", review_id).stdout
    assert "deploy order@1.0.0 beside the others" in shown
    assert f"decide {review_id} abort --why TEXT" in shown
    assert graph_place.world() == before
