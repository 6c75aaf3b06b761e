"""How does the agent handle a real upstream whose answer never arrives?

``LossyProxy`` sits in front of any HTTP upstream and forwards requests, except that it loses the
response of the n-th request (the effect took place), or the request itself (it did not). It is a
process of its own, so it survives the death of the agent under test.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record
from nottwice.testing.loopback import LoopbackServer, start_server
from nottwice.testing.world import WorldNotStarted


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


class LossyProxy(LoopbackServer):
    """An HTTP proxy before one upstream; it ends with its block, or with its starter."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
        super().__init__(process, port, folder)
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
        started = start_server(
            "nottwice.testing.proxy_server",
            *(upstream, str(folder / "passed.jsonl")),
            *(json.dumps(sorted(lose_responses)), json.dumps(sorted(lose_requests))),
        )
        if started is None:
            shutil.rmtree(folder, ignore_errors=True)
            raise WorldNotStarted("The proxy's process did not come up. Nothing was forwarded.")
        return cls(*started, folder)

    def passed(self) -> list[Passed]:
        """Every request so far, in the order in which they were dealt with."""
        content = self._log.read_bytes() if self._log.exists() else b""
        # A reader may catch an append half-way; what does not end in a newline is not yet there.
        return [Passed(**json.loads(line)) for line in content.split(b"\n")[:-1]]
