"""What is known about a tool that is offered to a model: its class, its schema, its run (P260)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool

from nottwice.adapters import Handle
from nottwice.guard.attached.calling import AnyTool
from nottwice.guard.ledger import Ledger
from nottwice.langchain.declared import Declared, arguments_in, find_run, own_tool
from nottwice.model.tool import Repeat

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig


class OfferedTool:
    """A tool that is offered to a model, and what nottwice knows about it."""

    def __init__(self, tool: BaseTool, ledger: Ledger, declared: Declared, run: str | None) -> None:
        self.tool, self._ledger, self._run = tool, ledger, run
        self.schema = schema_of(tool)
        self.repeat: Repeat | None = declared.repeat(tool.name)
        self.own = own_tool(getattr(tool, "func", None)) or own_tool(
            getattr(tool, "coroutine", None)
        )
        """The function of the tool, if ``nt.tool`` protects it already: it keeps its own class."""
        self.spec: AnyTool = self.own or declared.spec(tool.name, self.schema)
        if self.own is not None:
            declared.check_own_words(tool.name, self.own.tool)
        self.is_effectful = self.spec.tool.replay_class.effectful

    @property
    def passes(self) -> bool:
        """Whether it is simply run: it has no effect, and no policy wants to know of it."""
        return self.own is None and not self.is_effectful and not self._ledger.host.policies

    def attach(self, config: RunnableConfig) -> Handle:
        """Return a handle of the run that a call belongs to."""
        return self._ledger.attach(find_run(self._run, config.get("configurable", {})))

    def arguments(self, tool_input: Any) -> dict[str, Any]:
        """Return the arguments that the model gave, without those that LangChain adds."""
        return arguments_in(tool_input, self.schema)


def schema_of(tool: BaseTool) -> Mapping[str, Any]:
    """The JSON schema of the arguments that a model gives."""
    schema: Any = tool.tool_call_schema
    found: Mapping[str, Any] = schema if isinstance(schema, dict) else schema.model_json_schema()
    return found
