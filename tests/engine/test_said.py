"""Does the log say every decision on one line, and carry it as data for progress displays?"""

from __future__ import annotations

import json
import logging

import pytest

import nottwice as nt
from nottwice.cli.render.json_log import JsonLines
from nottwice.engine.said import BEGIN, DONE, FAILED, REPLAY, RESUME, Said
from tests.fakes import Host


def heard(caplog: pytest.LogCaptureFixture) -> list[Said]:
    found = (getattr(record, "said", None) for record in caplog.records)
    return [said for said in found if isinstance(said, Said)]


def test_a_step_says_how_it_began_and_how_it_ended(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nottwice")
    with host.process() as ledger:
        with pytest.raises(KeyError), ledger.run("r"), nt.step("s"):
            raise KeyError("x")
        with ledger.run("r"), nt.step("s"):
            pass
        with ledger.run("r"), nt.step("s"):
            pass
    said = [(one.step, one.decision) for one in heard(caplog) if one.visit is not None]
    assert said == [
        ("s", BEGIN),
        ("s", FAILED),
        ("s", RESUME),
        ("s", DONE),
        ("s", REPLAY),
    ]
    assert "error='KeyError'" in caplog.text


def test_a_run_says_what_it_waits_for_when_it_is_left(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nottwice")
    with host.process() as ledger:
        with pytest.raises(nt.RunWaits), ledger.run("r"), nt.step("s"):
            nt.receive("paid' event='forged")
    last = heard(caplog)[-1]
    assert (last.run_id, last.decision) == ("r", "leave the run waiting")
    assert caplog.messages[-1].endswith("""event="paid' event='forged\"""")
    assert caplog.messages[-1].isprintable()


def test_a_call_is_carried_as_data(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    @nt.tool("pure")
    def said_look(x: int) -> int:
        return x

    caplog.set_level(logging.INFO, "nottwice")
    with host.process() as ledger, ledger.run("r"), nt.step("s"):
        said_look(1)
    (said,) = [one for one in heard(caplog) if one.tool is not None]
    assert (said.tool, said.step, said.visit) == ("said_look", "s", None)
    assert said.call_id is not None
    assert f"call={said.call_id[:12]} " in caplog.text


def test_no_record_is_built_that_no_handler_hears(
    host: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("there is no handler")

    caplog.set_level(logging.WARNING, "nottwice")
    monkeypatch.setattr("nottwice.engine.said.say", refuse)
    with host.process() as ledger, ledger.run("r"), nt.step("s"):
        pass


ATTACKS = [
    "a\nrun='forged' decision='run'",
    "a\r\x1b[2K\x1b]0;title\x07",
    "\u202eevil\u2066\u200f",
    "a\0b\x85c\u2028d\x9b2J",
    "\udcff half a character",
    "100 %s %d %(name)s",
]


@pytest.mark.parametrize("text", ATTACKS, ids=ascii)
def test_whatever_any_room_logs_is_one_printable_line(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The one place where it belongs: no room has to think of it, and none can forget it."""
    caplog.set_level(logging.DEBUG, "nottwice")
    log = logging.getLogger("nottwice")
    log.warning(text)
    log.warning("the ledger says: %s", text)
    log.info("%s", Said(ledger="l", run_id="r", decision="run", tool=text, detail=text))
    assert len(caplog.messages) == 3
    assert all(line.isprintable() for line in caplog.messages)
    assert all(len(line.splitlines()) == 1 for line in caplog.text.splitlines())
    assert len(caplog.text.splitlines()) == 3
    if text.isprintable():
        assert caplog.messages[0] == text


@pytest.mark.parametrize("text", ATTACKS, ids=ascii)
def test_a_structured_record_is_one_line_too(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.LogRecord("nottwice", logging.INFO, "", 1, "%s", (text,), None)
    record.said = Said(ledger=text, run_id=text, decision=text, step=text, tool=text, detail=text)
    JsonLines().emit(record)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["run_id"] == text


def test_a_record_that_cannot_be_built_disturbs_no_caller(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    # pytest keeps one handler for all tests, so its level must come back.
    monkeypatch.setattr(caplog.handler, "level", logging.CRITICAL)
    logging.getLogger("nottwice").warning("%d", "no number")


class _Broken(logging.Handler):
    """A handler that raises, which handlers must not do."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("the log is down")


def test_a_log_handler_that_raises_harms_no_run(
    host: Host, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    @nt.tool("unsafe_on_replay")
    def said_send(to: str) -> str:
        return f"sent to {to}"

    def fail(event: nt.events.Event) -> None:
        raise OSError("no reader")

    caplog.set_level(logging.INFO, "nottwice")
    log, broken = logging.getLogger("nottwice"), _Broken()
    log.addHandler(broken)
    try:
        with host.process() as ledger:
            stop = ledger.on(fail)
            with ledger.run("r"), nt.step("s"):
                assert said_send("ann") == "sent to ann"
            stop()
        log.warning("any room writes this")
    finally:
        log.removeHandler(broken)
    assert host.data.runs["r"].status.value == "completed"
    assert "the log is down" in capsys.readouterr().err
