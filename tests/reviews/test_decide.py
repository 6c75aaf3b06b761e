"""A decision is checked, bound to what was shown, applied once, and can be undone until used."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.model.review import Review, ReviewStatus, Verb
from nottwice.reviews.decide import decide, read_verb, undo
from nottwice.store.memory import MemoryStore
from nottwice.testing import forget_tools
from tests.fakes import Host


@pytest.fixture
def host() -> Host:
    host = Host()

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> dict[str, int]:
        raise TimeoutError

    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayUnsafeError):
        send("ann")
    return host


def say(host: Host, verb: Verb, **options: object) -> object:
    (review,) = host.open_reviews
    words = {"by": "ann", "why": "looked", **options}
    if verb is Verb.HAPPENED:
        words = {"result": {"id": 1}, "has_result": True, **words}
    store = MemoryStore(host.data)
    return decide(store, host.clock, review.review_id, verb, **words)  # type: ignore[arg-type]


def test_a_decision_changes_no_row_and_keeps_who_when_and_why(host: Host) -> None:
    before = host.calls
    say(host, Verb.DID_NOT_HAPPEN, by="bob", why="the outbox is empty")
    assert host.calls == before
    (review,) = host.open_reviews
    assert review.status is ReviewStatus.DECIDED
    assert review.decision is not None
    assert (review.decision.by, review.decision.why) == ("bob", "the outbox is empty")
    assert review.decision.at == host.clock.now()
    (entry,) = host.data.audit
    assert (entry.who, entry.action) == ("bob", "decide did-not-happen")


def test_the_same_decision_twice_is_harmless(host: Host) -> None:
    say(host, Verb.HAPPENED)
    say(host, Verb.HAPPENED, by="bob")
    assert len(host.data.audit) == 1


def test_another_decision_conflicts(host: Host) -> None:
    say(host, Verb.HAPPENED)
    for verb, options in ((Verb.DID_NOT_HAPPEN, {}), (Verb.HAPPENED, {"result": {"id": 2}})):
        with pytest.raises(nt.errors.DecisionConflict, match="already decided: 'happened' by ann"):
            say(host, verb, **options)


def test_a_decision_can_be_undone_until_it_is_used(host: Host) -> None:
    say(host, Verb.HAPPENED)
    (review,) = host.open_reviews
    store = MemoryStore(host.data)
    undo(store, host.clock, review.review_id, by="ann", why="wrong mail")
    assert host.open_reviews[0].status is ReviewStatus.OPEN
    say(host, Verb.DID_NOT_HAPPEN)


def test_a_used_decision_cannot_be_undone(host: Host) -> None:
    forget_tools()

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> dict[str, int]:
        raise AssertionError("it must not run")

    say(host, Verb.HAPPENED)
    (review,) = host.open_reviews
    with host.process() as ledger, ledger.run("r"):
        assert send("ann") == {"id": 1}
    with pytest.raises(nt.errors.DecisionConflict, match="used"):
        undo(MemoryStore(host.data), host.clock, review.review_id, by="ann", why="too late")


def test_a_decision_about_an_outdated_view_is_refused(host: Host) -> None:
    with pytest.raises(nt.errors.DecisionConflict, match=r"since it was shown.* --store \S+$"):
        say(host, Verb.HAPPENED, shown_version=7)
    assert host.open_reviews[0].status is ReviewStatus.OPEN


@pytest.mark.parametrize("missing", ["by", "why"])
def test_a_decision_needs_who_and_why(host: Host, missing: str) -> None:
    with pytest.raises(nt.errors.UsageError, match=f"--{missing}"):
        say(host, Verb.HAPPENED, **{missing: " "})


@pytest.mark.parametrize("words", [{"by": 5}, {"why": 5}, {"why": None}])
def test_who_and_why_are_text(host: Host, words: dict[str, Any]) -> None:
    with host.process() as ledger, nt.Reviews(ledger) as reviews:
        (review,) = host.open_reviews
        given = {"by": "ann", "why": "looked", **words}
        with pytest.raises(nt.errors.UsageError, match=r"must be text.*Nothing was decided"):
            reviews.decide(review.review_id, "abort", **given)
        with pytest.raises(nt.errors.UsageError, match="must be text"):
            reviews.undo(review.review_id, **given)
    assert host.open_reviews == [review]


def test_it_happened_needs_a_result_and_the_other_verbs_take_none(host: Host) -> None:
    with pytest.raises(nt.errors.UsageError, match="needs the result"):
        say(host, Verb.HAPPENED, has_result=False)
    with pytest.raises(nt.errors.UsageError, match="takes no result"):
        say(host, Verb.ABORT, has_result=True, result=1)


def test_a_verb_of_another_kind_is_refused(host: Host) -> None:
    with pytest.raises(
        nt.errors.UsageError, match="Choose one of: happened, did-not-happen, abort"
    ):
        say(host, Verb.ACCEPT)


def test_the_result_is_checked_against_the_tool_first(host: Host) -> None:
    forget_tools()

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> dict[str, int]:
        return {}

    with pytest.raises(nt.errors.InvalidArguments):
        say(host, Verb.HAPPENED, result=["no"], tool=send.tool)
    assert host.open_reviews[0].status is ReviewStatus.OPEN


def test_did_not_happen_is_refused_while_the_attempt_may_run(host: Host) -> None:
    """The process died in mid-call, and its death cannot be proven from here."""
    (row,) = host.calls

    host.data.calls[row.identity] = row._replace(finished_at=None)
    host.data.holders.clear()
    with pytest.raises(nt.errors.UsageError, match="--holder-stopped"):
        say(host, Verb.DID_NOT_HAPPEN)
    assert host.open_reviews[0].status is ReviewStatus.OPEN
    say(host, Verb.DID_NOT_HAPPEN, holder_stopped=True)
    decision = host.open_reviews[0].decision
    assert decision is not None
    assert decision.holder_stopped


def test_of_two_decisions_at_the_same_moment_one_wins_completely(host: Host) -> None:
    class Racing(MemoryStore):
        def commit(self, commit: object) -> None:
            say(host, Verb.DID_NOT_HAPPEN, by="the other")
            super().commit(commit)  # type: ignore[arg-type]

    (review,) = host.open_reviews
    with pytest.raises(nt.errors.DecisionConflict, match=r"has just been changed.* --store \S+$"):
        decide(
            Racing(host.data),
            host.clock,
            review.review_id,
            Verb.HAPPENED,
            by="ann",
            why="looked",
            result={},
            has_result=True,
        )
    decision = host.open_reviews[0].decision
    assert decision is not None
    assert decision.by == "the other"


# What is asked first


def asking(**words: Any) -> Host:
    host = Host()
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.QuestionOpen):
        nt.ask("How many?", **words)
    return host


def answer(host: Host, **words: Any) -> Review:
    (review,) = host.open_reviews
    words = {"by": "ann", "why": "", **words}
    return decide(MemoryStore(host.data), host.clock, review.review_id, Verb.ANSWER, **words)


@pytest.mark.parametrize(
    ("returns", "given"), [(int, "many"), (str, 7), (bool, "perhaps"), (float, []), (str, None)]
)
def test_an_answer_of_another_type_is_refused_when_it_is_given(returns: Any, given: Any) -> None:
    host = asking(returns=returns)
    with pytest.raises(nt.errors.InvalidArguments, match="It was not used"):
        answer(host, result=given, has_result=True)
    assert [review.status for review in host.open_reviews] == [ReviewStatus.OPEN]


def test_an_answer_that_was_not_offered_is_refused() -> None:
    host = asking(options=["one", "two"])
    with pytest.raises(nt.errors.UsageError, match="not one of the offered answers: one, two"):
        answer(host, result="three", has_result=True)
    with pytest.raises(nt.errors.UsageError, match="It is one of: one, two"):
        answer(host)
    assert answer(host, result="two", has_result=True).status is ReviewStatus.DECIDED


def test_two_different_answers_conflict_and_the_same_one_does_not() -> None:
    host = asking(returns=int)
    answer(host, result=1, has_result=True)
    assert answer(host, result=1, has_result=True).version == 2
    with pytest.raises(nt.errors.DecisionConflict, match="already decided"):
        answer(host, result=2, has_result=True)


def test_an_answer_says_who_and_needs_no_reason() -> None:
    host = asking()
    with pytest.raises(nt.errors.UsageError, match="needs by="):
        answer(host, by=" ", result="x", has_result=True)
    decided = answer(host, result="x", has_result=True)
    assert decided.decision is not None
    assert (decided.decision.by, decided.decision.why) == ("ann", "")


@pytest.mark.parametrize(
    ("word", "meaning"),
    [("one", (Verb.ANSWER, "one")), ("answer", (Verb.ANSWER, None)), ("abort", (Verb.ABORT, None))],
)
def test_a_word_means_an_option_before_it_means_a_verb(word: str, meaning: Any) -> None:
    (review,) = asking(options=["one", "two"]).open_reviews
    assert read_verb(review, word) == meaning


@pytest.mark.parametrize("word", ["three", "approve", "happened", "", "ONE"])
def test_a_word_that_the_review_does_not_know_is_refused(word: str) -> None:
    (review,) = asking(options=["one", "two"]).open_reviews
    with pytest.raises(nt.errors.UsageError, match="Choose one of: one, two, answer, abort"):
        read_verb(review, word)


def test_an_answer_to_what_is_no_question_is_refused(host: Host) -> None:
    (review,) = host.open_reviews
    with pytest.raises(nt.errors.UsageError, match="is not a question"):
        decide(
            MemoryStore(host.data),
            host.clock,
            review.review_id,
            Verb.ANSWER,
            by="ann",
            why="",
            result="x",
            has_result=True,
        )


def test_a_result_that_the_run_cannot_keep_is_refused_until_the_annotation_is_changed() -> None:
    host = Host()

    def fetch(returns: Any) -> Any:
        def ids(number: int) -> Any:
            return {1, 2}

        ids.__annotations__["return"] = returns
        forget_tools()
        return nt.tool("unsafe_on_replay", name="ids")(ids)

    def attempt(tool: Any) -> Any:
        with host.process() as ledger, ledger.run("r"):
            return tool(1)

    kept_as_set = fetch(set[int])
    assert attempt(kept_as_set) == {1, 2}
    with pytest.raises(nt.errors.ResultNotKept):
        attempt(kept_as_set)
    for result, tool in (([1, 2], kept_as_set), ("x" * 17_000_000, fetch(str))):
        with pytest.raises(nt.errors.UsageError, match="would ask for it again") as refused:
            say(host, Verb.HAPPENED, result=result, tool=tool.tool)
        assert ("Change the return annotation" in str(refused.value)) == (tool is kept_as_set)
        assert ("Give a shorter result" in str(refused.value)) == (tool is not kept_as_set)
        assert host.open_reviews[0].status is ReviewStatus.OPEN
    kept_as_list = fetch(list[int])
    say(host, Verb.HAPPENED, result=[1, 2], tool=kept_as_list.tool)
    assert attempt(kept_as_list) == [1, 2]
