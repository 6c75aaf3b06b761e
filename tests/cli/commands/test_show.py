"""Does the timeline tell what happened, where it was cut off, and what the run waits for?"""

from __future__ import annotations

import contextlib
import re
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

import nottwice as nt
from tests.cli.workplace import Workplace


def timeline(text: str) -> list[list[str]]:
    """The rows below the headings, without their times."""
    lines = text.splitlines()
    (first,) = [index for index, line in enumerate(lines) if line.startswith("WHEN (UTC)")]
    moment = r"^(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3} "
    rows = [re.sub(moment, "", line) for line in lines[first + 1 :]]
    assert all(row != line for row, line in zip(rows, lines[first + 1 :], strict=True))
    return [re.split(r"\s{2,}", row.strip()) for row in rows]


def test_the_timeline_of_a_completed_run(killed: Workplace) -> None:
    shown = killed.cli("show", "done-1").stdout
    rows = timeline(shown)
    assert rows[0][0].startswith("process pid ")
    took = r"\d+\.\d{3} s"
    calls = [row for row in rows if len(row) > 1]
    assert [[row[0], *row[2:]] for row in calls] == [
        ["DONE", "pure", "get_order(order_id=7)"],
        ["DONE", "unsafe_on_replay", "refund(order_id=7, cents=4000)"],
        ["DONE", "idempotent_with_key", "print_label(order_id=7)"],
        ["done", "step notify at 1"],
        [
            "DONE",
            "unsafe_on_replay",
            "send_email(to='ann@example.com', body='Your money is on its way.')",
        ],
    ]
    assert all(re.fullmatch(took, row[1]) for row in calls)
    assert ["key label-7"] in rows
    assert ['result {"refunded":4000}'] in rows
    assert "state    completed" in shown
    assert "opened   once" in shown


def test_an_interrupted_run_says_during_which_call_it_was_cut_off(killed: Workplace) -> None:
    shown = killed.cli("show", "ticket-7").stdout
    assert "state    interrupted" in shown
    assert re.search(r"holder +pid \d+ on \S+, proven dead", shown)
    cut = r"cut off +during attempt 1 of refund\(order_id=7, cents=4000\), made by pid \d+ on "
    assert re.search(cut, shown)
    assert re.search(r"attempt 1 by pid \d+ on \S+ never came back", shown)
    assert "Run your program again: it opens the run and continues it." in shown


def test_a_run_that_was_cut_off_between_calls_says_after_which(workplace: Workplace) -> None:
    program = (
        "import agent, os, signal, nottwice as nt\n"
        "with nt.run('between', store='agent.db'):\n"
        "    agent.refund(order_id=1, cents=2)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert workplace.process(sys.executable, "-c", program).exit_code == -signal.SIGKILL
    shown = workplace.cli("show", "between").stdout
    assert re.search(r"cut off +after refund\(order_id=1, cents=2\)", shown)


def test_a_waiting_run_says_for_what_and_how_to_decide(killed: Workplace) -> None:
    review_id = killed.review_of("ticket-8")
    shown = killed.cli("show", "ticket-8").stdout
    assert f"waits for  review {review_id}: it may or may not have happened" in shown
    assert f"Decide with: nottwice decide {review_id} --store {killed.store}\n" in shown
    assert "it opens the run and continues it" not in shown
    rows = timeline(shown)
    assert ["verify: verify answered: unknown"] in rows
    # The reason is also evidence; the timeline says it once.
    assert sum("it may or may not have happened" in row[-1] for row in rows) == 1


def test_a_resumed_run_shows_both_processes_who_decided_and_why(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    words = ("decide", review_id, "did-not-happen", "--by", "ann", "--why", "not at the bank")
    assert workplace.cli(*words).exit_code == 0
    assert "used when the run is opened again" in workplace.cli("show", "ticket-9").stdout
    assert workplace.agent("handle", "ticket-9").exit_code == 0
    shown = workplace.cli("show", "ticket-9").stdout
    rows = [row[-1] for row in timeline(shown)]
    assert f"review {review_id} decided: did-not-happen by ann, because: not at the bank" in rows
    assert f"review {review_id} ended, by decision" in rows
    assert any(re.fullmatch(r"attempt 1 by pid \d+ on \S+ ended: unknown", row) for row in rows)
    assert any(re.fullmatch(r"attempt 2 by pid \d+ on \S+ began", row) for row in rows)
    assert "state    completed" in shown
    assert "opened   3 times" in shown


def test_a_call_that_a_person_settled_says_so(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-8")
    result = '{"id": "m-1", "words": 6}'
    words = ("decide", review_id, "happened", "--result", result, "--by", "ann", "--why", "seen")
    assert workplace.cli(*words).exit_code == 0
    assert workplace.agent("handle", "ticket-8").exit_code == 0
    rows = [row[-1] for row in timeline(workplace.cli("show", "ticket-8").stdout)]
    assert "settled by decision by ann" in rows
    assert 'result {"id":"m-1","words":6}' in rows


def test_one_receipt_that_was_used_again_is_one(tmp_path: Path) -> None:
    tool = nt.tool("unsafe_on_replay", name="show_once")(lambda text: text)
    place = Workplace(tmp_path)
    with nt.Ledger(place.store) as ledger:
        for _ in range(2):
            with contextlib.suppress(ValueError), ledger.run("again"):
                tool("a")
                raise ValueError("once more")
    assert "1 receipt of earlier openings was used again" in place.cli("show", "again").stdout


def test_another_process_that_continued_is_marked(workplace: Workplace) -> None:
    words = ("happened", "--result", '{"refunded": 4000}', "--why", "it is at the bank")
    workplace.cli("decide", workplace.review_of("ticket-9"), *words)
    workplace.agent("handle", "ticket-9")
    rows = [row[-1] for row in timeline(workplace.cli("show", "ticket-9").stdout)]
    (change,) = [row for row in rows if row.startswith("another process continued: pid ")]
    assert rows.index(change) == rows.index("print_label(order_id=7)") - 1


def test_a_keyed_call_that_was_sent_again_shows_both_attempts(workplace: Workplace) -> None:
    workplace.agent("many", "many-1", kill="print_label")
    workplace.agent("many", "many-1")
    rows = [row[-1] for row in timeline(workplace.cli("show", "many-1").stdout)]
    assert any(re.fullmatch(r"attempt 1 by pid \d+ on \S+ ended: unknown", row) for row in rows)
    assert any(re.fullmatch(r"attempt 2 by pid \d+ on \S+ began", row) for row in rows)
    assert "key label-9" in rows


def test_a_long_run_is_cut_to_its_end_and_its_doubts_and_can_be_had_whole(
    workplace: Workplace,
) -> None:
    workplace.agent("many", "many-1", kill="print_label")
    shown = workplace.cli("show", "many-1").stdout
    assert (
        f"… and 72 more, mostly earlier: nottwice show --all many-1 --store {workplace.store}"
        in (shown)
    )
    calls = [row for row in timeline(shown) if row[0] in ("DONE", "PENDING")]
    assert len(calls) == 50
    assert calls[-1][-1] == "print_label(order_id=9)"
    whole = timeline(workplace.cli("show", "many-1", "--all").stdout)
    assert len([row for row in whole if row[0] in ("DONE", "PENDING")]) == 122
    assert workplace.json("show", "many-1", "--limit", "2")["omitted"]["calls"] == 120


def test_a_run_without_any_call_says_so(workplace: Workplace) -> None:
    source = "import nottwice as nt\nwith nt.run('bare', store='agent.db'): pass\n"
    workplace.process(sys.executable, "-c", source)
    assert "Nothing was recorded in this run." in workplace.cli("show", "bare").stdout


def test_a_failed_run_shows_its_error(workplace: Workplace) -> None:
    assert "LookupError" in workplace.agent("drift", "drift-1").stderr
    shown = workplace.cli("show", "drift-1").stdout
    assert re.search(r"failure +LookupError: no such order", shown)
    assert any(row[-1] == "step settle: LookupError" for row in timeline(shown))


def test_a_command_in_an_error_of_the_guard_works_as_printed(workplace: Workplace) -> None:
    # `ResultNotKept` prints "nottwice show RUN" with the ledger left to the environment.
    ended = workplace.shell("NOTTWICE_STORE=agent.db nottwice show ticket-8")
    assert ended.exit_code == 0


@pytest.mark.parametrize("how", ["pipe", "terminal"])
def test_nothing_hostile_is_shown_as_it_is(how: str, killed: Workplace) -> None:
    line = "nottwice show '[red]evil[/red]' --store agent.db"
    shown = (killed.shell(line) if how == "pipe" else killed.terminal(line)).stdout
    assert "[red]\\x1b[31mevil" in shown
    assert "verify raised RuntimeError: [red]\\x1b[31mevil" in shown
    assert "\x1b[31mevil" not in shown
    assert "\x1b]0;" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert "\x9b" not in shown
    assert not re.search(r"^Error: forged", shown, re.M)


def test_the_day_is_shown_only_where_the_run_spans_several(workplace: Workplace) -> None:
    with closing(sqlite3.connect(workplace.store)) as connection, connection:
        connection.execute(
            "UPDATE tool_call_results SET created_at = 1 WHERE tool_name = ?", ("refund",)
        )
    shown = workplace.cli("show", "done-1").stdout.partition("WHEN")[2]
    assert len(set(re.findall(r"^(\d{4}-\d\d-\d\d) ", shown, re.M))) == 2


def test_the_day_is_left_out_where_all_happened_on_one(workplace: Workplace) -> None:
    with closing(sqlite3.connect(workplace.store)) as connection, connection:
        connection.execute("DELETE FROM nottwice_steps")
        connection.execute(
            "UPDATE tool_call_results SET created_at = 1, started_at = 2, finished_at = 3"
        )
    shown = workplace.cli("show", "done-1").stdout
    assert re.search(r"^00:00:00\.000 +DONE +0\.000 s +pure ", shown, re.M)


def test_long_arguments_and_results_are_cut_in_text_and_whole_in_json(tmp_path: Path) -> None:
    @nt.tool("unsafe_on_replay", name="show_long")
    def long(text: str) -> str:
        return text

    with nt.Ledger(tmp_path / "agent.db") as ledger, ledger.run("long"):
        long("x" * 5000)
    place = Workplace(tmp_path)
    lines = [line for line in place.cli("show", "long").stdout.splitlines() if "xxx" in line]
    assert len(lines) == 2
    assert all(len(line) < 500 for line in lines)
    (call,) = place.json("show", "long")["calls"]
    assert call["result"]["value"] == call["arguments"]["text"] == "x" * 5000


def test_a_tool_that_needs_no_key_is_shown_with_the_word_that_declared_it(tmp_path: Path) -> None:
    @nt.tool("idempotent", name="show_put")
    def put(x: int) -> int:
        return x

    with nt.Ledger(tmp_path / "agent.db") as ledger, ledger.run("puts"):
        put(1)
    place = Workplace(tmp_path)
    assert "DONE  " in (shown := place.cli("show", "puts").stdout)
    assert " idempotent " in shown
    assert "idempotent_with_key" not in shown
    (call,) = place.json("show", "puts")["calls"]
    assert (call["replay_class"], call["key"]) == ("idempotent_with_key", None)


# Runs of graphs


def test_nodes_are_shown_with_their_marks_without_any_of_their_code(graph_runs: Workplace) -> None:
    def nodes(run_id: str) -> list[tuple[str, str, int]]:
        found = graph_runs.json("show", run_id)["nodes"]
        return [(node["node"], node["status"], node["visits"]) for node in found]

    assert nodes("done-1") == [("read", "done", 1), ("charge", "done", 1), ("ship", "done", 1)]
    assert nodes("killed-1")[2] == ("ship", "in_progress", 1)
    assert nodes("failed-1")[2] == ("ship", "failed", 1)
    assert nodes("listen-1") == [("listen", "in_progress", 1), ("rest", "pending", 0)]
    lines = graph_runs.cli("show", "failed-1").stdout.splitlines()
    (table,) = [index for index, line in enumerate(lines) if line.startswith("NODE ")]
    assert lines[table + 3].split(maxsplit=3)[:3] == ["ship", "failed", "1"]
    assert "the van" in lines[table + 3]


def test_a_run_of_a_graph_says_what_it_is_bound_to_and_what_is_saved(graph_runs: Workplace) -> None:
    shown = graph_runs.cli("show", "killed-1").stdout
    assert "graph        order@1.0.0" in shown
    assert "checkpoints  3, the last one is version 2, after charge" in shown
    assert "cut off      during attempt 1 of send(to='customer 2')" in shown


def test_parent_and_child_name_each_other(graph_runs: Workplace) -> None:
    (child,) = graph_runs.json("show", "parent-1")["children"]
    assert child["parent"] == "parent-1"
    shown = graph_runs.cli("show", "parent-1").stdout
    assert f"child        {child['run_id']}, waiting" in shown
    assert f"Its child run {child['run_id']} waits for review" in shown
    assert "parent       parent-1" in graph_runs.cli("show", child["run_id"]).stdout


def test_an_event_is_on_the_timeline_with_who_took_it(graph_runs: Workplace) -> None:
    assert "event news from ann, taken: 7" in graph_runs.cli("show", "told-1").stdout
    (event,) = graph_runs.json("show", "told-1")["events"]
    (call,) = [
        one for one in graph_runs.json("show", "told-1")["calls"] if "receive" in one["tool"]
    ]
    assert event["received_by"] == call["call_id"]
    waiting = graph_runs.cli("show", "listen-1").stdout
    assert f"Send it with: nottwice send listen-1 news --store {graph_runs.store}" in waiting


def test_a_run_of_a_graph_is_resumed_by_a_command_where_the_app_is_known(
    graph_runs: Workplace,
) -> None:
    unknown = graph_runs.cli("show", "killed-1").stdout
    assert "Run your program" in unknown
    known = graph_runs.cli("show", "killed-1", "--app", "flows").stdout
    command = f"nottwice run --id killed-1 --app flows --store {graph_runs.store}"
    assert f"Resume with: {command}" in known


def test_a_run_of_a_group_says_what_the_group_waits_for(workplace: Workplace) -> None:
    program = (
        "import os, signal, nottwice as nt\n"
        "@nt.tool('unsafe_on_replay')\n"
        "def mail(to: str) -> None:\n"
        "    if to == 'bob':\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "with nt.Ledger('agent.db') as ledger:\n"
        "    for to in ('ann', 'bob'):\n"
        "        ledger.once('order-1', to, mail, {'to': to})\n"
    )
    assert workplace.process(sys.executable, "-c", program).exit_code == -signal.SIGKILL
    assert "ReplayUnsafeError" in workplace.process(sys.executable, "-c", program).stderr
    review_id = workplace.review_of("order-1/bob")
    shown = workplace.cli("show", "order-1/ann").stdout
    assert re.search(rf"group waits +review {review_id}: .*", shown)
    decide = f"nottwice decide {review_id} --store {workplace.store}"
    assert f"No new effect of the group is made until you decide: {decide}" in shown
    assert "group waits" not in workplace.cli("show", "order-1/bob").stdout
