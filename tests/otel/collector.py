"""A collector on this machine: it takes what OpenTelemetry's own exporters send over HTTP."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import threading
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What has arrived."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        self.address = ""

    def take(self, path: str, body: bytes) -> None:
        with self._guard:
            if path == "/v1/traces":
                traces = ExportTraceServiceRequest.FromString(body)
                for resource in traces.resource_spans:
                    for scope in resource.scope_spans:
                        self.spans += scope.spans
            else:
                metrics = ExportMetricsServiceRequest.FromString(body)
                for measured in metrics.resource_metrics:
                    for within in measured.scope_metrics:
                        self.metrics += within.metrics

    def named(self, name: str) -> list[Any]:
        """The spans with this name, in the order in which they began."""
        with self._guard:
            found = [one for one in self.spans if one.name == name]
        return sorted(found, key=lambda span: span.start_time_unix_nano)


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """Collect while the block runs."""
    collector = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collector.take(self.path, body)
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        collector.address = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
