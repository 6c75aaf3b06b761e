"""Is one ``complete`` one request, and every failure told in our words, without the key? (P80)"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import socket
import traceback
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent import providers
from nottwice.agent.messages import said
from nottwice.agent.provider import ModelReply, ModelRequest, Provider, ToolSchema
from nottwice.agent.providers.sdk import SdkProvider
from nottwice.errors import ContextTooLong, ModelRefused, ToolFailure
from tests.agent.providers.bodies import claude_fails, claude_says, gpt_fails, gpt_says
from tests.agent.wire_server import Wire

KEY = "sk-test-0123456789abcdef"
HELLO = ModelRequest(messages=(said("Hello"),))
APIS = ("anthropic", "openai")
both = pytest.mark.parametrize("api", APIS)


def provider(api: str, url: str, **more: Any) -> SdkProvider:
    if api == "anthropic":
        return providers.anthropic("claude-sonnet-5-5", base_url=url, api_key=KEY, **more)
    return providers.openai("gpt-5.4-mini", base_url=f"{url}/v1", api_key=KEY, **more)


def says(api: str) -> dict[str, Any]:
    return claude_says("Hi") if api == "anthropic" else gpt_says("Hi")


def fails(api: str, kind: str, message: str, code: str = "") -> dict[str, Any]:
    return claude_fails(kind, message) if api == "anthropic" else gpt_fails(code, message, kind)


def ask(asked: Provider, *, is_async: bool = False) -> ModelReply:
    return asyncio.run(asked.acomplete(HELLO)) if is_async else asked.complete(HELLO)


@both
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_model_is_asked_with_one_request(wire: Wire, api: str, is_async: bool) -> None:
    wire.will_answer({"body": says(api), "headers": {"request-id": "r1", "x-request-id": "r1"}})
    asked = provider(api, wire.url)
    assert isinstance(asked, Provider)
    reply = ask(asked, is_async=is_async)
    assert reply.message.text == "Hi"
    assert reply.extra[api]["request_id"] == "r1"
    (request,) = wire.requests
    assert request["path"] == ("/v1/messages" if api == "anthropic" else "/v1/responses")
    assert KEY in str(request["headers"])


FAILURES: list[tuple[dict[str, Any], type[ToolFailure]]] = [
    ({"status": 429, "headers": {"retry-after": "7"}}, nt.Retryable),
    ({"status": 503}, nt.Retryable),
    ({"status": 529}, nt.Retryable),
    ({"status": 500}, nt.Ambiguous),
    ({"status": 502}, nt.Ambiguous),
    ({"status": 504}, nt.Ambiguous),
    ({"status": 408}, nt.Ambiguous),
    ({"status": 409}, nt.Ambiguous),
    ({"status": 400}, nt.Permanent),
    ({"status": 401}, nt.Permanent),
    ({"status": 403}, nt.Permanent),
    ({"status": 404}, nt.Permanent),
    ({"status": 422}, nt.Permanent),
    ({"status": 413}, ContextTooLong),
    ({"status": 307, "headers": {"location": "/elsewhere"}}, nt.Ambiguous),
    ({"drop": True}, nt.Ambiguous),
    ({"cut": True}, nt.Ambiguous),
    ({"body": "no JSON"}, nt.Ambiguous),
    ({"body": {"half": "a reply"}}, nt.Ambiguous),
]


@both
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("answer", "expected"), FAILURES, ids=[str(one) for one, _ in FAILURES])
def test_a_failure_is_told_in_our_words_after_one_request(
    wire: Wire, api: str, is_async: bool, answer: dict[str, Any], expected: type[ToolFailure]
) -> None:
    body = says(api) if "cut" in answer else fails(api, "some_error", "it did not work")
    wire.will_answer({"body": body, **answer}, {"body": says(api)}, {"body": says(api)})
    with pytest.raises(ToolFailure) as caught:
        ask(provider(api, wire.url), is_async=is_async)
    assert type(caught.value) is expected
    assert len(wire.requests) == 1
    assert api in str(caught.value)
    if "retry-after" in str(answer):
        assert caught.value.retry_after == "7"  # type: ignore[attr-defined]


@both
def test_a_server_that_takes_too_long_was_asked_once(wire: Wire, api: str) -> None:
    wire.will_answer({"delay_seconds": 1.0, "body": says(api)})
    with pytest.raises(nt.Ambiguous, match="did not answer"):
        ask(provider(api, wire.url, time_limit="200ms"))
    assert len(wire.requests) == 1


@both
def test_a_server_that_is_not_there_was_not_asked(api: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(nt.Retryable, match="could not be reached"):
            ask(provider(api, url))


@pytest.mark.parametrize(
    ("api", "status", "body", "expected"),
    [
        (
            "anthropic",
            400,
            claude_fails("invalid_request_error", "prompt is too long: 212000 tokens > 200000"),
            ContextTooLong,
        ),
        (
            "openai",
            400,
            gpt_fails("context_length_exceeded", "Your input is too long"),
            ContextTooLong,
        ),
        ("openai", 400, gpt_fails("invalid_prompt", "It violates our policy"), ModelRefused),
        ("openai", 429, gpt_fails("insufficient_quota", "You exceeded your quota"), nt.Permanent),
        ("anthropic", 402, claude_fails("billing_error", "Your credit is used up"), nt.Permanent),
        (
            "anthropic",
            429,
            claude_fails("rate_limit_error", "spent", error_code="enforced_spend_limit_reached"),
            nt.Permanent,
        ),
    ],
)
def test_a_refusal_that_has_a_name_is_told_by_it(
    wire: Wire, api: str, status: int, body: dict[str, Any], expected: type[ToolFailure]
) -> None:
    wire.will_answer({"status": status, "body": body})
    with pytest.raises(expected) as caught:
        ask(provider(api, wire.url))
    assert type(caught.value) is expected


@both
def test_the_key_is_in_no_error_log_or_representation(
    wire: Wire, api: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for message in (f"Incorrect API key provided: {KEY}", "Incorrect API key: sk-test*****cdef"):
        wire.will_answer({"status": 401, "body": fails(api, "authentication_error", message)})
        asked = provider(api, wire.url)
        with pytest.raises(nt.Permanent) as caught:
            ask(asked)
        shown = "".join(traceback.format_exception(caught.value))
        for text in (shown, caplog.text, repr(asked), repr(caught.value.facts)):
            assert "sk-test" not in text
            assert KEY not in text
        # Not even as its cause: a tool that reports errors with all their contents would find it.
        assert caught.value.__context__ is None


@both
def test_a_key_from_the_environment_is_not_told_either(
    wire: Wire, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "a-key-of-some-proxy"
    monkeypatch.setenv(f"{api.upper()}_API_KEY", secret)
    wire.will_answer({"status": 401, "body": fails(api, "some_error", f"bad key {secret}!")})
    asked = provider(api, wire.url)
    asked._api_key = None
    with pytest.raises(nt.Permanent, match=r"bad key \*\*\*!") as caught:
        ask(asked)
    assert secret in str(wire.requests[0]["headers"])
    assert secret not in "".join(traceback.format_exception(caught.value))


@both
def test_without_a_key_nothing_is_asked(
    wire: Wire, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "OPENAI_")):
            monkeypatch.delenv(name)
    wire.will_answer({"body": says(api)})
    asked = provider(api, wire.url)
    asked._api_key = None
    with pytest.raises(nt.Permanent, match=f"{api.upper()}_API_KEY"):
        ask(asked)
    assert wire.requests == []


@both
def test_an_option_that_does_not_exist_is_told_before_anything_is_asked(
    wire: Wire, api: str
) -> None:
    wire.will_answer({"body": says(api)})
    request = ModelRequest(messages=HELLO.messages, options={"temprature": 0.5})
    with pytest.raises(nt.Permanent, match="temprature"):
        provider(api, wire.url).complete(request)
    assert wire.requests == []


@both
def test_options_reach_the_model(wire: Wire, api: str) -> None:
    wire.will_answer({"body": says(api)})
    request = ModelRequest(messages=HELLO.messages, options={"metadata": {"user_id": "u7"}})
    provider(api, wire.url).complete(request)
    assert wire.requests[0]["body"]["metadata"] == {"user_id": "u7"}


@both
@pytest.mark.parametrize(("most", "sent"), [(None, 500), (100, 100), (9000, 500)])
def test_output_is_limited_by_the_smaller_limit(
    wire: Wire, api: str, most: int | None, sent: int
) -> None:
    wire.will_answer({"body": says(api)})
    request = ModelRequest(messages=HELLO.messages, most_output_tokens=500)
    provider(api, wire.url, most_output_tokens=most).complete(request)
    word = "max_tokens" if api == "anthropic" else "max_output_tokens"
    assert wire.requests[0]["body"][word] == sent


@both
def test_a_reply_may_be_as_long_as_the_model_can(wire: Wire, api: str) -> None:
    wire.will_answer({"body": says(api)})
    request = ModelRequest(messages=HELLO.messages, most_output_tokens=128_000)
    assert provider(api, wire.url).complete(request).message.text == "Hi"


@both
def test_a_tool_that_no_model_can_name_is_refused(wire: Wire, api: str) -> None:
    wire.will_answer({"body": says(api)})
    tool = ToolSchema("send mail", "Send a mail.", {})
    with pytest.raises(nt.errors.InvalidTool, match="send mail"):
        provider(api, wire.url).complete(ModelRequest(messages=HELLO.messages, tools=(tool,)))
    assert wire.requests == []


@both
def test_an_sdk_that_is_not_installed_is_told_with_what_to_type(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(nt.errors.UsageError, match=rf"nottwice\[{api}\]"):
        provider(api, "http://localhost")


@both
@pytest.mark.parametrize(
    "words", [{"most_output_tokens": 0}, {"most_output_tokens": True}, {"time_limit": "soon"}]
)
def test_settings_that_cannot_work_are_refused(api: str, words: dict[str, Any]) -> None:
    with pytest.raises(nt.errors.UsageError):
        provider(api, "http://localhost", **words)


@both
def test_many_threads_and_loops_may_ask_at_once(wire: Wire, api: str) -> None:
    wire.will_answer(*[{"body": says(api), "delay_seconds": 0.05}] * 8)
    asked = provider(api, wire.url)

    async def all_at_once() -> list[ModelReply]:
        return await asyncio.gather(*(asked.acomplete(HELLO) for _ in range(8)))

    with contextlib.closing(asyncio.new_event_loop()) as loop:
        assert len(loop.run_until_complete(all_at_once())) == 8
    assert len(wire.requests) == 8
