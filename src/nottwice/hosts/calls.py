"""What does a host hand over? A function that may be a protected tool, and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any

from nottwice.errors import InvalidArguments, InvalidTool
from nottwice.guard.attached.calling import AnyTool
from nottwice.model.tool import Tool


def tool_of(function: Any) -> AnyTool | None:
    """Return the protected tool with effects that a host is about to call. None: it is another
    function, or has no effect."""
    declared = getattr(function, "tool", None)
    if not isinstance(declared, Tool) or not declared.replay_class.effectful:
        return None
    tool: AnyTool = function
    return tool


def bare(function: Any) -> Callable[..., Any]:
    """Return the function of a tool without effects, which a host may simply call.

    The function of a bound method, ``shop.refund``, is bound to the same instance.
    """
    found: Callable[..., Any] = function
    if isinstance(getattr(function, "tool", None), Tool) and hasattr(function, "fn"):
        found = function.fn
        if inspect.ismethod(function):
            found = MethodType(found, function.__self__)
    return found


def check_not_unbound(tool: Any, *, decorator: str) -> None:
    """Refuse a method that is declared in its class, where there is no instance yet."""
    name = tool.tool.name
    if tool.tool.bound_by is not None and not inspect.ismethod(tool):
        raise InvalidTool(
            f"{name!r} is a method and was not declared: a message or a workflow does not say "
            "which instance to call. Declare the method of one instance, outside of the class: "
            f"{name} = {decorator}(...)(shop.{name}). Or write a function that finds the instance "
            "by an argument.",
            tool=name,
        )


def arguments_of(
    tool: AnyTool, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the arguments of a call by name, as ``ledger.once`` takes them."""
    try:
        bound = inspect.signature(bare(tool)).bind(*args, **(kwargs or {}))
    except TypeError as error:
        name = tool.tool.name
        raise InvalidArguments(f"Tool {name!r} was not run: {error}.", tool=name) from error
    return dict(bound.arguments)
