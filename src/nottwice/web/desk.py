"""What does every page need? The ledger, the templates, and the commands that do the same."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.views.commands import CommandLine
from nottwice.web.rendering import Renderer
from nottwice.web.safety import FORM, VISITOR
from nottwice.web.visitors import Visitor


@frozen_record(frozen=True, slots=True)
class Desk:
    """One ledger and what its pages are made of."""

    ledger: Ledger
    render: Renderer
    commands: CommandLine


def visitor_of(request: Request) -> Visitor:
    """Return who sent a request."""
    found: Visitor = request.scope[VISITOR]
    return found


def form_in(request: Request) -> dict[str, Any]:
    """Return the form of a request, which has passed all checks."""
    found: dict[str, Any] = request.scope[FORM]
    return found
