"""A person who has only the ledger reads what a call is and where to check it. (P222, P224)"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from pathlib import Path
from typing import Annotated, Any

import pytest
from click.testing import CliRunner, Result

import nottwice as nt
from nottwice.cli.main import main
from nottwice.testing import forget_tools
from nottwice.views.wording import ToolTexts

HOSTILE = "7&x=y\x1b[2J"
TITLE = r"Refund 40 ct for order 7&x=y\x1b[2J with •••"
LOOK = "https://pay.example/search?order=7%26x%3Dy%1B%5B2J"


def declare() -> Any:
    forget_tools()

    @nt.tool(
        "unsafe_on_replay",
        name="worded_refund",
        title="Refund {cents} ct for order {order_id} with {card}",
        look="https://pay.example/search?order={order_id}",
    )
    def refund(order_id: str, cents: int, card: Annotated[str, nt.Secret]) -> dict[str, int]:
        """Refund an order."""
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    return refund


def work(store: Path, refund: Any) -> None:
    with nt.Ledger(store, key=bytes(range(32))) as ledger, ledger.run("r"):
        refund(HOSTILE, 40, "4111-1111-1111-1111")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of a process that was killed inside its tool."""
    monkeypatch.setenv("NOTTWICE_KEY", bytes(range(32)).hex())
    path = tmp_path / "a.db"
    refund = declare()
    pid = os.fork()
    if pid == 0:
        work(path, refund)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    return path


def look(texts: ToolTexts, tool: str) -> str | None:
    return texts.look(tool, {}, call_id="c0ffee", key=None)


def said(store: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--store", str(store)])


def test_a_doubt_shows_its_title_and_where_to_look_in_the_error_and_in_every_view(
    store: Path,
) -> None:
    with pytest.raises(nt.RunBlocked) as blocked:
        work(store, declare())
    assert str(blocked.value).startswith(TITLE)
    assert f"Check upstream: {LOOK} " in str(blocked.value)
    assert "4111" not in str(blocked.value)
    forget_tools()
    assert TITLE[:60] in said(store, "reviews").output
    review_id = json.loads(said(store, "reviews", "--json").output)["reviews"][0]["review_id"]
    for words in (("show", "r"), ("decide", review_id)):
        output = said(store, *words).output
        assert TITLE in output
        assert LOOK in output
        assert "4111" not in output
        assert "\x1b" not in output
    (review,) = json.loads(said(store, "reviews", "--json").output)["reviews"]
    calls = json.loads(said(store, "show", "r", "--json").output)["calls"]
    (call,) = [one for one in calls if one["tool"] == "worded_refund"]
    for one in (review, call):
        assert one["title"] == TITLE
        assert one["look"] == LOOK
        assert one["result_schema"] == {
            "additionalProperties": {"type": "integer"},
            "type": "object",
        }
        assert one["arguments"]["order_id"] == HOSTILE
        assert set(one["arguments"]["card"]) == {"$secret"}


def test_a_decision_without_the_code_is_checked_against_the_recorded_schema(store: Path) -> None:
    with pytest.raises(nt.RunBlocked) as blocked:
        work(store, declare())
    forget_tools()
    review_id = str(blocked.value.review_id)
    words = ("decide", review_id, "happened", "--why", "seen", "--by", "ann", "--result")
    refused = said(store, *words, '{"cents": "forty"}')
    assert refused.exit_code != 0
    assert "the result['cents'] is str, and must be integer" in refused.output
    wrong = said(store, *words, '"forty"')
    assert wrong.exit_code != 0
    assert "the result is str, and must be object" in wrong.output
    assert "Nothing was decided" in wrong.output
    assert said(store, *words, '{"cents": 40}').exit_code == 0


def test_a_tool_that_was_never_recorded_or_cannot_be_believed_has_no_words(store: Path) -> None:
    with nt.Ledger(store, key=bytes(range(32))) as ledger:
        texts = ToolTexts(ledger.store)
        assert texts.title("nobody", {}) is look(texts, "nobody") is None
        assert texts.result_schema("nobody") is None
        assert texts.title("worded_refund", {"cents": 1}) is not None
    connection = sqlite3.connect(store)
    connection.execute("UPDATE nottwice_tools SET look = 'https://evil.example'")
    connection.commit()
    connection.close()
    with nt.Ledger(store, key=bytes(range(32))) as ledger:
        assert look(ToolTexts(ledger.store), "worded_refund") is None
        (flaw,) = [one for one in ledger.store.flaws("", thorough=True) if "tools" in one]
        assert "worded_refund" in flaw
