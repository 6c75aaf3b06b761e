"""Is a thing created once, and left alone if it exists already? (P78)"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import recipes
from nottwice.guard.check.report import report_on
from nottwice.guard.declare import SyncTool
from tests.recipes.killing import AROUND_THE_EFFECT, kill_at, work_on

Create = SyncTool[..., Any]


class Cron:
    """A table of jobs in a file, which takes a second job of the same name without a word."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("[]")

    @property
    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.path.read_text())
        return found

    def read(self) -> dict[str, Any]:
        return {job["name"]: job for job in self.jobs}

    def create(self, item: str, settings: dict[str, Any]) -> dict[str, Any]:
        job = {"name": item, "number": len(self.jobs) + 1, **settings}
        self.path.write_text(json.dumps([*self.jobs, job]))
        return job


@pytest.fixture
def cron(tmp_path: Path) -> Cron:
    return Cron(tmp_path / "cron.json")


@pytest.fixture
def create(cron: Cron) -> Create:
    return recipes.create_if_absent(
        read=cron.read, create=cron.create, settles="10ms", name="create_job"
    )


def test_what_is_not_there_is_created_and_what_is_there_stays(
    cron: Cron, create: Create, ledger: Path
) -> None:
    first = work_on(ledger, lambda: create(item="backup", settings={"at": "02:00"}))
    assert first == {"name": "backup", "number": 1, "at": "02:00"}
    with nt.run("another run", store=str(ledger)):
        assert create(item="backup", settings={"at": "03:00"}) == first
    assert cron.jobs == [first]


@pytest.mark.parametrize("place", AROUND_THE_EFFECT)
def test_a_thing_whose_creator_was_killed_is_created_once(
    cron: Cron, create: Create, ledger: Path, place: str
) -> None:
    def work() -> Any:
        return create(item="backup", settings={"at": "02:00"})

    kill_at(place, ledger, work)
    assert work_on(ledger, work)["number"] == 1
    assert len(cron.jobs) == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError("refused"), None),
        (nt.Ambiguous("the list was cut off"), None),
        (TimeoutError("too long"), None),
        (ValueError("this is no list"), nt.Permanent),
        (nt.Permanent("no such project"), nt.Permanent),
    ],
)
def test_a_list_that_cannot_be_read_leaves_no_doubt(
    cron: Cron, ledger: Path, error: Exception, expected: type[Exception] | None
) -> None:
    errors = [error]

    def read() -> dict[str, Any]:
        if errors:
            raise errors.pop()
        return cron.read()

    create = recipes.create_if_absent(
        read=read, create=cron.create, settles="10ms", name="create_after_trouble"
    )

    def work() -> Any:
        return create.receipt(item="backup", settings={})

    if expected is None:
        assert work_on(ledger, work).attempts == 2
        assert len(cron.jobs) == 1
    else:
        with pytest.raises(expected, match="Nothing was created"):
            work_on(ledger, work)
        assert cron.jobs == []


def test_looking_for_a_state_needs_no_id_of_a_call(create: Create) -> None:
    assert report_on(create).findings == ()


@pytest.mark.parametrize(("item", "settings"), [("", {}), ("backup", "at 2"), (7, {})])
def test_bad_arguments_are_refused_before_anything_happens(
    cron: Cron, create: Create, ledger: Path, item: Any, settings: Any
) -> None:
    with pytest.raises(nt.errors.InvalidArguments):
        work_on(ledger, lambda: create(item=item, settings=settings))
    assert cron.jobs == []
