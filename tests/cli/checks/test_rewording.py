"""Does `nottwice check` name tools of an agent that other words would make act again? (P202)"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.workplace import Ended, Workplace

MODULE = """
from typing import Literal
import nottwice as nt

def look(call: nt.Call) -> nt.Verification:
    return nt.cannot_tell() if call.id else nt.cannot_tell()

{tool}
def act({parameters}) -> str:
    return "done"

{agent}
"""
UNSAFE = '@nt.tool("unsafe_on_replay", verify=look{more})'
AGENT = """
agent = nt.Agent("clerk", version="1.0.0", provider=nt.providers.scripted(["done"]), tools=[act])
"""


def check(
    empty: Workplace, parameters: str, *, tool: str = UNSAFE, more: str = "", agent: str = AGENT
) -> Ended:
    source = MODULE.format(tool=tool.format(more=more), parameters=parameters, agent=agent)
    (empty.folder / "desk.py").write_text(source)
    return empty.shell("nottwice check desk.py --json")


def findings(ended: Ended) -> list[dict[str, Any]]:
    assert ended.exit_code == 0, ended
    return list(json.loads(ended.stdout)["findings"])


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize(
    ("parameters", "wordy", "suggested"),
    [
        ("to: str, order_id: int, text: str", "text", "once_per=('to', 'order_id')"),
        ("to: str, subject: str, body: str", "subject or body", "once_per=('to',)"),
        ("issue: int, comment: str | None = None", "comment", "once_per=('issue',)"),
        ("ticket: int, mailBody: str", "mailBody", "once_per=('ticket',)"),
        ("message: str", "message", "a parameter that says what it is about"),
        ("to: str, content", "content", "once_per=('to',)"),
    ],
)
def test_an_unsafe_tool_of_an_agent_that_takes_a_text_is_told_what_to_say(
    empty: Workplace, parameters: str, wordy: str, suggested: str
) -> None:
    (found,) = findings(check(empty, parameters))
    assert found["level"] == "warning"
    assert found["text"].startswith("tool 'act' of clerk@1.0.0: a model that writes another")
    assert wordy in found["text"]
    assert suggested in found["fix"]
    assert found["place"].endswith("desk.py:8")


@pytest.mark.sampled(part="sweeps", keep=3)
@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        ("order_id: int, cents: int", {}),
        ("order_id: int, reason: Literal['late', 'broken']", {}),
        ("order_id: int, message: int", {}),
        ("order_id: int, context: str", {}),
        ("to: str, text: str", {"more": ", once_per=('to',)"}),
        ("to: str, text: str", {"more": ", once_per=('to', 'text')"}),
        ("to: str, text: str", {"more": ", volatile=('text',)"}),
        ("path: str, text: str", {"more": ", repeat='free'"}),
        ("to: str, text: str", {"agent": ""}),
        ("to: str, text: str", {"tool": '@nt.tool("pure")'}),
    ],
)
def test_what_a_model_does_not_write_or_what_is_said_already_is_not_suggested(
    empty: Workplace, parameters: str, options: dict[str, str]
) -> None:
    assert findings(check(empty, parameters, **options)) == []


def test_it_is_shown_to_people_and_what_was_said_is_listed(empty: Workplace) -> None:
    check(empty, "to: str, text: str")
    shown = empty.shell("nottwice check desk.py").stdout
    assert "once_per=('to',)" in shown
    check(empty, "to: str, text: str", more=", once_per=('to',), repeat='never', parallel=True")
    shown = empty.shell("nottwice check desk.py").stdout
    for line in ("done once for each", "repeat by a model", "order in a reply"):
        assert line in shown
