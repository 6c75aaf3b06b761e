"""Every reader of foreign bytes returns a value or raises an error of nottwice.

Never a RecursionError, a KeyError or a UnicodeError: who wrote the bytes must not choose which.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.agent.budget import Amount
from nottwice.agent.messages import Message, Reasoning, Role, Text, ToolCall, ToolResult, Unknown
from nottwice.agent.provider import ModelReply, StopReason, Usage
from nottwice.cli.inputs.json_input import parse_json
from nottwice.cli.inputs.options import read_since
from nottwice.cli.inputs.settings import Settings
from nottwice.durations import parse_retry_after
from nottwice.errors import LedgerCorrupt, NottwiceError, UsageError
from nottwice.graphs.recorded import recorded_fingerprint
from nottwice.model import values
from nottwice.model.asking.asked import Question, WantedCall, shown_in
from nottwice.model.data.calendar import utc
from nottwice.model.failure import Failure
from nottwice.model.graphs.graph import parse_version, split_graph_id
from nottwice.model.policy import in_millionths
from nottwice.model.review import ReviewKind
from nottwice.model.run import CheckpointRecord, GraphRecord
from nottwice.model.runs.retention import Retention
from nottwice.model.saving.checkpoint import restore, save
from nottwice.model.saving.image import load_image
from nottwice.model.sealing.keyring import parse_keyring
from nottwice.model.tool import parse_duration
from nottwice.store.postgres.place import read_place, without_secrets
from nottwice.testing.replay.fixture import read_fixture
from nottwice.versions.lock import read_lock
from tests.spoiling import TEXTS, spoiled_data, spoiled_text
from tests.store.samples import FAILURE, review

BLOCKS = (
    Text("hi", {"openai": {"id": "1"}}),
    Reasoning("hm"),
    ToolCall("1", "send", {"to": "ann"}),
    ToolResult("1", "sent", receipt_id="r"),
    Unknown({"type": "new"}),
)
REPLY = ModelReply(
    message=Message(Role.ASSISTANT, BLOCKS, {"x": 1}),
    stop=StopReason.END,
    usage=Usage(1, 2, 3, 4),
    model="m",
)
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
DEFINITION = {
    "name": "g",
    "version": "1.0.0",
    "nodes": [
        {"name": "a", "choice": {"b": "b", "c": "c"}, "most": 10},
        {"name": "b", "branches": ["d", "e"], "join": "f", "most": 10, "phase": None},
        {"name": "c", "then": "$end", "most": 10},
    ],
    "append": ["log"],
    "state": SCHEMA,
    "tools": {"send": {"class": "pure", "arguments": SCHEMA, "result": None}},
    "bodies": {"a": "1:abc"},
}
LOCK = {
    "nottwice_lock": 1,
    "graphs": {
        "g@1.0.0": {
            "nodes": {"a": {"then": "$end", "most": 10, "body": "1:abc"}},
            "append": [],
            "state": SCHEMA,
            "tools": DEFINITION["tools"],
        }
    },
}
CALL = {"node": "a", "visit": "g@1.0.0#1", "tool": "send", "hash": "ab" * 32}
FIXTURE = {
    "nottwice_checkpoint": 1,
    "graph": "g@1.0.0",
    "run": {
        "id": "r",
        "status": "waiting",
        "at": 1.5,
        "input": {},
        "waits": [{"kind": "timer", "subject": "s", "step": "a", "until": 2.5}],
    },
    "checkpoint": {
        "version": 1,
        "after": "/",
        "position": {"node": "a", "visits": {"a": 1}},
        "state": {"x": 1},
    },
    "steps": [{"node": "a", "visit": "g@1.0.0#1", "status": "failed", "failure": "E"}],
    "calls": [
        {**CALL, "class": "pure", "status": "DONE", "order": 1, "args": {"x": 1}, "label": "l"}
        | {"result": {"kind": "plain", "value": 7}, "failure": FAILURE.to_plain(), "retry_at": 3.5}
    ],
    "reviews": [
        {**CALL, "id": "aaaa0001", "kind": "question", "about": {"question": "?"}}
        | {"decision": {"verb": "answer", "by": "ann", "why": "", "result": None}}
    ],
    "events": [{"id": "e", "name": "paid", "data": 7, "sent_at": 1.5}],
    "definition": DEFINITION,
}
IMAGE: dict[str, Any] = {
    "state": {"x": 1, "list": [1, 2, 3]},
    "position": {"node": "a", "visits": {"a": 1}, "branches": [{"node": "b", "update": {}}]},
}


def outcome_of(read: Callable[[], object]) -> object:
    """What reading gives; any error but ours ends the test."""
    try:
        return read()
    except (NottwiceError, click.UsageError):
        return None


@given(spoiled_text({"a": [1, {"b": "c"}]}))
def test_a_stored_value(text: str) -> None:
    found = outcome_of(lambda: values.decode(text))
    assert values.is_plain(found)
    outcome_of(lambda: values.decode_object(text))


@given(spoiled_data(REPLY.to_plain()))
def test_the_reply_of_a_model(plain: Any) -> None:
    for source in (plain, plain.get("message"), plain.get("usage")):
        outcome_of(partial(ModelReply.from_plain, source))
        outcome_of(partial(Message.from_plain, source))
    outcome_of(lambda: Amount.from_plain(plain))


@given(spoiled_text(DEFINITION))
def test_a_recorded_graph(text: str) -> None:
    found = outcome_of(lambda: recorded_fingerprint(GraphRecord("g@1.0.0", text, 0.0)))
    if found is not None:
        assert found.structure  # type: ignore[attr-defined]


@given(spoiled_text(LOCK))
def test_a_lock_file(text: str) -> None:
    outcome_of(lambda: read_lock(text, path="nottwice.lock"))


@given(spoiled_text(FIXTURE))
def test_a_recorded_checkpoint_in_a_file(text: str) -> None:
    assert read_fixture(json.dumps(FIXTURE), where="sound").calls
    outcome_of(lambda: read_fixture(text, where="a file"))


@given(spoiled_data(FAILURE.to_plain()))
def test_a_recorded_failure(plain: Any) -> None:
    outcome_of(lambda: Failure.from_plain(plain))


QUESTION = json.loads(Question("Go on?", ("yes", "no"), {"x": 1}).to_json())
WANTED = json.loads(WantedCall("send", {"to": "ann"}, "pure", 1.5).to_json())


@given(
    st.one_of(
        st.tuples(st.just(ReviewKind.QUESTION), spoiled_text(QUESTION)),
        st.tuples(st.just(ReviewKind.APPROVAL), spoiled_text(WANTED)),
    )
)
def test_what_a_review_shows(kind_and_text: tuple[ReviewKind, str]) -> None:
    kind, text = kind_and_text
    outcome_of(lambda: shown_in(review(kind=kind, about=text)))


def chain_of(*images: Any) -> list[CheckpointRecord]:
    chain, saved, old = [], None, None
    for number, image in enumerate(images):
        record, saved = save(
            saved, workflow_id="r", node_id="a", old=old, new=image, now=float(number)
        )
        chain.append(record)
        old = image
    return chain


LONG = {**IMAGE, "state": {**IMAGE["state"], "text": "x" * 2_000}}
CHAIN = chain_of(LONG, {**LONG, "state": {**LONG["state"], "list": [1, 3, 4], "new": {"y": [1]}}})


@given(st.data())
def test_a_version_of_a_run(data: st.DataObject) -> None:
    assert not CHAIN[1].is_snapshot
    number = data.draw(st.integers(0, 1))
    text = data.draw(spoiled_text(json.loads(CHAIN[number].json)))
    chain = list(CHAIN)
    chain[number] = CheckpointRecord("r", number, 0, "a", text, 0.0)
    assert values.is_plain(outcome_of(lambda: restore(chain)))
    outcome_of(lambda: load_image(chain))


def test_a_change_that_is_nested_without_end_is_not_followed() -> None:
    delta: Any = {}
    for _ in range(400):
        delta = {"keys": {"a": delta}}
    text = json.dumps([0, 1, delta])
    chain = [CheckpointRecord("r", 0, 0, "/", '{"a":{}}', 0.0)]
    chain.append(CheckpointRecord("r", 1, 0, "/", text, 0.0))
    with pytest.raises(LedgerCorrupt):
        restore(chain)


NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.text(max_size=9),
    st.sampled_from([10**400, 10**5000, -(10**400), "9" * 5000, "1e999999999", "sNaN", "٣h"]),
    st.sampled_from([True, None, [], "1e-999999999", "Infinity", "0x10", "9" * 400 + "h", "1.5h"]),
)


@given(NUMBERS)
def test_a_duration_an_amount_a_period_aread_since(given_value: Any) -> None:
    outcome_of(lambda: parse_duration(given_value, what="per"))
    outcome_of(lambda: in_millionths(given_value, what="at_most"))
    outcome_of(lambda: Retention.of(given_value))
    if isinstance(given_value, str):
        outcome_of(lambda: read_since(given_value, now=1e9))
        parse_retry_after(given_value, now=1e9)
    if isinstance(given_value, float):
        assert utc(given_value).year >= 1


@given(
    st.one_of(
        st.text(max_size=12), st.sampled_from(["1.0." + "9" * 5000, "١.٠.٠", "1.0", "a@1.0.0"])
    )
)
def test_a_version(text: str) -> None:
    outcome_of(lambda: parse_version(text, what="g"))
    outcome_of(lambda: split_graph_id(f"g@{text}"))


@given(
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(["u:p@h:x/d?schema=a;b", "[::1", "h/d?lease_seconds=nan", "h/d?x"]),
        st.sampled_from(["h/d?schema=" + "a" * 99, "%zz@h/d", "h:99999999/d", "h/%00", "\0"]),
        st.sampled_from(["h/d?connections=1e99", "h/d?lease_seconds=" + "9" * 5000]),
    )
)
def test_the_url_of_a_ledger(text: str) -> None:
    outcome_of(lambda: read_place(f"postgresql://{text}"))
    assert without_secrets(f"postgresql://{text}").startswith("postgresql://")


@given(spoiled_text({"a": [1, {"b": 1.5}]}))
def test_json_on_a_command_line(text: str) -> None:
    found = outcome_of(lambda: parse_json(text, option="--input", outcome="Nothing happened."))
    assert values.is_plain(found)


TOML = """[tool.nottwice]
store = "a.db"
app = "agent:app"
[tool.nottwice.replay]
secrets = ["a"]
"""
SETTINGS = [
    TOML,
    TOML.replace('"a.db"', "7"),
    TOML.replace('"agent:app"', "[]"),
    TOML.replace('["a"]', '"a"'),
    TOML.replace('["a"]', "[1]"),
    TOML.replace("[tool.nottwice.replay]\nsecrets", "replay"),
    "tool = 7",
    "[tool]\nnottwice = 7",
    "a = " + "[" * 5_000,
    "a = " + "[" * 5_000 + "]" * 5_000,
    "store = ",
    "\0",
    TOML.replace('"a.db"', '"\\uD800"'),
    TOML.replace('"a.db"', '"a\\u0000.db"'),
]


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_settings_in_a_pyproject_file(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(SETTINGS[number])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOTTWICE_STORE", raising=False)
    for read in (Settings().store_path, Settings().application, Settings().replay_secrets):
        outcome_of(read)
    outcome_of(lambda: Settings().open_ledger())


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"store = '\xff'"])
def test_a_pyproject_file_that_is_no_text(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        Settings().application()


@given(st.one_of(TEXTS, st.text(alphabet="0aF+/_-=#\n \x85", max_size=99)))
def test_a_key_file(text: str) -> None:
    outcome_of(lambda: parse_keyring(text, where="a file"))


@given(TEXTS)
def test_no_store_stumbles_over_a_name(text: str) -> None:
    outcome_of(lambda: Settings(store=text).open_ledger())
