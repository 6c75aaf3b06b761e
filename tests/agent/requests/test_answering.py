"""Is an answer of the declared type, and is one that is not asked for again?"""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

import nottwice as nt
from nottwice.agent.requests.answering import AnswerType, WrongAnswer
from tests.agent.workshop import Workshop


class Invoice(BaseModel):
    order_id: int
    cents: int = Field(ge=0)
    due: datetime.date


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


GOOD = '{"order_id": 7, "cents": 4000, "due": "2026-12-24"}'
INVOICE = Invoice(order_id=7, cents=4000, due=datetime.date(2026, 12, 24))


@pytest.mark.parametrize(
    "wrong",
    [
        "It costs 40.",
        '{"order_id": 7}',
        '{"order_id": 7, "cents": -1, "due": "2026-12-24"}',
        '{"order_id": 7, "cents": NaN, "due": "2026-12-24"}',
        '{"order_id": 7, "cents": 1e999, "due": "2026-12-24"}',
        f"{GOOD} and {GOOD}",
        "[" * 5_000,
    ],
)
def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason(wrong: str) -> None:
    shop = Workshop([wrong, GOOD], answer=Invoice)
    outcome = shop.finish()
    assert outcome.state.value == INVOICE
    assert outcome.state.answer == GOOD
    assert len(shop.world.requests) == 2
    first, second = shop.world.requests
    assert '"order_id"' in first.system, "the model is told the schema"
    remark = second.messages[-1].text
    assert remark.startswith("Your answer ")
    assert '"order_id"' in remark


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (Invoice, GOOD, INVOICE),
        (Invoice, f"Here it is:\n```json\n{GOOD}\n```", INVOICE),
        (Point, '{"x": 3}', Point(3)),
        (list[int], "[1, 2]", [1, 2]),
        (str, '"yes"', "yes"),
        (dict[str, Any], '{"a": [null]}', {"a": [None]}),
    ],
)
def test_the_outcome_has_the_answer_in_its_type(
    annotation: Any, text: str, value: Any, tmp_path: Path
) -> None:
    def agent() -> nt.Agent:
        provider = nt.providers.scripted([text])
        return nt.Agent("a", version="1.0.0", provider=provider, answer=annotation)

    store = tmp_path / "a.db"
    live = agent().run("r", goal="g", store=store)
    assert live.state.value == value
    assert type(live.state.value) is type(value)
    replayed = agent().outcome("r", store=store)
    assert replayed.state.value == value
    assert replayed == live


def test_a_model_that_never_answers_in_the_type_is_stopped_by_its_budget() -> None:
    shop = Workshop(lambda request: "no", answer=Invoice)
    outcome = shop.finish()
    assert outcome.status == "waiting"
    assert outcome.reviews[0].kind.value == "budget"
    assert outcome.state.value is None


def test_a_condition_sees_the_answer_and_a_new_round_has_a_new_one() -> None:
    def dear(state: nt.agent.RunState) -> bool:
        return bool(state.value.cents > 100)

    cheap = '{"order_id": 7, "cents": 1, "due": "2026-12-24"}'
    shop = Workshop([cheap, GOOD, "no", cheap, GOOD], answer=Invoice, done_when=[dear])
    assert shop.finish().state.value == INVOICE
    outcome = shop.finish(goal=None, message="Once more.")
    assert outcome.state.value == INVOICE
    assert len(shop.world.requests) == 5


def test_a_type_that_has_changed_since_shows_what_is_stored(tmp_path: Path) -> None:
    def agent(answer: Any) -> nt.Agent:
        provider = nt.providers.scripted([GOOD])
        return nt.Agent("a", version="1.0.0", provider=provider, answer=answer)

    store = tmp_path / "a.db"
    agent(Invoice).run("r", goal="g", store=store)
    assert agent(Point).outcome("r", store=store).state.value["order_id"] == 7
    assert agent(None).outcome("r", store=store).state.value["order_id"] == 7


def test_the_answer_of_a_worker_reaches_its_parent_in_its_type(tmp_path: Path) -> None:
    provider = nt.providers.scripted([GOOD])
    worker = nt.Agent("biller", version="1.0.0", provider=provider, answer=Invoice)
    flow: nt.Graph[Any] = nt.Graph("flow", version="1.0.0")

    @flow.node
    def bill(state: dict[str, Any]) -> dict[str, Any]:
        invoice = nt.spawn(worker, {"goal": "bill it"}).state.value
        assert isinstance(invoice, Invoice)
        return {"cents": invoice.cents}

    assert flow.run("f", {}, store=tmp_path / "a.db").state == {"cents": 4000}


@pytest.mark.parametrize("answer", [type(lambda: None), 7])
def test_a_type_that_no_model_could_be_asked_for_is_refused(answer: Any) -> None:
    with pytest.raises(nt.errors.UsageError, match="cannot be asked for"):
        nt.Agent("a", version="1.0.0", provider=nt.providers.scripted(["x"]), answer=answer)


def test_what_is_wrong_is_told_by_its_path() -> None:
    with pytest.raises(WrongAnswer, match=r"\$\.cents: Input should be greater"):
        AnswerType("a", Invoice).read('{"order_id": 7, "cents": -1, "due": "2026-12-24"}')
