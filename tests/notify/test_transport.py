"""Does a message leave safely: no redirect, no other protocol, no waiting forever? (P338)"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from pathlib import Path

import pytest

from nottwice.errors import UsageError
from nottwice.notify.messages import Notification
from nottwice.notify.settings import CommandTarget, WebhookTarget
from nottwice.notify.transport import Undelivered, deliver
from tests.notify.receiver import SECRET, Receiver, is_signed

MESSAGE = Notification(
    id="n-1", kind="test", at=1_700_000_000.0, headline="Hello", data={"ledger": "agent.db"}
)


def _post(receiver: Receiver, url: str = "", *, limit_seconds: float = 10.0) -> None:
    target = WebhookTarget(url or receiver.url, "json", SECRET.encode())
    deliver(MESSAGE, target, now=1_700_000_000.0, limit_seconds=limit_seconds)


def test_a_message_is_posted_signed_and_with_its_id(receiver: Receiver) -> None:
    _post(receiver)
    (got,) = receiver.received
    assert (got.path, got.id) == ("/hook", "n-1")
    assert got.headers["content-type"].startswith("application/json")
    assert is_signed(got, SECRET.encode())
    assert got.data["text"] == "Hello"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_with_the_signature(receiver: Receiver, status: int) -> None:
    receiver.answers, receiver.location = [status], receiver.url + "/elsewhere"
    with pytest.raises(Undelivered, match=f"answered {status}, and a redirect is not followed"):
        _post(receiver)
    assert [one.path for one in receiver.received] == ["/hook"]


@pytest.mark.parametrize("status", [400, 404, 410, 429, 500, 503])
def test_any_other_answer_is_a_failure(receiver: Receiver, status: int) -> None:
    receiver.answers = [status]
    with pytest.raises(Undelivered, match=f"the webhook answered {status}"):
        _post(receiver)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/", "data:text/plain,a"])
def test_nothing_but_http_is_spoken(receiver: Receiver, url: str) -> None:
    with pytest.raises(UsageError, match="Nothing was sent"):
        _post(receiver, url)


def test_a_server_that_is_not_there_is_a_failure_without_the_url() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    target = WebhookTarget(f"http://127.0.0.1:{port}/secret-path", "json", b"x" * 16)
    with pytest.raises(Undelivered, match="could not be reached") as caught:
        deliver(MESSAGE, target, now=0.0, limit_seconds=10.0)
    assert "secret-path" not in str(caught.value)


def test_a_server_that_answers_byte_by_byte_is_not_waited_for(receiver: Receiver) -> None:
    """Every byte comes in time, and all of them only after ten seconds."""
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
            with contextlib.suppress(OSError):
                for _ in range(500):
                    if over.wait(0.02):
                        return
                    connection.sendall(b"y")
                connection.sendall(b"\r\ncontent-length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,), daemon=True)
        thread.start()
        with pytest.raises(Undelivered, match=r"within 0\.3 s"):
            _post(receiver, f"http://127.0.0.1:{server.getsockname()[1]}/", limit_seconds=0.3)
        over.set()
        thread.join()


def test_a_command_gets_the_message_on_its_standard_input(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    code = (
        "import os, sys; "
        f"open({str(kept)!r}, 'w').write(os.environ['NOTTWICE_NOTIFY_ID'] + sys.stdin.read())"
    )
    deliver(MESSAGE, CommandTarget((sys.executable, "-c", code)), now=0.0, limit_seconds=30.0)
    told = kept.read_text()
    assert told.startswith("n-1{")
    assert json.loads(told.removeprefix("n-1"))["data"]["text"] == "Hello"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((sys.executable, "-c", "import sys; sys.exit('no \\x1b[31m route')"), "ended with 1: no"),
        (("/nonexistent/program",), "could not be started: No such file"),
    ],
)
def test_a_command_that_fails_is_a_failure(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(Undelivered, match=said) as caught:
        deliver(MESSAGE, CommandTarget(words), now=0.0, limit_seconds=30.0)
    assert str(caught.value).isprintable()


def test_a_command_that_hangs_is_ended() -> None:
    hangs = CommandTarget((sys.executable, "-c", "import time; time.sleep(600)"))
    with pytest.raises(Undelivered, match=r"did not end within 0\.3 s"):
        deliver(MESSAGE, hangs, now=0.0, limit_seconds=0.3)
