"""Is a recorded checkpoint the same after it was written and read, and is nonsense refused?"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nottwice.testing.replay.fixture import (
    FORMAT,
    LEFT_OUT_FILE,
    MARK,
    InvalidFixture,
    fixture_paths,
    is_fixture,
    read_fixture,
)
from nottwice.testing.replay.gate import replay_file
from tests.testing.replay.deployment import Deployment, approvals


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = approvals(tmp_path_factory.mktemp("recorded"))
    place.record()
    return {path.name: path.read_text() for path in fixture_paths(place.checkpoints)}


def test_what_is_read_is_written_in_the_same_bytes(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        fixture = read_fixture(text, where=name)
        assert fixture.name == name
        assert fixture.to_text() == text


def test_a_file_is_read_by_people_and_compared_line_by_line(texts: dict[str, str]) -> None:
    for text in texts.values():
        plain = json.loads(text)
        assert next(iter(plain.items())) == (MARK, FORMAT)
        assert text == json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def test_the_order_of_a_users_keys_is_kept(texts: dict[str, str]) -> None:
    (text, *_) = texts.values()
    plain = json.loads(text)
    plain["checkpoint"]["state"] = {"z": 1, "a": {"y": 2, "b": 3}}
    fixture = read_fixture(json.dumps(plain), where="")
    assert json.dumps(fixture.state) == '{"z": 1, "a": {"y": 2, "b": 3}}'


def test_a_newer_format_is_refused_with_what_to_do(texts: dict[str, str]) -> None:
    (text, *_) = texts.values()
    newer = text.replace(f'"{MARK}": {FORMAT}', f'"{MARK}": {FORMAT + 1}')
    with pytest.raises(InvalidFixture, match=r"a\.json was recorded by a newer nottwice"):
        read_fixture(newer, where="a.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"nottwice_checkpoint": "1"}', "\x00"])
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(InvalidFixture, match=r"a\.json is not a readable recorded checkpoint"):
        read_fixture(text, where="a.json")


DAMAGES: tuple[Any, ...] = (None, [], {}, "x", 7)


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for number in range(len(value)):
            yield from places(value[number], (*path, number))


def test_no_damage_ends_otherwise_than_with_an_error_that_has_a_name(
    tmp_path: Path, texts: dict[str, str]
) -> None:
    """A part that is something else is refused, or the replay says what is wrong."""
    text = next(text for name, text in texts.items() if name.startswith("approval-notify"))
    app = Deployment(tmp_path).app
    outcomes: Counter[str] = Counter()
    damages = itertools.cycle(DAMAGES)
    for path in list(places(json.loads(text)))[1:]:
        plain = json.loads(text)
        inside = plain
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = next(damages)
        file = tmp_path / "damaged.json"
        file.write_text(json.dumps(plain))
        result = replay_file(app, file)
        outcomes["passed" if result.cause is None else result.cause.value] += 1
    assert outcomes["file cannot be read"] > 50
    assert outcomes.total() - outcomes["passed"] > 70


def test_only_recorded_checkpoints_are_taken_for_one(tmp_path: Path, texts: dict[str, str]) -> None:
    (name, text), *_ = texts.items()
    (tmp_path / name).write_text(text)
    (tmp_path / "other.json").write_text("[1]")
    (tmp_path / LEFT_OUT_FILE).write_text("[]")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    assert [path.name for path in sorted(tmp_path.iterdir()) if is_fixture(path)] == [name]
    assert LEFT_OUT_FILE not in [path.name for path in fixture_paths(tmp_path)]


def test_two_checkpoints_never_share_a_file(texts: dict[str, str]) -> None:
    (text, *_) = texts.values()
    plain = json.loads(text)
    names = set()
    for run_id in ("a", "b", "Ä/../x", "x" * 400):
        plain["run"]["id"] = run_id
        names.add(read_fixture(json.dumps(plain), where="").name)
    assert len(names) == 4
    assert all(len(name) < 120 and "/" not in name for name in names)
