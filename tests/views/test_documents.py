"""Does every JSON document hold exactly the fields that are documented?"""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
from typing import Any

import pytest

import nottwice as nt
from nottwice.cli.smoke.trials import show_smoke_json
from nottwice.testing.smoke import KeyFinding, Report, Trial
from nottwice.views.outcomes import NotifyOutcome, Served, SettingsWritten
from nottwice.views.shape import to_plain
from nottwice.worker.presence import Presence
from tests.cli.reference_page import DOCUMENTS, FIELDS
from tests.cli.workplace import HOSTILE, Workplace, copy_workplace

# Where a documented shape is found inside a document: the field that holds it, or a list of it.
SHAPES = {
    "run": "run",
    "runs": "run",
    "steps": "step",
    "call": "call",
    "calls": "call",
    "attempts": "attempt",
    "evidence": "evidence",
    "failure": "failure",
    "review": "review",
    "reviews": "review",
    "rechecked": "rechecked",
    "tools": "tool",
    "waits": "wait",
    "openings": "opening",
    "event": "event",
    "nodes": "node",
    "arrows": "arrow",
    "checkpoints": "checkpoint",
    "events": "told",
    "children": "run",
    "entries": "entry",
    "trials": "trial",
    "versions": "version",
    "changes": "change",
    "worker": "worker",
    "workers": "known worker",
    "error": "error",
    "migrations": "migration",
    "removed_runs": "removed run",
    "format": "format",
    "agent": "agent",
    "activity": "activity",
    "by_tool": "tool activity",
    "costs": "tool cost",
    "graphs": "ready graph",
}
_NOTIFIED = NotifyOutcome(
    ledger="agent.db", sent=0, notices=0, moot=0, held=0, failed=0, given_up=0, again=0, problems=()
)
MAIL = '{"id": "m", "words": 1}'
CHAT = """
import nottwice as nt

agent = nt.Agent("chat", version="1.0.0", provider=nt.providers.scripted(["Hello.", "Bye."]))
app = nt.App(graphs=[agent])
"""


@pytest.fixture(scope="module")
def documents(killed: Workplace, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One document of every command, from a ledger that has something of every kind."""
    place = copy_workplace(killed, tmp_path_factory.mktemp("documents") / "place")
    place.agent("drift", "drift-1")
    place.agent("desk", "desk-1")
    review_id = place.review_of("ticket-9")
    with nt.Ledger(place.store) as ledger:
        Presence(ledger, ["order@1.0.0"], concurrency=8).renew()

    def printed(words: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(
            place.shell(f"nottwice {words} --store agent.db --json").stdout
        )
        return document

    return {
        "": printed(""),
        "runs": printed("runs"),
        "show": printed("show ticket-8"),
        "show, failed": printed("show drift-1"),
        "reviews": printed("reviews"),
        "decide, without a verb": printed(f"decide {review_id}"),
        "decide": printed(f"decide {review_id} happened --result '{MAIL}' --why x"),
        "report": printed("report"),
        "workers": printed("workers"),
        "notify": to_plain(_NOTIFIED),
        "serve": to_plain(Served(ledger="a.db", ledgers=("a.db",), decide=None, look="http://h/")),
        "recheck": printed("recheck --app agent"),
        "send": printed("send desk-1 paid --data 7"),
        "check": printed("check agent.py"),
        "check, with --smoke": _smoke_document(),
        **_graph_documents(place),
        "error": printed("show nothing"),
        **_keeping_documents(place),
        **_sealing_documents(place),
        **_client_documents(place),
    }


def _keeping_documents(place: Workplace) -> dict[str, Any]:
    """The same of a ledger that has grown old."""
    with contextlib.closing(sqlite3.connect(place.store)) as ledger:
        ledger.execute("UPDATE nottwice_runs SET updated_at = 0 WHERE workflow_id = 'done-1'")
        ledger.commit()
    lines = {"gc": "gc --unknown-tools", "backup": "backup copy.db"}
    printed = place.lines(*(f"{line} --store agent.db --json" for line in lines.values()))
    return {name: json.loads(one.stdout) for name, one in zip(lines, printed, strict=True)}


def _sealing_documents(place: Workplace) -> dict[str, Any]:
    """The same of keys and seals."""
    audit = f"NOTTWICE_KEY={bytes(range(32)).hex()} nottwice audit --store agent.db --json"
    lines = {
        "key": "nottwice key --json",
        "audit, with --adopt": f"{audit} --adopt order-1 --why x",
        "audit, with --verify": f"{audit} --verify order-1",
    }
    return {name: json.loads(place.shell(line).stdout) for name, line in lines.items()}


def _client_documents(place: Workplace) -> dict[str, Any]:
    """The same of the configuration of an MCP client."""
    (place.folder / "mcp.json").write_text('{"mcpServers": {"pay": {"command": "pay-mcp"}}}')
    (printed,) = place.lines("proxy --wrap mcp.json --yes --json")
    written = to_plain(SettingsWritten(path="nottwice.toml", tools=["pay"]))
    return {
        "proxy, with --wrap or --unwrap": json.loads(printed.stdout),
        "proxy, with --init": written,
    }


def _smoke_document() -> dict[str, Any]:
    """What a trial leads to is tested in ``test_smoke.py``; here it is only printed."""
    report = Report("refund", (Trial("two in parallel", KeyFinding.RACES, 2, ("both were paid",)),))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        show_smoke_json(report)
    document: dict[str, Any] = json.loads(printed.getvalue())
    return document


def _graph_documents(place: Workplace) -> dict[str, Any]:
    """The same of what only runs of graphs have."""
    lines = {
        "run": "run listening --id told-1 --app flows",
        "show, of a graph": "show told-1",
        "run, of a parent": "run parent --id parent-1 --app flows",
        "show, of a parent": "show parent-1",
        "run, that ends": """run order --id order-1 --input '{"order_id": 1}' --app flows""",
        "history": "history told-1",
        "history, with --at": "history order-1 --at 1",
        "history, with --diff": "history order-1 --diff 0 1",
        "fork": "fork order-1 --to fork-1 --app flows",
        "runs, with --by-version": "runs --by-version --app flows",
        "run, with --detach": "run parent --detach --id queued-1 --app flows",
        "runs, with --ready": "runs --ready",
        "worker": "worker --until-idle --app flows",
        "graph": "graph --run told-1",
        "lock": "lock --app flows",
        "cancel": "cancel told-1 --why x",
        "audit": "audit --action cancel",
        "run, of an agent": "run chat --id chat-1 --goal greet --app chat",
        "talk": "talk chat-1 bye --app chat",
        "show, of an agent": "show chat-1",
        "migrate": "migrate order-1 nobody --to order@1.0.0 --by ann --why x --app flows",
    }
    (place.folder / "chat.py").write_text(CHAT)
    place.lines("send told-1 news --data 7 --store agent.db")
    printed = place.lines(*(f"{line} --store agent.db --json" for line in lines.values()))
    return {name: json.loads(one.stdout) for name, one in zip(lines, printed, strict=True)}


@pytest.mark.parametrize("name", list(DOCUMENTS))
def test_a_document_has_exactly_its_documented_fields(name: str, documents: dict[str, Any]) -> None:
    assert list(documents[name]) == list(DOCUMENTS[name])


@pytest.mark.parametrize("shape", list(FIELDS))
def test_a_shape_has_exactly_its_documented_fields_wherever_it_occurs(
    shape: str, documents: dict[str, Any]
) -> None:
    found = [one for document in documents.values() for one in _find(shape, document)]
    assert found, f"no document holds a {shape}"
    for one in found:
        assert list(one) == list(FIELDS[shape])


def _find(shape: str, value: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if isinstance(value, list):
        return [one for item in value for one in _find(shape, item)]
    if not isinstance(value, dict):
        return []
    for name, inner in value.items():
        # Arguments, results and state are the user's: whatever they are called, they are no shape.
        if name in ("arguments", "value", "about", "state", "data", "before", "after"):
            continue
        if SHAPES.get(name) == shape:
            items = inner if isinstance(inner, list) else [inner]
            found += [item for item in items if isinstance(item, dict) and _is_shape(item)]
        found += _find(shape, inner)
    return found


def _is_shape(item: dict[str, Any]) -> bool:
    """The status counts its runs and reviews under the same names."""
    return not all(isinstance(value, int) for value in item.values())


def test_a_call_tells_all_that_happened_to_it(documents: dict[str, Any]) -> None:
    calls = {call["tool"]: call for call in documents["show"]["calls"]}
    assert calls["refund"]["result"] == {"kind": "plain", "value": {"refunded": 4000}}
    assert calls["refund"]["attempts"][0]["outcome"] == "done"
    assert calls["print_label"]["key"] == "label-7"
    doubtful = calls["send_email"]
    assert doubtful["status"] == "PENDING"
    assert doubtful["attempts"][0]["outcome"] is None
    assert doubtful["finished_at"] is doubtful["took_seconds"] is doubtful["result"] is None
    assert documents["show"]["cut_off"] == [doubtful["call_id"]]
    assert documents["show"]["waits_for"] == doubtful["reviews"]
    assert documents["show, failed"]["run"]["failure"]["error_type"] == "LookupError"


def test_arguments_are_exact_in_json_and_harmless_on_a_terminal(killed: Workplace) -> None:
    ended = killed.shell("nottwice show '[red]evil[/red]' --store agent.db --json")
    assert ended.stdout.isascii()
    assert ended.stdout.replace("\n", "").isprintable()
    assert json.loads(ended.stdout)["calls"][-1]["arguments"]["to"] == HOSTILE
