"""Are recipes honest tools: classed, distinguishable, and without retries underneath? (T7)"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import recipes
from nottwice.guard.check.clients import Retries
from nottwice.guard.check.report import report_on


def read() -> dict[str, Any]:
    return {}


def create(item: str, settings: dict[str, Any]) -> Any:
    return item


def was_sent(message_id: str) -> bool:
    return True


def every_recipe(folder: Path) -> Iterator[Any]:
    yield recipes.write_file(folder, name="one_file")
    yield recipes.git_commit(folder, name="one_commit")
    yield recipes.comment(recipes.http_comments("https://a.example"), name="one", settles="1m")
    yield recipes.create_if_absent(read=read, create=create, name="one_thing", settles="1m")
    yield recipes.http_request("https://a.example", name="one_request", window="24h")
    yield recipes.send_mail(
        "a.example", sender="a@a.example", sent=was_sent, settles="1h", name="one_mail"
    )


def test_the_report_has_four_good_answers_and_nothing_to_complain(tmp_path: Path) -> None:
    for protected in every_recipe(tmp_path):
        report = report_on(protected)
        assert report.findings == (), protected.__name__
        assert report.answers.retries is Retries.NONE_KNOWN, protected.__name__
        assert report.answers.detection_is_free.startswith("yes")
        assert (report.key is None) is (report.verify is not None)
        assert report.verify is None or report.settles_seconds is not None


def test_every_recipe_tells_a_model_what_it_does_and_takes(tmp_path: Path) -> None:
    for protected in every_recipe(tmp_path):
        arguments, result = protected.tool.schemas()
        assert protected.__doc__
        assert arguments["properties"]
        assert result is not None or protected.__name__ == "one_thing"


def test_functions_that_hold_something_are_told_apart(tmp_path: Path) -> None:
    class Jobs:
        def read(self) -> dict[str, Any]:
            return {}

    one, other = Jobs(), Jobs()
    first = recipes.create_if_absent(read=one.read, create=create, settles="1m", name="jobs")
    with pytest.raises(nt.errors.InvalidTool, match="Give it another name"):
        recipes.create_if_absent(read=other.read, create=create, settles="1m", name="jobs")
    again = recipes.create_if_absent(read=one.read, create=create, settles="1m", name="jobs")
    assert first.tool.name == again.tool.name


def test_comments_at_one_address_are_the_same_wherever_they_are_made() -> None:
    def make(url: str) -> Any:
        return recipes.comment(recipes.http_comments(url), settles="1m", name="say")

    first, again = make("https://a.example"), make("https://a.example/")
    assert first.tool.name == again.tool.name
    with pytest.raises(nt.errors.InvalidTool, match="Give it another name"):
        make("https://b.example")


def test_a_bad_duration_is_refused_when_the_tool_is_made(tmp_path: Path) -> None:
    with pytest.raises(nt.errors.InvalidTool, match="settles"):
        recipes.write_file(tmp_path, name="bad", settles="soon")
    with pytest.raises(nt.errors.InvalidTool, match="time_limit"):
        recipes.http_request("https://a.example", window="24h", name="bad", time_limit="soon")
