"""What did a person say about the tools of an MCP server? The configuration (P271).

It is TOML, with a table for each tool that a person has classed:

    [tools.charge]
    class = "unsafe_on_replay"
    fresh = "1h"

A tool without a table, or without ``class``, keeps the defaults of plans.py. ``new_settings``
writes a first version from the tool list of a server, for a person to correct.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record
from nottwice.model.tool import parse_duration

CLASSES = ("pure", "idempotent", "idempotent_with_key", "unsafe_on_replay")
FRESH = "1h"
FOREVER = "forever"
_WORDS = ("class", "fresh", "key", "window", "once_per", "approve")


@frozen_record(frozen=True, slots=True)
class ToolSettings:
    """What a person said about one tool."""

    replay: str
    """What a second run of it does: one of the replay classes."""
    fresh_seconds: float | None = 3600.0
    """For how long an equal call gets the receipt. None: forever."""
    key: str | None = None
    window: str | None = None
    once_per: tuple[str, ...] | None = None
    approve: bool = False


def read_tools(given: Mapping[str, Any] | None, *, where: str = "tools") -> dict[str, ToolSettings]:
    """Read what was said about each tool: a class, or a mapping with ``class`` and more.

    ``replay`` means the same as ``class``.
    ``where``: how an error names the origin. Raises UsageError before anything happens.
    """
    found: dict[str, ToolSettings] = {}
    for name, said in (given or {}).items():
        at = f"{where}.{name}"
        words = {"class": said} if isinstance(said, str) else said
        if not isinstance(words, Mapping):
            raise _wrong(at, f"it is {type(said).__name__}, not a class or a table")
        words = _with_class(words, at)
        if "class" in words:
            found[name] = _read_tool(words, at)
        elif unknown := [word for word in words if word not in _WORDS]:
            raise _wrong(at, f"it has {unknown[0]!r}")
    return found


def read_file(path: Path) -> dict[str, ToolSettings]:
    """Read a configuration file. Raises UsageError if it cannot be used."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"The configuration {path} cannot be read: {error.strerror}. Nothing was started. "
            "Write one with: nottwice proxy --init -- COMMAND"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"The configuration {path} is not TOML: {error}. Nothing was started. Correct it."
        ) from error
    unknown = [word for word in document if word != "tools"]
    if unknown:
        raise UsageError(
            f"The configuration {path} has {unknown[0]!r}, which is unknown. Nothing was "
            "started. It has a table for each tool: [tools.NAME]"
        )
    tools = document.get("tools", {})
    if not isinstance(tools, dict):
        raise UsageError(
            f"The configuration {path}: 'tools' is not a table. Nothing was started. Write a table "
            "for each tool: [tools.NAME]"
        )
    return read_tools(tools, where=f"{path}: tools")


def new_settings(name: str, tools: Iterable[Mapping[str, Any]]) -> str:
    """Return a configuration for a person to correct, made of the tool list of a server.

    What the annotations say is written down as it is. Nothing else is guessed: a line that a
    person must decide is a comment, so the tool keeps the defaults until then.
    """
    lines = [
        f"# What a second run of each tool of the MCP server {name!r} does. Please correct it.",
        "#   pure              it changes nothing: reads, searches",
        "#   idempotent        nothing more than the first time: set a status, write a whole file",
        "#   unsafe_on_replay  it happens again: payments, mails, orders",
        "# A classed tool runs once per `fresh` for equal arguments. Without a class, only a lost",
        "# answer is given again.",
    ]
    for tool in tools:
        hints = tool.get("annotations")
        hints = hints if isinstance(hints, Mapping) else {}
        said = str(tool.get("description") or "").strip().splitlines()
        lines += ["", f"[tools.{json.dumps(str(tool.get('name')), ensure_ascii=False)}]"]
        if said:
            lines.append(f"# {_printable(said[0])}")
        if hints.get("readOnlyHint") is True:
            lines.append('class = "pure"  # the server says: readOnlyHint')
        elif hints.get("idempotentHint") is True:
            lines.append('# class = "idempotent"  # the server says: idempotentHint')
            lines.append(f'# fresh = "{FRESH}"')
        else:
            lines.append('# class = "unsafe_on_replay"')
            lines.append(f'# fresh = "{FRESH}"')
    return "\n".join(lines) + "\n"


def _with_class(words: Mapping[str, Any], at: str) -> Mapping[str, Any]:
    """Return the same with ``class`` where ``replay`` was said, as in ``nt.adapters.declare``."""
    if {"class", "replay"} <= words.keys():
        raise _wrong(at, "it has both 'class' and 'replay', which mean the same")
    return {"class" if word == "replay" else word: said for word, said in words.items()}


def _read_tool(words: Mapping[str, Any], at: str) -> ToolSettings:
    unknown = [word for word in words if word not in _WORDS]
    if unknown:
        raise _wrong(at, f"it has {unknown[0]!r}")
    if words["class"] not in CLASSES:
        raise _wrong(at, f"its class {words['class']!r} is not one of: {', '.join(CLASSES)}")
    for word in ("key", "window"):
        if not isinstance(words.get(word, ""), str):
            raise _wrong(at, f"{word!r} is not text")
    names = words.get("once_per")
    listed = isinstance(names, list | tuple) and all(isinstance(one, str) for one in names)
    if names is not None and not listed:
        raise _wrong(at, "'once_per' is not a list of names")
    if not isinstance(words.get("approve", False), bool):
        raise _wrong(at, "'approve' is neither true nor false")
    fresh = words.get("fresh", FRESH)
    if not isinstance(fresh, str):
        raise _wrong(at, "'fresh' is not text such as \"1h\"")
    return ToolSettings(
        replay=words["class"],
        fresh_seconds=None if fresh == FOREVER else parse_duration(fresh, what=f"{at}: fresh"),
        key=words.get("key"),
        window=words.get("window"),
        once_per=None if names is None else tuple(names),
        approve=words.get("approve", False),
    )


def _wrong(at: str, what: str) -> UsageError:
    return UsageError(
        f"{at} cannot be used: {what}. Nothing was started. A tool has a class "
        f"({', '.join(CLASSES)}) and may have: {', '.join(_WORDS[1:])}."
    )


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)[:90]
