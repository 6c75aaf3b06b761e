"""Is every file found that contains a name?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nottwice.store.files.search import bytes_of, may_say, says
from nottwice.store.rules import MemoryData
from tests.store.samples import graph


@pytest.mark.parametrize("name", ["pay-7", "größe", 'a "quoted" key', "tab\there", "a/b"])
def test_a_name_is_found_as_nottwice_writes_it(tmp_path: Path, name: str) -> None:
    from nottwice.store.files.document import _pretty

    content = _pretty({"key": name}, 2).encode()
    assert says(content, name)
    assert not says(content, name + "0")
    assert not says(content, name[:-1])


def test_a_file_that_spells_a_character_in_another_way_is_looked_at() -> None:
    for content in (b'{"key": "gr\\u00f6\\u00DFe"}', b'{"key": "a\\/b"}'):
        assert may_say(content, "other")
        assert not says(content, "other")
    assert not may_say(b'{"key": "plain"}', "other")


def test_a_file_and_its_inbox_are_read_together(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(b"file")
    (tmp_path / "r.inbox").write_bytes(b"inbox")
    assert bytes_of(tmp_path, "r") == b"inboxfile"
    assert bytes_of(tmp_path, "none") == b""
    (tmp_path / "folder.json").mkdir()
    assert bytes_of(tmp_path, "folder") == b""


def test_what_is_added_is_kept_with_what_was_there() -> None:
    whole = MemoryData(graphs={"a@1": graph("a@1")})
    whole.update(MemoryData(graphs={"b@1": graph("b@1")}))
    assert list(whole.graphs) == ["a@1", "b@1"]
