"""The commands: one file each, named like the command.

A command is a row here and a file beside this one. The row has the line that `nottwice --help`
shows, so that listing the commands imports none of them.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """Where a command is, and what it does in one line."""

    module: str
    attribute: str
    summary: str


def _row(name: str, summary: str, *, module: str = "", attribute: str = "") -> Row:
    return Row(module or f"nottwice.cli.commands.{name}", attribute or name, summary)


COMMANDS: dict[str, Row] = {
    "run": _row("run", "Start a run of a graph, or resume it."),
    "worker": _row("worker", "Advance runs as they become ready."),
    "workers": _row("workers", "List workers: alive, silent or dead."),
    "proxy": _row("proxy", "Protect the tools of an MCP server."),
    "runs": _row("runs", "List runs and their state."),
    "show": _row("show", "Show one run as a timeline."),
    "history": _row("history", "Show the checkpoints of a run, or compare two."),
    "graph": _row("graph", "Draw a graph, and where a run of it is."),
    "audit": _row("audit", "Show who did what, and why."),
    "reviews": _row("reviews", "List what waits for a person."),
    "decide": _row("decide", "Decide what a run waits for."),
    "notify": _row("notify", "Tell people what needs them, from the outbox."),
    "serve": _row("serve", "Serve the operator's page to a browser."),
    "report": _row("report", "Say what doubts cost, and what was saved."),
    "recheck": _row("recheck", "Ask the verify hooks again; no tool is run."),
    "talk": _row("talk", "Talk to an agent."),
    "send": _row("send", "Send a run an event that it waits for."),
    "cancel": _row("cancel", "Stop a run permanently."),
    "fork": _row("fork", "Make a new run from a checkpoint of another one."),
    "check": _row("check", "Check how tools are declared, for CI."),
    "lock": _row("lock", "Write the lock file of your graphs."),
    "migrate": _row("migrate", "Move runs to another version of their graph."),
    "gc": _row("gc", "Remove what is no longer needed."),
    "backup": _row("backup", "Copy a ledger while it is in use.", attribute="backup_command"),
    "key": _row("key", "Make a key for seals and secret arguments."),
    "crash": _row("crash", "Kill your code at every point, and resume it."),
    "demo": _row(
        "demo",
        "Watch an agent being killed, with and without nottwice.",
        module="nottwice.cli.demo.story",
    ),
    "replay": _row("replay", "Resume recorded checkpoints with this code, for CI."),
}
