"""The operator's page: `nottwice serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.options import login_name
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_json, show_line
from nottwice.errors import UsageError
from nottwice.views.outcomes import Served
from nottwice.views.text import safe

if TYPE_CHECKING:
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
@common_options
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
) -> None:
    """Serve the operator's page: what is in doubt, what it blocks, and what each answer will do.

    It prints two links with a token: one to decide, one to only look. Open a link, and the token
    becomes a cookie. Only this machine can reach the page. From another one, use a tunnel: ssh -L
    8765:127.0.0.1:8765 HOST.

    Behind a proxy that authenticates people, --user-header names the header with the person's name.
    It is believed only together with the token, which the proxy sends: Authorization: Bearer TOKEN.

    \b
    Examples:
      nottwice serve
      nottwice serve --read-only --port 0
      nottwice serve --user-header X-Forwarded-User --token-file token --host ops.example.com
    """
    try:
        from nottwice.web import serving
    except ImportError as error:
        if error.name not in ("starlette", "uvicorn", "jinja2", "markupsafe"):
            raise
        raise UsageError(
            f"The page needs {error.name}, which is not installed. Nothing was started. Install "
            "it: pip install 'nottwice[web]'"
        ) from None
    wanted = serving.Serving(
        by=login_name() if by is None else by,
        address=address,
        port=port,
        hosts=hosts,
        token_file=token_file,
        user_header=user_header,
        deciders=deciders,
        read_only=read_only,
    )
    serving.check(wanted)
    with named_ledger(settings) as ledger:
        location = ledger.location

        def announce(links: Links) -> None:
            if settings.as_json:
                show_json(Served(ledger=location, decide=links.decide, look=links.look))
            else:
                _show(location, links)

        serving.serve(ledger, wanted, settings.commands(), announce=announce)


def _show(location: str, links: Links) -> None:
    show_line(f"The page of {safe(location)}:")
    if links.decide is not None:
        show_line(f"  to decide     {safe(links.decide)}")
    show_line(f"  to only look  {safe(links.look)}")
    show_line("Ctrl-C stops it, and the links stop working.")
