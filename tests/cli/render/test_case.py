"""Does a person see everything that helps to decide, and is asked only at a terminal?"""

from __future__ import annotations

import re

import pytest

from tests.cli.workplace import Workplace


def status_of(place: Workplace, review_id: str) -> str:
    (found,) = [
        one for one in place.json("reviews", "--all")["reviews"] if one["review_id"] == review_id
    ]
    return str(found["status"])


def test_a_case_shows_call_arguments_evidence_verbs_and_the_commands_to_type(
    killed: Workplace,
) -> None:
    review_id = killed.review_of("ticket-8")
    result = killed.cli("decide", review_id)
    assert result.exit_code == 2
    shown = result.stdout
    assert re.search(r"run +ticket-8$", shown, re.M)
    assert re.search(r"tool +send_email$", shown, re.M)
    assert re.search(r"class +unsafe_on_replay$", shown, re.M)
    assert re.search(r"attempt +over: its process, pid \d+ on \S+, is proven dead$", shown, re.M)
    assert re.search(r'^  to +"ann@example.com"$', shown, re.M)
    assert re.search(r'^  body +"Your money is on its way."$', shown, re.M)
    assert "verify: verify answered: unknown" in shown
    assert "allows exactly one more attempt" in shown
    assert shown.splitlines()[-3:] == [
        f"  nottwice decide {review_id} {words} --why TEXT --store {killed.store}"
        for words in ("happened --result JSON", "did-not-happen", "abort")
    ]


def test_the_expected_result_is_shown_if_the_tools_are_known(killed: Workplace) -> None:
    review_id = killed.review_of("ticket-8")
    unknown = killed.shell(f"nottwice decide {review_id} --store agent.db")
    known = killed.shell(f"nottwice decide {review_id} --store agent.db --app agent")
    assert "returns  a value that fits the schema on record (--json shows it)" in unknown.stdout
    assert re.search(r"returns +Mail$", known.stdout, re.M)


def test_a_case_as_json_ends_with_2_because_nothing_was_decided(killed: Workplace) -> None:
    review_id = killed.review_of("ticket-8")
    assert killed.cli("decide", review_id, "--json").exit_code == 2
    document = killed.json("decide", review_id)
    assert document["call"]["arguments"]["to"] == "ann@example.com"
    assert document["attempt_is_over"] is True
    assert document["review"]["verbs"].keys() == {"happened", "did-not-happen", "abort"}
    assert len(document["commands"]) == 3


def test_a_decided_case_offers_only_to_undo_it(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-8")
    workplace.cli("decide", review_id, "abort", "--by", "ann", "--why", "enough")
    shown = workplace.cli("decide", review_id).stdout
    assert re.search(r"decided +abort by ann at .* because: enough", shown)
    assert shown.splitlines()[-1] == (
        f"  nottwice decide {review_id} undo --why TEXT --store {workplace.store}"
    )


def test_a_case_that_is_over_has_nothing_to_decide(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    workplace.cli("decide", review_id, "did-not-happen", "--why", "x")
    workplace.agent("handle", "ticket-9")
    result = workplace.cli("decide", review_id)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == (
        "It was closed by decision; nothing is left to decide."
    )


@pytest.mark.parametrize("how", ["pipe", "terminal"])
def test_nothing_hostile_is_shown_as_it_is(how: str, killed: Workplace) -> None:
    line = f"nottwice decide {killed.review_of('[red]evil[/red]')} --store agent.db"
    if how == "pipe":
        shown = killed.shell(line).stdout
    else:
        shown = killed.terminal(line, ("Decide", "later")).stdout
    assert "[red]\\u001b[31mevil\\u001b]0;title\\u0007\\nError: forged\\u202e" in shown
    assert "\x1b[31mevil" not in shown
    assert "\x1b]0;" not in shown
    assert "\u202e" not in shown
    assert not re.search(r"^Error: forged", shown, re.M)


@pytest.mark.deep(part="sweeps")
def test_a_person_is_asked_for_verb_result_and_reason(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-8")
    ended = workplace.terminal(
        f"nottwice decide {review_id} --store agent.db --app agent --by ann",
        ("Decide", "happened"),
        ("The result as JSON (Mail)", "sent"),
        ("The result as JSON (Mail)", '{"id": 7}'),
        ("The result as JSON (Mail)", '{"id": "m-1"}'),
        ("Why?", "it is in the outbox"),
    )
    assert ended.exit_code == 0, ended
    assert "is not JSON that can be kept" in ended.stdout
    assert "does not fit its type Mail" in ended.stdout
    assert ended.stdout.rstrip().endswith("run your program.")
    assert workplace.agent("handle", "ticket-8").exit_code == 0
    call = workplace.json("show", "ticket-8")["calls"][-1]
    assert call["result"]["value"] == {"id": "m-1", "words": 0}


def test_a_person_may_leave_without_deciding(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-8")
    ended = workplace.terminal(f"nottwice decide {review_id} --store agent.db", ("Decide", ""))
    assert ended.exit_code == 2
    assert "Nothing was decided." in ended.stdout
    assert status_of(workplace, review_id) == "open"


def test_a_person_is_asked_only_for_what_is_missing(workplace: Workplace) -> None:
    review_id = workplace.review_of("ticket-9")
    ended = workplace.terminal(
        f"nottwice decide {review_id} did-not-happen --store agent.db",
        ("Why?", "not at the bank"),
    )
    assert ended.exit_code == 0
    assert status_of(workplace, review_id) == "decided"
    ended = workplace.terminal(
        f"nottwice decide {review_id} undo --store agent.db", ("Why?", "typed the wrong id")
    )
    assert ended.exit_code == 0
    assert status_of(workplace, review_id) == "open"


def test_a_decision_that_another_person_makes_meanwhile_is_not_overruled(
    workplace: Workplace,
) -> None:
    review_id = workplace.review_of("ticket-9")

    def decide_and_undo() -> str:
        # Open again afterwards, but no longer what was shown.
        for verb in ("abort", "undo"):
            workplace.cli("decide", review_id, verb, "--by", "bob", "--why", "x")
        return "not at the bank"

    ended = workplace.terminal(
        f"nottwice decide {review_id} --store agent.db",
        ("Decide", "did-not-happen"),
        ("Why?", decide_and_undo),
    )
    assert ended.exit_code == 1, ended
    assert "has changed since it was shown" in ended.stdout
    assert status_of(workplace, review_id) == "open"
