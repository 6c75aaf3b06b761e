"""What a user says about LangChain's tools, as tools of the engine; and which run a call is in."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.adapters import REPEAT, verdict_of
from nottwice.errors import UsageError
from nottwice.langchain.declared import (
    Declared,
    arguments_in,
    find_run,
    own_tool,
    with_repeat,
)

SCHEMA = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}


def test_a_tool_without_a_class_is_unsafe_on_replay() -> None:
    declared = Declared({"search": "pure"})
    assert declared.spec("search", SCHEMA).replay_class == "pure"
    assert declared.spec("charge", SCHEMA).replay_class == "unsafe_on_replay"
    assert declared.spec("charge", SCHEMA).name == "langchain/charge"


def test_all_options_of_a_declaration_may_be_given() -> None:
    declared = Declared(
        {
            "charge": {
                "replay": "idempotent_with_key",
                "key": "order-{cents}",
                "window": "24h",
                "repeat": "ask",
            }
        }
    )
    spec = declared.spec("charge", SCHEMA)
    assert spec.key_of({"cents": 7}, "id", label=None) == "order-7"
    assert declared.repeat("charge") == "ask"
    assert Declared({"charge": {"repeat": "never"}}).repeat("charge") is None
    assert Declared(None).repeat("charge") is None


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("sometimes", nt.errors.UnclassifiedTool),
        (7, UsageError),
        ({"replay": "idempotent_with_key"}, nt.errors.InvalidTool),
        ({"replay": "pure", "colour": "red"}, UsageError),
        ({"once_pr": ("to",)}, UsageError),
        ({"once_per": 7}, nt.errors.InvalidTool),
        ({"key": "{cents}"}, nt.errors.InvalidTool),
        ({"class": "sometimes"}, nt.errors.UnclassifiedTool),
        ({"class": "pure", "replay": "pure"}, UsageError),
    ],
)
def test_a_wrong_declaration_is_refused_before_the_first_call(
    said: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        Declared({"charge": said})


def test_class_means_the_same_as_replay() -> None:
    declared = Declared({"search": {"class": "pure"}})
    assert declared.spec("search", SCHEMA).replay_class == "pure"


def test_a_tool_that_is_not_there_yet_is_warned_of_once() -> None:
    declared = Declared({"serach": "pure", "charge": "idempotent"})
    with pytest.warns(RuntimeWarning, match=r"'serach'.*charge, search"):
        declared.warn_of_unknown(["search", "charge"])
    # A second warning would be an error here.
    declared.warn_of_unknown(["search", "charge"])


def test_a_class_for_a_tool_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no tool 'serach'.*charge, search"):
        Declared({"serach": "pure"}).check_known(["search", "charge"])


def test_a_tool_of_nt_keeps_its_own_words() -> None:
    @nt.tool("pure")
    def look() -> str:
        return "v0"

    assert own_tool(look) is look
    assert own_tool(print) is None
    Declared({"look": {"repeat": "free"}}).check_own_words("look", look.tool)
    with pytest.raises(UsageError, match="keeps its own class"):
        Declared({"look": "pure"}).check_own_words("look", look.tool)


def test_the_run_is_named_or_around_the_code_or_the_thread_and_never_made_up() -> None:
    thread = {"thread_id": "ticket-7"}
    assert find_run("ticket-9", thread) == "ticket-9"
    assert find_run(None, thread) == "ticket-7"
    assert find_run(None, {"thread_id": 7}) == "7"
    with nt.Ledger(":memory:") as ledger, ledger.run("ticket-8"):
        assert find_run(None, thread) is None, "it is the run around the code"
        assert find_run("ticket-9", thread) == "ticket-9"
    for nothing in ({}, {"thread_id": None}, {"thread_id": ""}):
        with pytest.raises(UsageError, match=r"thread_id.*run=.*nt\.run"):
            find_run(None, nothing)


@pytest.mark.parametrize("unusable", ["x" * 513, "user\u200b7", "a\nb"])
def test_an_id_that_no_store_could_keep_stops_the_graph(unusable: str) -> None:
    """A model that is told of it could only look for a way around."""
    for run, thread in ((None, {"thread_id": unusable}), (unusable, {})):
        with pytest.raises(UsageError, match="Nothing happened") as refused:
            find_run(run, thread)
        assert verdict_of(refused.value) == "stop"


def test_only_arguments_of_the_tool_identify_a_call() -> None:
    assert arguments_in({"cents": 7, "runtime": object()}, SCHEMA) == {"cents": 7}
    assert arguments_in("7", SCHEMA) == {"cents": "7"}
    assert arguments_in("7", {}) == {"input": "7"}
    more = {**SCHEMA, "additionalProperties": True}
    assert arguments_in({"cents": 7, "note": "x"}, more) == {"cents": 7, "note": "x"}


def test_a_schema_gets_the_parameter_for_repeats_and_nothing_else() -> None:
    extended = with_repeat(SCHEMA)
    assert extended["properties"].pop(REPEAT)["type"] == "string"
    assert extended == SCHEMA
    assert REPEAT not in str(SCHEMA)
