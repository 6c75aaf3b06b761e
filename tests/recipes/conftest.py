"""The upstreams that recipes are tested against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.recipes.servers import Tracker, started


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


class PostOffice(NamedTuple):
    """A mail server and a mailbox on one folder."""

    folder: Path
    smtp: int
    imap: int


@pytest.fixture(scope="module")
def post_office_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostOffice]:
    folder = tmp_path_factory.mktemp("mails")
    with started("smtp", str(folder)) as smtp, started("imap", str(folder)) as imap:
        yield PostOffice(folder, smtp, imap)


@pytest.fixture
def post_office(post_office_process: PostOffice) -> PostOffice:
    for each in post_office_process.folder.iterdir():
        each.unlink()
    return post_office_process


@pytest.fixture(scope="module")
def tracker_process() -> Iterator[Tracker]:
    with started("http") as port:
        yield Tracker(port)


@pytest.fixture
def tracker(tracker_process: Tracker) -> Tracker:
    tracker_process.forget()
    return tracker_process
