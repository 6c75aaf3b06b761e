"""Does one review show what each answer does, and record it once?"""

from __future__ import annotations

import re

import pytest

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.model.review import ReviewStatus, Verb
from tests.cli.workplace import Workplace
from tests.web.visiting import Visit, hidden, words


def test_each_choice_says_what_it_will_do_and_none_is_chosen(visit: Visit, doubt: str) -> None:
    markup = visit.get(f"/review/{doubt}").text
    assert "checked" not in markup
    choices = re.findall(r'<div class="choice.*?</details>\s*</div>', markup, re.S)
    said = [words(choice) for choice in choices]
    assert [
        re.match(r"[A-Za-z ]+?(?= send_email| Nothing)", text)[0]  # type: ignore[index]
        for text in said
    ] == ["It happened", "It did not happen", "Stop this run"]
    assert "is NOT called again" in said[0]
    assert "send_email WILL BE CALLED once more, with these arguments" in said[1]
    assert "ticket-8 ends permanently" in said[2]
    # The dangerous one is marked, and no other.
    assert [("acts" in choice.split(">")[0]) for choice in choices] == [False, True, False]


def test_what_is_known_is_on_the_page_in_the_order_of_time(visit: Visit, doubt: str) -> None:
    text = visit.text(f"/review/{doubt}")
    assert "Your money is on its way." in text
    assert "Search the upstream for the call id" in text
    text = text[text.index("When Who What") :]
    order = ["attempt 1 began; no receipt", "is proven dead", "verify answered: unknown"]
    assert sorted(order, key=text.index) == order
    # The words of the inside are not shown.
    assert "nottwice the process of this attempt is proven dead" in text
    assert "ownership" not in text


@nt.tool("unsafe_on_replay", name="review_mail", look="https://mail.example/?q={call.id}&to={to}")
def mail(to: str) -> None:
    raise TimeoutError("no answer")


def test_where_to_look_and_the_call_id_are_both_on_the_page(visit: Visit, ledger: Ledger) -> None:
    with pytest.raises(nt.errors.ReplayUnsafeError) as asked, ledger.run("mail"):
        mail("bob")
    (row,) = ledger.store.calls("mail")
    where = f"https://mail.example/?q={row.call_id}&to=bob"
    assert f"Check upstream: {where} " in str(asked.value)
    text = visit.text(f"/review/{asked.value.review_id}")
    assert where in text
    assert f"Search the upstream for the call id {row.call_id}" in text


def test_a_decision_is_recorded_with_who_and_why(visit: Visit, ledger: Ledger, doubt: str) -> None:
    path = f"/review/{doubt}"
    sent = visit.post(path, verb="happened", result__0="m-1", why="it is in the outbox")
    assert sent.status_code == 303
    review = ledger.store.load_review(doubt)
    assert review is not None
    assert review.decision is not None
    assert (review.decision.verb, review.decision.by) == (Verb.HAPPENED, "ann")
    assert review.decision.result is not None
    assert review.decision.result.json == '{"id":"m-1"}'
    assert review.decision.why == "it is in the outbox"
    after = visit.text(sent.headers["location"])
    assert "Recorded: happened" in after
    assert "so you can take it back" in after
    assert "Only your program can continue it" in after
    (entry,) = [one for one in ledger.store.audit("ticket-8") if "decide" in one.action]
    assert (entry.who, entry.action) == ("ann", "decide happened")


def test_the_same_form_sent_again_is_the_same_decision(
    visit: Visit, ledger: Ledger, doubt: str
) -> None:
    path = f"/review/{doubt}"
    fields = hidden(visit.get(path).text) | {"verb": "did-not-happen", "why": "not in the outbox"}
    answers = [visit.client.post(path, data=fields) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [303, 303, 303]
    review = ledger.store.load_review(doubt)
    assert review is not None
    assert review.version == 2
    audit = [one for one in ledger.store.audit("ticket-8") if one.action.startswith("decide")]
    assert len(audit) == 1
    undo = hidden(visit.get(path).text) | {"verb": "undo", "why": "too early"}
    again = [visit.client.post(path, data=undo) for _ in range(2)]
    assert [answer.status_code for answer in again] == [303, 303]
    review = ledger.store.load_review(doubt)
    assert review is not None
    assert (review.status, review.version) == (ReviewStatus.OPEN, 3)
    # And the first form is too old now: it was taken back since.
    late = visit.client.post(path, data=fields)
    assert late.status_code == 409
    assert "has changed since it was shown" in words(late.text)


def test_of_two_people_one_decides_and_the_other_sees_who_and_why(
    visit: Visit, ledger: Ledger, doubt: str
) -> None:
    bob, path = Visit(ledger, "bob"), f"/review/{doubt}"
    seen_by_ann = hidden(visit.get(path).text)
    assert bob.post(path, verb="happened", result__0="m-1", why="I see it").status_code == 303
    late = visit.client.post(path, data=seen_by_ann | {"verb": "did-not-happen", "why": "gone"})
    assert late.status_code == 409
    text = words(late.text)
    assert "Your decision was not recorded." in text
    assert "bob decided “happened” 0 s ago, because: I see it" in text
    review = ledger.store.load_review(doubt)
    assert review is not None
    assert review.decision is not None
    assert review.decision.by == "bob"
    # The same answer of another person is theirs, and is refused, too: who decided stays true.
    same = {"verb": "happened", "result.0": "m-1", "why": "me too"}
    assert visit.client.post(path, data=seen_by_ann | same).status_code == 409


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({}, "Nothing was chosen"),
        ({"verb": "happened", "why": "x"}, "The field 'id' is empty"),
        (
            {"verb": "happened", "result.0": "m", "result.1": "many", "why": "x"},
            "'words' is not JSON",
        ),
        ({"verb": "happened", "result.json": '{"id": 7}', "why": "x"}, "must be string"),
        ({"verb": "did-not-happen", "why": " "}, "needs why"),
        ({"verb": "approve"}, "is not a decision"),
    ],
)
def test_a_form_that_says_too_little_records_nothing(
    form: dict[str, str], said: str, visit: Visit, ledger: Ledger, doubt: str
) -> None:
    path = f"/review/{doubt}"
    answer = visit.client.post(path, data=hidden(visit.get(path).text) | form)
    assert answer.status_code == 400
    assert said in words(answer.text)
    review = ledger.store.load_review(doubt)
    assert review is not None
    assert review.is_licence is False
    assert review.version == 1


def test_a_form_without_the_version_that_was_shown_records_nothing(
    visit: Visit, ledger: Ledger, doubt: str
) -> None:
    fields = hidden(visit.get(f"/review/{doubt}").text)
    del fields["shown_version"]
    answer = visit.client.post(
        f"/review/{doubt}", data=fields | {"verb": "did-not-happen", "why": "x"}
    )
    assert answer.status_code == 400
    assert "which version of the review was shown" in words(answer.text)


def test_the_form_asks_to_confirm_what_cannot_be_proven(
    visit: Visit, ledger: Ledger, doubt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nottwice.model.run import Life

    monkeypatch.setattr(ledger.store, "life_of", lambda holder_id: Life.NOT_PROVEN)
    path = f"/review/{doubt}"
    assert "nottwice cannot prove that it is dead" in visit.text(path)
    refused = visit.post(path, verb="did-not-happen", why="not there")
    assert refused.status_code == 400
    assert "may still be running" in words(refused.text)
    confirmed = visit.post(path, verb="did-not-happen", why="not there", holder_stopped="yes")
    assert confirmed.status_code == 303


def test_the_command_on_the_page_does_the_same(
    visit: Visit, workplace: Workplace, doubt: str
) -> None:
    markup = visit.get(f"/review/{doubt}").text
    commands = [words(one) for one in re.findall(r"<code>(.*?)</code>", markup)]
    abort = next(one for one in commands if " abort " in one).replace("TEXT", "'off'")
    ended = workplace.shell(abort)
    assert ended.exit_code == 0, ended
    assert "Decided: abort" in visit.text(f"/review/{doubt}")


def test_a_question_is_answered_from_the_inbox_with_one_click(workplace: Workplace) -> None:
    workplace.agent("desk", "desk-1")
    with Ledger(workplace.store, create=False) as ledger:
        visit = Visit(ledger)
        (review,) = ledger.store.open_reviews("desk-1")
        assert "Refund 4000 cents?" in visit.text("/")
        sent = visit.post(f"/review/{review.review_id}", verb="approve", then="inbox")
        assert (sent.status_code, sent.headers["location"].split("?")[0]) == (303, "/")
        workplace.agent("desk", "desk-1")
        (asked,) = ledger.store.open_reviews("desk-1")
        text = visit.text(f"/review/{asked.review_id}")
        assert "What shall we write?" in text
        sent = visit.post(f"/review/{asked.review_id}", verb="answer", result__0="Dear\r\nAnn")
        assert sent.status_code == 303
        workplace.agent("desk", "desk-1")
        (approval,) = ledger.store.open_reviews("desk-1")
        assert "pay_out WILL BE CALLED with these arguments" in visit.text(
            f"/review/{approval.review_id}"
        )
        answered = [one.decision for one in ledger.store.reviews("desk-1")][1]
        assert answered is not None
        assert answered.result is not None
        assert answered.result.json == '"Dear\\nAnn"'


def test_a_review_that_does_not_exist_is_a_page_that_says_so(visit: Visit) -> None:
    assert "There is no review 'nope'" in visit.text("/review/nope", status=404)
