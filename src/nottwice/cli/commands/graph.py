"""Draw a graph: `nottwice graph`."""

from __future__ import annotations

import click

from nottwice.cli.inputs.completing import graph_names
from nottwice.cli.inputs.deployed import named_ledger, need_app
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_json, show_line, show_table
from nottwice.model.graphs.drawing import mermaid
from nottwice.model.graphs.graph import END
from nottwice.views.run.drawing import draw, picture
from nottwice.views.run.drawings import (
    ArrowView,
    GraphOutline,
    draw_deployed,
    draw_recorded,
    draw_run,
)
from nottwice.views.runs import find_run


@click.command(cls=Command)
@click.argument("name", default="", shell_complete=graph_names)
@click.option("--run", "run_id", metavar="ID", help="The graph of this run, with where it is.")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="Print Mermaid text, for Markdown.")
@click.option("--svg", "as_svg", is_flag=True, help="Print an SVG picture.")
@common_options
@pass_settings
def graph(
    settings: Settings, name: str, run_id: str | None, as_mermaid: bool, as_svg: bool
) -> None:
    """Draw the graph NAME or NAME@VERSION: its nodes, and where each of them leads.

    The graph is read from the ledger, so none of your code is needed. With --app it is read from
    your code, so no ledger is needed. With --run it is the graph of a run, and each node has its
    status.

    \b
    Examples:
      nottwice graph refund
      nottwice graph refund --app agent:app --mermaid
      nottwice graph --run ticket-7 --svg > ticket-7.svg
    """
    if as_mermaid and as_svg:
        raise click.UsageError("--mermaid and --svg are two pictures: give one of them.")
    if bool(name) == bool(run_id):
        raise click.UsageError("Give the name of a graph, or --run with the id of a run.")
    drawing = _find(settings, name, run_id)
    if settings.as_json:
        show_json(drawing)
    elif as_mermaid or as_svg:
        definition = drawing.definition
        text = (
            mermaid(definition, drawing.status)
            if as_mermaid
            else picture(draw(definition, drawing.marks))
        )
        click.echo(text, nl=False)
    else:
        _show(drawing)


def _find(settings: Settings, name: str, run_id: str | None) -> GraphOutline:
    if run_id is None and settings.app is not None:
        app = need_app(settings, what_for="graph").app
        return draw_deployed([each.definition() for each in app.graphs], name)
    with named_ledger(settings) as ledger:
        if run_id is None:
            return draw_recorded(ledger, name)
        found = find_run(ledger, run_id, list_command=settings.command("runs"))
        return draw_run(ledger, found.run_id)


def _show(drawing: GraphOutline) -> None:
    show_line(f"Graph {drawing.graph}", style="bold")
    rows = []
    for node in drawing.nodes:
        ways = ", ".join(_way_text(one) for one in drawing.arrows if one.source == node)
        rows.append((node, ways, drawing.status.get(node, ""))[: 3 if drawing.status else 2])
    columns = ("node", "leads to", "status")[: 3 if drawing.status else 2]
    show_table(columns, rows, wrap=("leads to",))


def _way_text(way: ArrowView) -> str:
    target = "the end" if way.target == END else way.target
    return target if way.label is None else f"{way.label}: {target}"
