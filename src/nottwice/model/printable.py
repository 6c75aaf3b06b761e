"""How does a text from elsewhere stay one line that steers nothing? (O1)

Ids, errors, event names and texts of an upstream reach logs and terminals. Everything in them that
is not printable is spelled out: ends of lines, escapes, carriage returns, NUL, marks that turn the
direction of writing around, halves of characters. Promise kept here: P94.
"""

from __future__ import annotations

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    """The text on one line, with everything escaped that a terminal could take for a command."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if character in _SHORT:
        return _SHORT[character]
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
