"""Does every request pass the same checks, and is every answer safe to show?"""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from nottwice.guard.ledger import Ledger
from nottwice.web.app import page
from nottwice.web.safety import HEADERS, MOST_BYTES, POLICY
from nottwice.web.visitors import LinkTokens, Visitor
from tests.web.visiting import HOST, Visit, hidden, words

TOKEN = "a-token-that-is-long-enough-to-be-one"
PATHS = ("/", "/runs", "/ledger", "/report", "/api/reviews", "/live", "/nothing", "/static/page.js")


def served(ledger: Ledger, **more: object) -> tuple[TestClient, LinkTokens]:
    tokens = LinkTokens(TOKEN, name="ann")
    app = page(
        ledger,
        user=tokens.visitor,
        tokens=tokens,
        hosts=["testserver"],
        **more,  # type: ignore[arg-type]
    )
    return TestClient(app, base_url=HOST, follow_redirects=False), tokens


def unchanged(ledger: Ledger, review_id: str) -> bool:
    review = ledger.store.load_review(review_id)
    return review is not None and review.version == 1


def decision(client: TestClient, doubt: str) -> dict[str, str]:
    fields = hidden(client.get(f"/review/{doubt}").text)
    return fields | {"verb": "did-not-happen", "why": "not there"}


def test_the_token_of_the_link_becomes_a_cookie_and_leaves_the_address(ledger: Ledger) -> None:
    client, tokens = served(ledger)
    assert client.get("/").status_code == 401
    assert client.get("/?token=wrong").status_code == 401
    welcome = client.get(f"/?kind=in+doubt&token={tokens.decide_token}")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/?kind=in+doubt")
    cookie = welcome.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert TOKEN not in cookie
    assert client.get("/").status_code == 200


def test_a_link_never_leads_to_another_host(ledger: Ledger) -> None:
    client, tokens = served(ledger)
    for path in ("//evil.example/", "///evil.example/", "/%2fevil.example/"):
        welcome = client.get(f"{HOST}{path}?token={tokens.decide_token}")
        assert welcome.status_code == 303
        assert welcome.headers["location"] == "/evil.example/", path


def test_a_stranger_sees_nothing_but_the_style(ledger: Ledger, doubt: str) -> None:
    client, _ = served(ledger)
    for path in ("/", f"/review/{doubt}", "/runs", "/api/reviews", "/api/ledger", "/live"):
        answer = client.get(path)
        assert answer.status_code == 401, path
        assert "ticket" not in answer.text
    assert client.get("/static/page.css").status_code == 200
    assert client.post(f"/review/{doubt}", data={"verb": "abort"}).status_code == 401


def test_the_page_answers_to_its_own_names_only(ledger: Ledger) -> None:
    client, tokens = served(ledger)
    client.get(f"/?token={tokens.decide_token}")
    for host in ("evil.example.com", "testserver:81", ""):
        answer = client.get("/", headers={"host": host})
        assert answer.status_code == 421, host
        assert "ticket" not in answer.text


def test_a_link_to_look_cannot_decide(ledger: Ledger, doubt: str) -> None:
    client, tokens = served(ledger)
    client.get(f"/?token={tokens.look_token}")
    markup = client.get(f"/review/{doubt}").text
    assert "You may look, and not decide" in words(markup)
    assert "<button" not in markup
    csrf = re.search(r'name="csrf"', markup)
    assert csrf is None
    # Even with everything that a form needs.
    looker = Visit(ledger, "ann")
    answer = Visit(ledger, "ann", may_decide=False).client.post(
        f"/review/{doubt}", data=decision(looker.client, doubt)
    )
    assert answer.status_code == 403
    assert "You may look here, and not decide" in answer.text
    assert unchanged(ledger, doubt)


def test_a_page_that_is_read_only_records_nothing(ledger: Ledger, doubt: str) -> None:
    form = decision(Visit(ledger).client, doubt)
    reader = Visit(ledger, read_only=True)
    assert reader.client.post(f"/review/{doubt}", data=form).status_code == 403
    assert unchanged(ledger, doubt)


@pytest.mark.parametrize(
    "change",
    [{"csrf": ""}, {"csrf": "0" * 64}, {"csrf": "é"}],
    ids=["none", "another", "not ASCII"],
)
def test_a_form_without_the_secret_of_the_page_is_refused(
    change: dict[str, str], visit: Visit, ledger: Ledger, doubt: str
) -> None:
    form = decision(visit.client, doubt) | change
    answer = visit.client.post(f"/review/{doubt}", data=form)
    assert answer.status_code == 403
    assert "not from this page" in answer.text
    assert unchanged(ledger, doubt)


def test_the_secret_of_a_form_belongs_to_one_person(ledger: Ledger, doubt: str) -> None:
    form = decision(Visit(ledger, "bob").client, doubt)
    assert Visit(ledger, "ann").client.post(f"/review/{doubt}", data=form).status_code == 403
    assert unchanged(ledger, doubt)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example.com"},
        {"origin": "null"},
        {"origin": "http://testserver:81"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_form_of_another_site_is_refused(
    headers: dict[str, str], visit: Visit, ledger: Ledger, doubt: str
) -> None:
    form = decision(visit.client, doubt)
    answer = visit.client.post(f"/review/{doubt}", data=form, headers=headers)
    assert answer.status_code == 403
    assert unchanged(ledger, doubt)
    same = {"origin": HOST, "sec-fetch-site": "same-origin"}
    assert visit.client.post(f"/review/{doubt}", data=form, headers=same).status_code == 303


def test_a_form_that_is_too_large_or_of_another_kind_is_refused(
    visit: Visit, ledger: Ledger, doubt: str
) -> None:
    form = decision(visit.client, doubt)
    large = visit.client.post(f"/review/{doubt}", data=form | {"why": "x" * MOST_BYTES})
    assert large.status_code == 413
    files = {"file": ("a", b"a")}
    assert visit.client.post(f"/review/{doubt}", data=form, files=files).status_code == 415
    assert visit.client.post(f"/review/{doubt}", content=b"\xff").status_code == 415
    assert visit.client.put(f"/review/{doubt}", data=form).status_code == 405
    assert unchanged(ledger, doubt)


@pytest.mark.parametrize("path", [path for path in PATHS if path != "/live"])
def test_every_answer_has_the_headers_that_keep_text_inert(path: str, visit: Visit) -> None:
    answer = visit.get(path)
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert "unsafe" not in POLICY
    assert "default-src 'none'" in POLICY


def test_the_browser_is_told_to_run_nothing_but_our_script(visit: Visit) -> None:
    """P326. The words of the policy, and not whatever the code has."""
    answer = visit.get("/")
    said = answer.headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in said.split(";"))
    assert rules == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"


def test_no_page_has_inline_code_or_asks_another_host(visit: Visit, doubt: str) -> None:
    for path in ("/", f"/review/{doubt}", "/runs", "/ledger", "/report", "/run?id=ticket-8"):
        markup = visit.get(path).text
        assert not re.search(r"<script(?! src=\"/static/)", markup), path
        assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:", markup), path
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//", markup), path


def test_a_program_with_the_token_needs_no_cookie_and_no_form(ledger: Ledger, doubt: str) -> None:
    client, tokens = served(ledger)
    bearer = {"authorization": f"Bearer {tokens.decide_token}"}
    form = {"verb": "did-not-happen", "why": "not there", "shown_version": 1}
    look = {"authorization": f"Bearer {tokens.look_token}"}
    assert client.post(f"/api/reviews/{doubt}", json=form, headers=look).status_code == 403
    assert client.post(f"/api/reviews/{doubt}", json=form).status_code == 401
    answer = client.post(f"/api/reviews/{doubt}", json=form, headers=bearer)
    assert answer.status_code == 200, answer.text
    assert answer.json()["case"]["review"]["decision"]["by"] == "ann"


def test_an_app_of_your_own_says_who_is_there(ledger: Ledger) -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.routing import Mount

    async def user(request: Request) -> str | Visitor | None:
        name = request.headers.get("x-login")
        return Visitor(name, may_decide=False) if name == "eve" else name

    app = Starlette(routes=[Mount("/nottwice", page(ledger, user=user))])
    client = TestClient(app, base_url=HOST)
    assert client.get("/nottwice/").status_code == 401
    markup = client.get("/nottwice/", headers={"x-login": "bob"}).text
    assert "as bob" in words(markup)
    links = set(re.findall(r'(?:href|src|action|data-live)="([^"#]+)"', markup)) - {""}
    assert all(link.startswith("/nottwice/") for link in links), links
    assert client.get("/nottwice/static/page.css").status_code == 200
    eve = client.get("/nottwice/", headers={"x-login": "eve"}).text
    assert "you may look, not decide" in words(eve)


def test_an_address_without_a_page_leads_back_to_the_inbox(visit: Visit) -> None:
    said = visit.text("/nothing", status=404)
    assert "There is no page at this address. Nothing was done." in said
    assert "Go to the inbox" in said
    # Where the browser is after a form, if its address is opened again.
    assert "Go to the inbox" in visit.text("/run/cancel", status=405)
    assert visit.get("/api/nothing").json()["error"]["type"] == "Refused"


def test_a_fault_of_the_page_itself_is_told_on_a_page_of_ours(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> object:
        raise RuntimeError("<script>")

    client = TestClient(page(ledger, user=lambda request: "ann"), raise_server_exceptions=False)
    monkeypatch.setattr(ledger.store, "graphs", fail)
    answer = client.get("/runs")
    assert answer.status_code == 500
    assert "The page itself failed: RuntimeError. The server's log" in words(answer.text)
    assert "Go to the inbox" in words(answer.text)
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


def test_a_browser_is_refused_with_a_page_that_a_phone_can_show(ledger: Ledger) -> None:
    client, _ = served(ledger)
    browser = {"accept": "text/html,*/*;q=0.8"}
    answer = client.get("/", headers=browser)
    assert answer.status_code == 401
    assert '<meta name="viewport"' in answer.text
    assert "Open the one that `nottwice serve` has printed" in words(answer.text)
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    # In an app of your own, no link was printed.
    mounted = TestClient(page(ledger, user=lambda request: None))
    assert "Log in, and open it again." in words(mounted.get("/", headers=browser).text)
