"""Every change of a graph needs its version bump, and is described in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nottwice.model.graphs.bump import Bump, Part, is_draft, next_version, says_enough, what_bump
from nottwice.model.graphs.fingerprint import Fingerprint, ToolPrint
from nottwice.model.graphs.graph import DeclaredNode, Version, define
from nottwice.model.replay_class import ReplayClass

FIELDS = {"order_id": {"type": "integer"}, "note": {"type": "string"}}
STATE = {"type": "object", "properties": FIELDS, "required": ["order_id"]}
ARGUMENTS = {"properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
PAY = ToolPrint(
    name="pay",
    replay_class=ReplayClass.IDEMPOTENT_WITH_KEY,
    key="pay-{cents}",
    window_seconds=3600.0,
    arguments=ARGUMENTS,
    result={"type": "string"},
)
NODES = (
    DeclaredNode("plan", {"pay": "pay", "skip": "notify"}),
    DeclaredNode("pay", None),
    DeclaredNode("notify", None, most=5),
)


def made(
    *nodes: DeclaredNode,
    state: Any = STATE,
    append: tuple[str, ...] = (),
    tools: tuple[ToolPrint, ...] | None = (PAY,),
    **bodies: str,
) -> Fingerprint:
    definition = define("refund", Version(1, 3, 1), nodes or NODES, append=append, state=state)
    said = {node.name: f"source:{node.name}" for node in definition.nodes}
    return Fingerprint(definition, tools, tuple(sorted({**said, **bodies}.items())))


def state(*required: str, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**FIELDS, **fields}, "required": list(required)}


def told(new: Fingerprint) -> tuple[Part, str]:
    bump = what_bump(made(), new)
    return bump.part, bump.text


TEXT = {"type": "string"}
PLAN, PAYING, NOTIFY = NODES
MAJOR = {
    'node "notify" removed': made(DeclaredNode("plan", {"pay": "pay", "skip": "pay"}), PAYING),
    'node "audit" added': made(*NODES, DeclaredNode("audit", None)),
    'node "notify" renamed to "tell"': made(
        DeclaredNode("plan", {"pay": "pay", "skip": "tell"}),
        PAYING,
        DeclaredNode("tell", None, most=5),
        tell="source:notify",
    ),
    'node "pay" leads to the end, not "notify"': made(PLAN, DeclaredNode("pay", "$end"), NOTIFY),
    'option "skip" of node "plan" removed': made(DeclaredNode("plan", {"pay": "pay"}), *NODES[1:]),
    'option "skip" of node "plan" leads to the end, not "notify"': made(
        DeclaredNode("plan", {"pay": "pay", "skip": "$end"}), *NODES[1:]
    ),
    'node "plan" leads to branches': made(
        DeclaredNode("plan", ["pay", "b"], "notify"),
        PAYING,
        DeclaredNode("b", None),
        NOTIFY,
    ),
    'node "notify" may be visited 2 times, not 5': made(
        *NODES[:2], DeclaredNode("notify", None, most=2)
    ),
    'field "due" of the state was added and is required': made(
        state=state("order_id", "due", due=TEXT)
    ),
    'field "note" of the state has another type': made(
        state=state("order_id", note={"type": "integer"})
    ),
    'field "note" of the state is required now': made(state=state("order_id", "note")),
    'field "note" of the state was removed': made(
        state={"type": "object", "properties": {"order_id": FIELDS["order_id"]}, "required": []}
    ),
    'list "log" of the state is append-only now': made(append=("log",)),
    'tool "pay" removed': made(tools=()),
    'tool "pay" loosened from idempotent_with_key to pure': made(
        tools=(replace(PAY, replay_class=ReplayClass.PURE, key=None, window_seconds=None),)
    ),
    'tool "pay" has another key': made(tools=(replace(PAY, key="pay"),)),
    'tool "pay" has a longer window': made(tools=(replace(PAY, window_seconds=7200.0),)),
    'argument "cents" of tool "pay" was removed': made(
        tools=(replace(PAY, arguments={"properties": {}, "required": []}),)
    ),
    'the result of tool "pay" narrowed': made(tools=(replace(PAY, result={"type": "null"}),)),
}
MINOR = {
    'tool "read" added': made(tools=(PAY, ToolPrint(name="read", replay_class=ReplayClass.PURE))),
    'tool "pay" tightened from idempotent_with_key to unsafe_on_replay': made(
        tools=(replace(PAY, replay_class=ReplayClass.UNSAFE_ON_REPLAY),)
    ),
    'tool "pay" has a shorter window': made(tools=(replace(PAY, window_seconds=60.0),)),
    'argument "memo" of tool "pay" was added, optional': made(
        tools=(
            replace(
                PAY,
                arguments={
                    "properties": {**ARGUMENTS["properties"], "memo": TEXT},  # type: ignore[dict-item]
                    "required": ["cents"],
                },
            ),
        )
    ),
    'field "due" of the state was added, optional': made(state=state("order_id", due=TEXT)),
    'field "note" of the state allows more': made(
        state=state("order_id", note={"anyOf": [TEXT, {"type": "null"}]})
    ),
    "the state allows more": made(state=None),
    'option "later" of node "plan" added': made(
        DeclaredNode("plan", {"pay": "pay", "skip": "notify", "later": "notify"}), *NODES[1:]
    ),
    'node "notify" may be visited 9 times, not only 5': made(
        *NODES[:2], DeclaredNode("notify", None, most=9)
    ),
}


def arguments(memo: Any, *required: str) -> Fingerprint:
    known = {**ARGUMENTS["properties"], "memo": memo}  # type: ignore[dict-item]
    changed = {"properties": known, "required": ["cents", *required]}
    return made(tools=(replace(PAY, arguments=changed),))


NULLABLE = {"anyOf": [TEXT, {"type": "null"}]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (made(), MINOR['argument "memo" of tool "pay" was added, optional']),
        (made(), MINOR['tool "pay" has a shorter window']),
        (made(), MINOR['tool "pay" tightened from idempotent_with_key to unsafe_on_replay']),
        (made(), MINOR['field "due" of the state was added, optional']),
        (made(), MINOR['field "note" of the state allows more']),
        (arguments(TEXT, "memo"), arguments(NULLABLE, "memo")),
        (made(tools=(replace(PAY, result=TEXT),)), made(tools=(replace(PAY, result=NULLABLE),))),
    ],
)
def test_what_versions_share_may_widen_under_a_version_that_has_runs(
    old: Fingerprint, new: Fingerprint
) -> None:
    bump = what_bump(old, new)
    assert (bump.part, bump.of_bound().part) == (Part.MINOR, Part.NONE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (made(), MINOR['tool "read" added']),
        (made(), MINOR['option "later" of node "plan" added']),
        (made(), MINOR['node "notify" may be visited 9 times, not only 5']),
        (made(), MINOR["the state allows more"]),
        (arguments(TEXT, "memo"), arguments({**TEXT, "default": "x"})),
        (arguments({**TEXT, "default": "x"}), arguments({**TEXT, "default": "y"})),
        (arguments({**TEXT, "default": ""}), arguments({**NULLABLE, "default": None})),
    ],
)
def test_what_is_declared_or_left_out_otherwise_is_not_compatible(
    old: Fingerprint, new: Fingerprint
) -> None:
    bump = what_bump(old, new)
    assert bump.part is bump.of_bound().part is Part.MINOR


@pytest.mark.parametrize("text", MAJOR)
def test_nothing_that_needs_a_major_bump_is_compatible(text: str) -> None:
    bump = what_bump(made(), MAJOR[text])
    assert bump.of_bound().part is Part.MAJOR


@pytest.mark.parametrize("text", MAJOR)
def test_what_a_run_in_flight_could_stumble_over_needs_a_major_bump(text: str) -> None:
    part, found = told(MAJOR[text])
    assert part is Part.MAJOR
    assert text in found


@pytest.mark.parametrize("text", MINOR)
def test_what_only_adds_needs_a_minor_bump(text: str) -> None:
    assert told(MINOR[text]) == (Part.MINOR, text)


def test_bodies_alone_need_a_patch() -> None:
    assert told(made(pay="source:new")) == (Part.PATCH, 'the body of node "pay" changed')


def test_nothing_needs_nothing() -> None:
    assert told(made()) == (Part.NONE, "nothing changed")
    assert what_bump(made(), made()) == Bump(())


def test_a_body_read_in_another_way_is_no_change() -> None:
    assert told(made(pay="code-3.11:1"))[0] is Part.NONE


def test_tools_and_bodies_that_were_not_recorded_are_not_compared() -> None:
    bare = replace(made(), tools=None, bodies=None)
    assert what_bump(bare, made()).part is Part.NONE


def test_what_weighs_most_comes_first() -> None:
    new = made(*NODES, DeclaredNode("audit", None), pay="source:new", state=None)
    assert [reason.part for reason in what_bump(made(), new).reasons] == [
        Part.MAJOR,
        Part.MAJOR,
        Part.MINOR,
        Part.PATCH,
    ]


def test_a_node_renamed_and_rewritten_at_its_place_is_a_rename_too() -> None:
    new = made(
        DeclaredNode("plan", {"pay": "pay", "skip": "tell"}),
        PAYING,
        DeclaredNode("tell", None, most=5),
    )
    assert 'node "notify" renamed to "tell"' in told(new)[1]


def test_another_first_node_is_a_changed_route() -> None:
    one = [DeclaredNode("a", "b"), DeclaredNode("b", "a")]
    other = [DeclaredNode("b", "a"), DeclaredNode("a", "b")]
    assert what_bump(made(*one), made(*other)).text == 'it begins with node "b"'


@pytest.mark.parametrize(
    ("old", "part", "new"),
    [
        ((1, 3, 1), Part.NONE, (1, 3, 1)),
        ((1, 3, 1), Part.PATCH, (1, 3, 2)),
        ((1, 3, 1), Part.MINOR, (1, 4, 0)),
        ((1, 3, 1), Part.MAJOR, (2, 0, 0)),
        ((0, 3, 1), Part.PATCH, (0, 3, 2)),
        ((0, 3, 1), Part.MINOR, (0, 4, 0)),
        ((0, 3, 1), Part.MAJOR, (0, 4, 0)),
    ],
)
def test_the_next_version_is_the_lowest_that_says_so(old: Any, part: Part, new: Any) -> None:
    assert next_version(Version(*old), part) == Version(*new)
    assert says_enough(Version(*old), Version(*new), part)
    assert says_enough(Version(*old), Version(9, 0, 0), part)
    if part is not Part.NONE:
        assert not says_enough(Version(*old), Version(*old), part)


def test_only_the_first_drafts_may_be_edited_in_place() -> None:
    assert is_draft(Version(0, 0, 7))
    assert not is_draft(Version(0, 1, 0))
    assert not is_draft(Version(1, 0, 0))


OWN: dict[str, Any] = dict.fromkeys(("plan", "pay", "notify"), "own:1")
NOTE = {"note": {"type": "string", "default": ""}}
WIDER = replace(
    PAY,
    arguments={"properties": {"cents": {"type": "integer"}, **NOTE}, "required": ["cents"]},
)
OTHER = replace(PAY, name="mail", key=None, replay_class=ReplayClass.UNSAFE_ON_REPLAY)


@pytest.mark.parametrize("tools", [(PAY, OTHER), (), (WIDER,), (OTHER,)])
def test_tools_of_an_agent_may_come_go_and_take_more_under_one_version(
    tools: tuple[ToolPrint, ...],
) -> None:
    assert what_bump(made(**OWN), made(tools=tools, **OWN)) == Bump(())
    # What nottwice itself changes in the loop needs no new version of the user's agent.
    assert what_bump(made(**OWN), made(append=("heard",), state=state("note"), **OWN)) == Bump(())
    assert what_bump(made(), made(tools=tools)).part > Part.NONE


@pytest.mark.parametrize(
    "tool",
    [
        replace(PAY, replay_class=ReplayClass.PURE),
        replace(PAY, key="other-{cents}"),
        replace(PAY, arguments={"properties": {}, "required": []}),
    ],
)
def test_a_tool_of_an_agent_that_means_something_else_needs_a_bump(tool: ToolPrint) -> None:
    assert what_bump(made(**OWN), made(tools=(tool,), **OWN)).part is Part.MAJOR
