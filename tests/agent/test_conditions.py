"""Is a condition checked as it was meant, and never a reason why a run cannot continue?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.conditions import bound_to
from nottwice.agent.providers.scripted import scripted
from nottwice.agent.state import RunState
from tests.agent.workshop import GOAL, Workshop

MAIL = {"send_mail": {"to": "ann", "text": "hello"}}
CLAIM = {"show_evidence": {"condition": 1, "evidence": "trust me"}}


def issued(state: RunState) -> bool:
    return True


# How a receipt is asked for


@pytest.mark.parametrize(
    "condition",
    [
        "Ann knows [receipt: send_mail].",
        "Ann knows [Receipt: send_mail]",
        "Ann knows [ RECEIPT : send_mail ] !?",
        "Ann knows ([receipt:send_mail])",
        'Ann knows "[receipt: send_mail]".\n',
    ],
)
def test_a_marker_is_understood_whatever_its_case_and_the_punctuation_behind_it(
    condition: str,
) -> None:
    assert bound_to(condition) == "send_mail"
    shop = Workshop([CLAIM, "done", MAIL, CLAIM, "done"], done_when=[condition])
    outcome = shop.finish()
    assert outcome.state.evidence[condition].startswith("trust me (receipt ")
    assert len(shop.world.requests) == 5


@pytest.mark.parametrize(
    "condition",
    [
        "x [receipt send_mail]",
        "x [receipt: send_mail] and so on",
        "x [receipts: send_mail]",
        "x [receipt: send_mail",
        "x [reciept: send_mail]",
        "x [receipt: send_mail] [receipt: refund]",
    ],
)
@pytest.mark.parametrize("where", ["agent", "run", "input", "enqueued"])
def test_what_resembles_a_marker_and_is_none_is_refused(condition: str, where: str) -> None:
    shop = Workshop(["done"])
    told: dict[str, Any] = {"goal": GOAL, "done_when": [condition]}
    with pytest.raises(nt.errors.UsageError, match="seems to ask for a receipt"):
        if where == "agent":
            nt.Agent("a", version="1.0.0", provider=scripted(["x"]), done_when=[condition])
        elif where == "run":
            shop.finish(done_when=[condition])
        elif where == "input":
            shop.finish(goal=None, input=told)
        else:
            with shop.host.process() as ledger:
                nt.App(graphs=[shop.agent], store=ledger).enqueue("triage", "ticket-7", told)
    assert shop.host.data.runs == {}


# How long evidence counts


def test_evidence_in_words_is_given_again_after_a_message() -> None:
    words, bound = "the customer is happy", "Ann knows [receipt: send_mail]"
    second = {"show_evidence": {"condition": 2, "evidence": "I wrote"}}
    shop = Workshop([MAIL, [CLAIM, second], "done", "done again", CLAIM, "now it is"])
    first = shop.finish(done_when=[words, bound])
    assert first.state.answer == "done"
    outcome = shop.finish(goal=None, message="And Bob?")
    assert outcome.state.answer == "now it is", "what was claimed before the message was believed"
    reminder = next(one.text for one in outcome.state.transcript if "not done yet" in one.text)
    assert words in reminder
    assert bound not in reminder, "a receipt of the run counts for all of it"


def test_evidence_in_words_is_given_again_after_what_a_person_says_to_a_refusal() -> None:
    def says(request: Any) -> Any:
        if request.turn == 2:
            raise nt.errors.ModelRefused("no")
        return {1: CLAIM, 3: "done", 4: CLAIM}.get(request.turn, "now it is")

    shop = Workshop(says, done_when=["all is quiet"])
    outcome = shop.finish()
    (review,) = outcome.reviews
    with shop.host.process() as ledger, nt.Reviews(ledger) as reviews:
        reviews.decide(review.review_id, "answer", by="ann", why="so", result="Then write to Bob.")
    assert shop.finish().state.answer == "now it is"


# Deploys


def agent(*script: Any, **more: Any) -> nt.Agent:
    return nt.Agent("a", version="1.0.0", provider=scripted(list(script)), **more)


@pytest.mark.parametrize("condition", [issued, "all is quiet"])
def test_a_condition_that_an_agent_has_no_more_is_dropped(condition: Any) -> None:
    store = nt.Ledger(":memory:")
    script = [CLAIM, "done", "later"]
    agent(*script, done_when=[condition]).run("r", goal="g", done_when=[], store=store)
    outcome = agent(*script).run("r", message="hi", store=store)
    assert (outcome.status, outcome.state.answer) == ("completed", "later")
    assert outcome.state.done_when == ()


def test_a_condition_that_was_renamed_is_judged_by_its_new_name() -> None:
    def refunded(state: RunState) -> bool:
        return True

    store = nt.Ledger(":memory:")
    agent("x", done_when=[issued], budget=nt.Budget(tokens=1)).run("r", goal="g", store=store)
    outcome = agent("done", done_when=[refunded]).run("r", store=store)
    assert outcome.state.evidence == {"refunded()": "the check passed"}


@pytest.mark.parametrize("said", [{}, {"message": "hi"}, {"goal": "g"}])
def test_a_function_of_a_run_that_is_not_known_fails_nothing_and_can_be_passed_again(
    said: dict[str, Any],
) -> None:
    """Also where the run waits, and not only where it has ended."""
    for budget in (None, nt.Budget(turns=1)):
        store = nt.Ledger(":memory:")
        script = [["Look.", {"remember": {"name": "a", "where": "b"}}], "done", "later"]
        first = agent(*script, budget=budget).run("r", goal="g", done_when=[issued], store=store)
        later = agent(*script)
        if said != {"goal": "g"} and (budget or said):
            with pytest.raises(
                nt.errors.UsageError, match=r"agent.run\('r', done_when=\[issued\]\)"
            ):
                later.run("r", **said, store=store)
        assert later.outcome("r", store=store).status == first.status
        assert list(store.store.events("r")) == [], "the message was sent"
        outcome = later.run("r", done_when=[issued], **said, store=store)
        assert outcome.status == "completed"
        assert outcome.state.evidence == {"issued()": "the check passed"}
        assert outcome.state.done_when == ("issued()",)


def test_a_run_is_not_told_new_conditions_once_it_has_begun() -> None:
    store = nt.Ledger(":memory:")
    agent("done").run("r", goal="g", store=store)
    both: list[dict[str, Any]] = [{}, {"message": "hi"}]
    for said in both:
        with pytest.raises(nt.errors.UsageError, match="started without the condition"):
            agent("done").run("r", **said, done_when=["all is quiet"], store=store)
        with pytest.raises(nt.errors.UsageError):
            agent("done").run("new", **said, done_when=["all is quiet"], store=store)
    assert [one.id for one in store.runs()] == ["r"]
    assert list(store.store.events("r")) == []


# Words that end like a function


@pytest.mark.parametrize("words", ["the bug is fixed in parse()", "no one calls eval()"])
def test_words_that_end_with_parentheses_are_no_function(words: str) -> None:
    shown = {"show_evidence": {"condition": 1, "evidence": "the tests are green"}}
    shop = Workshop(["I claim it", shown, "fixed"])
    outcome = shop.finish(done_when=[words])
    assert (outcome.status, outcome.state.answer) == ("completed", "fixed")
    assert outcome.state.evidence == {words: "the tests are green"}
    declared = Workshop(["I claim it", shown, "fixed"], done_when=[words])
    assert declared.finish().state.evidence == {words: "the tests are green"}
    assert declared.finish(goal=None).state.answer == "fixed"


def test_an_agent_that_names_a_function_which_it_does_not_have_is_refused() -> None:
    def paid(state: Any) -> bool:
        return True

    with pytest.raises(
        nt.errors.UsageError, match=r"done_when='parse\(\)'.*Give the function itself"
    ):
        Workshop(["done"], done_when=["parse()"])
    assert Workshop(["done"], done_when=["paid()", paid]).finish().status == "completed"
