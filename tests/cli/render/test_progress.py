"""Does progress show what happens, and never decide what is done?"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

import nottwice as nt
from nottwice.cli.render import progress
from nottwice.cli.render.progress import show_failure, watched
from nottwice.engine import said
from nottwice.model.call import CallIdentity
from nottwice.model.run import RunStatus, StepRecord, StepStatus
from nottwice.store.memory import MemoryStore
from tests.fakes import Host


@nt.tool("pure")
def progress_look(x: int) -> int:
    return x


def looping() -> nt.Graph[dict[str, Any]]:
    flow = nt.Graph("progress", version="1.0.0")

    @flow.node(then={"again": "look", "out": nt.END})
    def look(state: dict[str, Any]) -> Any:
        with nt.step("inner"):
            progress_look(state.get("seen", 0))
            progress_look(state.get("seen", 0))
        seen = state.get("seen", 0) + 1
        return nt.goto("again" if seen < 2 else "out", {"seen": seen})

    return flow


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is shown, without the seconds."""
    return [line.partition("  0.")[0] for line in capsys.readouterr().err.splitlines()]


def test_visits_are_told_apart_and_steps_inside_belong_to_their_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with nt.Ledger(":memory:") as ledger, watched("r", title="It goes.", on_wait=lambda: None):
        looping().run("r", {}, store=ledger)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("  0.")[0] for line in lines] == [
        "It goes.",
        "  begin   look",
        "  done    look",
        "  begin   look, visit 2",
        "  done    look, visit 2",
    ]
    assert lines[2].endswith(", 2 calls, 1 replayed")


def test_nodes_of_branches_have_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    flow = nt.Graph("progress-fan", version="1.0.0")
    flow.node(name="start", then=["left", "right"], join="meet")(lambda state: None)
    for name in ("left", "right", "meet"):
        flow.node(name=name)(lambda state: None)
    with nt.Ledger(":memory:") as ledger, watched("r", title="It goes.", on_wait=lambda: None):
        flow.run("r", {}, store=ledger)
    lines = shown(capsys)
    assert "  done    left, branch 0" in lines
    assert "  done    right, branch 1" in lines
    assert not any("[" in line for line in lines)


def test_a_run_that_waits_says_so_and_is_resumed(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = nt.Graph("progress", version="1.0.0")

    @flow.node
    def hear(state: dict[str, Any]) -> dict[str, Any]:
        return {"heard": nt.receive("news")}

    waits: list[str] = []
    with host.process() as ledger:
        with watched("r", title="", on_wait=lambda: waits.append("waits")):
            flow.run("r", {}, store=ledger)
            assert waits == ["waits"]
            ledger.send("r", "news", 7, by="ann")
            flow.run("r", {}, store=ledger)
    assert waits == ["waits"]
    assert shown(capsys) == ["  begin   hear", "  resume  hear", "  done    hear"]


def test_what_was_left_in_doubt_is_settled_outside_of_any_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    node = StepRecord("r", "pay", "g@1.0.0/1", StepStatus.IN_PROGRESS, 1, 0.0)
    identity = CallIdentity("r", "pay", "g@1.0.0/1", "refund", "0" * 64)
    run = SimpleNamespace(store=MemoryStore(), run_id="r")
    with watched("r", title="", on_wait=lambda: None):
        said.say(said.about_step(run, node), run.store)
        said.say(said.about_call(run, identity, "run", ""), run.store)
        said.say(said.about_run(run, RunStatus.WAITING, ()), run.store)
        # The run is opened again: its node is not under way any more.
        said.say(said.about_call(run, identity, "ask verify", ""), run.store)
    assert shown(capsys) == ["  begin   pay", "  settle  refund: ask verify"]


def test_a_handler_that_fails_fails_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(progress, "show_progress", gone)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    with nt.Ledger(":memory:") as ledger, watched("r", title="x", on_wait=lambda: None):
        assert looping().run("r", {}, store=ledger).status == "completed"


def test_the_log_is_afterwards_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("nottwice")
    other = logging.StreamHandler()
    before = logger.level
    logger.addHandler(other)
    logger.setLevel(logging.WARNING)
    try:
        with nt.Ledger(":memory:") as ledger, watched("r", title="", on_wait=lambda: None):
            looping().run("r", {}, store=ledger)
        assert (logger.level, other.level) == (logging.WARNING, logging.NOTSET)
        assert "decision=" not in capsys.readouterr().err
        assert other in logger.handlers
    finally:
        logger.removeHandler(other)
        logger.setLevel(before)


def test_a_failure_is_shown_with_the_users_lines_only(capsys: pytest.CaptureFixture[str]) -> None:
    flow = nt.Graph("progress", version="1.0.0")

    @flow.node
    def fail(state: dict[str, Any]) -> None:
        try:
            raise KeyError("first \x1b[31m")
        except KeyError as error:
            raise ValueError("second") from error

    with nt.Ledger(":memory:") as ledger, pytest.raises(ValueError, match="second") as caught:
        flow.run("r", {}, store=ledger)
    show_failure(caught.value)
    text = capsys.readouterr().err
    assert text.count("in fail") == 2
    assert "direct cause" in text
    assert "engine" not in text
    assert "\x1b" not in text
