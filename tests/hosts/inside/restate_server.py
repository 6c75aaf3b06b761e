"""Restate's own server: one node, or a cluster of three on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.hosts.inside.effects import wait_for
from tests.hosts.inside.servers import free_port
from tests.hosts.required import missing

LIMIT_SECONDS = 150.0


def asked(
    url: str,
    body: Any = None,
    *,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """The answer to a request, as JSON."""
    data = None if body is None else json.dumps(body).encode()
    usual = {"content-type": "application/json", "accept": "application/json"}
    every = {**usual, **(headers or {})}
    request = urllib.request.Request(url, data=data, headers=every, method=method)
    with urllib.request.urlopen(request, timeout=LIMIT_SECONDS) as answer:
        text = answer.read()
    return json.loads(text) if text else None


class Node:
    """One process of the server."""

    def __init__(self, folder: Path, name: str, *, first: str | None, size: int) -> None:
        self.name, self.port = name, free_port()
        self.admin = f"http://127.0.0.1:{(admin := free_port())}"
        self.ingress = f"http://127.0.0.1:{(ingress := free_port())}"
        self.address = f"http://127.0.0.1:{self.port}"
        settings = {
            "node-name": name,
            "cluster-name": folder.name,
            "base-dir": str(folder / name),
            "auto-provision": first is None,
            "bind-address": f"127.0.0.1:{self.port}",
            "advertised-address": self.address,
            "default-num-partitions": 1,
            "default-replication": min(size, 2),
            "shutdown-timeout": "1s",
            "disable-telemetry": True,
            "log-filter": "warn",
            "rocksdb-total-memory-size": "128MB",
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        lines += ["[metadata-client]", f"addresses = {json.dumps([first or self.address])}"]
        lines += ["[admin]", f'bind-address = "127.0.0.1:{admin}"']
        lines += ["[ingress]", f'bind-address = "127.0.0.1:{ingress}"']
        config = folder / f"{name}.toml"
        config.write_text("\n".join(lines))
        self.log = folder / f"{name}.log"
        command = [os.environ["NOTTWICE_RESTATE"], "--config-file", str(config)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        try:
            asked(f"{self.admin}/health")
            asked(f"{self.ingress}/restate/health")
        except OSError:
            return False
        return True


class Servers:
    """The nodes, and what a test asks of those that live."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    @property
    def node(self) -> Node:
        """One that lives."""
        return next(node for node in self.nodes if node.process.poll() is None)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """What the server tells about itself."""
        rows: list[dict[str, Any]] = asked(f"{self.node.admin}/query", {"query": sql})["rows"]
        return rows

    def register(self, port: int) -> None:
        """Make a service known. It must be listening."""
        asked(f"{self.node.admin}/deployments", {"uri": f"http://127.0.0.1:{port}"})

    def change(self, invocation: str, verb: str) -> Any:
        """What an operator does: pause, resume, cancel, kill, restart-as-new."""
        return asked(f"{self.node.admin}/invocations/{invocation}/{verb}", method="PATCH")


@contextmanager
def running(folder: Path, *, size: int = 1) -> Iterator[Servers]:
    """A server of so many nodes."""
    if not os.environ.get("NOTTWICE_RESTATE"):
        missing("There is no Restate server: npm could not install it.")
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ended:
        nodes: list[Node] = []
        for number in range(size):
            first = nodes[0].address if nodes else None
            nodes.append(Node(folder, f"n{number + 1}", first=first, size=size))
            ended.callback(_end, nodes[-1])
        for node in nodes:
            wait_for(lambda node=node: node.is_ready, seconds=LIMIT_SECONDS)
        yield Servers(nodes)


def _end(node: Node) -> None:
    node.process.kill()
    node.process.wait()
