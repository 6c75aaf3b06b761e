"""Is every answer of an API a reply that can be stored, or a typed failure?"""

from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nottwice.agent import providers
from nottwice.agent.messages import Message, Role, said
from nottwice.agent.provider import ModelReply, ModelRequest
from nottwice.agent.providers.sdk import SdkProvider
from nottwice.errors import ToolFailure
from tests.agent.providers.bodies import (
    CITED,
    FUNCTION_CALL,
    REASONING,
    REDACTED,
    SERVER_TOOL,
    THINKING,
    TOOL_USE,
    WEB_SEARCH,
    claude_says,
    gpt_says,
)

BODIES = {
    "anthropic": claude_says("Hi", THINKING, REDACTED, CITED, SERVER_TOOL, TOOL_USE),
    "openai": gpt_says(REASONING, WEB_SEARCH, "Hi", FUNCTION_CALL),
}
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.lists(st.none() | st.text(max_size=3), max_size=2),
    st.dictionaries(st.sampled_from(["type", "text", "id", "x"]), st.text(max_size=3), max_size=2),
)


class Raw(NamedTuple):
    """An answer as the SDK hands it out."""

    content: bytes
    headers: dict[str, str]


def provider(api: str) -> SdkProvider:
    make = providers.anthropic if api == "anthropic" else providers.openai
    return make("claude-sonnet-5-5" if api == "anthropic" else "gpt-5-mini", api_key="key")


def take(api: str, body: Any) -> None:
    """Read an answer, keep it, and put it into the next question."""
    asked = provider(api)
    hello = ModelRequest(messages=(said("Hello"),))
    try:
        reply = asked._read(Raw(json.dumps(body).encode(), {}), asked._ask(hello))
    except ToolFailure:
        return
    rested = ModelReply.from_plain(json.loads(json.dumps(reply.to_plain())))
    assert rested == reply
    assert rested.message.role is Role.ASSISTANT
    again = asked._ask(
        ModelRequest(messages=(said("Hello"), rested.message, Message(Role.USER, ())))
    )
    json.dumps(again)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a body."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = [path] if path else []
    if isinstance(value, dict | list):
        for name, each in inner:
            found += (
                places(each, (*path, name)) if isinstance(each, dict | list) else [(*path, name)]
            )
    return found


@pytest.mark.parametrize("api", BODIES)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_an_answer_with_something_odd_in_it(api: str, data: st.DataObject) -> None:
    body = copy.deepcopy(BODIES[api])
    for path in data.draw(st.lists(st.sampled_from(places(body)), min_size=1, max_size=3)):
        holder: Any = body
        try:
            for name in path[:-1]:
                holder = holder[name]
            if data.draw(st.booleans()):
                holder[path[-1]] = data.draw(ODD)
            else:
                del holder[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue
    take(api, body)


@pytest.mark.parametrize("api", BODIES)
@given(body=ODD)
@settings(max_examples=30, deadline=None)
def test_an_answer_that_is_something_else_altogether(api: str, body: Any) -> None:
    take(api, body)
