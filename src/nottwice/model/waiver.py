"""Which lines of a source say, with a reason, that they have no effect? Pure text, nothing is run.

    response = httpx.post(url, json=query)  # nottwice: no effect, a search that needs a body

A waiver counts for the call that stands on its line. One without a reason does not count and is an
error: after a year, a person must be able to judge whether it still holds. Promise kept here: P166.
"""

from __future__ import annotations

import functools
import io
import re
import tokenize
from collections.abc import Iterator

from nottwice.model.records import frozen_record

SPELLING = "# nottwice: no effect, <why>"
_OURS = re.compile(r"#\s*nottwice\s*:\s*(.*)", re.IGNORECASE)
_WAIVER = re.compile(r"no effect\s*[,:]\s*(?P<why>\S.*)", re.IGNORECASE)
_LEAST_LETTERS = 3


@frozen_record(frozen=True, slots=True)
class Waivers:
    """The waivers of one source."""

    lines: frozenset[int]
    """Where a waiver with a reason stands."""
    refused: tuple[tuple[int, str], ...]
    """Comments that address nottwice and are no waiver: line and text."""

    def cover(self, first: int, last: int) -> bool:
        """Whether a waiver stands on one of these lines."""
        return any(first <= line <= last for line in self.lines)


@functools.lru_cache(maxsize=256)
def read_waivers(source: str) -> Waivers:
    """Find the waivers of a source. Texts that look like one are told apart from comments."""
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
        # It is not Python from here on.
        return
