"""Reviews from Python: the same queue and the same decisions as on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def test_a_review_is_found_decided_undone_and_used(path: Path) -> None:
    sent: list[str] = []

    @nt.tool("unsafe_on_replay", verify=lambda call: nt.cannot_tell())
    def send(to: str) -> dict[str, int]:
        sent.append(to)
        raise TimeoutError

    with nt.run("r", store=path), pytest.raises(nt.errors.ReplayUnsafeError) as caught:
        send("ann")
    reviews = nt.Reviews(path)
    (case,) = reviews.open()
    assert case.review.review_id == caught.value.review_id
    assert reviews.open("another run") == []
    identity = case.review.review_id
    reviews.decide(identity, "did-not-happen", by="ann", why="not in the outbox")
    reviews.undo(identity, by="ann", why="it is in the archive")
    with pytest.raises(nt.errors.InvalidArguments):
        reviews.decide(identity, "happened", by="ann", why="found", result="no dict")
    reviews.decide(identity, "happened", by="ann", why="found", result={"id": 5})
    assert reviews.recheck() == []
    with nt.run("r", store=path):
        assert send("ann") == {"id": 5}
    assert sent == ["ann"]
    assert reviews.open() == []


def test_a_result_of_none_is_a_result(path: Path) -> None:
    @nt.tool("unsafe_on_replay")
    def send(to: str) -> None:
        raise TimeoutError

    with nt.run("r", store=path), pytest.raises(nt.errors.ReplayUnsafeError) as caught:
        send("ann")
    assert caught.value.review_id is not None
    reviews = nt.Reviews(path)
    with pytest.raises(nt.errors.UsageError, match="needs the result"):
        reviews.decide(caught.value.review_id, "happened", by="ann", why="found")
    reviews.decide(caught.value.review_id, "happened", by="ann", why="found", result=None)


def test_recheck_asks_verify_and_fires_nothing(path: Path) -> None:
    answers = [nt.cannot_tell(), nt.happened("found")]
    sent: list[str] = []

    @nt.tool("unsafe_on_replay", verify=lambda call: answers.pop(0))
    def send(to: str) -> str:
        sent.append(to)
        raise TimeoutError

    with nt.run("r", store=path), pytest.raises(nt.errors.ReplayUnsafeError):
        send("ann")
    (found,) = nt.Reviews(path).recheck()
    assert (found.resolved, sent) == (True, ["ann"])


def test_a_review_that_is_not_there_is_said_so(path: Path) -> None:
    nt.Ledger(path).close()
    with pytest.raises(nt.errors.UnknownReview):
        nt.Reviews(path).find("1a2b")


def test_a_ledger_that_is_not_there_is_not_created(path: Path) -> None:
    with pytest.raises(nt.errors.NoLedger):
        nt.Reviews(path)
    assert not path.exists()


def test_a_word_that_is_no_verb_is_refused(path: Path) -> None:
    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        raise TimeoutError

    with nt.run("r", store=path), pytest.raises(nt.errors.ReplayUnsafeError) as caught:
        send("ann")
    assert caught.value.review_id is not None
    with pytest.raises(nt.errors.UsageError, match="Choose one of: happened, did-not-happen"):
        nt.Reviews(path).decide(caught.value.review_id, "maybe", by="ann", why="?")


def test_questions_and_approvals_are_decided_by_their_own_words(path: Path) -> None:
    sent: list[str] = []

    @nt.tool("unsafe_on_replay", approve=True, name="send what was approved")
    def send(to: str) -> str:
        sent.append(to)
        return to

    def work() -> str:
        with nt.run("r", store=path), nt.step("s"):
            to = nt.ask("To whom?", options=["ann", "bob"])
            note = nt.ask("With which words?", returns=list[str])
            return f"{send(to)} {note}"

    with pytest.raises(nt.errors.QuestionOpen) as asked:
        work()
    reviews = nt.Reviews(path)
    assert asked.value.review_id is not None
    with pytest.raises(nt.errors.UsageError, match="Choose one of: ann, bob, answer, abort"):
        reviews.decide(asked.value.review_id, "eve", by="me")
    reviews.decide(asked.value.review_id, "ann", by="me")
    with pytest.raises(nt.errors.QuestionOpen) as asked:
        work()
    reviews.decide(str(asked.value.review_id), "answer", by="me", result=["Hello"])
    with pytest.raises(nt.errors.ApprovalNeeded) as needed:
        work()
    with pytest.raises(nt.errors.UsageError, match="needs why="):
        reviews.decide(str(needed.value.review_id), "reject", by="me")
    reviews.decide(str(needed.value.review_id), "approve", by="me")
    assert work() == "ann ['Hello']"
    assert sent == ["ann"]
    assert reviews.open() == []
