"""Can a person answer a question and approve a call, knowing what is asked and what to type?"""

from __future__ import annotations

import json
import shlex

import pytest

from tests.cli.workplace import Workplace


@pytest.fixture
def desk(workplace: Workplace) -> Workplace:
    """A run that has asked its first question."""
    assert "QuestionOpen" in workplace.agent("desk", "desk-1").stderr
    return workplace


def test_a_question_is_shown_with_its_options_and_what_it_is_about(desk: Workplace) -> None:
    review_id = desk.review_of("desk-1")
    shown = desk.cli("decide", review_id).stdout
    assert "Refund 4000 cents?" in shown
    assert "approve, not now" in shown
    assert "order  7" in shown
    assert shown.splitlines()[-3:] == [
        f"  nottwice decide {review_id} approve --store {desk.store}",
        f"  nottwice decide {review_id} 'not now' --store {desk.store}",
        f"  nottwice decide {review_id} abort --why TEXT --store {desk.store}",
    ]


def test_every_command_that_is_shown_for_a_question_works_as_printed(desk: Workplace) -> None:
    document = desk.json("decide", desk.review_of("desk-1"))
    for command in document["commands"]:
        words = shlex.split(command)[1:]
        assert desk.cli(*words).exit_code == 0, command
        desk.cli("decide", words[1], "undo", "--why", "try the next")


def test_an_option_is_an_answer(desk: Workplace) -> None:
    review_id = desk.review_of("desk-1")
    result = desk.cli("decide", review_id, "not now", "--by", "ann")
    assert result.stdout.splitlines()[0] == f'Review {review_id}: answer "not now", by ann.'
    listed = desk.cli("reviews").stdout
    assert 'answer "not now" by ann' in listed
    assert "Refund 4000 cents?" in listed


@pytest.mark.sampled(part="sweeps", keep=3)
@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (["maybe"], 2, "Choose one of: approve, not now, answer, abort."),
        (["happened"], 1, "Choose one of: approve, not now, answer, abort."),
        (["answer"], 1, "An answer is missing: result=... (--result JSON), of type str."),
        (["answer", "--text", "maybe"], 1, "'maybe' is not one of the offered answers"),
        (["answer", "--result", "7"], 1, "7 is not one of the offered answers"),
        (["approve", "--result", "7"], 2, "'approve' is the answer already"),
        (["approve", "--text", "7"], 2, "--text belongs to the verb `answer`"),
        (["answer", "--text", "x", "--result", "7"], 2, "--text belongs to the verb `answer`"),
        (["abort"], 2, "--why TEXT"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(
    desk: Workplace, words: list[str], exit_code: int, said: str
) -> None:
    result = desk.cli("decide", desk.review_of("desk-1"), *words)
    assert (result.exit_code, said in result.stderr) == (exit_code, True), result.stderr
    (review,) = desk.json("show", "desk-1")["reviews"]
    assert review["status"] == "open"


def test_a_text_needs_no_quotes_of_json_and_another_type_is_refused(desk: Workplace) -> None:
    desk.cli("decide", desk.review_of("desk-1"), "approve")
    desk.agent("desk", "desk-1")
    review_id = desk.review_of("desk-1")
    assert "--text TEXT" in desk.cli("decide", review_id).stdout
    refused = desk.cli("decide", review_id, "answer", "--result", "7")
    assert refused.exit_code == 1
    assert "does not fit its type str" in refused.stderr
    assert desk.cli("decide", review_id, "--text", 'Say "no".').exit_code == 0
    (used, decided) = desk.json("show", "desk-1")["reviews"]
    assert used["status"] == "used"
    assert decided["decision"]["result"] == {"kind": "plain", "value": 'Say "no".'}


def needs_approval(place: Workplace) -> str:
    place.cli("decide", place.review_of("desk-1"), "approve")
    place.agent("desk", "desk-1")
    place.cli("decide", place.review_of("desk-1"), "--text", "Hello.")
    assert "ApprovalNeeded" in place.agent("desk", "desk-1").stderr
    return place.review_of("desk-1")


def test_a_call_that_needs_approval_is_shown_with_its_arguments(desk: Workplace) -> None:
    review_id = needs_approval(desk)
    shown = desk.cli("decide", review_id).stdout
    assert "counts for 24h after it was given" in shown
    assert "cents     4000" in shown
    assert "pay_out(order_id=7, cents=4000)" in desk.cli("reviews").stdout
    assert f"nottwice decide {review_id} approve --store" in shown
    assert f"nottwice decide {review_id} reject --why TEXT --store" in shown
    document = desk.json("decide", review_id)["review"]
    assert document["about"]["args"] == {"order_id": 7, "cents": 4000}
    assert list(document["verbs"]) == ["approve", "reject", "abort"]


def test_a_rejection_needs_a_reason_and_the_code_gets_it(desk: Workplace) -> None:
    review_id = needs_approval(desk)
    assert desk.cli("decide", review_id, "reject").exit_code == 2
    assert desk.cli("decide", review_id, "reject", "--why", "too much").exit_code == 0
    for _ in range(2):
        ended = desk.agent("desk", "desk-1")
        assert "RejectedByReviewer" in ended.stderr
        assert "did not allow it: too much" in ended.stderr


def test_what_waits_is_listed_with_the_run(desk: Workplace) -> None:
    review_id = desk.review_of("desk-1")
    (run,) = [one for one in desk.json("runs")["runs"] if one["run_id"] == "desk-1"]
    assert run["state"] == "waiting"
    assert run["failure"] is None
    assert run["waits"] == [{"kind": "review", "subject": review_id, "step": "desk", "until": None}]
    assert review_id in desk.cli("runs").stdout
    assert f"review {review_id}: Refund 4000 cents?" in desk.cli("show", "desk-1").stdout
    assert "run 'desk-1' asks: Refund 4000 cents?" in desk.cli().stdout


def test_a_person_at_a_terminal_is_offered_the_options(desk: Workplace) -> None:
    review_id = desk.review_of("desk-1")
    ended = desk.terminal(f"nottwice decide {review_id} --store agent.db", ("later", "not now"))
    assert 'answer "not now"' in ended.stdout
    assert "Why?" not in ended.stdout


def test_a_person_at_a_terminal_types_an_answer_as_it_is(desk: Workplace) -> None:
    desk.cli("decide", desk.review_of("desk-1"), "approve")
    desk.agent("desk", "desk-1")
    review_id = desk.review_of("desk-1")
    ended = desk.terminal(
        f"nottwice decide {review_id} --store agent.db",
        ("later", "answer"),
        ("Your answer", 'It is "done".'),
    )
    assert json.dumps('It is "done".') in ended.stdout


def test_an_answer_without_a_reason_is_kept_with_none(desk: Workplace) -> None:
    document = desk.json("decide", desk.review_of("desk-1"), "approve")
    assert document["review"]["decision"]["result"]["value"] == "approve"
    assert document["review"]["decision"]["why"] == ""
