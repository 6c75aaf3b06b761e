"""Does the fake of Anthropic's API reject what the API rejects, and accept a sound conversation?"""

from __future__ import annotations

import base64
import copy
from typing import Any

import anthropic
import httpx2
import pytest

from nottwice.testing import FakeModels, Turn

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"x" * 40).decode()
TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}
CALL = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "found"}
SOUND: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1000,
    "tools": [TOOL],
    "messages": [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [CALL]},
        {"role": "user", "content": [RESULT, {"type": "text", "text": "Go on"}]},
    ],
}
MARK = {"cache_control": {"type": "ephemeral"}}


def image(**source: Any) -> dict[str, Any]:
    whole = {"type": "base64", "media_type": "image/png", "data": PNG, **source}
    return {"role": "user", "content": [{"type": "image", "source": whole}]}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def ask(fake: FakeModels, **body: Any) -> Any:
    client = anthropic.Anthropic(base_url=fake.url, api_key="key", max_retries=0, timeout=60)
    with client:
        return client.messages.create(**body)


def refusal(fake: FakeModels, **body: Any) -> str:
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(fake, **body)
    said: Any = caught.value.body
    assert said["type"] == "error"
    assert said["error"]["type"] == "invalid_request_error"
    assert [said["error"]["message"]] == fake.rejected
    return str(said["error"]["message"])


def test_a_sound_conversation_is_answered(fake_models: FakeModels) -> None:
    fake_models.will_say("unused", "Fine.")
    reply = ask(fake_models, **SOUND)
    assert (reply.content[0].text, reply.stop_reason) == ("Fine.", "end_turn")
    assert fake_models.rejected == []
    assert fake_models.requests[0].turn == 2


def test_two_messages_of_one_side_are_one_turn(fake_models: FakeModels) -> None:
    fake_models.will_say("unused", "Fine.")
    split = [*SOUND["messages"][:2], user(RESULT), user({"type": "text", "text": "Go on"})]
    assert ask(fake_models, **{**SOUND, "messages": split}).content[0].text == "Fine."


HELLO = SOUND["messages"][0]
REJECTED: list[tuple[dict[str, Any], str]] = [
    ({"extra_body": {"moood": 1}}, "moood: Extra inputs are not permitted"),
    ({"max_tokens": 0}, "max_tokens: must be greater"),
    ({"max_tokens": 200_000}, "which is the maximum allowed number of output tokens"),
    ({"messages": []}, "at least one message is required"),
    ({"messages": [{"role": "system", "content": "Be brief"}]}, "'user' or 'assistant'"),
    ({"messages": SOUND["messages"][1:]}, 'first message must use the "user" role'),
    ({"messages": [HELLO, {"role": "assistant", "content": "Hi"}]}, "prefill"),
    ({"messages": [user()]}, "non-empty content"),
    ({"messages": [user({"type": "text", "text": ""})]}, "must be non-empty"),
    ({"messages": [user({"type": "text", "text": " \n"})]}, "non-whitespace"),
    (
        {"messages": [user({"type": "text", "text": "Hi", "x": 1})]},
        "content.0.text.x: Extra inputs",
    ),
    ({"messages": [user({"type": "song"})]}, "Input tag 'song'"),
    ({"messages": [user(CALL)]}, "Input tag 'tool_use'"),
    (
        {"messages": [*SOUND["messages"][:2], user({"type": "text", "text": "?"})]},
        "without `tool_result`",
    ),
    (
        {"messages": [*SOUND["messages"][:2], user({"type": "text", "text": "?"}, RESULT)]},
        "without `tool_result` blocks immediately after: t1",
    ),
    ({"messages": [user(RESULT)]}, "unexpected `tool_use_id`"),
    ({"messages": [*SOUND["messages"][:2], user(RESULT, RESULT)]}, "must have a single result"),
    (
        {"messages": [*SOUND["messages"], *SOUND["messages"][1:]]},
        "`tool_use` ids must be unique",
    ),
    (
        {
            "messages": [
                HELLO,
                {"role": "assistant", "content": [{**CALL, "id": "a b"}]},
                user(RESULT),
            ]
        },
        "String should match pattern",
    ),
    (
        {
            "messages": [
                HELLO,
                {
                    "role": "assistant",
                    "content": [{"type": "thinking", "thinking": "I", "signature": "made up"}],
                },
                user({"type": "text", "text": "Go on"}),
            ]
        },
        "Invalid `signature` in `thinking` block",
    ),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000},
        "must start with a thinking block",
    ),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "must be greater than `thinking"),
    ({"thinking": {"type": "enabled", "budget_tokens": 100}}, "greater than or equal to 1024"),
    (
        {
            "messages": [
                HELLO,
                {"role": "assistant", "content": [{**CALL, "name": "send mail"}]},
                user(RESULT),
            ]
        },
        "tool_use.name: String should match",
    ),
    ({"tools": [TOOL, TOOL]}, "Tool names must be unique"),
    ({"tools": [{**TOOL, "name": "send mail"}]}, "tools.0.custom.name"),
    ({"tools": [{**TOOL, "input_schema": {}}]}, "Input should be 'object'"),
    ({"tools": [{**TOOL, "x": 1}]}, "tools.0.custom.x: Extra inputs"),
    ({"tool_choice": {"type": "tool", "name": "nap"}}, "not found in provided tools"),
    (
        {"messages": [user(*[{"type": "text", "text": f"{n}", **MARK} for n in range(5)])]},
        "A maximum of 4 blocks with cache_control",
    ),
    ({"messages": [user({"type": "text", "text": "x" * 900_000})]}, "prompt is too long: "),
    (
        {"messages": [user({"type": "text", "text": "x" * 700_000})], "max_tokens": 60_000},
        "exceed context limit",
    ),
    ({"messages": [image(media_type="image/tiff")]}, "media_type: Input should be"),
    ({"messages": [image(media_type="image/gif")]}, "does not match the provided media type"),
    ({"messages": [image(data="*")]}, "invalid base64"),
]


@pytest.mark.parametrize(("change", "why"), REJECTED, ids=[why for _, why in REJECTED])
def test_what_the_api_rejects_is_rejected(
    fake_models: FakeModels, change: dict[str, Any], why: str
) -> None:
    fake_models.will_say("unused", "unused")
    assert why in refusal(fake_models, **{**SOUND, **change})


def test_no_key_is_an_authentication_error(fake_models: FakeModels) -> None:
    answer = httpx2.post(f"{fake_models.url}/v1/messages", json=SOUND)
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "authentication_error"


def thought(fake: FakeModels, **change: Any) -> list[dict[str, Any]]:
    """A conversation in which the model has thought before it called."""
    first = {**SOUND, "messages": [HELLO], **change}
    fake.will_say(Turn({"look": {}}, thinking="Let me look."), "Done.")
    content = ask(fake, **first).model_dump(exclude_none=True)["content"]
    call = next(block for block in content if block["type"] == "tool_use")
    call.pop("caller", None)
    result = user({**RESULT, "tool_use_id": call["id"]})
    return [HELLO, {"role": "assistant", "content": content}, result]


def test_a_thought_goes_back_word_for_word_or_not_at_all(fake_models: FakeModels) -> None:
    messages = thought(fake_models)
    assert ask(fake_models, **{**SOUND, "messages": messages}).content[0].text == "Done."
    changed = copy.deepcopy(messages)
    changed[1]["content"][0]["thinking"] = "Let me not look."
    assert "Invalid `signature`" in refusal(fake_models, **{**SOUND, "messages": changed})


@pytest.mark.parametrize("change", ["system", "messages"])
def test_newer_models_want_everything_before_a_thought_unchanged(
    fake_models: FakeModels, change: str
) -> None:
    other: dict[str, Any] = {"system": "Be long."}
    older = {"model": "claude-opus-5"}
    for model in ({}, older):
        fake_models.reset()
        messages = thought(fake_models, **model)
        if change == "messages":
            other = {"messages": [user({"type": "text", "text": "Other"}), *messages[1:]]}
        body = {**SOUND, "messages": messages, **model, **other}
        if model is older:
            ask(fake_models, **body)
        else:
            assert "bound to what precedes them" in refusal(fake_models, **body)


def test_a_reply_longer_than_max_tokens_is_cut(fake_models: FakeModels) -> None:
    fake_models.will_say("unused", "word " * 100)
    reply = ask(fake_models, **{**SOUND, "max_tokens": 10})
    assert reply.stop_reason == "max_tokens"
    assert reply.usage.output_tokens == 10
    assert len(reply.content[0].text) == 40


def test_only_what_is_marked_is_cached_and_only_while_it_does_not_change(
    fake_models: FakeModels,
) -> None:
    fake_models.will_say("unused", "Fine.")
    system = [{"type": "text", "text": "Be brief. " * 1000, **MARK}]
    for change, read, written in (
        ({"system": system[0]["text"]}, False, False),
        ({"system": system}, False, True),
        ({"system": system}, True, False),
        ({"system": system, "tools": [{**TOOL, "description": "Other."}]}, False, True),
    ):
        usage = ask(fake_models, **{**SOUND, **change}).usage
        assert bool(usage.cache_read_input_tokens) is read
        assert bool(usage.cache_creation_input_tokens) is written
        assert usage.input_tokens > 0
    assert (
        ask(fake_models, **{**SOUND, "system": "Short.", **MARK}).usage.cache_creation_input_tokens
        == 0
    )
