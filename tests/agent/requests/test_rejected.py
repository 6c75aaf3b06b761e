"""Does a file that a model API rejects end a conversation? (P236)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.provider import ModelRequest
from nottwice.testing import FakeModels, Fault, Turn
from tests.agent.workshop import Workshop
from tests.fakes import another_program

GOOD = b"\x89PNG\r\n\x1a\n" + b"the picture of a cat" * 20
NOT_SHOWN = "is not shown: the API rejected the request"


def picture(folder: Path, name: str, content: bytes = b"not a png") -> nt.agent.File:
    (folder / name).write_bytes(content)
    return nt.agent.File(folder / name)


def agent(provider: Any, *tools: Any) -> nt.Agent:
    return nt.Agent("seeing", version="1.0.0", provider=provider, tools=tools)


@pytest.mark.parametrize("said_in", ["goal", "message"])
def test_a_rejected_file_is_left_out_once_the_user_has_said_something_else(
    fake_models: FakeModels, tmp_path: Path, said_in: str
) -> None:
    fake_models.will_say("One.", "Two.", "Three.")
    seeing, store = agent(fake_models.anthropic()), str(tmp_path / "a.db")
    shown: Any = ["Look at this.", picture(tmp_path, "scan.png")]
    told: Any = {"goal": shown} if said_in == "goal" else {"goal": "look", "message": shown}
    for _ in range(2):
        with pytest.raises(nt.Permanent, match=r"first to show .*scan\.png.*send a message"):
            seeing.run("r", **told, store=store)
    outcome = seeing.run("r", message="Forget the scan.", store=store)
    assert (outcome.status, outcome.state.answer) == ("completed", "One.")
    asked = str(fake_models.requests[-1].body)
    assert "Forget the scan." in asked
    assert f"The file scan.png belongs here, and {NOT_SHOWN}" in asked
    assert seeing.run("r", message="And now?", store=store).state.answer == "Two."
    good: Any = ["This one.", picture(tmp_path, "cat.png", GOOD)]
    assert seeing.run("r", message=good, store=store).state.answer == "Three."
    assert "base64" in str(fake_models.requests[-1].body)
    assert [one.status for one in fake_models.requests] == [400, 400, 200, 200, 200]


def test_a_file_that_a_tool_made_and_the_api_rejects_is_left_out(
    fake_models: FakeModels, tmp_path: Path
) -> None:
    @nt.tool("pure")
    def shot(k: int) -> nt.agent.File:
        """Take a picture."""
        return picture(tmp_path, "shot.png")

    fake_models.will_say({"shot": {"k": 1}}, "Two.", "Three.")
    seeing, store = agent(fake_models.anthropic(), shot), nt.Ledger(":memory:")
    with pytest.raises(nt.Permanent, match=r"shot\.png"):
        seeing.run("r", goal="look", store=store)
    assert seeing.run("r", message="Go on without it.", store=store).state.answer == "Two."
    assert seeing.run("r", message="And now?", store=store).state.answer == "Three."
    assert NOT_SHOWN in str(fake_models.requests[-1].body)


def test_a_file_of_a_request_that_was_answered_is_still_shown(
    fake_models: FakeModels, tmp_path: Path
) -> None:
    fake_models.will_say("A cat.", "Well.")
    seeing, store = agent(fake_models.anthropic()), nt.Ledger(":memory:")
    seeing.run("r", goal=["What?", picture(tmp_path, "cat.png", GOOD)], store=store)
    with pytest.raises(nt.Permanent):
        seeing.run("r", message=["And?", picture(tmp_path, "scan.png")], store=store)
    again: Any = ["This.", picture(tmp_path, "dog.png", GOOD)]
    assert seeing.run("r", message=again, store=store).state.answer == "Well."
    assert str(fake_models.requests[-1].body).count("'base64'") == 2


def test_what_is_left_out_stays_left_out_whatever_fails_next(
    fake_models: FakeModels, tmp_path: Path
) -> None:
    fake_models.will_say("One.")
    seeing, store = agent(fake_models.anthropic()), nt.Ledger(":memory:")
    with pytest.raises(nt.Permanent):
        seeing.run("r", goal=["Look.", picture(tmp_path, "scan.png")], store=store)
    fake_models.will_fail(Fault(status=401, message="invalid x-api-key"))
    with pytest.raises(nt.Permanent, match="401"):
        seeing.run("r", message="Forget it.", store=store)
    assert seeing.run("r", store=store).state.answer == "One."


def test_a_key_that_is_wrong_is_no_reason_to_leave_a_file_out(
    fake_models: FakeModels, tmp_path: Path
) -> None:
    fake_models.will_say("A cat.")
    fake_models.will_fail(Fault(status=401, message="invalid x-api-key"))
    seeing, store = agent(fake_models.anthropic()), nt.Ledger(":memory:")
    with pytest.raises(nt.Permanent, match=r"401 (?!.*first to show)"):
        seeing.run("r", goal=["What?", picture(tmp_path, "cat.png", GOOD)], store=store)
    assert seeing.run("r", message="Try again.", store=store).state.answer == "A cat."
    assert NOT_SHOWN not in str(fake_models.requests[-1].body)


def test_a_part_of_a_reply_that_the_api_does_not_take_back_is_left_out(
    fake_models: FakeModels,
) -> None:
    part = {"type": "hologram", "rays": 7}
    fake_models.will_say(Turn("Hi.", {"raw": part}), "Two.", "Three.")
    asked, store = agent(fake_models.anthropic()), nt.Ledger(":memory:")
    assert asked.run("r", goal="x", store=store).state.answer == "Hi."
    with pytest.raises(nt.Permanent, match="a part of the model's reply of the kind 'hologram'"):
        asked.run("r", message="And?", store=store)
    assert asked.run("r", message="Go on.", store=store).state.answer == "Two."
    assert asked.run("r", message="Well?", store=store).state.answer == "Three."


def picky(request: ModelRequest) -> Any:
    """A model whose API takes no pictures."""
    if any(message.files for message in request.messages):
        raise nt.Permanent("answered with 400: no pictures")
    return f"Turn {request.turn}."


def test_killed_anywhere_after_a_message_it_continues_without_the_file(tmp_path: Path) -> None:
    file = picture(tmp_path, "scan.png")

    def rejected() -> Workshop:
        shop = Workshop(picky)
        with pytest.raises(nt.Permanent, match="send a message"):
            shop.run(goal=["Look.", file])
        return shop

    whole = rejected()
    expected = whole.finish(goal=None, message="Forget it.").state
    assert expected.answer == "Turn 1."
    for point in range(1, whole.host.points + 1):
        with another_program():
            shop = rejected()
            assert shop.run(goal=None, message="Forget it.", dies_at=point) is None
            state = shop.finish(goal=None, message="Forget it.").state
        assert state.plain["transcript"] == expected.plain["transcript"], point
        assert state.plain["left_out"] == expected.plain["left_out"], point
