"""How does a view become HTML in which foreign text does nothing?

Every value that a template prints passes through ``_finalized``: what is not printable is shown as
an escape, and then HTML's own characters are escaped. No template can forget it. Promise kept
here: P326.
"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from nottwice.errors import UsageError
from nottwice.model import values
from nottwice.views.commands import CommandLine
from nottwice.views.text import age_text, count_noun, iso_text, safe, utc_text
from nottwice.web.safety import SECRET, TOP, VISITOR
from nottwice.web.visitors import Visitor

TRACE_ID = "{trace_id}"
MOST_CHARACTERS = 20_000
"""How much of one text a page shows."""


def visible(text: object) -> str:
    """Return a text in which only line ends and tabs are not printable."""
    shown = str(text)[: MOST_CHARACTERS + 1]
    lines = [safe(line) for line in shown.replace("\r\n", "\n").split("\n")]
    if len(shown) > MOST_CHARACTERS:
        lines.append(f"… cut here: the text has {len(str(text))} characters")
    return "\n".join(lines)


def web_link(text: object) -> str | None:
    """Return the text if it is an address that a browser may open. None: it is only text."""
    written = str(text)
    try:
        parts = urlsplit(written)
    except ValueError:
        return None
    is_link = parts.scheme in ("http", "https") and bool(parts.netloc)
    return written if is_link and written.isprintable() and " " not in written else None


def _block(text: object) -> Markup:
    """A text of several lines. A long one is scrolled in its place, also with the keyboard."""
    shown = visible(text)
    is_long = len(shown) > 500 or shown.count("\n") > 15
    return Markup('<pre tabindex="0">' if is_long else "<pre>") + escape(shown) + Markup("</pre>")


def _whole_words(text: object) -> Markup:
    """A command in words that a narrow screen does not break at hyphens."""
    words = [Markup("<span>{}</span>").format(safe(word)) for word in str(text).split(" ")]
    return Markup(" ").join(words)


def _value(value: Any) -> Markup:
    """A value as a person reads it: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return _block(value)
    return _block(values.encode(value) if not isinstance(value, dict | list) else _pretty(value))


def _pretty(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _moment(seconds: float | None) -> Markup:
    """A point in time, in UTC; the script of the page can show it in local time."""
    if seconds is None:
        return Markup("–")
    return Markup('<time datetime="{}">{} UTC</time>').format(
        iso_text(seconds), (utc_text(seconds) or "")[:-4]
    )


def _instant(seconds: float) -> Markup:
    """A point in time to the millisecond, for what happened within a second."""
    return Markup('<time datetime="{}" data-exact>{} UTC</time>').format(
        iso_text(seconds), utc_text(seconds)
    )


def _age(seconds: float) -> str:
    return age_text(seconds).removesuffix(" ago")


def _clock(seconds: float) -> str:
    """The time of day for a picture, which holds no markup."""
    return f"{(utc_text(seconds) or '').partition(' ')[2].partition('.')[0]} UTC"


def _took(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else _age(seconds)


def _finalized(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None:
        return ""
    return safe(value) if isinstance(value, str) else value


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("nottwice.web"),
        autoescape=True,
        finalize=_finalized,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        block=_block,
        value=_value,
        whole_words=_whole_words,
        moment=_moment,
        instant=_instant,
        age=_age,
        noun=count_noun,
        clock=_clock,
        took=_took,
        web_link=web_link,
        quoted=shlex.quote,
    )
    return made


TEMPLATES = _environment()


class Renderer:
    """The templates, with what every page shows: the ledger, the visitor, the links."""

    def __init__(
        self,
        ledger: str,
        *,
        read_only: bool,
        commands: CommandLine,
        name: str = "",
        names: Sequence[str] = (),
        trace_url: str | None = None,
    ) -> None:
        self.ledger, self.read_only, self.commands = ledger, read_only, commands
        self.name, self.names = name, names
        """The name in addresses, and those of all ledgers; empty if there is only one."""
        self._trace_url = trace_url

    def page(
        self, request: Request, name: str, *, now: float, status: int = 200, **shown: Any
    ) -> HTMLResponse:
        """Render a template."""
        visitor: Visitor = request.scope[VISITOR]
        text = TEMPLATES.get_template(name).render(
            ledger=self.ledger,
            read_only=self.read_only,
            visitor=visitor,
            may_decide=visitor.may_decide,
            csrf=request.scope[SECRET],
            at=lambda path, **query: address(request, path, **query),
            top=lambda path: f"{request.scope[TOP]}{path}",
            name=self.name,
            names=self.names,
            here=request.scope["path"].removeprefix(request.scope.get("root_path", "")),
            query=dict(request.query_params),
            now=now,
            store_words=self.commands.store_words(),
            trace_link=self._trace_link,
            **shown,
        )
        return HTMLResponse(text, status_code=status)

    def _trace_link(self, trace_id: str | None) -> str | None:
        """Return where a trace is shown. None: there is none, or no place is known."""
        if trace_id is None or self._trace_url is None:
            return None
        return self._trace_url.replace(TRACE_ID, trace_id)


def check_trace_url(template: str) -> str:
    """Refuse a place for traces that no link can lead to."""
    if web_link(template.replace(TRACE_ID, "0" * 32)) is None or TRACE_ID not in template:
        raise UsageError(
            f"{template!r} is not an address for traces. Nothing was started. Give an address with "
            f"{TRACE_ID} in it, as in https://jaeger.example.com/trace/{TRACE_ID}"
        )
    return template


def address(request: Request, path: str, **query: Any) -> str:
    """Return the address of a page of ours, wherever the app is mounted."""
    root = request.scope.get("root_path", "").rstrip("/")
    given: Mapping[str, str] = {name: str(value) for name, value in query.items() if value}
    return f"{root}{path}?{urlencode(given)}" if given else f"{root}{path}"


def go_to(request: Request, path: str, **query: Any) -> RedirectResponse:
    """Send the browser to a page after a form was recorded, so that a reload repeats nothing."""
    return RedirectResponse(address(request, path, **query), status_code=303)
