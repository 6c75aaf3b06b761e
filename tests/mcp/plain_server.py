"""A small MCP server on stdio, of the standard library alone: for tests of the proxy.

    python plain_server.py FOLDER

Its tools keep their effects in FOLDER, so that a test can count them whatever is killed. A file
``hold`` there makes a call wait after its effect; a file ``die`` makes the server end after it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

TEXT = {"type": "string"}
TOOLS = [
    {
        "name": "read",
        "description": "Read the file.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "write",
        "description": "Write the file.",
        "inputSchema": {"type": "object", "properties": {"text": TEXT}, "required": ["text"]},
    },
    {
        "name": "charge",
        "description": "Charge a card.",
        "inputSchema": {"type": "object", "properties": {"cents": {"type": "integer"}}},
        "outputSchema": {"type": "object", "properties": {"charged": {"type": "integer"}}},
    },
    {
        "name": "set_status",
        "description": "Set a status.",
        "inputSchema": {"type": "object", "properties": {"status": TEXT}},
        "annotations": {"idempotentHint": True},
    },
    {
        "name": "fail",
        "description": "Fail.",
        "inputSchema": {"type": "object", "properties": {}},
    },
]
said = threading.Lock()


def main() -> None:
    folder = Path(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        note(folder, "heard", {"method": message.get("method"), "id": message.get("id")})
        if "method" in message and "id" in message:
            threading.Thread(target=serve, args=(folder, message), daemon=True).start()
        elif "method" not in message:
            note(folder, "answers", message)


def serve(folder: Path, message: dict[str, Any]) -> None:
    method, params = message["method"], message.get("params") or {}
    match method:
        case "initialize":
            able = {"tools": {"listChanged": True}, "logging": {}, "resources": {}}
            info = {"name": "plain", "version": "1"}
            version = params["protocolVersion"]
            result: Any = {"protocolVersion": version, "capabilities": able, "serverInfo": info}
        case "tools/list":
            result = {"tools": TOOLS}
        case "tools/call":
            result = call(folder, params, message["id"])
        case "ask/client":
            say({"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage", "params": {}})
            result = {}
        case _:
            error = {"code": -32601, "message": f"no {method}"}
            say({"jsonrpc": "2.0", "id": message["id"], "error": error})
            return
    say({"jsonrpc": "2.0", "id": message["id"], "result": result})


def call(folder: Path, params: dict[str, Any], request_id: Any) -> dict[str, Any]:
    name, given = params["name"], params.get("arguments") or {}
    token = (params.get("_meta") or {}).get("progressToken")
    if token is not None:
        progress = {"progressToken": token, "progress": 1}
        say({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
    if name == "read":
        file = folder / "file"
        return text(file.read_text() if file.exists() else "nothing")
    if name == "fail":
        note(folder, "effects", [name, given])
        return {**text("no such thing"), "isError": True}
    if name == "write":
        (folder / "file").write_text(given["text"])
    note(folder, "effects", [name, given])
    if (folder / "die").exists():
        (folder / "die").unlink()
        os._exit(3)
    while (folder / "hold").exists():
        time.sleep(0.005)
    if name == "charge":
        charged = {"charged": given.get("cents", 0)}
        return {**text(json.dumps(charged)), "structuredContent": charged}
    return text(f"did {name} {json.dumps(given)}")


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def note(folder: Path, name: str, what: Any) -> None:
    with (folder / name).open("a") as file:
        file.write(json.dumps(what) + "\n")


def say(message: dict[str, Any]) -> None:
    with said:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
