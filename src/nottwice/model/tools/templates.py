"""How does a person read a call? By a template of its tool, filled with the recorded arguments.

The arguments come from the ledger, so a secret is never shown, and no text can control a terminal.
Promise kept here: P224.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from nottwice.model import values
from nottwice.model.data.printable import one_line
from nottwice.model.sealing.secrets import SHOWN, covered, is_fingerprint

KEY = "key"
CALL_KEY = "call.key"
CALL_ID = "call.id"
"""The fields of a ``look`` template that are no arguments: the idempotency key and the call id."""
MOST_TEMPLATE_CHARACTERS = 500
_MOST_FIELD_CHARACTERS = 200
_URLS = ("https://", "http://")


def parse_template(text: str) -> tuple[tuple[str, str | None], ...]:
    """Return literal texts, each with the field after it. Raises ValueError if it cannot be read.

    A field is a name in braces, ``call.id`` or ``call.key``: no other attributes, no formats.
    """
    found: list[tuple[str, str | None]] = []
    for literal, field, form, conversion in string.Formatter().parse(text):
        is_name = field is None or field.isidentifier() or field in (CALL_ID, CALL_KEY)
        if form or conversion or not is_name:
            raise ValueError(f"{{{field}}} is not the name of a parameter in braces")
        found.append((literal, field))
    return tuple(found)


def fill(template: str, given: Mapping[str, Any]) -> str:
    """Return the text for one call, on one line. A field without a value stays as it is.

    In a URL the values are quoted, so an argument cannot change where it leads.
    """
    try:
        parts = parse_template(template)
    except ValueError:
        # Written by another version of nottwice, or by hand.
        return one_line(template)
    quoted = template.startswith(_URLS)
    pieces: list[str] = []
    for literal, name in parts:
        pieces.append(literal)
        if name is not None:
            pieces.append(_shown(given[name], quoted) if name in given else f"{{{name}}}")
    return one_line("".join(pieces))


def fill_look(template: str, args: Mapping[str, Any], *, call_id: str, key: str | None) -> str:
    """Return where a person checks whether a call happened."""
    if key is None:
        return fill(template, {**args, CALL_ID: call_id})
    return fill(template, {KEY: key, **args, CALL_ID: call_id, CALL_KEY: key})


def _shown(value: Any, quoted: bool) -> str:
    if is_fingerprint(value):
        return SHOWN
    text = value if isinstance(value, str) else values.encode(covered(value))
    if len(text) > _MOST_FIELD_CHARACTERS:
        text = text[:_MOST_FIELD_CHARACTERS] + "…"
    return quote(text, safe="") if quoted else text
