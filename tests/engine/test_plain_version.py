"""Code of another version does not continue a run that has no graph."""

from __future__ import annotations

import pytest

from nottwice.engine.plain_version import check_version
from nottwice.errors import LedgerCorrupt, WorkflowVersionMismatch
from nottwice.model.graphs.graph import Version
from nottwice.model.run import RunRecord, RunStatus, plain_input


def run(input_json: str | None) -> RunRecord:
    return RunRecord("it's r", RunStatus.FAILED, 1, None, 1.0, 2.0, input_json=input_json)


def test_the_same_version_and_every_patch_of_it_continue_it() -> None:
    for patch in (0, 3, 99):
        check_version(run(plain_input("1.2.3")), Version(1, 2, patch), location="agent.db")


def test_a_run_without_a_version_is_not_compared() -> None:
    for input_json in (None, "{}"):
        check_version(run(input_json), Version(1, 0, 0), location="agent.db")
        check_version(run(input_json), None, location="agent.db")


def test_the_error_names_commands_that_can_be_typed() -> None:
    with pytest.raises(WorkflowVersionMismatch) as caught:
        check_version(run(plain_input("1.2.3")), Version(2, 0, 0), location="my agent.db")
    text = str(caught.value)
    assert """nottwice cancel 'it'"'"'s r' --why TEXT --store 'my agent.db'""" in text
    assert """nt.run("it's r", version='1.2.3')""" in text
    assert """nt.run("it's r-2", version='2.0.0')""" in text


@pytest.mark.parametrize("damaged", ['{"version":7}', "[]", "{"])
def test_a_version_that_nottwice_cannot_have_written_is_not_believed(damaged: str) -> None:
    with pytest.raises(LedgerCorrupt):
        check_version(run(damaged), Version(1, 0, 0), location="agent.db")
