"""Is everything that waits for a person listed, and does `recheck` ask without firing anything?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.guard.ledger import open_ledger
from tests.cli.workplace import HOSTILE, Workplace


def test_reviews_are_listed_with_run_call_and_the_next_command(killed: Workplace) -> None:
    result = killed.cli("reviews")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    table = [re.split(r"\s{2,}", line) for line in lines[:4]]
    assert table[0] == ["REVIEW", "KIND", "STATUS", "RUN", "ABOUT", "OPENED", "DECISION"]
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
    assert "used when your program opens their run again" in result.stdout


def test_nothing_waits_in_an_empty_ledger(tmp_path: Path) -> None:
    nt.open(tmp_path / "agent.db").close()
    place = Workplace(tmp_path)
    assert place.cli("reviews").stdout == "Nothing waits for a person.\n"
    assert place.json("reviews") == {"ledger": place.store, "reviews": [], "open": 0}
    assert place.cli("reviews", "--fail-if-open").exit_code == 0


def test_recheck_needs_the_tools(killed: Workplace) -> None:
    ended = killed.shell("nottwice recheck --store agent.db")
    assert ended.exit_code == 1
    assert "--app" in ended.stderr


def test_recheck_says_what_verify_says_now_and_leaves_the_rest(workplace: Workplace) -> None:
    ended = workplace.shell("nottwice recheck --app agent --store agent.db")
    assert ended.exit_code == 0, ended
    answers = {
        re.split(r"\s{2,}", line)[1]: re.split(r"\s{2,}", line)[3]
        for line in ended.stdout.splitlines()[1:4]
    }
    assert answers == {
        "ticket-8": "verify answered: unknown",
        "ticket-9": "its tool has no verify hook",
        "[red]evil[/red]": "verify answered: unknown",
    }
    assert ended.stdout.splitlines()[-1] == "Still open: 3. See: nottwice reviews --store agent.db"
    # What the hook prints must not mix with what a script reads.
    assert "The hook prints this." not in ended.stdout
    assert "The hook prints this." in ended.stderr


def test_recheck_records_what_verify_found_and_the_run_goes_on_from_it(
    workplace: Workplace,
) -> None:
    review_id = workplace.review_of("ticket-8")
    with open_ledger(workplace.store, create=False) as ledger:
        (review,) = ledger.store.find_reviews(review_id)
    (workplace.folder / "outbox.json").write_text(json.dumps([review.call_id]))
    line = "nottwice recheck --app agent.py --tool send_email --store agent.db --json"
    ended = workplace.shell(line)
    document = json.loads(ended.stdout)
    resolved = {one["review"]["run_id"]: one for one in document["rechecked"]}
    assert set(resolved) == {"ticket-8", "[red]evil[/red]"}
    assert resolved["ticket-8"]["resolved"] is True
    assert resolved["ticket-8"]["review"]["status"] == "decided"
    assert resolved["[red]evil[/red]"]["resolved"] is False
    assert document["open"] == 2
    # Nothing was fired: the call is as doubtful as before, until the run is opened again.
    assert workplace.json("show", "ticket-8")["calls"][-1]["status"] == "PENDING"
    assert workplace.agent("handle", "ticket-8").exit_code == 0
    call = workplace.json("show", "ticket-8")["calls"][-1]
    assert (call["status"], call["attempts"][-1]["attempt"]) == ("DONE", 1)
    assert call["settled_by"] == "decision by verify"
    assert call["result"]["value"] == {"id": review.call_id, "words": 0}


def test_recheck_names_the_runs_to_open_again(workplace: Workplace) -> None:
    with open_ledger(workplace.store, create=False) as ledger:
        (review,) = ledger.store.find_reviews(workplace.review_of("ticket-8"))
    (workplace.folder / "outbox.json").write_text(json.dumps([review.call_id]))
    ended = workplace.shell("nottwice recheck --app agent --store agent.db")
    assert "Open run 'ticket-8' again to go on: run your program." in ended.stdout


def test_a_verify_hook_that_fails_cannot_attack_the_terminal(workplace: Workplace) -> None:
    (workplace.folder / "broken").write_text(HOSTILE, encoding="utf-8")
    shown = workplace.terminal("nottwice recheck --app agent --store agent.db").stdout
    assert "verify failed: RuntimeError('[red]" in shown
    assert "\x1b[31mevil" not in shown
    assert "\x1b]0;" not in shown


def test_recheck_without_anything_open_says_so(tmp_path: Path, workplace: Workplace) -> None:
    ended = workplace.shell("nottwice recheck --app agent --tool absent --store agent.db")
    assert ended.stdout == "No open review to ask about.\n"


@pytest.mark.parametrize("command", ["reviews", "recheck"])
def test_the_commands_end_with_1_without_a_ledger(command: str, empty: Workplace) -> None:
    ended = empty.shell(f"nottwice {command} --app agent --store absent.db")
    assert ended.exit_code == 1
    assert "There is no ledger" in ended.stderr
    assert not (empty.folder / "absent.db").exists()
