"""Send a mail with a Message-ID that is derived from its call, so that it can be found (P78).

SMTP has no key. A mail that was handed over but not acknowledged may be on its way, so its fate
must be looked up. ``sent`` defines where: an outbox, a folder of sent mail, the server's log. Every
attempt sends the same bytes, including Message-ID and Date, so that servers and mailboxes can drop
duplicates.
"""

from __future__ import annotations

import contextlib
import smtplib
import ssl
from collections.abc import Callable, Iterable
from datetime import timedelta
from email.message import EmailMessage
from email.utils import formatdate, parseaddr
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from nottwice.errors import InvalidTool, Permanent
from nottwice.guard.declaration import Duration
from nottwice.guard.declare import SyncTool
from nottwice.guard.ready_made import declare
from nottwice.guard.scopes import current_call
from nottwice.model.call import Call
from nottwice.model.failure import single_request
from nottwice.model.tool import Verification, cannot_tell, did_not_happen, happened, parse_duration

WHOLE = 3
"""The whole attempt may take this many time limits: a slow trickle of bytes must not be endless."""
Login = tuple[str, str] | Callable[[], tuple[str, str]]
"""User and password, or a function that is called before every attempt. Never recorded."""


def _check_address(text: str) -> str:
    if not text.isprintable() or "," in text or parseaddr(text)[1].count("@") != 1:
        raise ValueError("it must be one mail address, such as ann@example.com")
    if not parseaddr(text)[1].isascii():
        raise ValueError("addresses beyond ASCII are not supported")
    return text


def _check_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it must be one line of printable characters")
    return text


Address = Annotated[str, AfterValidator(_check_address)]
Line = Annotated[str, AfterValidator(_check_line)]


class Sent(TypedDict):
    """What ``send_mail`` returns."""

    message_id: str
    refused: list[str]
    """Recipients that the server refused while it accepted the mail for the others."""


def send_mail(
    host: str,
    *,
    sender: str,
    port: int | None = None,
    security: Literal["tls", "starttls", "none"] = "starttls",
    login: Login | None = None,
    sent: Callable[[str], bool | None] | None = None,
    settles: Duration | None = None,
    name: str = "send_mail",
    once_per: Iterable[str] | None = None,
    time_limit: Duration = "30s",
) -> SyncTool[..., Sent]:
    """Make a tool ``send_mail(to, subject, text, html)`` that hands one mail to a server.

    ``sent`` takes a Message-ID and returns whether that mail went out: True, False, or None if it
    cannot tell. Without it, every doubt waits for a person. ``settles`` is how long after a crash a
    mail may still show up there. Without it, "not there" does not count. ``once_per`` works as for
    every tool: ``("to",)`` sends one mail per run to the same addresses, whatever a model writes.
    """
    domain = _domain_of(sender, tool=name)
    limit_seconds = parse_duration(time_limit, what=f"Tool {name!r}: time_limit")
    if security not in _PORTS:
        raise InvalidTool(
            f"Tool {name!r} was not declared: security={security!r} must be 'tls', 'starttls' or "
            "'none'."
        )
    address = (host, port or _PORTS[security])

    def send(
        to: Annotated[list[Address], Field(min_length=1)],
        subject: Line,
        text: str,
        html: str | None = None,
    ) -> Sent:
        """Send one mail to these addresses."""
        call = current_call()
        mail = _compose(call, domain, sender, to, subject, text, html)
        with _connected(address, security, login, limit_seconds) as server:
            refused = server.send_message(mail, from_addr=parseaddr(sender)[1])
        return Sent(message_id=_message_id(call, domain), refused=sorted(refused))

    def find_mail(call: Call) -> Verification:
        message_id = _message_id(call, domain)
        went_out = None if sent is None else sent(message_id)
        if went_out is None:
            return cannot_tell()
        return happened(Sent(message_id=message_id, refused=[])) if went_out else did_not_happen()

    protected: SyncTool[..., Sent] = declare(
        send,
        "unsafe_on_replay",
        name=name,
        recipe="send_mail",
        works_on={"address": address, "sender": sender, "once_per": once_per},
        once_per=once_per,
        verify=None if sent is None else find_mail,
        settles=settles,
        classify=single_request,
        time_limit=timedelta(seconds=limit_seconds * WHOLE),
    )
    return protected


_PORTS = {"tls": 465, "starttls": 587, "none": 25}


def _domain_of(sender: str, *, tool: str) -> str:
    try:
        return parseaddr(_check_address(sender))[1].rpartition("@")[2]
    except ValueError as error:
        raise InvalidTool(f"Tool {tool!r} was not declared: sender={sender!r}: {error}.") from None


def _message_id(call: Call, domain: str) -> str:
    return f"<{call.id}@{domain}>"


def _compose(
    call: Call,
    domain: str,
    sender: str,
    to: list[str],
    subject: str,
    text: str,
    html: str | None,
) -> EmailMessage:
    """Compose the mail. The bytes are the same for every attempt."""
    mail = EmailMessage()
    try:
        mail["From"], mail["To"], mail["Subject"] = sender, ", ".join(to), subject
        mail["Message-ID"] = _message_id(call, domain)
        mail["Date"] = formatdate(call.first_started_at)
        mail.set_content(text)
        if html is not None:
            mail.add_alternative(html, subtype="html")
            # Otherwise every attempt would have a new random boundary.
            mail.set_boundary(f"part-{call.id}")
        mail.as_bytes()
    except (ValueError, LookupError) as error:
        raise Permanent(
            f"The mail was not sent, because it cannot be composed: {error}."
        ) from error
    return mail


@contextlib.contextmanager
def _connected(
    address: tuple[str, int], security: str, login: Login | None, limit_seconds: float
) -> Any:
    """Yield a connection that is ready to send mail."""
    who = _login(login)
    if security == "tls":
        secure = ssl.create_default_context()
        server: smtplib.SMTP = smtplib.SMTP_SSL(*address, timeout=limit_seconds, context=secure)
    else:
        server = smtplib.SMTP(*address, timeout=limit_seconds)
    try:
        if security == "starttls":
            server.starttls(context=ssl.create_default_context())
        if who is not None:
            server.login(*who)
        yield server
        # The server has accepted the mail. A failing QUIT does not change that.
        with contextlib.suppress(OSError, smtplib.SMTPException):
            server.quit()
    finally:
        server.close()


def _login(login: Login | None) -> tuple[str, str] | None:
    """Return the current user and password. Permanent if that fails, before any connection."""
    if not callable(login):
        return login
    try:
        return login()
    except Exception as error:
        kind = type(error).__name__
    # Without the error text, which is recorded and may contain the password.
    raise Permanent(f"The mail was not sent: the function that returns the login raised {kind}.")
