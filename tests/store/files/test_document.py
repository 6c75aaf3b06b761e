"""Is a file readable, stable, exact, and is one that we cannot have written refused?"""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest

from nottwice.errors import LedgerCorrupt, SchemaTooNew
from nottwice.model.call import ResultKind, StoredResult
from nottwice.model.run import Fence
from nottwice.store.files import document
from nottwice.store.files.document import RunFile
from nottwice.store.interface import CallWrite, Commit, EventWrite, ReviewWrite
from nottwice.store.rules import apply
from nottwice.store.tables import CALLS
from tests.store.samples import (
    FAILURE,
    NOW,
    RESULT,
    WAITS,
    audit,
    checkpoint,
    decision,
    event,
    evidence,
    full_call,
    graph,
    identity,
    pending,
    review,
    run_record,
    step,
)


def full_file() -> RunFile:
    file = RunFile("run", folded=3)
    data = file.data
    data.runs["run"] = run_record(failure=FAILURE, waits=WAITS, graph_id="refund@1.0.0")
    for row in (full_call(), pending(identity(tool="other"))):
        data.calls[row.identity] = row
    data.steps[("run", "notify", "start/")] = step()
    data.reviews["aaaa0001"] = review().decided(decision())
    data.events[("run", "event-1")] = event()
    data.checkpoints[("run", 1)] = checkpoint(1, 1, '{"cents":4000}')
    data.evidence[evidence(result=RESULT)] = None
    data.audit[audit()] = None
    data.graphs["refund@1.0.0"] = graph()
    return file


def written(file: RunFile) -> bytes:
    return b"".join(document.write(file))


def test_what_is_written_is_read_again() -> None:
    file = full_file()
    again = document.read(written(file), where="a file")
    assert (again.workflow_id, again.folded) == ("run", 3)
    for name in document.SECTIONS:
        assert list(again.section(name)) == list(file.section(name)), name


def test_the_same_records_are_the_same_bytes_however_they_came_there() -> None:
    content = written(full_file())
    assert written(document.read(content, where="a file")) == content


def test_a_file_begins_with_what_people_ask_for_and_shows_json_as_json() -> None:
    text = written(full_file()).decode()
    head = ["workflow_id", "workflow_version", "started_at", "status", "phase", "phases"]
    plain = json.loads(text)
    assert list(plain)[:6] == head
    assert plain["workflow_version"] == "1.0.0"
    assert plain["calls"][0]["args"] == {"to": "ann"}
    assert plain["calls"][0]["result"] == {"id": 7}
    assert plain["calls"][0]["created_at"] == "2023-11-14T22:13:11.000000+00:00"
    assert plain["checkpoints"][0]["state"] == {"cents": 4000}
    assert plain["run"][0]["failure"]["message"] == "no such account"
    assert "workflow_id" not in plain["calls"][0]
    assert max(map(len, text.splitlines())) < 120


def test_one_more_call_is_one_more_block_and_nothing_else() -> None:
    file = full_file()
    before = written(file).decode().splitlines()
    row = pending(identity(tool="new"))
    apply(file.data, Commit(workflow_id="run", fence=Fence("holder", 1), calls=(CallWrite(row),)))
    after = written(file).decode().splitlines()
    changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert [line for line in changes if line.startswith("-")] == []
    assert any('"tool_name": "new"' in line for line in changes)
    # The brackets of the record, and those of its arguments with what is in them.
    assert len(changes) == len(document.to_plain(CALLS, row)) + 2 + 2


@pytest.mark.parametrize(
    "text", ["1.0", "1e3", '{"b":1,"a":2}', '{ "a":1}', '{"a":1,"a":1}', "", "x"]
)
def test_text_that_is_not_spelled_as_we_spell_it_comes_back_letter_by_letter(text: str) -> None:
    row = pending(args_json=text).done(StoredResult(ResultKind.PLAIN, text), now=NOW)
    plain = json.loads(json.dumps(document.to_plain(CALLS, row)))
    assert document.from_plain(CALLS, plain, "run") == row


@pytest.mark.parametrize("seconds", [0.0, -1.5, NOW + 0.000001, 253402300799.0, 1e15])
def test_a_time_comes_back_to_the_microsecond(seconds: float) -> None:
    row = pending(created_at=seconds)
    plain = json.loads(json.dumps(document.to_plain(CALLS, row)))
    assert document.from_plain(CALLS, plain, "run") == row


@pytest.mark.parametrize(
    "change",
    [
        {"nottwice": "1"},
        {"nottwice": 0},
        {"nottwice": None},
        {"workflow_id": 7},
        {"folded": "3"},
        {"folded": None},
        {"calls": None},
        {"calls": [7]},
        {"calls": [{}]},
        {"steps": [{"node_id": "a"}]},
        {"reviews": [{"kind": "unheard of"}]},
        {"run": [{"status": "sleeping"}]},
        {"events": {"a": 1}},
    ],
    ids=str,
)
def test_a_file_that_we_cannot_have_written_is_not_believed(change: dict[str, Any]) -> None:
    plain = {**json.loads(written(full_file())), **change}
    with pytest.raises(LedgerCorrupt, match=r"a\.json cannot be read.*nothing was changed"):
        document.read(json.dumps(plain).encode(), where="a.json")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b"{}", b"null", b"\0" * 100]
)
def test_what_is_no_file_of_ours_is_not_believed(content: bytes) -> None:
    with pytest.raises(LedgerCorrupt):
        document.read(content, where="a.json")
    with pytest.raises(LedgerCorrupt):
        document.read_line(content, where="a.inbox")
    with pytest.raises(LedgerCorrupt):
        document.check_mark(content, where="format.json")
    with pytest.raises(LedgerCorrupt):
        document.read_holder(content, where="holders.jsonl")


def test_any_part_of_a_file_is_not_the_file() -> None:
    content = written(full_file())
    for end in range(0, len(content) - 1, 97):
        with pytest.raises(LedgerCorrupt):
            document.read(content[:end], where="a.json")


def test_a_file_of_a_newer_nottwice_is_refused_as_such() -> None:
    plain = {**json.loads(written(full_file())), "nottwice": 2, "calls": "of another shape"}
    with pytest.raises(SchemaTooNew, match="Upgrade nottwice"):
        document.read(json.dumps(plain).encode(), where="a.json")
    with pytest.raises(SchemaTooNew):
        document.check_mark(b'{"nottwice": 2}', where="format.json")
    document.check_mark(document.write_mark(), where="format.json")


# Lines of an inbox


def test_a_line_is_one_line_and_comes_back_as_the_commit_it_was() -> None:
    commit = Commit(
        workflow_id="a\nrun",
        reviews=(ReviewWrite(review(run="a\nrun", summary="two\nlines ☃")),),
        events=(EventWrite(event(run="a\nrun")),),
        evidence=(evidence(run="a\nrun"),),
        audit=(audit(run="a\nrun"),),
        graph=graph(),
    )
    line = document.write_line(commit, 7)
    assert b"\n" not in line
    assert document.read_line(line, where="a.inbox") == (7, commit)


def test_a_line_cannot_say_what_only_the_holder_may() -> None:
    line = json.loads(
        document.write_line(Commit(workflow_id="run", events=(EventWrite(event()),)), 1)
    )
    line["events"][0]["received_by"] = "a call"
    with pytest.raises(LedgerCorrupt, match="Only the holder"):
        document.read_line(json.dumps(line).encode(), where="a.inbox")


def test_a_commit_is_compared_as_it_will_be_read_again() -> None:
    odd = NOW + 0.123456789
    commit = Commit(workflow_id="run", evidence=(evidence(at=odd),), audit=(audit(at=odd),))
    stored = document.as_stored(commit)
    assert stored.audit[0].at == NOW + 0.123457
    assert document.as_stored(stored) == stored
