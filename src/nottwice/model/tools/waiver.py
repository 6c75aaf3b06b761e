"""Which lines of a source state, with a reason, that they have no effect? Nothing is executed.

    response = httpx.post(url, json=query)  # nottwice: no effect, a search that needs a body

A waiver applies to the call on its line. A waiver without a reason does not count and is an error:
after a year, a person must be able to judge whether it still holds. Promise kept here: P166.
"""

from __future__ import annotations

import functools
import io
import re
import tokenize
from collections.abc import Iterator

from nottwice.model.data.records import frozen_record

SPELLING = "# nottwice: no effect, <why>"
_OURS = re.compile(r"#\s*nottwice\s*:\s*(.*)", re.IGNORECASE)
_WAIVER = re.compile(r"no effect\s*[,:]\s*(?P<why>\S.*)", re.IGNORECASE)
_LEAST_LETTERS = 3


@frozen_record(frozen=True, slots=True)
class Waivers:
    """The waivers of one source."""

    lines: frozenset[int]
    """The lines that have a waiver with a reason."""
    refused: tuple[tuple[int, str], ...]
    """Comments that address nottwice but are not a waiver: line and text."""

    def cover(self, first: int, last: int) -> bool:
        """Whether one of these lines has a waiver."""
        return any(first <= line <= last for line in self.lines)


@functools.lru_cache(maxsize=256)
def read_waivers(source: str) -> Waivers:
    """Find the waivers of a source. Only comments count, not strings that look like one."""
    good: set[int] = set()
    refused: list[tuple[int, str]] = []
    for line, comment in _comments(source):
        ours = _OURS.match(comment)
        if ours is None:
            continue
        waiver = _WAIVER.fullmatch(ours[1].strip())
        letters = sum(map(str.isalpha, waiver["why"])) if waiver else 0
        if letters >= _LEAST_LETTERS and waiver and waiver["why"] != "<why>":
            good.add(line)
        else:
            refused.append((line, comment.strip()))
    return Waivers(frozenset(good), tuple(refused))


def _comments(source: str) -> Iterator[tuple[int, str]]:
    if "nottwice" not in source.lower():
        return
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):
        # From here on it is not Python.
        return
