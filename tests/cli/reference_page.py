"""What does docs/reference/cli.md say? It is made from the commands themselves.

    python -m tests.cli.reference_page      writes the page; a test fails while it is out of date

The page is put together from what the commands declare and not from the text of `--help`, because
every release of click wraps and words that a little differently.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

import click

from nottwice.cli.inputs.settings import COMMON
from nottwice.cli.main import main
from nottwice.views import documents
from nottwice.views.shape import meanings
from tests.tidy.source import ROOT

DOCUMENTS = {words: meanings(kind) for words, kind in documents.DOCUMENTS.items()}
FIELDS = {name: meanings(kind) for name, kind in documents.SHAPES.items()}
PAGE = ROOT / "docs" / "reference" / "cli.md"

INTRODUCTION = """\
# The command line

<!-- Made by `python -m tests.cli.reference_page`; change the commands, not this page. -->

What does each command do, what does it print, and with which exit code does it end? `nottwice` runs
graphs, shows a ledger, records decisions, and checks declarations.

On a terminal it prints tables without their empty columns. In a pipe it prints plain lines that are
never cut, always with the same columns. For scripts, `--json` prints exactly one JSON document to
stdout, in pure ASCII. A new version may add fields and removes none. Notes and errors go to stderr.
Control characters in texts of runs, tools and people are escaped.

What neither the options nor `NOTTWICE_STORE` say comes from the nearest `pyproject.toml`, in this
folder or above it:

```toml
[tool.nottwice]
store = "agent.db"      # relative to this file
app = "agent:app"       # your tools and graphs: a module, module:name, or the path of a .py file
```

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | an error; its text says what happened, what did not, and what to do |
| 2 | the command line was wrong, or nothing was decided |
| 3 | a run waits, a check found a problem, a migration was refused, a review is open |
| 130 | Ctrl-C in `nottwice run`; the same command resumes the run |

With `--json`, an error with exit code 1 is also a document: `{"error": {"type": …, "message": …}}`.
"""
SHARED = """\
## Options of every command

You can give them before or after the command.
"""
HELP = "- `-h, --help`: Show the help and stop.\n"
SHAPES = """\
## JSON documents

Times are ISO 8601 in UTC. The documents of the commands, above, are made of these:
"""


def write_page() -> str:
    """The whole page."""
    context = click.Context(main, info_name="nottwice")
    parts = [INTRODUCTION, _section(main, context, heading="## nottwice")]
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        parts.append(_section(command, inner, heading=f"## nottwice {name}"))
    parts.append(SHARED + "\n" + _options(main, context, shared=True) + HELP)
    shapes = (f"### {name}\n\n{_table(FIELDS[name])}" for name in FIELDS)
    parts.append(SHAPES + "\n" + "\n".join(shapes))
    return "\n".join(parts)


def _section(command: click.Command, context: click.Context, *, heading: str) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [heading + "\n", f"```text\n{usage}\n```\n", *_paragraphs(command.help or "")]
    options = _options(command, context, shared=False)
    if options:
        parts.append(options)
    name = "" if command is main else context.info_name
    for words, fields in DOCUMENTS.items():
        if words.partition(",")[0] == name:
            situation = words.partition(", ")[2]
            parts.append(f"With `--json`{f', {situation}' if situation else ''}:\n")
            parts.append(_table(fields))
    return "\n".join(parts)


def _paragraphs(text: str) -> Iterator[str]:
    """The help as Markdown; what click must not wrap becomes a block."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        first, _, rest = paragraph.partition("\n")
        if rest.startswith("Examples:"):
            # A console block is compared with the commands and options that exist.
            yield "```console\n{}\n```\n".format("\n".join(_typed(rest.splitlines()[1:])))
        elif first.strip() == "\b":
            yield f"```text\n{textwrap.dedent(rest)}\n```\n"
        else:
            yield textwrap.fill(" ".join(paragraph.split()), 100, break_on_hyphens=False) + "\n"


def _typed(examples: list[str]) -> Iterator[str]:
    """The examples as a console shows them: a line that continues another one has no prompt."""
    before = ""
    for line in examples:
        yield f"  {line.strip()}" if before.endswith("\\") else f"$ {line.strip()}"
        before = line


def _options(command: click.Command, context: click.Context, *, shared: bool) -> str:
    lines = []
    for parameter in command.get_params(context):
        if not isinstance(parameter, click.Option) or parameter.hidden:
            continue
        if "--help" in parameter.opts:
            # Click caches the first spelling that was asked for, so it is written by hand.
            continue
        if any(spelling in COMMON for spelling in parameter.opts) is not shared:
            continue
        spelling = ", ".join(parameter.opts)
        takes_value = not (parameter.is_flag or parameter.count)
        value = f" {parameter.make_metavar(context)}" if takes_value else ""
        lines.append(f"- `{spelling}{value}`: {' '.join((parameter.help or '').split())}\n")
    return "".join(lines)


def _table(fields: dict[str, str]) -> str:
    rows = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in fields.items())
    return f"| field | meaning |\n|---|---|\n{rows}"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(write_page(), encoding="utf-8")
