"""Which work is a message about? An argument of it says so: the order, the invoice (P288).

A queue may deliver a message again, and a program may send it again under a new id. Only what is in
the message stays the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from nottwice.errors import InvalidArguments, InvalidTool
from nottwice.guard.attached.calling import AnyTool
from nottwice.hosts.calls import bare

NamesWork: TypeAlias = str | Callable[[Mapping[str, Any]], str]
"""The argument that names the work, or a function that gets the arguments and returns the name."""


def checked_naming(tool: AnyTool, run: NamesWork | None, *, decorator: str) -> NamesWork:
    """Return how the work is named, or say how to name it, with the ``decorator`` to write."""
    arguments = list(inspect.signature(bare(tool)).parameters)
    if run is not None and (not isinstance(run, str) or run in arguments):
        return run
    asked = "does not say" if run is None else f"says {run!r}, which is not one of its arguments,"
    example = arguments[0] if arguments else "order_id"
    raise InvalidTool(
        f"{tool.tool.name!r} {asked} which work a message is about. Nothing was declared. Name the "
        "argument that is the same whenever the same work is sent again: "
        f"@{decorator}(app, run={example!r}). The id of the message is not: a program that sends "
        "it again gives it a new one."
    )


def work_of(tool: AnyTool, run: NamesWork, arguments: Mapping[str, Any]) -> str:
    """Return the name of the work: the argument and its value, ``order_id=7``.

    Without the name of the argument, order 7 and invoice 7 would be the same work.
    """
    if not isinstance(run, str):
        return run(arguments)
    value = arguments.get(run, inspect.signature(bare(tool)).parameters[run].default)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        name = tool.tool.name
        shown = "missing" if value is inspect.Parameter.empty else f"{type(value).__name__}"
        raise InvalidArguments(
            f"Tool {name!r} was not run: its argument {run!r} names the work, and is "
            f"{'an empty text' if value == '' else shown}. Nothing was sent. Give a text or a "
            "whole number that is the same whenever the same work is sent again.",
            tool=name,
        )
    return f"{run}={value}"
