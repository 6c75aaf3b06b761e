"""Who may look, who may decide, and who is believed?"""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.web.app import page
from nottwice.web.visitors import LEAST_TOKEN, LinkTokens, Visitor

TOKEN = "a-token-that-is-long-enough-to-be-one"


def request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": raw})


def test_a_token_is_long() -> None:
    with pytest.raises(UsageError, match="at least 32"):
        LinkTokens("x" * (LEAST_TOKEN - 1), name="ann")


def test_cookies_carry_the_right_of_their_link_and_not_the_token() -> None:
    tokens = LinkTokens(TOKEN, name="ann")
    decide, look = tokens.cookie_for(TOKEN), tokens.cookie_for(tokens.look_token)
    assert decide is not None
    assert look is not None
    assert len({TOKEN, tokens.look_token, decide, look}) == 4
    assert tokens.cookie_for(decide) is None
    assert tokens.visitor(request(cookie=f"nottwice={decide}")) == Visitor("ann")
    assert tokens.visitor(request(cookie=f"nottwice={look}")) == Visitor("ann", may_decide=False)
    assert tokens.visitor(request(cookie=f"nottwice={TOKEN}")) is None
    assert tokens.visitor(request(cookie="nottwice=")) is None
    assert tokens.visitor(request()) is None


def test_a_program_shows_the_token_itself() -> None:
    tokens = LinkTokens(TOKEN, name="ann")
    found = tokens.visitor(request(authorization=f"Bearer {TOKEN}"))
    assert found == Visitor("ann", is_program=True)
    assert tokens.visitor(request(authorization="Bearer wrong")) is None
    assert tokens.visitor(request(authorization="Basic wrong")) is None


def test_the_name_of_a_person_is_believed_only_from_the_proxy() -> None:
    tokens = LinkTokens(TOKEN, name="ann", user_header="X-User", deciders=["bob"])
    proxy = f"Bearer {TOKEN}"
    assert tokens.visitor(request(x_user="bob")) is None
    assert tokens.visitor(request(x_user="bob", authorization="Bearer wrong")) is None
    assert tokens.visitor(request(authorization=proxy)) is None
    assert tokens.visitor(request(authorization=proxy, x_user=" ")) is None
    assert tokens.visitor(request(authorization=proxy, x_user="bob")) == Visitor("bob")
    assert tokens.visitor(request(authorization=proxy, x_user="eve")) == Visitor("eve", False)
    # A cookie of the link would let a person skip the login of the proxy.
    cookie = tokens.cookie_for(TOKEN)
    assert tokens.visitor(request(cookie=f"nottwice={cookie}", x_user="bob")) is None


def test_without_a_list_every_person_behind_the_proxy_may_decide() -> None:
    tokens = LinkTokens(TOKEN, name="ann", user_header="X-User")
    found = tokens.visitor(request(authorization=f"Bearer {TOKEN}", x_user="eve"))
    # Its browser sends forms, so they are checked like all forms.
    assert found == Visitor("eve", may_decide=True, is_program=False)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, 200),
        ({"origin": "https://evil.example.com"}, 403),
        ({"origin": "http://testserver"}, 403),
        ({"referer": "https://evil.example.com/"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "application/x-www-form-urlencoded"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"X-User": "eve"}, 403),
        ({"authorization": "Bearer wrong"}, 401),
    ],
    ids=str,
)
def test_behind_a_proxy_a_program_decides_and_a_browser_does_not_do_it_for_another_site(
    ledger: Ledger, doubt: str, change: dict[str, str], status: int
) -> None:
    """P413."""
    tokens = LinkTokens(TOKEN, name="ann", user_header="X-User", deciders=["bob"])
    client = TestClient(page(ledger, user=tokens.visitor))
    headers = {"authorization": f"Bearer {TOKEN}", "X-User": "bob"}
    headers |= {"content-type": "application/json"} | change
    sent = {"verb": "abort", "why": "stop", "shown_version": 1}
    body = urlencode(sent) if "form" in headers["content-type"] else json.dumps(sent)
    answer = client.post(f"/api/reviews/{doubt}", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    review = ledger.store.load_review(doubt)
    assert review is not None
    decision = review.decision
    assert (None if decision is None else decision.by) == ("bob" if status == 200 else None)
