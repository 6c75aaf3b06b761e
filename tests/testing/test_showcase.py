"""Does the showcase kill where it says, count what the shop counts, and decide what is true?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from nottwice.cli.demo import story as demo_module
from nottwice.model.call import CallStatus
from nottwice.model.review import Verb
from nottwice.reviews.queue import Case
from nottwice.testing.nursery import NurseryFailed
from nottwice.testing.showcase import (
    WAITS_FOR_A_PERSON,
    Showcase,
    ShowcaseBroken,
    ShowcaseErrand,
    ShowcaseVerdict,
    Shown,
    Way,
)
from nottwice.testing.world import Effect

AFTER_REFUND = "after the effect of refund"
AFTER_MAIL = "after the effect of send_email"
BEFORE_MAIL = "before the effect of send_email"


@pytest.fixture
def showcase(tmp_path: Path) -> Iterator[Showcase]:
    script, nursery = demo_module.AGENT, demo_module.NURSERY
    with Showcase(tmp_path, script=script, command=nursery) as showcase:
        yield showcase


def test_an_errand_survives_its_way_to_the_child(showcase: Showcase) -> None:
    errand = showcase.errand(Way.CHECKPOINT, die_at="here", intents=False)
    assert ShowcaseErrand.from_json(errand.to_json()) == errand
    assert "\n" not in errand.to_json()


def test_every_errand_is_about_an_order_of_its_own(showcase: Showcase) -> None:
    tickets = {showcase.errand(Way.NOTTWICE).ticket for _ in range(5)}
    assert len(tickets) == 5


@pytest.mark.parametrize(
    ("way", "refunds"), [(Way.NO_STATE, 2), (Way.CHECKPOINT, 2), (Way.NOTTWICE, 1)]
)
def test_one_kill_after_the_refund_doubles_it_for_all_but_one(
    showcase: Showcase, way: Way, refunds: int
) -> None:
    shown = showcase.kill_and_resume(showcase.errand(way, die_at=AFTER_REFUND))
    assert (shown.refunds, shown.mails, shown.reviews) == (refunds, 1, 0)
    assert len(set(shown.pids)) == 2


@pytest.mark.parametrize(("die_at", "already"), [(AFTER_MAIL, 1), (BEFORE_MAIL, 0)])
def test_the_person_on_call_is_shown_what_the_shop_has_and_decides(
    showcase: Showcase, die_at: str, already: int
) -> None:
    asked: list[tuple[str, int]] = []

    def on_call(case: Case, received: Sequence[Effect]) -> ShowcaseVerdict:
        asked.append((case.review.identity.tool_name, len(received)))
        verb = Verb.HAPPENED if received else Verb.DID_NOT_HAPPEN
        return ShowcaseVerdict(verb, "me", "I looked")

    errand = showcase.errand(Way.NOTTWICE, die_at=die_at)
    shown = showcase.kill_and_resume(errand, on_call)
    assert asked == [("send_email", already)]
    assert (shown.mails, shown.reviews, len(shown.pids)) == (1, 1, 3)
    assert showcase.cases(errand) == []
    assert {row.status for row in showcase.calls(errand)} == {CallStatus.DONE}


def test_a_wrong_answer_has_its_consequence(showcase: Showcase) -> None:
    errand = showcase.errand(Way.NOTTWICE, die_at=AFTER_MAIL)
    wrong = ShowcaseVerdict(Verb.DID_NOT_HAPPEN, "me", "I did not look")
    shown = showcase.kill_and_resume(errand, lambda case, received: wrong)
    assert (shown.mails, shown.done_twice) == (2, 1)


def test_a_run_can_be_left_waiting(showcase: Showcase) -> None:
    errand = showcase.errand(Way.NOTTWICE, die_at=AFTER_MAIL)
    showcase.kill(errand)
    assert showcase.start_again(errand).returncode == WAITS_FOR_A_PERSON
    (case,) = showcase.cases(errand)
    assert case.review.identity.workflow_id == errand.ticket


@pytest.mark.deep(part="sweeps")
@pytest.mark.parametrize(("intents", "done_twice"), [(True, 0), (False, 2)])
def test_a_sweep_sees_duplicates_exactly_when_intents_are_missing(
    showcase: Showcase, intents: bool, done_twice: int
) -> None:
    points = [AFTER_REFUND, AFTER_MAIL]
    assert set(points) < set(showcase.points(Way.NOTTWICE))
    shown = list(showcase.sweep(points, Way.NOTTWICE, intents=intents))
    assert {one.errand.die_at for one in shown} == set(points)
    assert sum(one.done_twice for one in shown) == done_twice
    assert sum(one.lost for one in shown) == 0


def test_an_agent_that_does_not_die_is_an_error(showcase: Showcase) -> None:
    with pytest.raises(ShowcaseBroken, match="was not killed somewhere else"):
        showcase.kill(showcase.errand(Way.NOTTWICE, die_at="somewhere else"))


def test_an_agent_that_fails_is_an_error_with_its_own_words(showcase: Showcase) -> None:
    showcase.world.stop()
    with pytest.raises(ShowcaseBroken, match="ConnectionRefusedError"):
        showcase.start_again(showcase.errand(Way.NO_STATE))


def test_points_that_cannot_be_told_apart_are_an_error(tmp_path: Path) -> None:
    code = (
        "from nottwice.testing.nursery import serve\n"
        f"serve(lambda text: print({json.dumps(['here', 'here'])!r}) or 0)\n"
    )
    command = [sys.executable, "-c", code]
    with (
        Showcase(tmp_path, script=demo_module.AGENT, command=command) as showcase,
        pytest.raises(ShowcaseBroken, match="the same name"),
    ):
        showcase.points(Way.NOTTWICE)


def test_a_sweep_that_is_left_ends_its_agents_and_starts_no_other(showcase: Showcase) -> None:
    sweep = showcase.sweep([AFTER_REFUND] * 6, Way.NOTTWICE)
    next(sweep)
    sweep.close()
    sent = showcase.world.count()
    with pytest.raises(NurseryFailed):
        showcase.start_again(showcase.errand(Way.NO_STATE))
    assert showcase.world.count() == sent


@pytest.mark.parametrize(
    ("refunds", "mails", "done_twice", "lost"),
    [(1, 1, 0, 0), (2, 1, 1, 0), (3, 2, 3, 0), (0, 1, 0, 1), (0, 0, 0, 2), (0, 2, 1, 1)],
)
def test_one_too_many_never_makes_up_for_one_too_few(
    refunds: int, mails: int, done_twice: int, lost: int
) -> None:
    errand = ShowcaseErrand(
        way=Way.NOTTWICE, order_id=7, shop_url="", script="", ledger="", checkpoint=""
    )
    shown = Shown(errand=errand, pids=(1, 2), refunds=refunds, mails=mails, reviews=0)
    assert (shown.done_twice, shown.lost) == (done_twice, lost)
