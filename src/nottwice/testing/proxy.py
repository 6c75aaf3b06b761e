"""How does the agent handle a real upstream whose answer never arrives?

``LossyProxy`` stands before any HTTP upstream and forwards requests, except that it loses the
response of the n-th request (the effect took place), or the request itself (it did not). It is a
process of its own, so it survives the death of the agent under test.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from nottwice.errors import UsageError
from nottwice.model.records import frozen_record
from nottwice.testing.world import WorldNotStarted, end_process, read_port


@frozen_record(frozen=True, slots=True)
class Passed:
    """A request that reached the proxy."""

    number: int
    method: str
    path: str
    status: int | None
    """The status of the upstream's response. None if it was not asked, or did not respond."""
    lost: str | None
    """``"request"``, ``"response"``, what the upstream failed with, or None."""


class LossyProxy:
    """An HTTP proxy before one upstream; it ends with its block, or with its starter."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._process = process
        self._log = folder / "passed.jsonl"

    @classmethod
    def start(
        cls,
        upstream: str,
        *,
        lose_responses: Iterable[int] = (),
        lose_requests: Iterable[int] = (),
    ) -> LossyProxy:
        """Start a proxy. The numbers define which requests, counted from 1, it loses, and how."""
        address = urlsplit(upstream)
        if address.scheme not in ("http", "https") or not address.netloc:
            raise UsageError(
                f"{upstream!r} is not the address of an HTTP server. Nothing was started. Write "
                "it like http://127.0.0.1:8000"
            )
        folder = Path(tempfile.mkdtemp(prefix="nottwice-proxy-"))
        server = Path(__file__).with_name("proxy_server.py")
        process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(server), upstream),
                *(str(folder / "passed.jsonl"), str(os.getpid())),
                *(json.dumps(sorted(lose_responses)), json.dumps(sorted(lose_requests))),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Signals for the terminal's process group are not for the proxy.
            start_new_session=True,
        )
        port = read_port(process)
        if port is None:
            end_process(process)
            shutil.rmtree(folder, ignore_errors=True)
            raise WorldNotStarted("The proxy's process did not come up. Nothing was forwarded.")
        proxy = cls(process, port, folder)
        weakref.finalize(proxy, _tidy_up, process, folder, os.getpid())
        return proxy

    def passed(self) -> list[Passed]:
        """Every request so far, in the order in which they were dealt with."""
        content = self._log.read_bytes() if self._log.exists() else b""
        # A reader may catch an append half-way; what does not end in a newline is not yet there.
        return [Passed(**json.loads(line)) for line in content.split(b"\n")[:-1]]

    def stop(self) -> None:
        """End the proxy."""
        end_process(self._process)

    def __enter__(self) -> LossyProxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _tidy_up(process: subprocess.Popen[bytes], folder: Path, starter_pid: int) -> None:
    # A forked child inherits this finalizer, but not the right to end its parent's proxy.
    if os.getpid() == starter_pid:
        end_process(process)
        shutil.rmtree(folder, ignore_errors=True)
