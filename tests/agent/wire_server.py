"""The fake model APIs for tests of providers: whole bodies, as the APIs would send them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from nottwice.testing import FakeModels, Fault, Turn


class Wire:
    """The APIs as a test sees them. They take any request unless they are told to be strict."""

    def __init__(self, fake: FakeModels) -> None:
        self.url, self._fake = fake.url, fake

    def will_answer(self, *answers: dict[str, Any]) -> None:
        """What the next requests get, and begin to count again.

        ``status``, ``headers``, ``body``: the answer. ``drop``: close instead of answering.
        ``cut``: close in the middle of the body. ``delay_seconds``: before the answer.
        """
        self._fake.reset(strict=False)
        self._fake.will_fail(*(Fault(**answer) for answer in answers))

    def will_converse(self, *bodies: dict[str, Any]) -> None:
        """The body of each turn, however often it is asked for, to requests without a flaw."""
        self._fake.reset()
        self._fake.will_say(*(Turn(body=body) for body in bodies))

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What was asked since then: path, headers and body of each request."""
        return [
            {"path": one.path, "headers": one.headers, "body": one.body, "rejected": one.rejected}
            for one in self._fake.requests
        ]


@contextlib.contextmanager
def started() -> Iterator[Wire]:
    """The APIs in their process."""
    with FakeModels.start() as fake:
        yield Wire(fake)
