"""A visitor of the operator's page without a browser: requests in, pages out."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from starlette.testclient import TestClient

from nottwice.guard.ledger import AnyStore
from nottwice.web.app import page
from nottwice.web.visitors import Visitor

HOST = "http://testserver"


class Visit:
    """One person with the page of a ledger open."""

    def __init__(
        self,
        ledger: AnyStore | Sequence[AnyStore],
        name: str = "ann",
        *,
        may_decide: bool = True,
        **more: Any,
    ) -> None:
        visitor = Visitor(name, may_decide)
        app = page(ledger, user=lambda request: visitor, secret="the same", **more)
        self.client = TestClient(app, base_url=HOST, follow_redirects=False)

    def get(self, path: str) -> Any:
        return self.client.get(path)

    def text(self, path: str, *, status: int = 200) -> str:
        """The page without its markup, each run of white space as one space."""
        answer = self.get(path)
        assert answer.status_code == status, answer.text
        return words(answer.text)

    def post(self, path: str, *, seen_at: str | None = None, **form: str) -> Any:
        """Fill in the form of a page and send it; fields with a dot are named with two lines."""
        shown = self.get(seen_at or path)
        fields = {**hidden(shown.text), **{name.replace("__", "."): v for name, v in form.items()}}
        return self.client.post(path, data=fields)


def hidden(markup: str) -> dict[str, str]:
    """The hidden fields of the first form of a page that decides something."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', markup)
    return {name: html.unescape(value) for name, value in reversed(found)}


def words(markup: str) -> str:
    """The text of a page, as a person reads it."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", markup))).strip()
