"""The operator's page: `nottwice serve`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.notifying import notifying
from nottwice.cli.inputs.options import login_name
from nottwice.cli.inputs.settings import (
    Command,
    Settings,
    common_options_of_several,
    pass_settings,
)
from nottwice.cli.render.json_log import json_log
from nottwice.cli.render.output import show_json, show_line
from nottwice.errors import UsageError
from nottwice.guard.settings.project import project_text
from nottwice.views.outcomes import Served
from nottwice.views.text import safe

if TYPE_CHECKING:
    from nottwice.guard.ledger import Ledger
    from nottwice.views.commands import CommandLine
    from nottwice.web.serving import Links


@click.command(cls=Command)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="The port; 0 takes one that is free.",
)
@click.option(
    "--bind",
    "address",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. One that a network can reach needs --user-header.",
)
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Another name that the page answers to; can be given several times.",
)
@click.option("--by", metavar="NAME", help="The name on record. Default: your login name.")
@click.option("--read-only", is_flag=True, help="No visitor may decide.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A file with the token. Default: a new one each time.",
)
@click.option(
    "--user-header",
    metavar="NAME",
    help="Behind a proxy that authenticates: the header with the person's name.",
)
@click.option(
    "--decider",
    "deciders",
    metavar="NAME",
    multiple=True,
    help="With --user-header: a person who may decide; the others may only look.",
)
@click.option(
    "--trace-url",
    metavar="ADDRESS",
    help="Where a trace is shown, with {trace_id} in it; the page of a run links there. Default: "
    "`trace_url` of [tool.nottwice] in pyproject.toml.",
)
@click.option("--log-json", is_flag=True, help="Log decisions to stderr as JSON, one per line.")
@common_options_of_several
@pass_settings
def serve(
    settings: Settings,
    port: int,
    address: str,
    hosts: tuple[str, ...],
    by: str | None,
    read_only: bool,
    token_file: Path | None,
    user_header: str | None,
    deciders: tuple[str, ...],
    trace_url: str | None,
    log_json: bool,
) -> None:
    """Serve the operator's page: what is in doubt, what it blocks, and what each answer will do.

    It prints two links with a token: one to decide, one to only look. Open a link, and the token
    becomes a cookie. Only this machine can reach the page. From another one, use a tunnel: ssh -L
    8765:127.0.0.1:8765 HOST. With several --store, one page shows all of these ledgers.

    If the project has [tool.nottwice.notify], it also tells people what needs them, like `nottwice
    notify`.

    Behind a proxy that authenticates people, --user-header names the header with the person's name.
    It is believed only together with the token, which the proxy sends: Authorization: Bearer TOKEN.

    /metrics reports the ledger to Prometheus, if the reader sends the token of a link in the
    same way. /healthz says, to every caller, whether the ledger can be read.

    \b
    Examples:
      nottwice serve
      nottwice serve --read-only --port 0
      nottwice serve --store a.db --store postgresql://db.example.com/agents
      nottwice serve --user-header X-Forwarded-User --token-file token \\
        --host ops.example.com
    """
    serving = _serving()
    wanted = serving.Serving(
        by=login_name() if by is None else by,
        address=address,
        port=port,
        hosts=hosts,
        token_file=token_file,
        user_header=user_header,
        deciders=deciders,
        read_only=read_only,
        trace_url=trace_url or project_text("trace_url")[1],
    )
    serving.check(wanted)
    with contextlib.ExitStack() as opened:
        if log_json:
            opened.enter_context(json_log())
        ledgers = [opened.enter_context(one) for one in _ledgers(settings)]
        locations = tuple(one.location for one in ledgers)

        def announce(links: Links) -> None:
            _announce(settings, locations, links)

        for one in ledgers:
            opened.enter_context(notifying(one))
        serving.serve(ledgers, wanted, _commands(settings), announce=announce)


def _serving() -> ModuleType:
    try:
        from nottwice.web import serving
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("starlette", "uvicorn", "jinja2", "markupsafe"):
            raise
        raise UsageError(
            f"The page needs {package}, which is not installed. Nothing was started. Install "
            "it: pip install 'nottwice[web]'"
        ) from None
    return serving


def _ledgers(settings: Settings) -> Iterator[Ledger]:
    """Open the ledgers that were named, or the one that settings name."""
    if len(settings.stores) < 2:
        yield named_ledger(settings)
        return
    for store in settings.stores:
        yield dataclasses.replace(settings, store=store).open_ledger()


def _commands(settings: Settings) -> list[CommandLine]:
    if len(settings.stores) < 2:
        return [settings.commands()]
    return [dataclasses.replace(settings, store=one).commands() for one in settings.stores]


def _announce(settings: Settings, locations: tuple[str, ...], links: Links) -> None:
    if settings.as_json:
        show_json(
            Served(ledger=locations[0], ledgers=locations, decide=links.decide, look=links.look)
        )
        return
    show_line(f"The page of {', '.join(map(safe, locations))}:")
    if links.decide is not None:
        show_line(f"  to decide     {safe(links.decide)}")
    show_line(f"  to only look  {safe(links.look)}")
    show_line("Ctrl-C stops it, and the links stop working.")
