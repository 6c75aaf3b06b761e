"""What does an error prove about the one request that it ended?

Promise: a request counts as without effect only where the client library's own error shows that
nothing was processed. If bytes may have left, it counts as open. Libraries are recognised by the
names and modules of their classes and are never imported. A name alone proves nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from types import FrameType

# Errors can point at each other in a circle, and no real error is wrapped this often.
_MOST_LINKS = 10
_REFUSALS = frozenset(
    (400, 401, 403, 404, 405, 407, 410, 411, 412, 413, 414, 415, 417, 422, 426, 428, 431, 451)
)


class Sign(enum.Enum):
    """What an error shows about the request it ended."""

    NOT_STARTED = "nothing was processed, and that may change"
    REFUSED = "nothing was processed, and nothing will be"
    CUT_OFF = "it may have been processed; no answer came, or none that tells"
    UNCLEAR = "it may have been processed, and asking again would end the same way"


def read_sign(error: BaseException) -> Sign | None:
    """Return what the error shows. None: no known library raised it.

    The nearest known class in its ancestry decides. Only the wrappers of known libraries are
    opened. The ``__cause__`` of an unknown error is not: SDKs chain the last of several tries, and
    the earlier ones may have arrived.
    """
    for link in _opened(error):
        reading = _nearest_reading(link)
        if reading is None:
            # Inside a known wrapper this is a system error that may have come at any moment.
            return None if link is error else Sign.CUT_OFF
        sign = reading if isinstance(reading, Sign) else reading(link)
        if sign is not None:
            return sign
    return Sign.CUT_OFF


def read_status(status: object) -> Sign | None:
    """Return what an HTTP status proves.

    Some need an explanation. 409 is not a refusal: an upstream that knows the key sends it while
    the first request is still running. 406 is not a refusal either: frameworks notice that no
    representation fits after their handler has run. 408 comes from servers that had begun to read.
    412 is a refusal (RFC 9110, 13.2.2: the method is not performed). 425 asks to come back (RFC
    8470: the server will not process what may be a replay).
    """
    if not isinstance(status, int):
        return None
    if status in (425, 429, 503):
        return Sign.NOT_STARTED
    if status in _REFUSALS:
        return Sign.REFUSED
    if status == 408 or (500 <= status <= 599 and status not in (501, 505)):
        return Sign.CUT_OFF
    return Sign.UNCLEAR


def sent_before(error: BaseException) -> bool:
    """Whether the client had already sent a request on its own: before a redirect or a retry.

    A POST that was answered by a redirect has taken effect, even if the connection to the second
    address is refused. Most clients show that only in the frames of the traceback. Reading them
    only ever makes the answer stricter.
    """
    for link in _opened(error):
        if any(map(_repeats, _frames(link))):
            return True
        for history in _histories(link):
            if isinstance(history, list | tuple) and not all(map(_left_no_trace, history)):
                return True
    return False


def read_attribute(holder: object, name: str) -> object:
    """Return an attribute, or None. Properties of foreign classes may raise anything."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None


def _opened(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, then the error it carries, and so on."""
    link: BaseException | None = error
    for _ in range(_MOST_LINKS):
        if link is None:
            return
        yield link
        link = _carried(link)


def _carried(error: BaseException) -> BaseException | None:
    for inner in (read_attribute(error, "reason"), *error.args):
        if isinstance(inner, BaseException):
            return inner
    return None


def _nearest_reading(error: BaseException) -> _Reading | None:
    for kind in type(error).__mro__:
        reading = _READINGS.get(f"{_library(kind.__module__)}.{kind.__qualname__}")
        if reading is not None:
            return reading
    return None


def _library(module: object) -> str:
    name = str(module).partition(".")[0]
    return _SUCCESSORS.get(name, name)


# A library that was continued under another name, with the same classes.
_SUCCESSORS = {"httpx2": "httpx"}
# A reading that gives None defers to the error that is carried inside.
_Reading = Sign | Callable[[BaseException], Sign | None]


def _look_inside(error: BaseException) -> None:
    """Return nothing: these classes only wrap the error that counts."""


def _read_answer(error: BaseException) -> Sign:
    """Return what the status of the response proves, if it is one.

    aiohttp gives a response that it cannot parse the status 400, as if the server had refused. The
    parser's error is then the cause, and no error made from a real status has a cause.
    """
    if error.__cause__ is not None:
        return Sign.CUT_OFF
    response = read_attribute(error, "response")
    for holder, name in ((response, "status_code"), (error, "status"), (error, "code")):
        sign = read_status(read_attribute(holder, name))
        if sign is not None:
            return sign
    return Sign.UNCLEAR


def _read_url_error(error: BaseException) -> Sign | None:
    """urllib gives an error or a text as the reason. Two of the texts come before connecting."""
    reason = read_attribute(error, "reason")
    if isinstance(reason, BaseException):
        return None
    early = str(reason).startswith("unknown url type") or reason == "no host given"
    return Sign.REFUSED if early else Sign.UNCLEAR


def _read_tls_error(error: BaseException) -> Sign:
    """A handshake error comes before any request. Other TLS errors may come after it."""
    in_handshake = any(
        frame.f_code.co_name == "do_handshake" and _frame_library(frame) == "ssl"
        for frame in _frames(error)
    )
    return Sign.NOT_STARTED if in_handshake else Sign.CUT_OFF


def _read_smtp_reply(error: BaseException) -> Sign:
    """Replies up to the recipients: the mail itself was never sent, whatever the code."""
    codes = [read_attribute(error, "smtp_code")]
    recipients = read_attribute(error, "recipients")
    if isinstance(recipients, dict):
        codes = [reply[0] for reply in recipients.values() if isinstance(reply, tuple)]
    final = [isinstance(code, int) and 500 <= code <= 599 for code in codes]
    return Sign.REFUSED if final and all(final) else Sign.NOT_STARTED


def _read_smtp_data_reply(error: BaseException) -> Sign:
    """The reply to the mail itself. RFC 5321, 4.2.5 settles it.

    After a 4yz or 5yz the server must not deliver, and the sender keeps the responsibility. 421
    stays open: a server that shuts down sends it at any time, so it may not be a reply.
    """
    code = read_attribute(error, "smtp_code")
    if not isinstance(code, int) or code == 421 or not 400 <= code <= 599:
        return Sign.CUT_OFF
    return Sign.REFUSED if code >= 500 else Sign.NOT_STARTED


# By library and class: modules and ancestry inside a library differ between its versions.
_NAMES: dict[_Reading, str] = {
    Sign.NOT_STARTED: """
        httpx.ConnectError httpx.ConnectTimeout httpx.PoolTimeout httpx.ProxyError
        requests.ConnectTimeout
        urllib3.NewConnectionError urllib3.ConnectTimeoutError urllib3.EmptyPoolError
        aiohttp.ClientConnectorError aiohttp.ConnectionTimeoutError
        builtins.ConnectionRefusedError socket.gaierror ssl.SSLCertVerificationError
    """,
    Sign.REFUSED: """
        httpx.UnsupportedProtocol httpx.InvalidURL
        requests.InvalidURL requests.InvalidSchema requests.MissingSchema
        urllib3.LocationValueError http.InvalidURL
        aiohttp.InvalidURL aiohttp.NonHttpUrlClientError
        smtplib.SMTPNotSupportedError
    """,
    Sign.CUT_OFF: """
        httpx.TransportError
        requests.Timeout requests.ChunkedEncodingError requests.RetryError
        urllib3.TimeoutError urllib3.ProtocolError http.HTTPException
        aiohttp.ClientConnectionError aiohttp.ClientPayloadError
        smtplib.SMTPServerDisconnected
        builtins.ConnectionError builtins.TimeoutError
    """,
    # A LocalProtocolError can come between the head and the body of a request. An SMTPException
    # that is not listed separately can come from QUIT, after the mail was sent.
    Sign.UNCLEAR: """
        httpx.HTTPError httpx.StreamError httpx.LocalProtocolError
        requests.RequestException urllib3.HTTPError
        aiohttp.ClientError
        aiohttp.InvalidUrlRedirectClientError aiohttp.NonHttpUrlRedirectClientError
        smtplib.SMTPException
    """,
    _look_inside: """
        requests.ConnectionError urllib3.MaxRetryError urllib3.ProxyError urllib3.SSLError
    """,
    _read_answer: """
        httpx.HTTPStatusError requests.HTTPError urllib.HTTPError aiohttp.ClientResponseError
    """,
    _read_smtp_reply: """
        smtplib.SMTPConnectError smtplib.SMTPHeloError smtplib.SMTPAuthenticationError
        smtplib.SMTPSenderRefused smtplib.SMTPRecipientsRefused
    """,
    _read_smtp_data_reply: "smtplib.SMTPDataError",
    _read_url_error: "urllib.URLError",
    _read_tls_error: "ssl.SSLError",
}
_READINGS = {name: reading for reading, names in _NAMES.items() for name in names.split()}


def _repeats(frame: FrameType) -> bool:
    """Whether this frame of a client only runs, or continues, after an earlier request."""
    match _frame_library(frame):
        case "requests":
            return frame.f_code.co_name == "resolve_redirects"
        case "urllib":
            return frame.f_code.co_name == "http_error_302"
        case "aiohttp":
            # Methods that are idempotent by definition, including PUT and DELETE, are sent again
            # when a kept connection turns out to be dead.
            names = frame.f_locals
            is_used_up = names.get("retry_persistent_connection") is False
            return is_used_up and names.get("method") not in ("POST", "PATCH", "CONNECT")
    return False


def _histories(error: BaseException) -> Iterator[object]:
    response = read_attribute(error, "response")
    retries = read_attribute(read_attribute(response, "raw"), "retries")
    for holder in (error, response, retries):
        yield read_attribute(holder, "history")
    for frame in _frames(error):
        match _frame_library(frame):
            case "httpx" | "aiohttp":
                yield frame.f_locals.get("history")
            case "urllib3":
                yield read_attribute(frame.f_locals.get("retries"), "history")


def _left_no_trace(earlier: object) -> bool:
    """Whether an earlier response, or an entry of urllib3's history, is proven harmless."""
    error = read_attribute(earlier, "error")
    if isinstance(error, BaseException):
        sign = read_sign(error)
    else:
        status = read_attribute(earlier, "status_code") or read_attribute(earlier, "status")
        sign = read_status(status)
    return sign in (Sign.NOT_STARTED, Sign.REFUSED)


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _frame_library(frame: FrameType) -> str:
    return _library(frame.f_globals.get("__name__"))
