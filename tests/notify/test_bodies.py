"""Is what a model wrote inert in a message? (P337)"""

from __future__ import annotations

import json

from nottwice.notify.bodies import json_body, slack_body
from nottwice.notify.messages import Notification

HOSTILE = "<!channel> <https://evil.example|click> & *x* `y`"


def _message(**changed: object) -> Notification:
    plain = {
        "id": "1",
        "kind": "review_opened",
        "at": 1_700_000_000.0,
        "headline": HOSTILE,
        "lines": (HOSTILE,),
        "command": "nottwice decide 1a --store 'a`b<c'",
        "link": "https://ops.example.com/review/1|<!here>",
        "data": {"title": HOSTILE, "half": "\ud83d"},
    }
    return Notification(**{**plain, **changed})  # type: ignore[arg-type]


def test_no_text_is_markup_in_a_slack_message() -> None:
    document = json.loads(slack_body(_message()))
    text = document["text"]
    headline, line, command, link = text.split("\n")
    assert "<!channel>" not in text
    assert headline == line
    assert headline.startswith("&lt;!channel&gt; &lt;https://evil.example|click&gt; &amp;")
    assert command == "`nottwice decide 1a --store 'aˋb&lt;c'`"
    # The only markup is ours.
    assert link == "<https://ops.example.com/review/1%7C&lt;!here&gt;|Open the page>"
    assert [part[:5] for part in text.split("<")[1:]] == ["https"]
    assert (document["link_names"], document["parse"]) == (False, "none")
    assert (document["unfurl_links"], document["unfurl_media"]) == (False, False)


def test_json_holds_the_facts_and_the_text() -> None:
    document = json.loads(json_body(_message()))
    assert document["type"] == "nottwice.review_opened"
    assert document["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert document["data"]["title"] == HOSTILE
    assert document["data"]["id"] == "1"
    assert document["data"]["text"].splitlines()[0] == HOSTILE
