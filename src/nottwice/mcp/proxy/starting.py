"""Start a proxy: open the ledger, read the configuration, say what is protected, serve.

Also ``--init``, which only asks the server for its tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.mcp.guard import ToolGuard
from nottwice.mcp.plans import ToolPlans
from nottwice.mcp.proxy import places
from nottwice.mcp.proxy.listing import list_tools
from nottwice.mcp.proxy.places import ProxyOptions
from nottwice.mcp.settings import new_settings, read_file


def run_proxy(options: ProxyOptions, *, say: Callable[[str], None]) -> int:
    """Serve until the client closes. Returns the exit code.

    ``say`` shows a line on standard error: standard output belongs to the protocol.
    """
    config = _configuration(options)
    settings = read_file(config) if config is not None else {}
    plans = ToolPlans(options.name, settings, trust_annotations=options.trust_annotations)
    store = options.store or str(places.ledger_of_server(options.name))
    with Ledger(store) as ledger:
        guard = ToolGuard(ledger, plans, decide_in_client=options.decide_in_client)
        say(f"{options.name}: {_promise(plans, options)} Ledger: {ledger.location}")
        if options.port is not None:
            from nottwice.mcp.proxy.http import serve_http

            return serve_http(guard, options, say=say)
        if options.url is not None:
            raise UsageError(
                f"{options.url} is a server on HTTP, and its client must speak HTTP to the proxy, "
                "too. Nothing was started. Add --http PORT, and give the client the URL "
                "http://127.0.0.1:PORT/mcp"
            )
        from nottwice.mcp.proxy.stdio import serve

        return asyncio.run(serve(guard, options.command, say=say))


def write_settings(options: ProxyOptions) -> tuple[Path, list[str]]:
    """Write a configuration from the tool list of the server. Returns its path and the tools."""
    path = options.config or places.settings_of_server(options.name)
    if path.exists():
        raise UsageError(
            f"{path} exists already and was not changed. Correct it by hand, or write another file "
            "with --config PATH."
        )
    if options.url is not None:
        raise UsageError(
            f"{options.url} was not asked for its tools: --init starts a command. Nothing was "
            "written. Write the tables [tools.NAME] by hand."
        )
    tools = asyncio.run(list_tools(options.command))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(new_settings(options.name, tools), encoding="utf-8")
    return path, [str(tool.get("name")) for tool in tools]


def _configuration(options: ProxyOptions) -> Path | None:
    if options.config is not None:
        return options.config
    usual = places.settings_of_server(options.name)
    return usual if usual.exists() else None


def _promise(plans: ToolPlans, options: ProxyOptions) -> str:
    """Say what is protected how, as far as it is known before the server has listed its tools."""
    reads = "read-only tools are passed through" if options.trust_annotations else ""
    if not plans.has_settings:
        return "; ".join(filter(None, ["lost answers only", reads])) + "."
    others = "; ".join(filter(None, ["other tools: lost answers only", reads]))
    return f"{plans.summary()}; {others}."
