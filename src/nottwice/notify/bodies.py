"""What does a message look like on the wire? As JSON for programs, or as Slack reads it.

A title and an error are written by models and upstreams. In a Slack message none of their
characters is markup: no mention of a channel, no link. Promise kept here: P337.
"""

from __future__ import annotations

import json

from nottwice.model.data.calendar import utc
from nottwice.notify.messages import Notification


def json_body(message: Notification) -> bytes:
    """The message as Standard Webhooks write it: type, timestamp, data."""
    document = {
        "type": f"nottwice.{message.kind}",
        "timestamp": utc(message.at).isoformat(),
        "data": {"id": message.id, **message.data, "text": message.text},
    }
    # In pure ASCII, so that half a surrogate pair is no obstacle.
    return json.dumps(document).encode()


def slack_body(message: Notification) -> bytes:
    """The message for an incoming webhook of Slack."""
    lines = [_escaped(message.headline), *map(_escaped, message.lines)]
    if message.command is not None:
        lines.append(f"`{_escaped(message.command).replace('`', 'ˋ')}`")
    if message.link is not None:
        link = _escaped(message.link).replace("|", "%7C")
        lines.append(f"<{link}|Open the page>")
    plain = {"text": "\n".join(lines), "link_names": False, "parse": "none"}
    return json.dumps({**plain, "unfurl_links": False, "unfurl_media": False}).encode()


def _escaped(text: str) -> str:
    """Text in which Slack finds no mention and no link: it has three characters for those."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
