"""Do the errors of real clients prove what `single_request` reads out of them?

Every error here was raised by the library itself against a server on this machine that refuses,
drops, stalls or answers; only where a name is faked on purpose is a class made up.
"""

from __future__ import annotations

import asyncio
import gc
import io
import shutil
import smtplib
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from nottwice.model.failure import FailureClass, classify, single_request
from nottwice.model.single_request import Sign, read_sign, read_status
from tests.model.loopback import (
    LONG,
    Script,
    answering,
    cut_the_body,
    drop,
    mail_server,
    never_accepting,
    read_nothing,
    read_request,
    redirecting,
    refusing,
    reset,
    serving,
    speak_no_tls,
    stall,
    talk_nonsense,
)

RETRYABLE = FailureClass.RETRYABLE
PERMANENT = FailureClass.PERMANENT
AMBIGUOUS = FailureClass.AMBIGUOUS

SHORT = 0.2  # Seconds until a client stops waiting for a server that never answers.


# ---- Clients ----------------------------------------------------------------------------------


class Client(Protocol):
    def __call__(self, url: str, *, method: str = "POST", seconds: float = LONG) -> None: ...


BODY = b"amount=4000"


def use_httpx(url: str, *, method: str = "POST", seconds: float = LONG) -> None:
    httpx = pytest.importorskip("httpx")
    with httpx.Client(trust_env=False, timeout=seconds, follow_redirects=True) as client:
        client.request(method, url, content=BODY).raise_for_status()


def use_async_httpx(url: str, *, method: str = "POST", seconds: float = LONG) -> None:
    httpx = pytest.importorskip("httpx")

    async def send() -> None:
        async with httpx.AsyncClient(
            trust_env=False, timeout=seconds, follow_redirects=True
        ) as client:
            (await client.request(method, url, content=BODY)).raise_for_status()

    asyncio.run(send())


def use_requests(url: str, *, method: str = "POST", seconds: float = LONG) -> None:
    requests = pytest.importorskip("requests")
    with requests.Session() as session:
        session.trust_env = False
        session.request(method, url, data=BODY, timeout=seconds).raise_for_status()


def use_urllib(url: str, *, method: str = "POST", seconds: float = LONG) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, data=BODY, method=method)
    with opener.open(request, timeout=seconds) as response:
        response.read()


def use_aiohttp(url: str, *, method: str = "POST", seconds: float = LONG) -> None:
    aiohttp = pytest.importorskip("aiohttp")

    async def send() -> None:
        limit = aiohttp.ClientTimeout(
            # The total covers what the others do not: a body that no code reads.
            total=3 * seconds,
            sock_connect=seconds,
            sock_read=seconds,
        )
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.request(method, url, data=io.BytesIO(BODY)) as response,
        ):
            await response.read()
            response.raise_for_status()

    asyncio.run(send())


CLIENTS: dict[str, Client] = {
    "httpx": use_httpx,
    "httpx-async": use_async_httpx,
    "requests": use_requests,
    "urllib": use_urllib,
    "aiohttp": use_aiohttp,
}
each_client = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS.keys())


def error_of(action: Callable[[], object]) -> Exception:
    """The error, with the traceback that the engine would see."""
    try:
        action()
    except Exception as error:
        if isinstance(error, urllib.request.HTTPError):
            error.close()
        return error
    pytest.fail("the request succeeded")


def verdict(action: Callable[[], object]) -> FailureClass | None:
    return single_request(error_of(action))


# ---- Before the request -----------------------------------------------------------------------


@each_client
def test_a_refused_connection_is_retryable(client: Client) -> None:
    with refusing() as port:
        assert verdict(lambda: client(f"http://127.0.0.1:{port}/")) is RETRYABLE


@each_client
def test_an_unknown_host_is_retryable(client: Client) -> None:
    assert verdict(lambda: client("http://nowhere.invalid/")) is RETRYABLE


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse when the queue is full")
@each_client
def test_a_timeout_of_the_connection_is_retryable_where_the_client_tells(client: Client) -> None:
    with never_accepting() as port:
        error = error_of(lambda: client(f"http://127.0.0.1:{port}/", seconds=SHORT))
    # urllib wraps the same TimeoutError whether it comes from connecting or from sending.
    assert single_request(error) is (AMBIGUOUS if client is use_urllib else RETRYABLE)


@each_client
def test_a_failed_tls_handshake_is_retryable(client: Client) -> None:
    with serving(speak_no_tls) as port:
        assert verdict(lambda: client(f"https://127.0.0.1:{port}/")) is RETRYABLE


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An untrusted certificate, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("the openssl command is needed to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "certificate.pem", folder / "key.pem"
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x"
    command = [openssl, *options.split(), "-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run(command, check=True, capture_output=True)
    return files


@each_client
def test_a_certificate_that_is_not_trusted_is_retryable(
    client: Client, certificate: tuple[Path, Path]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def speak_tls(connection: socket.socket, over: threading.Event) -> None:
        try:
            context.wrap_socket(connection, server_side=True).close()
        except OSError:
            return

    with serving(speak_tls) as port:
        assert verdict(lambda: client(f"https://127.0.0.1:{port}/")) is RETRYABLE


@each_client
def test_an_address_that_cannot_be_reached_is_retryable_where_the_client_tells(
    client: Client,
) -> None:
    error = error_of(lambda: client("http://255.255.255.255/"))
    # urllib shows a bare OSError, which could come from sending, too.
    assert single_request(error) is (AMBIGUOUS if client is use_urllib else RETRYABLE)


@pytest.mark.parametrize("url", ["gopher://127.0.0.1/", "http:///path", "http://host:port/"])
@each_client
def test_a_url_that_cannot_be_called_is_permanent(client: Client, url: str) -> None:
    assert verdict(lambda: client(url)) is PERMANENT


def test_a_url_without_a_scheme_is_permanent_to_requests() -> None:
    assert verdict(lambda: use_requests("127.0.0.1/")) is PERMANENT


def test_a_proxy_that_does_not_connect_us_is_retryable() -> None:
    httpx = pytest.importorskip("httpx")

    def send(port: int) -> None:
        with httpx.Client(trust_env=False, proxy=f"http://127.0.0.1:{port}") as client:
            client.post("https://there.example/", content=BODY)

    with serving(answering(502)) as port:
        error = error_of(lambda: send(port))
    assert type(error) is httpx.ProxyError
    assert single_request(error) is RETRYABLE


def test_a_proxy_that_refuses_the_connection_is_retryable() -> None:
    requests = pytest.importorskip("requests")

    def send(port: int) -> None:
        proxies = {"http": f"http://127.0.0.1:{port}"}
        with requests.Session() as session:
            session.trust_env = False
            session.post("http://there.example/", proxies=proxies, timeout=LONG)

    with refusing() as port:
        error = error_of(lambda: send(port))
    assert type(error) is requests.exceptions.ProxyError
    assert single_request(error) is RETRYABLE


def test_a_full_pool_is_retryable() -> None:
    httpx = pytest.importorskip("httpx")
    limits = httpx.Limits(max_connections=1)
    timeout = httpx.Timeout(LONG, pool=SHORT)

    def hold(connection: socket.socket, over: threading.Event) -> None:
        cut_the_body(connection, over)
        over.wait(LONG)

    with (
        serving(hold) as port,
        httpx.Client(trust_env=False, limits=limits, timeout=timeout) as client,
        client.stream("GET", f"http://127.0.0.1:{port}/"),
    ):
        error = error_of(lambda: client.post(f"http://127.0.0.1:{port}/"))
    assert type(error) is httpx.PoolTimeout
    assert single_request(error) is RETRYABLE


# ---- After bytes may have left ----------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [drop, reset, talk_nonsense, cut_the_body],
    ids=["drop", "reset", "talk_nonsense", "cut_the_body"],
)
@each_client
def test_a_connection_that_breaks_after_the_request_is_ambiguous(
    client: Client, script: Script
) -> None:
    with serving(script) as port:
        assert verdict(lambda: client(f"http://127.0.0.1:{port}/")) is AMBIGUOUS


@each_client
def test_an_answer_that_does_not_come_is_ambiguous(client: Client) -> None:
    with serving(stall) as port:
        error = error_of(lambda: client(f"http://127.0.0.1:{port}/", seconds=SHORT))
    assert single_request(error) is AMBIGUOUS


@each_client
def test_a_request_that_cannot_be_written_to_its_end_is_ambiguous(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "BODY", b"x" * 50_000_000)
    # asyncio cannot get rid of unread data, and complains when it is collected.
    with warnings.catch_warnings(), serving(read_nothing) as port:
        warnings.simplefilter("ignore", ResourceWarning)
        assert verdict(lambda: client(f"http://127.0.0.1:{port}/", seconds=SHORT)) is AMBIGUOUS
        gc.collect()


# ---- Answers ----------------------------------------------------------------------------------

STATUSES = {
    **dict.fromkeys((425, 429, 503), RETRYABLE),
    **dict.fromkeys((400, 401, 403, 404, 405, 407, 410, 411, 412, 413, 414, 415), PERMANENT),
    **dict.fromkeys((417, 422, 426, 428, 431, 451), PERMANENT),
    **dict.fromkeys((402, 406, 408, 409, 418, 421, 423, 424), AMBIGUOUS),
    **dict.fromkeys((500, 501, 502, 504, 505, 507, 520, 529), AMBIGUOUS),
}


@pytest.mark.parametrize("status", STATUSES)
@each_client
def test_a_status_is_read_by_what_it_proves(client: Client, status: int) -> None:
    with serving(answering(status)) as port:
        assert verdict(lambda: client(f"http://127.0.0.1:{port}/")) is STATUSES[status]


@pytest.mark.parametrize("status", [None, "404", 404.0])
def test_what_is_no_status_proves_nothing(status: object) -> None:
    assert read_status(status) is None


@pytest.mark.parametrize("status", [100, 200, 204, 302, 304])
def test_an_error_beside_a_success_or_a_redirect_is_unclear(status: int) -> None:
    assert read_status(status) is Sign.UNCLEAR


@pytest.mark.parametrize(
    ("header", "expected"), [("7", 7.0), ("Sun, 17 Mar 2030 17:47:40 GMT", 60.0), ("soon", None)]
)
@each_client
def test_the_wait_that_the_server_asks_for_is_kept(
    client: Client, header: str, expected: float | None
) -> None:
    with serving(answering(503, f"retry-after: {header}")) as port:
        error = error_of(lambda: client(f"http://127.0.0.1:{port}/"))
    failure = classify(error, effectful=True, classifier=single_request, now=1_900_000_000.0)
    assert (failure.failure_class, failure.retry_after_seconds) == (RETRYABLE, expected)


PURE: dict[str, tuple[Script, FailureClass]] = {
    "drop": (drop, RETRYABLE),
    "reset": (reset, RETRYABLE),
    "talk_nonsense": (talk_nonsense, RETRYABLE),
    "cut_the_body": (cut_the_body, RETRYABLE),
    "500": (answering(500), RETRYABLE),
    "502": (answering(502), RETRYABLE),
    "404": (answering(404), PERMANENT),
    "409": (answering(409), PERMANENT),
}


@pytest.mark.parametrize(("script", "expected"), PURE.values(), ids=PURE.keys())
@each_client
def test_without_an_effect_what_was_cut_off_may_be_asked_again(
    client: Client, script: Script, expected: FailureClass
) -> None:
    with serving(script) as port:
        error = error_of(lambda: client(f"http://127.0.0.1:{port}/"))
    assert classify(error, effectful=False, now=0.0).failure_class is expected


@each_client
def test_without_an_effect_an_answer_that_does_not_come_may_be_asked_again(
    client: Client,
) -> None:
    with serving(stall) as port:
        error = error_of(lambda: client(f"http://127.0.0.1:{port}/", seconds=SHORT))
    assert classify(error, effectful=False, now=0.0).failure_class is RETRYABLE


# ---- More than one request --------------------------------------------------------------------


@each_client
def test_a_redirect_to_a_refused_connection_is_ambiguous(client: Client) -> None:
    with refusing() as elsewhere, serving(redirecting(elsewhere)) as port:
        error = error_of(lambda: client(f"http://127.0.0.1:{port}/"))
    assert read_sign(error) is Sign.NOT_STARTED
    assert single_request(error) is AMBIGUOUS


@pytest.mark.parametrize("status", [404, 503])
@each_client
def test_a_redirect_to_a_refusal_is_ambiguous(client: Client, status: int) -> None:
    with serving(answering(status)) as elsewhere, serving(redirecting(elsewhere)) as port:
        assert verdict(lambda: client(f"http://127.0.0.1:{port}/")) is AMBIGUOUS


@pytest.mark.parametrize("target", ["gopher://127.0.0.1/", "http://[/"])
@each_client
def test_a_redirect_to_a_bad_url_is_ambiguous(client: Client, target: str) -> None:
    with serving(answering(302, f"Location: {target}")) as port:
        # Some clients answer a bad address with a plain ValueError; then there is no opinion.
        assert verdict(lambda: client(f"http://127.0.0.1:{port}/")) in (AMBIGUOUS, None)


@each_client
def test_a_redirect_that_must_repeat_the_request_is_ambiguous(client: Client) -> None:
    with refusing() as elsewhere, serving(redirecting(elsewhere, 307)) as port:
        assert verdict(lambda: client(f"http://127.0.0.1:{port}/")) is AMBIGUOUS


@each_client
def test_redirects_without_end_are_ambiguous(client: Client) -> None:
    scripts = [answering(302, "Location: /again")] * 60
    with serving(*scripts) as port:
        error = error_of(lambda: client(f"http://127.0.0.1:{port}/"))
    assert single_request(error) is AMBIGUOUS
    assert classify(error, effectful=False, now=0.0).failure_class is PERMANENT


def send_with_retries(url: str, retries: Any, *, method: str = "PUT") -> None:
    requests = pytest.importorskip("requests")
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
        session.request(method, url, data=BODY, timeout=LONG).raise_for_status()


def urllib3_retry(**options: Any) -> Any:
    return pytest.importorskip("urllib3").Retry(**options)


def test_retries_of_urllib3_that_never_connected_are_retryable() -> None:
    with refusing() as port:
        error = error_of(lambda: send_with_retries(f"http://127.0.0.1:{port}/", 3))
    assert single_request(error) is RETRYABLE


def test_a_retry_of_urllib3_after_a_dropped_connection_is_ambiguous() -> None:
    retries = urllib3_retry(total=3)
    with serving(drop) as port:
        error = error_of(lambda: send_with_retries(f"http://127.0.0.1:{port}/", retries))
    assert read_sign(error) is Sign.NOT_STARTED
    assert single_request(error) is AMBIGUOUS


@pytest.mark.parametrize(
    ("first", "expected"), [(502, AMBIGUOUS), (503, PERMANENT), (429, PERMANENT), (409, AMBIGUOUS)]
)
def test_a_refusal_after_a_retry_of_urllib3_counts_only_if_the_first_try_was_harmless(
    first: int, expected: FailureClass
) -> None:
    retries = urllib3_retry(total=3, status_forcelist=[first])
    with serving(answering(first), answering(404)) as port:
        error = error_of(lambda: send_with_retries(f"http://127.0.0.1:{port}/", retries))
    assert single_request(error) is expected


def test_retries_of_urllib3_that_ran_out_are_ambiguous() -> None:
    retries = urllib3_retry(total=1, status_forcelist=[502])
    with serving(answering(502), answering(502)) as port:
        error = error_of(lambda: send_with_retries(f"http://127.0.0.1:{port}/", retries))
    assert single_request(error) is AMBIGUOUS
    assert classify(error, effectful=False, now=0.0).failure_class is RETRYABLE


def test_urllib3_itself_is_read_like_requests() -> None:
    urllib3 = pytest.importorskip("urllib3")
    with urllib3.PoolManager(timeout=LONG) as pool:
        with refusing() as port:
            url = f"http://127.0.0.1:{port}/"
            assert verdict(lambda: pool.request("POST", url)) is RETRYABLE
            assert verdict(lambda: pool.request("POST", url, retries=False)) is RETRYABLE
        with refusing() as elsewhere, serving(redirecting(elsewhere)) as port:
            url = f"http://127.0.0.1:{port}/"
            assert verdict(lambda: pool.request("POST", url)) is AMBIGUOUS
        with serving(drop) as port:
            url = f"http://127.0.0.1:{port}/"
            assert verdict(lambda: pool.request("POST", url)) is AMBIGUOUS
        assert verdict(lambda: pool.request("POST", "gopher://x/")) is PERMANENT


def test_a_full_pool_of_urllib3_is_retryable() -> None:
    urllib3 = pytest.importorskip("urllib3")
    with (
        serving(cut_the_body, drop) as port,
        urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=1, block=True) as pool,
    ):
        held = pool.request("GET", "/", preload_content=False, timeout=LONG)
        assert verdict(lambda: pool.request("POST", "/", pool_timeout=SHORT)) is RETRYABLE
        held.close()


@pytest.mark.parametrize(("method", "expected"), [("PUT", AMBIGUOUS), ("POST", AMBIGUOUS)])
def test_what_aiohttp_sends_again_on_a_dead_connection_is_ambiguous(
    method: str, expected: FailureClass
) -> None:
    aiohttp = pytest.importorskip("aiohttp")
    keep = answering(200, keep=True)

    def answer_and_drop(connection: socket.socket, over: threading.Event) -> None:
        keep(connection, over)
        drop(connection, over)

    async def send_twice(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            async with session.get(url) as response:
                await response.read()
            await session.request(method, url, data=BODY)

    with serving(answer_and_drop) as port:
        error = error_of(lambda: asyncio.run(send_twice(f"http://127.0.0.1:{port}/")))
    # A PUT is sent again by aiohttp and refused; a POST is not, and its answer is missing.
    refused = isinstance(error, aiohttp.ClientConnectorError)
    assert refused is (method == "PUT")
    assert single_request(error) is expected


def test_a_refused_put_of_aiohttp_is_retryable() -> None:
    with refusing() as port:
        action = lambda: use_aiohttp(f"http://127.0.0.1:{port}/", method="PUT")  # noqa: E731
        assert verdict(action) is RETRYABLE


@pytest.mark.parametrize(
    ("final", "expected"), [(404, PERMANENT), (503, RETRYABLE), (500, AMBIGUOUS)]
)
def test_a_login_that_needs_two_requests_is_no_earlier_effect(
    final: int, expected: FailureClass
) -> None:
    httpx = pytest.importorskip("httpx")
    challenge = answering(401, 'WWW-Authenticate: Digest realm="r", nonce="n", qop="auth"')

    def send(url: str) -> None:
        with httpx.Client(trust_env=False, auth=httpx.DigestAuth("me", "secret")) as client:
            client.post(url, content=BODY).raise_for_status()

    with serving(challenge, answering(final)) as port:
        assert verdict(lambda: send(f"http://127.0.0.1:{port}/")) is expected


# ---- Mail -------------------------------------------------------------------------------------


def send_mail(port: int, *, user: str | None = None, seconds: float = LONG) -> None:
    with smtplib.SMTP(
        "127.0.0.1", port, local_hostname="client.example", timeout=seconds
    ) as connection:
        if user is not None:
            connection.login(user, "secret")
        connection.sendmail("a@client.example", ["b@there.example", "c@there.example"], "Hello")


MAIL: dict[str, tuple[dict[str, str], FailureClass]] = {
    "greeting 421": ({"HELLO": "421 too busy"}, RETRYABLE),
    "greeting 554": ({"HELLO": "554 no service"}, PERMANENT),
    "hello 421": ({"EHLO": "502 what", "HELO": "451 later"}, RETRYABLE),
    "hello 550": ({"EHLO": "502 what", "HELO": "550 go away"}, PERMANENT),
    "sender 451": ({"MAIL": "451 later"}, RETRYABLE),
    "sender 421": ({"MAIL": "421 closing"}, RETRYABLE),
    "sender 550": ({"MAIL": "550 no"}, PERMANENT),
    "recipients 450": ({"RCPT": "450 later"}, RETRYABLE),
    "recipients 550": ({"RCPT": "550 unknown"}, PERMANENT),
    "recipients 450 and 550": ({"RCPT": "450 later|550 unknown"}, RETRYABLE),
    "recipients 550 and 421": ({"RCPT": "550 unknown|421 closing"}, RETRYABLE),
    "data 451": ({"DATA": "451 later"}, RETRYABLE),
    "data 554": ({"DATA": "554 no"}, PERMANENT),
    "mail 451": ({"BODY": "451 later"}, RETRYABLE),
    "mail 552": ({"BODY": "552 too large"}, PERMANENT),
    "mail 421": ({"BODY": "421 closing"}, AMBIGUOUS),
    "mail 252": ({"BODY": "252 perhaps"}, AMBIGUOUS),
    "greeting drop": ({"HELLO": "drop"}, AMBIGUOUS),
    "mail drop": ({"BODY": "drop"}, AMBIGUOUS),
    "mail stall": ({"BODY": "stall"}, AMBIGUOUS),
    "quit 421 after the mail": ({"QUIT": "421 closing"}, AMBIGUOUS),
    "quit 550 after the mail": ({"QUIT": "550 what"}, AMBIGUOUS),
}


@pytest.mark.parametrize(("replies", "expected"), MAIL.values(), ids=MAIL.keys())
def test_a_mail_is_refused_only_by_a_reply_before_it_is_accepted(
    replies: dict[str, str], expected: FailureClass
) -> None:
    seconds = SHORT if "stall" in replies.values() else LONG
    with serving(mail_server(**replies)) as port:
        assert verdict(lambda: send_mail(port, seconds=seconds)) is expected


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ({"AUTH": "535 wrong"}, PERMANENT),
        ({"AUTH": "454 later"}, RETRYABLE),
        ({"EHLO": "250 here"}, PERMANENT),
    ],
    ids=["535", "454", "not offered"],
)
def test_a_login_to_a_mail_server_is_read_by_its_code(
    replies: dict[str, str], expected: FailureClass
) -> None:
    with serving(mail_server(**replies)) as port:
        assert verdict(lambda: send_mail(port, user="me")) is expected


def test_an_smtp_error_that_does_not_tell_when_is_ambiguous() -> None:
    with serving(mail_server(EHLO="250-here\r\n250 AUTH SECRET-HANDSHAKE")) as port:
        error = error_of(lambda: send_mail(port, user="me"))
    assert type(error) is smtplib.SMTPException
    assert single_request(error) is AMBIGUOUS


def test_a_mail_server_that_is_not_there_is_retryable() -> None:
    with refusing() as port:
        assert verdict(lambda: send_mail(port)) is RETRYABLE
    assert verdict(lambda: smtplib.SMTP("nowhere.invalid", 25)) is RETRYABLE


# ---- Plain sockets ----------------------------------------------------------------------------


def exchange(port: int, *, seconds: float = LONG, host: str = "127.0.0.1") -> None:
    with socket.create_connection((host, port), timeout=seconds) as connection:
        while True:
            connection.sendall(b"POST / HTTP/1.1\r\n\r\n")
            if not connection.recv(100):
                raise ConnectionAbortedError("the server closed")


def test_a_socket_that_never_connected_is_retryable() -> None:
    with refusing() as port:
        assert verdict(lambda: exchange(port)) is RETRYABLE
    assert verdict(lambda: exchange(80, host="nowhere.invalid")) is RETRYABLE


@pytest.mark.parametrize("script", [drop, reset, stall], ids=["drop", "reset", "stall"])
def test_a_socket_that_broke_after_sending_is_ambiguous(script: Script) -> None:
    with serving(script) as port:
        assert verdict(lambda: exchange(port, seconds=SHORT)) is AMBIGUOUS


def test_tls_that_breaks_after_the_handshake_is_ambiguous(certificate: tuple[Path, Path]) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*certificate)
    client = ssl.create_default_context(cafile=str(certificate[0]))
    client.check_hostname = False

    def break_off(connection: socket.socket, over: threading.Event) -> None:
        protected = server.wrap_socket(connection, server_side=True)
        read_request(protected)
        # Bytes that no TLS record begins with, past the TLS layer.
        with socket.socket(fileno=protected.detach()) as bare:
            bare.sendall(b"plain text, suddenly\r\n")

    def send(port: int) -> None:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=LONG) as connection,
            client.wrap_socket(connection) as protected,
        ):
            protected.sendall(b"POST / HTTP/1.1\r\n\r\n")
            protected.recv(100)

    with serving(break_off) as port:
        error = error_of(lambda: send(port))
    assert isinstance(error, ssl.SSLError)
    assert single_request(error) is AMBIGUOUS


# ---- Names ------------------------------------------------------------------------------------


# Errors that are hard to cause, or that the traceback also gives away: what the class says.
BY_CLASS: list[tuple[str, str, Sign]] = [
    ("httpx", "LocalProtocolError", Sign.UNCLEAR),
    ("httpx", "StreamError", Sign.UNCLEAR),
    ("httpx", "DecodingError", Sign.UNCLEAR),
    ("httpx", "ReadTimeout", Sign.CUT_OFF),
    ("requests.exceptions", "InvalidJSONError", Sign.UNCLEAR),
    ("urllib3.exceptions", "DecodeError", Sign.UNCLEAR),
    ("urllib3.exceptions", "TimeoutError", Sign.CUT_OFF),
    ("urllib3.exceptions", "ProtocolError", Sign.CUT_OFF),
    ("urllib3.exceptions", "ConnectTimeoutError", Sign.NOT_STARTED),
    ("aiohttp", "ClientError", Sign.UNCLEAR),
    ("aiohttp", "ServerTimeoutError", Sign.CUT_OFF),
    ("aiohttp", "SocketTimeoutError", Sign.CUT_OFF),
    ("aiohttp", "ConnectionTimeoutError", Sign.NOT_STARTED),
    ("aiohttp", "InvalidUrlRedirectClientError", Sign.UNCLEAR),
    ("aiohttp", "NonHttpUrlRedirectClientError", Sign.UNCLEAR),
    ("http.client", "InvalidURL", Sign.REFUSED),
    ("ssl", "SSLCertVerificationError", Sign.NOT_STARTED),
    ("smtplib", "SMTPServerDisconnected", Sign.CUT_OFF),
]


@pytest.mark.parametrize(("module", "name", "expected"), BY_CLASS)
def test_a_class_without_a_traceback_is_read_carefully(
    module: str, name: str, expected: Sign
) -> None:
    assert read_sign(getattr(pytest.importorskip(module), name)("no")) is expected


@pytest.mark.parametrize(
    ("module", "name"),
    [("urllib3.exceptions", "NewConnectionError"), ("requests.exceptions", "ConnectTimeout")],
)
def test_a_class_is_known_whatever_its_parents_are_in_another_version(
    module: str, name: str
) -> None:
    kind: type[Exception] = type(name, (Exception,), {"__module__": module})
    assert single_request(kind("no")) is RETRYABLE


def test_a_pool_that_was_closed_in_between_is_ambiguous() -> None:
    urllib3 = pytest.importorskip("urllib3")
    assert single_request(urllib3.exceptions.ClosedPoolError(None, "closed")) is AMBIGUOUS


@pytest.mark.parametrize(
    "name", ["ConnectError", "ConnectTimeout", "HTTPStatusError", "SMTPSenderRefused", "gaierror"]
)
@pytest.mark.parametrize("module", ["bank.errors", "httpxtras", "bank.httpx", "smtplib2", ""])
def test_a_name_alone_proves_nothing(module: str, name: str) -> None:
    namesake = type(name, (Exception,), {"__module__": module})
    assert single_request(namesake("no")) is None


def test_a_subclass_of_a_known_error_is_known() -> None:
    httpx = pytest.importorskip("httpx")
    kind: type[Exception] = type("BankIsDown", (httpx.ConnectError,), {"__module__": "bank"})
    assert single_request(kind("no")) is RETRYABLE


@each_client
def test_an_error_that_a_stranger_chained_is_not_opened(client: Client) -> None:
    class BankError(Exception):
        pass

    def wrap(port: int) -> None:
        try:
            client(f"http://127.0.0.1:{port}/")
        except Exception as error:
            raise BankError("gave up") from error

    with refusing() as port:
        assert verdict(lambda: wrap(port)) is None


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), KeyError("x"), OSError("x"), FileNotFoundError("x"), KeyboardInterrupt()],
)
def test_errors_that_no_client_raised_get_no_opinion(error: BaseException) -> None:
    assert single_request(error) is None


def test_errors_that_carry_each_other_in_a_circle_end() -> None:
    requests = pytest.importorskip("requests")
    error = requests.exceptions.ConnectionError("x")
    error.args = (error,)
    assert single_request(error) is AMBIGUOUS
