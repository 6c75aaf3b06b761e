"""nottwice as in its README: one decorator, one ``with``, default settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

DISTRIBUTION = "nottwice"
NOTE = "unsafe_on_replay, one run, defaults"

Call = Callable[[str, str], object]
Send = Callable[..., dict[str, str]]


@contextmanager
def open_guard(database: Path, send: Send) -> Iterator[Call]:
    try:
        import nottwice as nt

        guarded = protect(send)
        run = nt.run("bench", store=str(database))
    except (ImportError, AttributeError) as error:
        raise SystemExit(f"the nottwice of this tree is not usable yet: {error}") from error
    with run:
        yield lambda to, body: guarded(to=to, body=body)


@cache
def protect(send: Send) -> Send:
    """Declare the tool once: a second tool of the same name is refused (T1)."""
    import nottwice as nt

    return nt.tool("unsafe_on_replay")(send)
