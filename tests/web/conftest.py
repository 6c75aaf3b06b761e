"""What the tests of the page share: the ledgers that killed processes left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nottwice.guard.ledger import Ledger
from tests.cli.conftest import empty as empty
from tests.cli.conftest import graph_place as graph_place
from tests.cli.conftest import graph_runs as graph_runs
from tests.cli.conftest import host as host
from tests.cli.conftest import killed as killed
from tests.cli.conftest import workplace as workplace
from tests.cli.workplace import Workplace
from tests.web.visiting import Visit


@pytest.fixture
def ledger(workplace: Workplace) -> Iterator[Ledger]:
    """A ledger with doubts, to change."""
    with Ledger(workplace.store, create=False) as opened:
        yield opened


@pytest.fixture
def visit(ledger: Ledger) -> Visit:
    """Ann, who may decide."""
    return Visit(ledger)


@pytest.fixture
def doubt(ledger: Ledger) -> str:
    """The review of the mail of ticket-8."""
    (review,) = ledger.store.open_reviews("ticket-8")
    return review.review_id
