"""A model that says what a script says, and tools that count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool


class ScriptedModel(BaseChatModel):
    """It asks for what a function of the conversation returns; for nothing: it is done."""

    reply: Callable[[list[Any]], list[dict[str, Any]]]
    offered: list[Any] = []  # noqa: RUF012 - pydantic copies it
    """The schemas of the tools, as the model gets them."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        self.offered[:] = [convert_to_openai_tool(each) for each in tools]
        return self

    def _generate(
        self, messages: list[Any], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        asked = [{**one, "type": "tool_call"} for one in self.reply(messages)]
        said = AIMessage("" if asked else "Done.", tool_calls=asked)
        return ChatResult(generations=[ChatGeneration(message=said)])


def scripted(*replies: list[dict[str, Any]]) -> ScriptedModel:
    """A model whose n-th reply in a conversation is the n-th of these."""

    def reply(messages: list[Any]) -> list[dict[str, Any]]:
        count = sum(isinstance(one, AIMessage) for one in messages)
        return replies[count] if count < len(replies) else []

    return ScriptedModel(reply=reply)


def ask(name: str, id: str, **arguments: Any) -> dict[str, Any]:
    """One call that a model asks for."""
    return {"name": name, "args": arguments, "id": id}
