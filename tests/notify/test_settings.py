"""What do the settings accept, and where do secrets come from? (P336)"""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import UsageError
from nottwice.notify.settings import (
    NOTIFIED_KINDS,
    CommandTarget,
    NotifyUnready,
    WebhookTarget,
    read_notify,
)

URL = "https://hooks.example.com/services/T0/B0/very-secret-path"
LONG = "0123456789abcdef"


def test_a_table_of_the_project_is_read() -> None:
    table = {
        "webhook": URL,
        "body": "slack",
        "on": ["review_opened"],
        "old_after": "30m",
        "arguments": True,
        "page_url": "https://ops.example.com/nottwice",
    }
    read = read_notify(table, where="pyproject.toml")
    assert (read.body, read.on, read.arguments) == ("slack", ["review_opened"], True)
    assert read.old_after_seconds() == 1800.0
    assert nt.Notify(webhook=URL).on == NOTIFIED_KINDS


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "exactly one of"),
        ({"webhook": URL, "command": "true"}, "exactly one of"),
        ({"webhook": URL, "secret": "in clear"}, "holds a secret in clear"),
        ({"webhook": URL, "colour": "red"}, "'colour', which nottwice does not know"),
        ({"webhook": "file:///etc/passwd"}, "http:// or https://"),
        ({"webhook": "ftp://example.com/"}, "http:// or https://"),
        ({"webhook": "https://ann:password@example.com/"}, "a user name or a password"),
        ({"webhook": "https://example.com:0/"}, "http:// or https://"),
        ({"webhook": "https://example.com/a\nb"}, "http:// or https://"),
        ({"webhook": URL, "page_url": "javascript:alert(1)"}, "page_url must be a URL"),
        ({"webhook": URL, "body": "xml"}, "'json' or 'slack'"),
        ({"webhook": URL, "on": ["run_over"]}, "on must be a list of"),
        ({"webhook": URL, "on": "review_opened"}, "must be a list"),
        ({"webhook": URL, "old_after": "soon"}, "is not a duration"),
        ({"webhook": URL, "old_after": 60}, "old_after must be text"),
        ({"webhook": URL, "arguments": "yes"}, "true or false"),
        ({"command": []}, "a program and its arguments"),
        ({"command": "mail 'ann"}, "No closing quotation"),
        (["webhook"], "must be a table"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_sent(table: Any, said: str) -> None:
    with pytest.raises(UsageError, match="Nothing was sent") as caught:
        read_notify(table, where="pyproject.toml")
    assert said in str(caught.value)
    assert "password@" not in str(caught.value)


@pytest.mark.parametrize("wrong", [3600, 1.5, True, None, timedelta(0)])
def test_an_age_is_a_duration_as_everywhere_else(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"old_after.*Nothing was sent"):
        nt.Notify(command="true", old_after=wrong)
    assert nt.Notify(command="true", old_after=timedelta(hours=2)).old_after_seconds() == 7200.0


def test_secrets_come_from_the_environment_only() -> None:
    settings = nt.Notify(webhook_env="HOOK", secret_env="HOOK_SECRET")
    with pytest.raises(NotifyUnready, match="HOOK is not set"):
        settings.target({})
    with pytest.raises(NotifyUnready, match="HOOK_SECRET is not set"):
        settings.target({"HOOK": URL})
    target = settings.target({"HOOK": URL, "HOOK_SECRET": LONG})
    assert target == WebhookTarget(URL, "json", LONG.encode())
    spelled = "whsec_" + base64.b64encode(bytes(range(24))).decode()
    target = settings.target({"HOOK": URL, "HOOK_SECRET": spelled})
    assert isinstance(target, WebhookTarget)
    assert target.secret == bytes(range(24))
    for short in ("short", "whsec_c2hvcnQ=", "whsec_%%%%%%%%%%%%%%%%%%%%%%%%"):
        with pytest.raises(UsageError, match="shorter than 16"):
            settings.target({"HOOK": URL, "HOOK_SECRET": short})
    with pytest.raises(UsageError, match="HOOK must be a URL"):
        settings.target({"HOOK": "gopher://x", "HOOK_SECRET": LONG})


def test_slack_needs_no_secret_and_a_command_none_either() -> None:
    slack = nt.Notify(webhook=URL, body="slack")
    assert slack.target({}) == WebhookTarget(URL, "slack", None)
    command = nt.Notify(command="mail -s 'nottwice: look' ann")
    assert command.target({}) == CommandTarget(("mail", "-s", "nottwice: look", "ann"))


def test_no_repr_shows_a_url_or_a_secret() -> None:
    settings = nt.Notify(webhook=URL)
    target = settings.target({"NOTTWICE_NOTIFY_SECRET": LONG})
    for shown in (repr(settings), repr(target)):
        assert "very-secret-path" not in shown
        assert LONG not in shown
