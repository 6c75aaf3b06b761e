"""Does the library find the project that the commands find?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nottwice.errors import UsageError
from nottwice.guard.settings.project import project_table, project_text


def test_the_nearest_project_that_says_something_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.nottwice]\nkey_file = "own.key"\n')
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "pyproject.toml").write_text("[tool.other]\n")
    monkeypatch.chdir(tmp_path / "inner")
    assert project_table() == (tmp_path, {"key_file": "own.key"})
    assert project_text("key_file") == (tmp_path, "own.key")
    assert project_text("store") == (tmp_path, None)


@pytest.mark.parametrize("text", ["[tool.nottwice", "[tool.nottwice]\nkey_file = 7\n"])
def test_a_project_that_cannot_be_read_is_an_error_that_names_the_file(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"pyproject\.toml"):
        project_text("key_file")
