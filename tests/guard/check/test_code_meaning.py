"""Is an expression in source understood correctly, without running anything?"""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from nottwice.guard.check.code_meaning import Frame, frame_of, origin_of, read_source

client = httpx.Client()


def told(function: Any, expression: str) -> str | None:
    frame = frame_of(function)
    assert isinstance(frame, Frame)
    found = frame.meaning(ast.parse(expression, mode="eval").body)
    return None if found is None else found.origin


def sample(state: Any, folder: Path, maybe: httpx.Client | None, other: Any = None) -> None:
    import os as system

    made = httpx.Client()
    made = made
    with made as again:
        pass
    item = state["x"]
    there: Path = item
    print(there, system, again, item)


def endless() -> None:
    one: Any = None
    two = one
    one = two


@pytest.mark.parametrize(
    ("expression", "origin"),
    [
        ("httpx.post", "httpx.post"),
        ("client.post", "httpx.Client.post"),
        ("made.post", "httpx.Client.post"),
        ("again.post", "httpx.Client.post"),
        ("maybe.post", "httpx.Client.post"),
        ("folder.parent", "pathlib.Path.parent"),
        ("(folder / 'a').open", "pathlib.Path.open"),
        ("there.open", "pathlib.Path.open"),
        ("system.system", "os.system"),
        ("subprocess.run", "subprocess.run"),
        ("open", "io.open"),
        ("(client or made).put", "httpx.Client.put"),
        ("state.post", None),
        ("item.post", None),
        ("unknown_name", None),
        ("state['client'].post", None),
    ],
)
def test_an_expression_stems_from_what_its_names_are_bound_to(
    expression: str, origin: str | None
) -> None:
    assert told(sample, expression) == origin


def test_names_that_are_bound_to_each_other_mean_nothing() -> None:
    assert told(endless, "two.post") is None


def test_the_name_of_a_thing_is_the_one_that_users_know() -> None:
    import os

    assert origin_of(os.system) == "os.system"
    assert origin_of(open) == "io.open"
    assert origin_of(subprocess) == "subprocess"
    assert origin_of(client) == "httpx.Client"


def test_a_file_that_is_no_python_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def (")
    assert read_source(str(tmp_path / "a.py")) is None
    assert read_source(str(tmp_path / "none.py")) is None
