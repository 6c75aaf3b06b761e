"""Is everything that waits for a person listed, and does `recheck` ask without firing anything?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import nottwice as nt
from nottwice.cli.main import main
from tests.cli.workplace import Key, Workplace


def test_reviews_are_listed_with_run_call_and_the_next_command(killed: Workplace) -> None:
    result = killed.cli("reviews")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    table = [re.split(r"\s{2,}", line) for line in lines[:4]]
    assert table[0] == ["REVIEW", "KIND", "STATUS", "RUN", "ABOUT", "AGE", "DECISION"]
    assert {row[1] for row in table[1:]} == {"in doubt"}
    assert [row[2:4] for row in table[1:]] == [
        ["open", "ticket-8"],
        ["open", "ticket-9"],
        ["open", "[red]evil[/red]"],
    ]
    assert table[2][4] == "refund(order_id=7, cents=4000)"
    assert lines[-1] == (
        f"Look at one and decide: nottwice decide {table[1][0]} --store {killed.store}"
    )


def test_a_decision_that_was_not_used_is_listed_until_it_is(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    workplace.cli("decide", review_id, "did-not-happen", "--by", "ann", "--why", "looked")
    assert "did-not-happen by ann" in workplace.cli("reviews").stdout
    assert workplace.agent("handle", "ticket-9").exit_code == 0
    assert review_id not in workplace.cli("reviews").stdout
    old = [one for one in workplace.json("reviews", "--all")["reviews"] if one["status"] == "used"]
    assert [one["review_id"] for one in old] == [review_id]


def test_a_monitor_is_told_by_exit_code_3(workplace: Workplace) -> None:
    assert workplace.cli("reviews", "--fail-if-open").exit_code == 3
    for run_id in ("ticket-8", "ticket-9", "[red]evil[/red]"):
        workplace.cli("decide", workplace.review_of(run_id), "abort", "--why", "enough")
    result = workplace.cli("reviews", "--fail-if-open")
    assert result.exit_code == 0
    assert "used when your program opens the run again" in result.stdout


def test_nothing_waits_in_an_empty_ledger(tmp_path: Path) -> None:
    nt.Ledger(tmp_path / "agent.db").close()
    place = Workplace(tmp_path)
    assert place.cli("reviews").stdout == "Nothing waits for a person.\n"
    assert place.json("reviews") == {
        "ledger": place.store,
        "reviews": [],
        "open": 0,
        "unreadable": [],
    }
    assert place.cli("reviews", "--fail-if-open").exit_code == 0


@pytest.mark.parametrize("command", ["reviews", "recheck"])
def test_the_commands_end_with_1_without_a_ledger(command: str, empty: Workplace) -> None:
    ended = empty.shell(f"nottwice {command} --app agent --store absent.db")
    assert ended.exit_code == 1
    assert "There is no ledger" in ended.stderr
    assert not (empty.folder / "absent.db").exists()


def test_reviews_are_found_by_kind_tool_and_age(killed: Workplace) -> None:
    found = killed.json("reviews", "--tool", "refund")["reviews"]
    assert [one["run_id"] for one in found] == ["ticket-9"]
    assert killed.json("reviews", "--kind", "approval")["reviews"] == []
    assert len(killed.json("reviews", "--kind", "in doubt", "--since", "1h")["reviews"]) == 3
    assert killed.json("reviews", "--since", "2999-01-01")["reviews"] == []


def test_the_most_dangerous_review_comes_first(graph_place: Workplace) -> None:
    graph_place.agent("handle", "ticket-9", kill="refund")
    graph_place.agent("handle", "ticket-9")
    kinds = [one["kind"] for one in graph_place.json("reviews")["reviews"]]
    assert kinds[0] == "in doubt"
    assert "question" in kinds[1:]


def test_cron_is_told_of_a_review_that_is_too_old(killed: Workplace) -> None:
    assert killed.cli("reviews", "--fail-if-older", "1d").exit_code == 0
    assert killed.cli("reviews", "--fail-if-older", "0.001s").exit_code == 3
    assert killed.cli("reviews", "--fail-if-older", "soon").exit_code != 0


def test_a_walk_decides_and_skips_one_after_the_other(workplace: Workplace) -> None:
    doubt = workplace.review_of("ticket-8")
    ended = workplace.terminal(
        "nottwice reviews --walk --store agent.db",
        ("d: look and decide", Key("d")),
        ("Decide", "abort"),
        ("Why?", "enough"),
        ("q: stop", Key("n")),
        ("q: stop", Key("q")),
    )
    assert ended.exit_code == 0, ended.stdout
    assert "3 of 3" in ended.stdout
    assert "Stopped. 1 is left." in ended.stdout
    after = {one["review_id"]: one["status"] for one in workplace.json("reviews")["reviews"]}
    assert after.pop(doubt) == "decided"
    assert set(after.values()) == {"open"}


def test_a_walk_needs_a_terminal(killed: Workplace) -> None:
    ended = killed.cli("reviews", "--walk")
    assert ended.exit_code == 2
    assert "use it in a terminal" in ended.stderr


def test_a_monitor_is_told_of_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """P410."""
    store = f"file:{tmp_path / 'runs'}"
    with nt.Ledger(store) as ledger, ledger.run("ticket-7"):
        pass

    def reviews(*words: str) -> Result:
        return CliRunner().invoke(main, ["--store", store, "reviews", *words])

    monitors = ("--fail-if-open",), ("--fail-if-older", "1h")
    assert [reviews(*words).exit_code for words in monitors] == [0, 0]
    (tmp_path / "runs" / "ticket-7.json").write_text("{")
    assert [reviews(*words).exit_code for words in monitors] == [3, 3]
    assert "Nothing waits for a person in what could be read." in reviews().stdout
    assert len(json.loads(reviews("--json").stdout)["unreadable"]) == 1
    assert reviews().exit_code == 0
