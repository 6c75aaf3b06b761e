"""Which ids and words does a shell offer when a person presses Tab?

The shell asks the program itself, so what is offered is in the ledger now. Nothing is printed and
nothing fails here: if the ledger cannot be read, nothing is offered. Promise kept here: P362.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from nottwice.cli.inputs.settings import Settings
from nottwice.views.text import safe, shorten

if TYPE_CHECKING:
    from nottwice.guard.ledger import Ledger

MOST_OFFERED = 50
_MOST_HELP = 60


def run_ids(context: click.Context, parameter: click.Parameter, begin: str) -> list[CompletionItem]:
    """Runs, last changed first."""

    def read(ledger: Ledger) -> Iterable[tuple[str, str]]:
        for run in ledger.store.runs(prefix=begin, limit=MOST_OFFERED):
            yield run.workflow_id, run.status.value

    return _offered(context, begin, read)


def review_ids(
    context: click.Context, parameter: click.Parameter, begin: str
) -> list[CompletionItem]:
    """Reviews that are open, or decided and not used yet."""

    def read(ledger: Ledger) -> Iterable[tuple[str, str]]:
        for review in ledger.store.open_reviews():
            yield review.review_id, f"{review.kind.value} in {review.identity.workflow_id}"

    return _offered(context, begin, read)


def verbs(context: click.Context, parameter: click.Parameter, begin: str) -> list[CompletionItem]:
    """What can be decided about the review that was typed before."""
    review_id = str(context.params.get("review_id") or "")

    def read(ledger: Ledger) -> Iterable[tuple[str, str]]:
        from nottwice.views.people.reviews import look_at

        for choice in look_at(ledger, review_id).choices:
            yield choice.verb, ""

    return _offered(context, begin, read)


def graph_names(
    context: click.Context, parameter: click.Parameter, begin: str
) -> list[CompletionItem]:
    """Graphs that the ledger knows."""

    def read(ledger: Ledger) -> Iterable[tuple[str, str]]:
        for graph in ledger.store.graphs():
            yield graph.graph_id, ""

    return _offered(context, begin, read)


def _offered(
    context: click.Context, begin: str, read: Callable[[Ledger], Iterable[tuple[str, str]]]
) -> list[CompletionItem]:
    settings, log = context.find_object(Settings) or Settings(), logging.getLogger("nottwice")
    log.disabled = True
    try:
        with settings.open_ledger() as ledger:
            known = dict(read(ledger))
    except Exception:
        # A person who presses Tab has not asked for anything that could be told to have failed.
        return []
    finally:
        log.disabled = False
    fitting = [word for word in known if word.startswith(begin) and _is_plain(word)]
    return [
        CompletionItem(word, help=safe(shorten(known[word], _MOST_HELP)) or None)
        for word in fitting[:MOST_OFFERED]
    ]


def _is_plain(word: str) -> bool:
    """Whether a shell takes a word as it is. Bash also takes a colon for the end of a word."""
    in_bash = os.environ.get("_NOTTWICE_COMPLETE", "").startswith("bash")
    is_option = word.startswith("-")
    return shlex.quote(word) == word and not is_option and not (in_bash and ":" in word)
