"""Is a failure told to people, to scripts and to CI servers, whole and in their form?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nottwice.testing.replay.gate import Result
from nottwice.testing.replay.problems import Cause, Problem, difference, nearest
from nottwice.testing.replay.report import failure_lines, junit, results_document, summary
from tests.testing.replay.deployment import approvals


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    place = approvals(tmp_path_factory.mktemp("recorded"))
    place.record()
    place.deploy(("We look into", "We check"), ('version="1.0.0"', 'version="1.0.1"'))
    found = place.replay()
    skipped = replace(found[0], problems=(), skipped="approval@0.9.0 drains elsewhere")
    broken = Result(path="a.json", problems=(Problem(Cause.UNREADABLE, "no \x1b JSON"),))
    return [*found, skipped, broken]


def failed(results: list[Result]) -> Result:
    return next(one for one in results if one.fixture is not None and one.fixture.after == "plan")


def test_people_see_file_place_cause_difference_and_what_is_in_it(results: list[Result]) -> None:
    lines = failure_lines(failed(results))
    assert lines[0] == f"FAILED {failed(results).path}"
    assert "checkpoint 2 after plan, resumed at notify" in lines[1]
    assert lines[2].startswith("  arguments changed in notify: example_email is called")
    assert "We look into" in lines[3]
    text = "\n".join(lines)
    assert '"customer": "ann@example.com"' in text
    assert "DONE    notify: example_email(" in text


def test_one_line_says_how_many(results: list[Result]) -> None:
    assert summary(results) == "6 checkpoints resumed as recorded, 13 failed, 1 skipped"
    assert summary(results[:1]) == "1 checkpoint resumed as recorded"


def test_scripts_get_one_document_with_the_checkpoints_that_failed(results: list[Result]) -> None:
    document = results_document("tests/checkpoints", results, left_out=2)
    json.dumps(document, allow_nan=False)
    assert document["failed"] == 13
    by_outcome = {one["outcome"]: one for one in document["results"]}
    assert by_outcome.keys() == {"passed", "failed", "skipped"}
    assert by_outcome["passed"]["checkpoint"] is None
    one = next(one for one in document["results"] if one["after"] == "plan")
    assert one["cause"] == "arguments changed"
    assert one["checkpoint"]["checkpoint"]["state"]["customer"] == "ann@example.com"


def test_a_ci_server_reads_it(results: list[Result], tmp_path: Path) -> None:
    suite = ElementTree.fromstring(junit(results))
    assert suite.attrib["tests"] == str(len(results))
    assert suite.attrib["failures"] == "13"
    assert len(suite.findall("testcase/failure")) == 13
    assert len(suite.findall("testcase/skipped")) == 1
    texts = [one.text or "" for one in suite.findall("testcase/failure")]
    assert any("~ arguments.body" in text for text in texts)


def test_a_difference_is_as_small_as_it_can_be() -> None:
    old = {"to": "ann", "lines": [1, 2, 3], "body": "x"}
    assert difference(old, {**old, "lines": [1, 2, 4]}, root="arguments") == (
        "~ arguments.lines[2]: 3 → 4",
    )
    many = difference({}, {str(number): number for number in range(20)}, root="a")
    assert len(many) == 9
    assert many[-1] == "and 12 more"


def test_the_nearest_of_several_is_the_one_that_differs_least() -> None:
    others = [{"a": 1, "b": 2}, {"a": 5, "b": 7}, {}]
    assert nearest({"a": 5, "b": 2, "c": 0}, others) in (0, 1)
    assert nearest({"a": 5, "b": 7, "c": 0}, others) == 1
