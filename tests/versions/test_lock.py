"""A lock file says what is deployed, can be read, and differs if the code has changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nottwice.errors import UsageError
from nottwice.model.graphs.fingerprint import Fingerprint, ToolPrint
from nottwice.model.graphs.graph import DeclaredNode, Version, define
from nottwice.model.replay_class import ReplayClass
from nottwice.versions.lock import compare, read_lock, write_lock

PAY = ToolPrint(name="pay", replay_class=ReplayClass.UNSAFE_ON_REPLAY, result={"type": "string"})


def made(*nodes: str, version: tuple[int, int, int] = (1, 3, 1), **bodies: str) -> Fingerprint:
    state = {"title": "State", "properties": {"order_id": {"type": "integer"}}}
    declared = [DeclaredNode(name, None) for name in nodes]
    said = {name: f"source:{name}" for name in nodes}
    return Fingerprint(
        define("refund", Version(*version), declared, state=state),
        (PAY,),
        tuple(sorted({**said, **bodies}.items())),
    )


def texts(locked: list[Fingerprint], code: list[Fingerprint]) -> list[str]:
    read = read_lock(write_lock(locked), path="nottwice.lock")
    return [each.text for each in compare(read, code)]


def test_a_lock_file_can_be_read_by_people() -> None:
    assert (
        write_lock([made("pay", "notify")])
        == """{
  "nottwice_lock": 1,
  "graphs": {
    "refund@1.3.1": {
      "nodes": {
        "pay": {"then": "notify", "most": 1000, "body": "source:pay"},
        "notify": {"then": "$end", "most": 1000, "body": "source:notify"}
      },
      "append": [],
      "state": {"properties": {"order_id": {"type": "integer"}}},
      "tools": {
        "pay": {"class": "unsafe_on_replay", "arguments": null, "result": {"type": "string"}}
      }
    }
  }
}
"""
    )


def test_what_was_written_is_read_and_the_same_code_is_not_apart() -> None:
    code = [made("pay", "notify"), made("pay", version=(2, 0, 0))]
    assert texts(code, code) == []
    assert write_lock(code) == write_lock(code[::-1])


def test_a_change_without_the_right_bump_names_what_is_needed() -> None:
    assert texts([made("pay", "notify")], [made("pay")])[0] == (
        'refund changed: node "notify" removed, node "pay" leads to the end, not "notify"'
        " → needs 2.0.0, found 1.3.1"
    )
    assert texts([made("pay")], [made("pay", version=(1, 3, 2), pay="source:x")])[0] == (
        "refund@1.3.2 is not in the lock file"
    )
    assert texts([made("pay")], [made("pay", pay="source:x")]) == [
        'refund changed: the body of node "pay" changed → needs 1.3.2, found 1.3.1'
    ]


def test_a_later_version_that_says_too_little_is_found_too() -> None:
    (first, second) = texts([made("pay", "notify")], [made("pay", version=(1, 4, 0))])
    assert first.endswith("→ needs 2.0.0, found 1.4.0")
    assert second == "refund@1.3.1 is in the lock file but not in the code"


def test_the_right_bump_only_asks_for_the_lock_file_to_follow() -> None:
    read = read_lock(write_lock([made("pay", "notify")]), path="x")
    found = compare(read, [made("pay", version=(2, 0, 0))])
    assert [(each.says_too_little, each.is_harmless) for each in found] == [
        (False, False),
        (False, True),
    ]
    assert "nottwice lock" in found[0].fix


def test_drafts_are_not_locked() -> None:
    draft = made("pay", version=(0, 0, 4))
    assert '"graphs": {}' in write_lock([draft])
    assert compare({}, [draft]) == []


def test_a_loosened_class_is_a_major_change() -> None:
    loose = replace(made("pay"), tools=(replace(PAY, replay_class=ReplayClass.PURE),))
    (text,) = texts([made("pay")], [loose])
    assert 'tool "pay" loosened from unsafe_on_replay to pure → needs 2.0.0' in text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "not a readable lock file"),
        ("<<<<<<< HEAD", "not a readable lock file"),
        ("[]", "not a readable lock file"),
        ('{"nottwice_lock": 1, "graphs": {"a": {}}}', "not a readable lock file"),
        ('{"nottwice_lock": 1, "graphs": {"a@1.0.0": {"nodes": 3}}}', "not a readable lock file"),
        ('{"nottwice_lock": 2, "graphs": {}}', "newer nottwice"),
    ],
)
def test_what_is_no_lock_file_is_refused(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        read_lock(text, path="nottwice.lock")


def test_a_compatible_tool_needs_a_later_version_beside_the_one_that_has_runs() -> None:
    wider = replace(PAY, result={"anyOf": [{"type": "string"}, {"type": "null"}]})
    old, later = made("pay"), replace(made("pay", version=(1, 4, 0)), tools=(wider,))
    kept = replace(old, tools=(wider,))
    too_little = 'refund changed: the result of tool "pay" allows more → needs 1.4.0, found 1.3.1'
    assert texts([old], [kept]) == [too_little]
    assert texts([old], [kept, later]) == ["refund@1.4.0 is not in the lock file"]
    narrowed = replace(old, tools=(replace(PAY, result={"type": "null"}),))
    major = replace(narrowed, graph=made("pay", version=(2, 0, 0)).graph)
    assert texts([old], [narrowed, major])[0].endswith("→ needs 2.0.0, found 1.3.1")
