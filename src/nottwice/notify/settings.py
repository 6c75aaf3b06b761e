"""Who is told of what, and how? ``nt.Notify(...)``, or ``[tool.nottwice.notify]`` of the project.

A secret is never part of the settings: they name environment variables. Promise kept here: P336.
"""

from __future__ import annotations

import base64
import binascii
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from nottwice.errors import InvalidTool, UsageError
from nottwice.model.data.records import frozen_record
from nottwice.model.runs.notices import REVIEW_DECIDED, REVIEW_OLD, REVIEW_OPENED, RUN_FAILED
from nottwice.model.tool import Duration, parse_duration

NotifyKind = Literal["review_opened", "review_old", "review_decided", "run_failed"]
NOTIFIED_KINDS: tuple[NotifyKind, ...] = (
    REVIEW_OPENED,
    REVIEW_OLD,
    REVIEW_DECIDED,
    RUN_FAILED,
)
NotifyBody = Literal["json", "slack"]
DEFAULT_SECRET = "NOTTWICE_NOTIFY_SECRET"
SECRET_PREFIX = "whsec_"
LEAST_SECRET_CHARACTERS = 16
_NOTHING = "Nothing was sent."


class NotifyUnready(UsageError):
    """The settings name an environment variable that is not set here. Nothing was sent."""


@frozen_record(frozen=True, slots=True)
class WebhookTarget:
    """Where a message is posted to."""

    url: str
    body: NotifyBody
    secret: bytes | None
    """What it is signed with."""

    def __repr__(self) -> str:
        # The path of a webhook is often a secret.
        return f"<a webhook at {urlsplit(self.url).hostname}>"


@frozen_record(frozen=True, slots=True)
class CommandTarget:
    """A command that gets a message on its standard input."""

    arguments: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<the command {self.arguments[0]!r}>"


Target = WebhookTarget | CommandTarget


@frozen_record(frozen=True, slots=True, kw_only=True)
class Notify:
    """Tell people what needs them: by a signed webhook, or by a command.

    Give one of ``webhook`` (a URL), ``webhook_env`` (the environment variable that holds the URL,
    for a URL that is itself a secret, as Slack's are) and ``command`` (a program and its arguments,
    without a shell; it gets JSON on its standard input). ``body``: ``"json"``, signed as Standard
    Webhooks say, or ``"slack"``. ``secret_env``: the environment variable that holds the secret.
    ``on``: what to report; all four kinds, if not given. ``old_after``: when an open review is
    old. ``arguments``: also send arguments, questions and error texts. ``page_url``: where
    ``nottwice serve`` can be reached, for links.
    """

    webhook: str | None = None
    webhook_env: str | None = None
    command: str | Sequence[str] | None = None
    body: NotifyBody = "json"
    secret_env: str = DEFAULT_SECRET
    on: Sequence[NotifyKind] = NOTIFIED_KINDS
    old_after: Duration = "1h"
    arguments: bool = False
    page_url: str | None = None

    def __post_init__(self) -> None:
        chosen = (self.webhook, self.webhook_env, self.command)
        if sum(one is not None for one in chosen) != 1:
            raise UsageError(
                "notify needs exactly one of webhook, webhook_env and command. "
                f"{_NOTHING} Write, for example: webhook_env = 'NOTTWICE_WEBHOOK'"
            )
        if self.webhook is not None:
            check_url(self.webhook, what="webhook")
        if self.page_url is not None:
            check_url(self.page_url, what="page_url")
        if self.body not in get_args(NotifyBody):
            raise UsageError(f"body must be 'json' or 'slack', not {self.body!r}. {_NOTHING}")
        unknown = [kind for kind in self.on if kind not in NOTIFIED_KINDS]
        if unknown or isinstance(self.on, str):
            raise UsageError(
                f"on must be a list of {', '.join(NOTIFIED_KINDS)}, not {self.on!r}. {_NOTHING}"
            )
        self.old_after_seconds()
        self.command_words()

    def __repr__(self) -> str:
        # Without the URL, whose path is often a secret.
        return f"<Notify {'a command' if self.command is not None else 'a webhook'}>"

    def old_after_seconds(self) -> float:
        """How long a review is open before it is old."""
        try:
            return parse_duration(self.old_after, what="old_after")
        except InvalidTool as error:
            raise UsageError(f"{error} {_NOTHING}") from None

    def command_words(self) -> tuple[str, ...]:
        """The program and its arguments; none, if it is a webhook."""
        if self.command is None:
            return ()
        try:
            words = shlex.split(self.command) if isinstance(self.command, str) else self.command
        except ValueError as error:
            raise UsageError(f"command={self.command!r}: {error}. {_NOTHING}") from None
        if not words or not all(isinstance(word, str) for word in words):
            raise UsageError(
                f"command must be a program and its arguments, not {self.command!r}. {_NOTHING}"
            )
        return tuple(words)

    def target(self, environment: Mapping[str, str] | None = None) -> Target:
        """Where messages go, with the secrets of this process. Raises NotifyUnready."""
        known = os.environ if environment is None else environment
        words = self.command_words()
        if words:
            return CommandTarget(words)
        url = self.webhook
        if self.webhook_env is not None:
            url = _variable(self.webhook_env, known, what="the URL of the webhook")
            check_url(url, what=self.webhook_env)
        secret = None
        if self.body == "json" or known.get(self.secret_env):
            text = _variable(
                self.secret_env, known, what="the secret that messages are signed with"
            )
            secret = read_secret(text, variable=self.secret_env)
        return WebhookTarget(url or "", self.body, secret)


def read_notify(table: object, *, where: str) -> Notify:
    """Read ``[tool.nottwice.notify]``. ``where``: the file, for errors."""
    what = f"{where}: notify in [tool.nottwice]"
    if not isinstance(table, Mapping):
        raise UsageError(f"{what} must be a table, not {table!r}. {_NOTHING}")
    known = {name for name in Notify.__slots__ if not name.startswith("_")}
    unknown = sorted(set(map(str, table)) - known)
    if "secret" in unknown:
        raise UsageError(
            f"{what} holds a secret in clear. {_NOTHING} Remove it, put it into an environment "
            f"variable, and name that: secret_env = '{DEFAULT_SECRET}'"
        )
    if unknown:
        raise UsageError(
            f"{what} has {', '.join(map(repr, unknown))}, which nottwice does not know. "
            f"{_NOTHING} It may have: {', '.join(sorted(known))}."
        )
    plain: dict[str, Any] = dict(table)
    for name in ("webhook", "webhook_env", "secret_env", "page_url", "body", "old_after"):
        _check(plain.get(name, ""), str, f"{what}: {name}", "text")
    _check(plain.get("arguments", False), bool, f"{what}: arguments", "true or false")
    _check(plain.get("on", []), list, f"{what}: on", "a list")
    try:
        return Notify(**plain)
    except NotifyUnready:
        raise
    except UsageError as error:
        raise UsageError(f"{where}, [tool.nottwice.notify]: {error}") from None


def _check(value: object, kind: type, what: str, named: str) -> None:
    if not isinstance(value, kind):
        raise UsageError(f"{what} must be {named}, not {value!r}. {_NOTHING}")


def check_url(url: str, *, what: str) -> None:
    """Refuse what is not the address of a web server. The URL is not shown: it may be a secret."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or not url.isprintable() or " " in url:
        raise UsageError(f"{what} must be a URL with http:// or https://. {_NOTHING}")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"{what} contains a user name or a password. {_NOTHING} Messages are signed; let the "
            "receiver check the signature."
        )


def _variable(name: str, known: Mapping[str, str], *, what: str) -> str:
    text = known.get(name, "").strip()
    if not text:
        raise NotifyUnready(
            f"The environment variable {name} is not set. It holds {what}. {_NOTHING} Set it where "
            "messages are sent from."
        )
    return text


def read_secret(text: str, *, variable: str) -> bytes:
    """Return the key in a secret: its text, or what ``whsec_`` and base64 spell."""
    if text.startswith(SECRET_PREFIX):
        try:
            key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            key = b""
    else:
        key = text.encode("utf-8", "surrogateescape")
    if len(key) < LEAST_SECRET_CHARACTERS:
        raise UsageError(
            f"The secret in {variable} is shorter than {LEAST_SECRET_CHARACTERS} characters, or is "
            f"not base64 after {SECRET_PREFIX}. {_NOTHING} Make one: openssl rand -hex 32"
        )
    return key
