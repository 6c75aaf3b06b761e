"""What do both wire formats share? A rejection, the prompt as segments, and a scripted reply."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 1500
DOCUMENT_TOKENS = 3000


class RejectedRequest(Exception):
    """The API does not accept the request: a status, and the error as it spells it."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.kind = message, status, kind
        self.code, self.param = code, param


class Limits(NamedTuple):
    """How much the fake accepts, and how strict it is."""

    strict: bool = True
    context_tokens: int = 200_000
    most_output_tokens: int = 128_000
    least_cached_tokens: int = 1024


class Segment(NamedTuple):
    """A piece of the prompt, in the order in which a cache sees it."""

    text: str
    tokens: int
    marked: bool = False
    """Whether the caller asked for a cache entry that ends here."""


class Tokens(NamedTuple):
    """What one request took."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Reply(NamedTuple):
    """What the model says in one turn, whatever the format."""

    parts: list[dict[str, Any]]
    """``{"text": …}``, ``{"thinking": …}``, ``{"tool": …, "arguments": …}``, ``{"raw": …}``"""
    stop: str | None = None
    """``max_tokens``, ``refusal``, or None: the end of the turn."""
    model: str | None = None
    """The model that answers; None: the one that was asked."""


def canonical(value: Any) -> str:
    """A value as text, the same for the same value; marks for the cache do not count."""
    return json.dumps(_without_marks(value), sort_keys=True, ensure_ascii=False)


def _without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_marks(each) for each in value]
    if isinstance(value, dict):
        kept = value.items()
        return {name: _without_marks(each) for name, each in kept if name != "cache_control"}
    return value


def count_tokens(value: Any) -> int:
    """About how many tokens a part of the prompt takes; images and documents take a fixed sum."""
    if isinstance(value, dict):
        kind = value.get("type")
        if kind in ("image", "input_image"):
            return IMAGE_TOKENS
        if kind in ("document", "input_file"):
            return DOCUMENT_TOKENS
        content = value.get("content", value.get("output"))
        if isinstance(content, list):
            return 2 + sum(count_tokens(part) for part in content)
    return max(1, len(canonical(value).encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def digest(*parts: str) -> str:
    """A short hash of texts in their order."""
    running = hashlib.sha256()
    for part in parts:
        running.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return running.hexdigest()[:32]


class PrefixCache:
    """The beginnings of prompts that were sent before.

    Entries do not expire here: a test takes less than the five minutes that they live.
    """

    LOOKBACK = 20
    """How many blocks before a mark are looked at, too."""
    STEP = 128

    def __init__(self) -> None:
        self._known: set[str] = set()

    def marked(self, scope: str, prompt: list[Segment], least: int) -> Tokens:
        """What is read and written where the caller marks what to keep (Anthropic)."""
        chain, sums = _chain(scope, prompt)
        marks = [
            number for number, each in enumerate(prompt) if each.marked and sums[number] >= least
        ]
        read = 0
        for mark in marks:
            for number in range(mark, max(-1, mark - self.LOOKBACK), -1):
                if chain[number] in self._known:
                    read = max(read, sums[number])
                    break
        self._known |= {chain[mark] for mark in marks}
        until = max((sums[mark] for mark in marks), default=0)
        total = sums[-1] if sums else 0
        return Tokens(total - max(until, read), 0, read, max(0, until - read))

    def automatic(self, scope: str, prompt: list[Segment], least: int) -> Tokens:
        """What is read where the API caches every prefix automatically (OpenAI)."""
        chain, sums = _chain(scope, prompt)
        found = [total for link, total in zip(chain, sums, strict=True) if link in self._known]
        read = max(found, default=0)
        read = read - read % self.STEP if read >= least else 0
        self._known |= set(chain)
        return Tokens((sums[-1] if sums else 0) - read, 0, read, 0)


def _chain(scope: str, prompt: list[Segment]) -> tuple[list[str], list[int]]:
    """For each segment the hash of all up to it, and how many tokens those are."""
    links, sums, link, total = list[str](), list[int](), scope, 0
    for each in prompt:
        link = digest(link, each.text)
        total += each.tokens
        links.append(link)
        sums.append(total)
    return links, sums
