"""Is everything that a model, a tool or a person wrote inert text on every page?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated

import pytest

import nottwice as nt
from nottwice import web
from nottwice.errors import NottwiceError, ReplayUnsafeError
from nottwice.guard.ledger import Ledger
from nottwice.views.commands import CommandLine
from nottwice.web.rendering import TEMPLATES, visible, web_link
from tests.web.visiting import Visit

# Markup, attributes, templates, links, and what steers a reader's eye.
EVIL = (
    "</pre></textarea></title></svg>\"'><script>alert(1)</script><img src=x onerror=alert(2)>"
    "{{ 7*7 }}{% raw %} javascript:alert(3) \u202e\u2066\x1b[31m\x07\nforged\u200b"
)
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]")


@nt.tool("unsafe_on_replay", name="evil_tool", title="{text}", look="javascript:{text}")
def act(text: str, more: dict[str, str]) -> str:
    raise TimeoutError(EVIL)


class Strict(HTMLParser):
    """Finds elements and attributes that no template of ours has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = dict(attributes)
        if tag in ("img", "iframe", "object", "embed", "base", "style"):
            self.found.append(tag)
        if tag == "script" and not (names.get("src") or "").startswith("/static/"):
            self.found.append(tag)
        self.found += [name for name in names if name.startswith("on") or name == "style"]
        links = [names.get("href"), names.get("action"), names.get("formaction")]
        self.found += [one for one in links if one and not one.startswith(("/", "#"))]


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Ledger]:
    run_id = "evil <b>\"'run</b>"
    with Ledger(tmp_path / "a.db") as ledger:
        tags = {"customer": "<b>evil</b>"}
        with pytest.raises(ReplayUnsafeError):
            with ledger.run(run_id, tags=tags), nt.step("step <i>"):
                act(EVIL.replace("\n", " "), {EVIL: EVIL})
        with pytest.raises(NottwiceError):
            with ledger.run("asks"):
                nt.ask(EVIL, options=["<b>yes</b>", "no"], about={EVIL: [EVIL]})
        with pytest.raises(LookupError):
            with ledger.run("fails"):
                raise LookupError(EVIL)
        ledger.send(run_id, "<b>event</b>", {EVIL: EVIL}, by="<b>eve</b>")
        yield ledger


def pages(visit: Visit, ledger: Ledger) -> Iterator[tuple[str, str]]:
    paths = ["/", "/runs", "/ledger", "/report", "/?run=<b>", "/runs?prefix=<b>&tag=a%3D<b>"]
    paths += [f"/review/{one.review_id}" for one in ledger.store.open_reviews()]
    for run in ledger.store.runs():
        for part in ("timeline", "state", "conversation", "events", "audit"):
            answer = visit.client.get("/run", params={"id": run.workflow_id, "part": part})
            yield f"{run.workflow_id} {part}", answer.text
    for path in [*paths, "/runs?state=<script>", "/review/<script>", "/run?id=<script>"]:
        yield path, visit.get(path).text


def test_hostile_text_is_inert_on_every_page(hostile: Ledger) -> None:
    visit = Visit(hostile, "<b>ann</b>")
    (doubt,) = hostile.store.open_reviews("evil <b>\"'run</b>")
    path = f"/review/{doubt.review_id}"
    assert visit.post(path, verb="happened", result__0=EVIL, why=EVIL).status_code == 303
    seen = 0
    for name, markup in pages(visit, hostile):
        strict = Strict()
        strict.feed(markup)
        assert strict.found == [], name
        assert not UNSAFE.search(markup), (name, UNSAFE.search(markup))
        assert "49" not in re.findall(r">\s*(49)\s*<", markup), name
        assert "<b>" not in markup, name
        seen += "&lt;script&gt;alert(1)" in markup
    # It was there to be shown, and not only missing.
    assert seen >= 5


def test_only_an_address_of_the_web_becomes_a_link() -> None:
    assert web_link("https://example.com/search?q=a%20b") == "https://example.com/search?q=a%20b"
    for text in (
        "javascript:alert(1)",
        "data:text/html,x",
        "https:evil",
        "//evil.example.com",
        "https://a b",
        "https://a\u202eb",
        "https://[bad",
        "search the outbox",
    ):
        assert web_link(text) is None, text


def test_a_text_of_many_lines_stays_one_and_a_huge_one_is_cut() -> None:
    assert visible("a\r\nb\tc\x00") == "a\nb\\tc\\x00"
    cut = visible("x" * 30_000)
    assert len(cut) < 20_100
    assert cut.endswith("… cut here: the text has 30000 characters")


def test_every_expression_of_every_template_passes_the_same_gate() -> None:
    rendered = TEMPLATES.from_string("{{ a }}{{ b|block }}<p title='{{ a }}'>").render(
        a="<\u202e'", b="<\u202e"
    )
    assert rendered == "&lt;\\u202e&#39;<pre>&lt;\\u202e</pre><p title='&lt;\\u202e&#39;'>"


def test_a_secret_stays_a_fingerprint(tmp_path: Path) -> None:
    @nt.tool("unsafe_on_replay", name="secret_tool")
    def pay(card: Annotated[str, nt.Secret]) -> str:
        raise TimeoutError("no answer")

    with Ledger(tmp_path / "a.db", key=bytes(range(32))) as ledger:
        with pytest.raises(ReplayUnsafeError), ledger.run("r"):
            pay("4111-1111-1111-1111")
        for name, markup in pages(Visit(ledger), ledger):
            assert "4111" not in markup, name


def test_commands_on_the_page_name_no_password() -> None:
    line = CommandLine("postgresql://ann:secret@host/db")
    assert "secret" not in line.store_words()


def test_there_is_one_script_and_it_is_short() -> None:
    """Every decision works without it, so it has little to do."""
    (script,) = Path(web.__file__).parent.glob("**/*.js")
    assert len(script.read_text(encoding="utf-8").splitlines()) < 150
