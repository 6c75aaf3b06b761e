"""What does a tool tell an operator? Its title, where to look, its summary and its place (T1).

A template is checked when the tool is declared, because a person reads it when something went
wrong. Promise kept here: P224.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Collection
from typing import Any

from nottwice.errors import InvalidTool
from nottwice.guard.definition import place_of
from nottwice.model.tools.templates import (
    CALL_ID,
    CALL_KEY,
    KEY,
    MOST_TEMPLATE_CHARACTERS,
    parse_template,
)

_MOST_SUMMARY_CHARACTERS = 200


def check_wording(
    tool: str, what: str, text: object, *, parameters: Collection[str], keyed: bool
) -> str | None:
    """Return a template, if one is given. Raises InvalidTool for one that could not be filled."""
    if text is None:
        return None
    if not isinstance(text, str) or not text.strip():
        raise _invalid(tool, what, text, "it must be a text")
    if len(text) > MOST_TEMPLATE_CHARACTERS or not text.isprintable():
        raise _invalid(
            tool,
            what,
            text,
            f"it must be one line of at most {MOST_TEMPLATE_CHARACTERS} characters",
        )
    try:
        fields = [field for _, field in parse_template(text) if field is not None]
    except ValueError as error:
        raise _invalid(tool, what, text, f"{error}. Write {{{{ and }}}} for braces") from None
    usable = list(parameters)
    if what == "look":
        of_calls = [CALL_ID, CALL_KEY, KEY] if keyed else [CALL_ID]
        usable += [field for field in of_calls if field not in usable]
    for field in fields:
        if field not in usable:
            known = ", ".join(usable) or "none"
            raise _invalid(
                tool, what, text, f"there is no {field!r} to fill in. There are: {known}"
            )
    return text


def _invalid(tool: str, what: str, text: object, why: str) -> InvalidTool:
    return InvalidTool(f"Tool {tool!r} was not declared: {what}={text!r}: {why}.", tool=tool)


def summary_of(function: Callable[..., Any]) -> str | None:
    """Return the first line of a docstring, or None."""
    lines = (inspect.getdoc(function) or "").strip().splitlines()
    return lines[0].strip()[:_MOST_SUMMARY_CHARACTERS] if lines else None


def relative_place(function: Callable[..., Any]) -> str:
    """Return where a function is written, from the folder that its package is imported from.

    The folders of a machine say nothing about the tool, and differ from machine to machine.
    """
    place = place_of(function)
    roots = [os.path.abspath(folder or os.curdir) + os.sep for folder in sys.path]
    around = max((root for root in roots if place.startswith(root)), key=len, default="")
    if around:
        return place[len(around) :]
    return os.path.basename(place) if os.path.isabs(place) else place
