"""A call took effect and its result was not kept: the annotation, verify or a person gives it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest

import nottwice as nt
from nottwice.errors import UsageError
from nottwice.model.call import ResultKind
from nottwice.model.review import ReviewKind, ReviewStatus, Verb
from nottwice.model.run import RunStatus
from tests.fakes import Host


class Shop:
    """Ships orders, and returns what nothing can keep unless its annotation says how."""

    def __init__(self) -> None:
        self.shipped: list[int] = []

    def ship(self, order: int) -> tuple[int, str]:
        self.shipped.append(order)
        return order, "shipped"


@pytest.fixture
def shop() -> Shop:
    return Shop()


def declare(shop: Shop, returns: Any = None, **declared: Any) -> Any:
    def ship(order):  # type: ignore[no-untyped-def]
        return shop.ship(order)

    if returns is not None:
        ship.__annotations__["return"] = returns
    return nt.tool("unsafe_on_replay", **declared)(ship)


def work(host: Host, ship: Any) -> object:
    with host.process() as ledger, ledger.run("r"):
        return ship(7)


def lose(host: Host, ship: Any) -> nt.errors.ResultNotKept:
    """Ship, and ask for the result once more in another process."""
    assert work(host, ship) == (7, "shipped")
    with pytest.raises(nt.errors.ResultNotKept) as caught:
        work(host, ship)
    return caught.value


def test_the_run_waits_for_a_person_who_gives_the_result(host: Host, shop: Shop) -> None:
    ship = declare(shop)
    error = lose(host, ship)
    (review,) = host.open_reviews
    assert (review.kind, review.review_id) == (ReviewKind.RESULT, error.review_id)
    assert host.data.runs["r"].status is RunStatus.WAITING
    assert error.about["type"] == "tuple"  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(nt.errors.ResultNotKept) as again:
            work(host, ship)
        assert again.value.review_id == error.review_id
    host.decide(Verb.HAPPENED, result=[7, "shipped"])
    for _ in range(2):
        assert work(host, ship) == [7, "shipped"]
    assert shop.shipped == [7]
    assert host.calls[0].settled_by == "decision by ann"
    assert [one.status for one in host.data.reviews.values()] == [ReviewStatus.USED]


def test_a_result_that_does_not_fit_is_asked_for_again(host: Host, shop: Shop) -> None:
    class Unkept:
        pass

    @nt.tool("unsafe_on_replay")
    def ship(order: int) -> dict[str, int]:
        shop.ship(order)
        return {"order": Unkept()}  # type: ignore[dict-item]

    work(host, ship)
    with pytest.raises(nt.errors.ResultNotKept):
        work(host, ship)
    host.decide(Verb.HAPPENED, result=["no", "dict"])
    with pytest.raises(nt.errors.ResultNotKept):
        work(host, ship)
    assert any("does not fit" in item.text for item in host.data.evidence)
    host.decide(Verb.HAPPENED, result={"order": 7})
    assert work(host, ship) == {"order": 7}
    assert shop.shipped == [7]


def test_a_decision_made_meanwhile_is_used_in_the_living_process(host: Host, shop: Shop) -> None:
    ship = declare(shop)
    work(host, ship)
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.ResultNotKept):
            ship(7)
        host.decide(Verb.HAPPENED, result="by hand")
        assert ship(7) == "by hand"
    assert shop.shipped == [7]


def test_an_annotation_that_is_added_later_brings_the_tuple_back(host: Host, shop: Shop) -> None:
    ship = declare(shop)
    lose(host, ship)
    del ship
    annotated = declare(shop, tuple[int, str])
    for _ in range(2):
        assert work(host, annotated) == (7, "shipped")
    assert shop.shipped == [7]
    assert [one.closed_by for one in host.data.reviews.values()] == ["the return annotation"]


@pytest.mark.parametrize("returns", [list[int | str], set[int | str], dict[str, int], Any])
def test_an_annotation_of_another_type_brings_nothing_back(
    host: Host, shop: Shop, returns: Any
) -> None:
    ship = declare(shop)
    lose(host, ship)
    del ship
    with pytest.raises(nt.errors.ResultNotKept):
        work(host, declare(shop, returns))
    assert shop.shipped == [7]


def test_verify_that_finds_it_gives_the_result_without_a_person(host: Host, shop: Shop) -> None:
    found = [nt.cannot_tell(), nt.happened([7, "found"])]
    ship = declare(shop, verify=lambda call: found.pop(0))
    error = lose(host, ship)
    assert error.review_id is not None
    for _ in range(2):
        assert work(host, ship) == [7, "found"]
    assert host.calls[0].settled_by == "verify"
    assert [one.closed_by for one in host.data.reviews.values()] == ["verify"]
    assert shop.shipped == [7]


def test_a_recorded_result_that_the_annotation_no_longer_reads_is_asked_for_too(
    host: Host, shop: Shop
) -> None:
    ship = declare(shop, tuple[int, str])
    work(host, ship)
    del ship
    changed = declare(shop, tuple[int, str, bool])
    with pytest.raises(nt.errors.ResultNotKept, match="no longer fits its type"):
        work(host, changed)
    del changed
    # The old annotation still reads it, and no person needs to answer.
    assert work(host, declare(shop, tuple[int, str])) == (7, "shipped")
    assert host.open_reviews == []
    assert shop.shipped == [7]


def test_a_secret_result_is_never_given_by_a_person_and_may_come_from_verify(host: Host) -> None:
    made: list[str] = []
    found = [nt.cannot_tell(), nt.cannot_tell(), nt.happened("hunter2"), nt.happened("hunter2")]

    @nt.tool("unsafe_on_replay", verify=lambda call: found.pop(0))
    def make_token(name: str) -> Annotated[str, nt.Secret]:
        made.append(name)
        return "hunter2"

    def use() -> str:
        with host.process() as ledger, ledger.run("r"):
            token: str = make_token("ann")
            return token

    assert use() == "hunter2"
    with pytest.raises(nt.errors.ResultNotKept):
        use()
    with pytest.raises(UsageError, match="never written to the ledger"):
        host.decide(Verb.HAPPENED, result="hunter2")
    with pytest.raises(nt.errors.ResultNotKept):
        use()
    assert use() == "hunter2"
    assert made == ["ann"]
    (row,) = host.calls
    assert row.result is not None
    assert row.result.kind is ResultKind.NOT_KEPT
    assert "hunter2" not in repr(host.data)


@pytest.mark.parametrize("store", ["agent.db", "file:runs"])
def test_every_store_on_disk_keeps_the_result_that_a_person_gave(
    tmp_path: Path, shop: Shop, store: str
) -> None:
    ship = declare(shop)
    place = f"file:{tmp_path}/runs" if store.startswith("file:") else str(tmp_path / store)

    def once() -> object:
        with nt.run("r", store=place):
            return ship(7)

    assert once() == (7, "shipped")
    with pytest.raises(nt.errors.ResultNotKept) as caught:
        once()
    assert caught.value.review_id is not None
    with nt.Reviews(place) as reviews:
        reviews.decide(
            caught.value.review_id, "happened", by="ann", why="in the log", result=[7, "given"]
        )
    assert once() == [7, "given"]
    assert shop.shipped == [7]
