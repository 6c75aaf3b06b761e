"""How does a message leave this process? By one HTTP request, or by one command.

Only http and https are spoken, no redirect is followed (its target would get the signature), and
nothing takes longer than its limit, whatever the other side does. Promise kept here: P338.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable

from nottwice.errors import UsageError
from nottwice.model.data.printable import one_line
from nottwice.notify.bodies import json_body, slack_body
from nottwice.notify.messages import Notification
from nottwice.notify.settings import CommandTarget, Target, WebhookTarget
from nottwice.notify.signature import ID, TIMESTAMP, signed_headers

MOST_PROBLEM_CHARACTERS = 300


class Undelivered(Exception):
    """A message did not arrive, or it is not known whether it did. Its text says why."""


def deliver(message: Notification, target: Target, *, now: float, limit_seconds: float) -> None:
    """Send one message. Raises Undelivered."""
    if isinstance(target, CommandTarget):
        _run(target, json_body(message), message.id, limit_seconds)
    else:
        request = _request(message, target, now)
        _within(limit_seconds, lambda: _post(request, limit_seconds))


def _request(message: Notification, target: WebhookTarget, now: float) -> urllib.request.Request:
    body = json_body(message) if target.body == "json" else slack_body(message)
    headers = {"content-type": "application/json; charset=utf-8", "user-agent": "nottwice"}
    if target.secret is None:
        headers |= {ID: message.id, TIMESTAMP: str(int(now))}
    else:
        headers |= signed_headers(target.secret, message.id, now, body)
    if not target.url.startswith(("http://", "https://")):
        raise UsageError("A webhook must be http:// or https://. Nothing was sent.")
    return urllib.request.Request(target.url, data=body, headers=headers, method="POST")


def _opener() -> urllib.request.OpenerDirector:
    """HTTP and nothing else: without the handlers for redirects, files and FTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _post(request: urllib.request.Request, limit_seconds: float) -> None:
    try:
        # The answer is not read: its status says all.
        with _opener().open(request, timeout=limit_seconds):
            return
    except urllib.error.HTTPError as error:
        error.close()
        note = ", and a redirect is not followed" if 300 <= error.code < 400 else ""
        raise Undelivered(f"the webhook answered {error.code}{note}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise Undelivered(_short(f"the webhook could not be reached: {reason}")) from None


def _within(limit_seconds: float, work: Callable[[], None]) -> None:
    """Do it in another thread, and wait no longer than this: a server may send byte by byte."""
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=guarded, name="nottwice-webhook", daemon=True)
    thread.start()
    thread.join(limit_seconds)
    if thread.is_alive():
        raise Undelivered(f"the webhook did not answer within {limit_seconds:g} s")
    if raised:
        raise raised[0]


def _run(target: CommandTarget, body: bytes, message_id: str, limit_seconds: float) -> None:
    try:
        done = subprocess.run(
            target.arguments,
            input=body,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=limit_seconds,
            env={**os.environ, "NOTTWICE_NOTIFY_ID": message_id},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Undelivered(f"the command did not end within {limit_seconds:g} s") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Undelivered(_short(f"the command could not be started: {reason}")) from None
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise Undelivered(_short(f"the command ended with {done.returncode}: {told}"))


def _short(text: str) -> str:
    return one_line(text)[:MOST_PROBLEM_CHARACTERS]
