"""Protect the tools of an MCP server: `nottwice proxy` (P270 to P275)."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_json, show_line, show_note
from nottwice.views.outcomes import SettingsWritten


@click.command(cls=Command)
@click.option("--name", metavar="NAME", help="The server's name, also of its ledger.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="What a second run of each tool does, as TOML. Default: ~/.config/nottwice/NAME.toml, if "
    "it exists.",
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve streamable HTTP on this port of 127.0.0.1, at /mcp. Default: stdin and stdout.",
)
@click.option(
    "--distrust-annotations",
    is_flag=True,
    help="Ignore what the server says about its tools; also record read-only ones.",
)
@click.option(
    "--let-client-decide",
    is_flag=True,
    help="Ask the client's user about calls in doubt, if the client can show a form.",
)
@click.option("--init", is_flag=True, help="Write the configuration from the server's tool list.")
@click.option(
    "--wrap",
    metavar="FILE",
    help="Let the client with this configuration start its servers through nottwice. It shows the "
    "difference, asks, and keeps a backup.",
)
@click.option("--unwrap", metavar="FILE", help="Undo --wrap.")
@click.option("--yes", is_flag=True, help="With --wrap and --unwrap: do not ask.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@common_options
@pass_settings
def proxy(
    settings: Settings,
    name: str | None,
    config: Path | None,
    port: int | None,
    distrust_annotations: bool,
    let_client_decide: bool,
    init: bool,
    wrap: str | None,
    unwrap: str | None,
    yes: bool,
    command: tuple[str, ...],
) -> None:
    """Start an MCP server, and protect the calls of its tools.

    Put it in front of the server's command in your client's configuration. Client and server stay
    as they are. All messages are forwarded; a call is recorded before and after it is made.

    \b
    How a tool is protected:
      read-only    as the server says (readOnlyHint): passed through
      no class     a lost answer is returned again; once it has arrived, the same
                   call is a new one
      with class   from the configuration: once per `fresh` (1h) for equal
                   arguments; the model repeats on purpose with the parameter
                   nottwice_repeat

    A call in doubt is not sent again. The model is told to stop, and a person decides it with
    `nottwice decide`. The ledger is ~/.local/state/nottwice/NAME.db, unless --store names another.
    With --http the server may also be a URL; that needs `pip install 'nottwice[mcp]'`.

    \b
    Examples:
      nottwice proxy --name pay -- npx pay-mcp
      nottwice proxy --name pay --init -- npx pay-mcp
      nottwice proxy --name pay --http 8080 -- https://pay.example/mcp
      nottwice proxy --wrap .mcp.json
      nottwice proxy --unwrap .mcp.json
    """
    if wrap is not None or unwrap is not None:
        _edit(settings, wrap, unwrap, yes=yes, command=command)
        return
    if not command:
        raise click.UsageError(
            "The command that starts the server is missing. Nothing was started. Example: nottwice "
            "proxy --name pay -- npx pay-mcp"
        )
    from nottwice.mcp.proxy.places import ProxyOptions, name_of
    from nottwice.mcp.proxy.starting import run_proxy, write_settings

    options = ProxyOptions(
        name=name_of(name, command),
        command=command,
        store=settings.store,
        config=config,
        port=port,
        trust_annotations=not distrust_annotations,
        decide_in_client=let_client_decide,
    )
    if not init:
        sys.exit(run_proxy(options, say=lambda text: show_note(f"nottwice proxy: {text}")))
    path, tools = write_settings(options)
    if settings.as_json:
        show_json(SettingsWritten(path=str(path), tools=tools))
        return
    show_line(f"Wrote {path}")
    show_note("Please correct it: say what a second run of each tool does.")


def _edit(
    settings: Settings,
    wrap: str | None,
    unwrap: str | None,
    *,
    yes: bool,
    command: tuple[str, ...],
) -> None:
    from nottwice.cli.wrapping import edit_client

    if command or (wrap is not None and unwrap is not None):
        raise click.UsageError(
            "--wrap and --unwrap change one file and start nothing. Nothing was changed. Use one "
            "of them, without a command."
        )
    edit_client(settings, str(wrap or unwrap), unwrap=unwrap is not None, yes=yes)
