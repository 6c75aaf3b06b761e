"""How does a command read plain data? As strict JSON: typed, from stdin, or from a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from nottwice.errors import NottwiceError
from nottwice.model import values
from nottwice.views.text import safe


def read_json(given: str, *, option: str, outcome: str) -> Any:
    """The value of an option: JSON, ``-`` for stdin, ``@PATH`` for a file.

    A usage error, which says ``outcome``, for everything that is not JSON or cannot be kept.
    """
    return parse_json(
        text_of(given, option=option, outcome=outcome), option=option, outcome=outcome
    )


def text_of(given: str, *, option: str, outcome: str) -> str:
    """The text of an option: as given, from stdin, or from a file."""
    try:
        if given == "-":
            return sys.stdin.read()
        if given.startswith("@"):
            return Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{option} cannot be read: {safe(error)}. {outcome}") from None
    return given


def parse_json(text: str, *, option: str, outcome: str) -> Any:
    """Read strict JSON: no NaN, no name twice in one object, nothing that cannot be kept."""
    try:
        # Python would take NaN and Infinity; the check for plain data does not.
        value = json.loads(text, object_pairs_hook=_refuse_twins)
        values.check_plain(value, root="$")
    except (ValueError, RecursionError, NottwiceError) as error:
        why = safe(error).rstrip(".")
        raise click.UsageError(
            f"{option} is not JSON that can be kept: {why}. {outcome} Text needs its own quotes, "
            f"as in {option} '\"sent\"'; null means None."
        ) from None
    return value


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("an object has the same name twice")
    return names
