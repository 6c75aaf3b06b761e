"""Does the fake of OpenAI's API reject what the API rejects, and accept a sound conversation?"""

from __future__ import annotations

from typing import Any

import httpx2
import openai
import pytest

from nottwice.testing import FakeModels, Turn

TOOL: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "description": "Look.",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
HELLO = {"type": "message", "role": "user", "content": "Hello"}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "found"}
SOUND: dict[str, Any] = {
    "model": "gpt-5.4-mini",
    "store": False,
    "tools": [TOOL],
    "input": [HELLO, CALL, OUTPUT],
}


def said(kind: str, role: str = "user", **part: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, **part}]}


def ask(fake: FakeModels, **body: Any) -> Any:
    client = openai.OpenAI(base_url=f"{fake.url}/v1", api_key="key", max_retries=0)
    with client:
        return client.responses.create(**body)


def refusal(fake: FakeModels, **body: Any) -> tuple[str, Any]:
    with pytest.raises(openai.APIStatusError) as caught:
        ask(fake, **body)
    error: Any = caught.value.body
    assert caught.value.status_code in (400, 404)
    assert error["type"] == "invalid_request_error"
    assert [error["message"]] == fake.rejected
    return error["message"], error["code"]


def test_a_sound_conversation_is_answered(fake_models: FakeModels) -> None:
    fake_models.will_say("unused", "Fine.")
    reply = ask(fake_models, **SOUND)
    assert (reply.output_text, reply.status) == ("Fine.", "completed")
    assert fake_models.requests[0].turn == 2


REJECTED: list[tuple[dict[str, Any], str, str | None]] = [
    ({"extra_body": {"moood": 1}}, "Unknown parameter: 'moood'", "unknown_parameter"),
    ({"max_output_tokens": 10}, "below minimum value", "integer_below_min_value"),
    ({"max_output_tokens": 900_000}, "above maximum value", "integer_above_max_value"),
    ({"input": []}, "empty array", "empty_array"),
    ({"input": [HELLO, CALL]}, "No tool output found for function call c1", None),
    ({"input": [HELLO, OUTPUT]}, "No tool call found for function call output", None),
    ({"input": [HELLO, CALL, CALL, OUTPUT]}, "Duplicate item found with call_id c1", None),
    (
        {"input": [HELLO, {**CALL, "name": "a b"}, OUTPUT]},
        "Invalid 'input[1].name'",
        "invalid_value",
    ),
    ({"input": [HELLO, {**HELLO, "content": []}]}, "Invalid 'input[1].content'", "empty_array"),
    ({"input": [{**HELLO, "id": "msg_1"}]}, "Items are not persisted", None),
    ({"input": [{**HELLO, "role": "robot"}]}, "Invalid value: 'robot'", "invalid_value"),
    ({"input": [{"type": "song"}]}, "Invalid value: 'song'", "invalid_value"),
    ({"input": [{**HELLO, "mood": 1}]}, "Unknown parameter: 'input[0].mood'", "unknown_parameter"),
    ({"input": [said("output_text", text="Hi")]}, "Invalid value: 'output_text'", "invalid_value"),
    (
        {"input": [said("input_text", role="assistant", text="Hi"), HELLO]},
        "Invalid value: 'input_text'",
        "invalid_value",
    ),
    ({"input": [said("input_image", image_url="file:///x")]}, "valid URL", "invalid_value"),
    (
        {"input": [said("input_file", file_data="data:application/pdf;base64,eA==")]},
        "filename",
        "missing_required_parameter",
    ),
    ({"input": [said("input_file", filename="x", file_data="eA==")]}, "data URL", "invalid_value"),
    (
        {"input": [HELLO, {"type": "reasoning", "summary": [], "encrypted_content": "made up"}]},
        "could not be verified",
        "invalid_encrypted_content",
    ),
    ({"input": "x" * 900_000}, "exceeds the context window", "context_length_exceeded"),
    ({"tools": [{**TOOL, "name": "a b"}]}, "does not match pattern", "invalid_value"),
    ({"tools": [TOOL, TOOL]}, "Duplicate tool name", "invalid_value"),
    ({"tools": [{**TOOL, "parameters": {}}]}, "Invalid schema", "invalid_function_parameters"),
    ({"tools": [{**TOOL, "strict": True}]}, "additionalProperties", "invalid_function_parameters"),
]


@pytest.mark.parametrize(("change", "why", "code"), REJECTED, ids=[one[1] for one in REJECTED])
def test_what_the_api_rejects_is_rejected(
    fake_models: FakeModels, change: dict[str, Any], why: str, code: str | None
) -> None:
    fake_models.will_say("unused", "unused")
    message, named = refusal(fake_models, **{**SOUND, **change})
    assert why in message
    assert named == code


def test_no_key_is_an_authentication_error(fake_models: FakeModels) -> None:
    answer = httpx2.post(f"{fake_models.url}/v1/responses", json=SOUND)
    assert answer.status_code == 401


def test_reasoning_goes_back_with_what_followed_it(fake_models: FakeModels) -> None:
    fake_models.will_say(Turn({"look": {}}, thinking="Let me look."), "Done.")
    reply = ask(fake_models, **{**SOUND, "input": [HELLO]})
    items = [each.model_dump(exclude_none=True, exclude={"id"}) for each in reply.output]
    output = {**OUTPUT, "call_id": items[1]["call_id"]}
    assert ask(fake_models, **{**SOUND, "input": [HELLO, *items, output]}).output_text == "Done."
    alone = {**SOUND, "input": [HELLO, items[0], HELLO]}
    assert "without its required following item" in refusal(fake_models, **alone)[0]


def test_a_reply_longer_than_the_limit_is_cut(fake_models: FakeModels) -> None:
    fake_models.will_say("unused", "word " * 100)
    reply = ask(fake_models, **{**SOUND, "max_output_tokens": 16})
    assert reply.status == "incomplete"
    assert reply.incomplete_details.reason == "max_output_tokens"
    assert len(reply.output_text) == 64


def test_a_prompt_that_begins_as_an_earlier_one_is_read_from_the_cache(
    fake_models: FakeModels,
) -> None:
    fake_models.will_say("unused", "Fine.")
    long = {"instructions": "Be brief. " * 1000}
    for change, cached in (({}, False), (long, False), (long, True)):
        usage = ask(fake_models, **{**SOUND, **change}).usage
        assert bool(usage.input_tokens_details.cached_tokens) is cached
    assert usage.input_tokens_details.cached_tokens % 128 == 0
    other = ask(fake_models, **{**SOUND, **long, "prompt_cache_key": "other"}).usage
    assert other.input_tokens_details.cached_tokens == 0
