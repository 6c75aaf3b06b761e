"""Was a mail sent? Looks in the folder of sent mail over IMAP, for ``send_mail`` (P78).

This only works if the mail server stores what it sends, as most mailbox providers do. The folder is
opened read-only.
"""

from __future__ import annotations

import contextlib
import imaplib
import ssl
from collections.abc import Callable, Sequence
from typing import Literal

from nottwice.errors import InvalidTool
from nottwice.guard.declaration import Duration
from nottwice.model.tool import parse_duration
from nottwice.recipes.mail import Login

_PORTS = {"tls": 993, "starttls": 143, "none": 143}


def imap_sent_folder(
    host: str,
    *,
    login: Login,
    folder: str = "Sent",
    port: int | None = None,
    security: Literal["tls", "starttls", "none"] = "tls",
    time_limit: Duration = "10s",
) -> Callable[[str], bool]:
    """Return a function for ``send_mail(sent=...)`` that looks for a Message-ID in a mailbox.

    If the mailbox or the folder is not available, the function raises, and a person decides.
    """
    limit_seconds = parse_duration(time_limit, what="imap_sent_folder: time_limit")
    if security not in _PORTS:
        raise InvalidTool(
            f"The folder was not declared: security={security!r} must be 'tls', 'starttls' or "
            "'none'."
        )
    if not folder.isascii() or not folder.isprintable() or '"' in folder or "\\" in folder:
        raise InvalidTool(
            f"The folder was not declared: {folder!r} must be printable ASCII without quotes. "
            "Write other names in modified UTF-7, as the server lists them."
        )

    def was_sent(message_id: str) -> bool:
        mailbox = _connect(host, port or _PORTS[security], security, limit_seconds)
        try:
            mailbox.login(*(login() if callable(login) else login))
            _agreed(mailbox.select(f'"{folder}"', readonly=True), f"open the folder {folder!r}")
            words = ("HEADER", "Message-ID", f'"{message_id}"')
            found = _agreed(mailbox.uid("SEARCH", *words), "search")
            return any(each.split() for each in found if isinstance(each, bytes))
        finally:
            with contextlib.suppress(OSError, imaplib.IMAP4.error):
                mailbox.logout()

    return was_sent


def _connect(host: str, port: int, security: str, limit_seconds: float) -> imaplib.IMAP4:
    secure = ssl.create_default_context()
    if security == "tls":
        return imaplib.IMAP4_SSL(host, port, ssl_context=secure, timeout=limit_seconds)
    mailbox = imaplib.IMAP4(host, port, timeout=limit_seconds)
    if security == "starttls":
        try:
            mailbox.starttls(secure)
        except BaseException:
            mailbox.shutdown()
            raise
    return mailbox


def _agreed(answer: tuple[str, Sequence[object]], what: str) -> Sequence[object]:
    """Return the server's data, or raise if it refused."""
    status, data = answer
    if status != "OK":
        raise ValueError(f"the mail server did not {what}: {data!r}")
    return data
