"""Do the verify hooks decide what they know, and nothing else? `nottwice recheck`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nottwice.guard.ledger import Ledger
from tests.cli.workplace import HOSTILE, Workplace


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


def test_recheck_records_what_verify_found_and_the_run_continues_from_it(
    workplace: Workplace,
) -> None:
    review_id = workplace.review_of("ticket-8")
    with Ledger(workplace.store, create=False) as ledger:
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
    with Ledger(workplace.store, create=False) as ledger:
        (review,) = ledger.store.find_reviews(workplace.review_of("ticket-8"))
    (workplace.folder / "outbox.json").write_text(json.dumps([review.call_id]))
    ended = workplace.shell("nottwice recheck --app agent --store agent.db")
    assert "Open run 'ticket-8' again to continue: run your program." in ended.stdout


def test_a_verify_hook_that_fails_cannot_attack_the_terminal(workplace: Workplace) -> None:
    (workplace.folder / "broken").write_text(HOSTILE, encoding="utf-8")
    shown = workplace.terminal("nottwice recheck --app agent --store agent.db").stdout
    assert "verify failed: RuntimeError('[red]" in shown
    assert "\x1b[31mevil" not in shown
    assert "\x1b]0;" not in shown


def test_recheck_without_anything_open_says_so(tmp_path: Path, workplace: Workplace) -> None:
    ended = workplace.shell("nottwice recheck --app agent --tool absent --store agent.db")
    assert ended.stdout == "No open review to ask about.\n"
