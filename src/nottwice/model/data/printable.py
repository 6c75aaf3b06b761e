"""How does foreign text stay on one line and control nothing? (O1)

Ids, errors, event names and upstream texts reach logs and terminals. Every unprintable character in
them is escaped: line ends, escape sequences, carriage returns, NUL, marks that change the writing
direction, lone surrogates. Promise kept here: P94.
"""

from __future__ import annotations

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    """Return the text on one line, with everything escaped that could control a terminal."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if character in _SHORT:
        return _SHORT[character]
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
