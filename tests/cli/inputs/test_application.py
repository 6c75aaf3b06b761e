"""Is the user's code found, imported without noise, and are exactly its tools known?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nottwice.cli.inputs.application import load_application, need_application
from nottwice.cli.inputs.settings import Settings
from nottwice.errors import InvalidTool, UnclassifiedTool, UsageError

TOOL = "import nottwice as nt\n\n@nt.tool('pure')\ndef {name}(x: int) -> int:\n    return x\n"


@pytest.fixture(autouse=True)
def clean_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def names(target: str) -> list[str]:
    return [tool.__name__ for tool in load_application(target).tools]


def test_a_module_is_looked_for_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "app_module.py").write_text(TOOL.format(name="of_module"))
    assert names("app_module") == ["of_module"]
    # The second time nothing is declared again, and it is still its tool.
    assert names("app_module") == ["of_module"]


def test_a_file_is_imported_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "app_file.py").write_text(TOOL.format(name="of_file"))
    assert names("deep/app_file.py") == ["of_file"]


def test_a_file_finds_the_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "app_tools.py").write_text(TOOL.format(name="of_neighbour"))
    (tmp_path / "app_main.py").write_text("from app_tools import of_neighbour\n")
    assert names("app_main.py") == ["of_neighbour"]


def test_a_file_in_a_package_is_imported_as_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "app_package").mkdir()
    (tmp_path / "app_package" / "__init__.py").write_text("")
    (tmp_path / "app_package" / "other.py").write_text(TOOL.format(name="of_package"))
    (tmp_path / "app_package" / "tools.py").write_text("from .other import of_package\n")
    assert load_application("app_package/tools.py").module.__name__ == "app_package.tools"
    assert names("app_package/tools.py") == ["of_package"]


def test_a_file_never_takes_the_place_of_a_module_that_others_need(tmp_path: Path) -> None:
    import json

    (tmp_path / "json.py").write_text(TOOL.format(name="of_json"))
    assert names("json.py") == ["of_json"]
    assert sys.modules["json"] is json


def test_tools_that_others_declared_are_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "app_one.py").write_text(TOOL.format(name="of_one"))
    (tmp_path / "app_two.py").write_text(TOOL.format(name="of_two"))
    kept = load_application("app_one")
    assert names("app_two") == ["of_two"]
    assert [tool.__name__ for tool in kept.tools] == ["of_one"]


def test_an_attribute_may_be_named_and_must_exist(tmp_path: Path) -> None:
    (tmp_path / "app_attribute.py").write_text("class Graph:\n    node = 1\n")
    assert names("app_attribute:Graph.node") == []
    with pytest.raises(UsageError, match="has no attribute 'edge'"):
        load_application("app_attribute:Graph.edge")


def test_what_an_import_prints_does_not_reach_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app_loud.py").write_text("print('hello')\n")
    load_application("app_loud")
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def f(:\n", "SyntaxError"),
        ("import app_absent\n", "No module named 'app_absent'"),
        ("raise SystemExit(0)\n", "behind: if __name__ == '__main__'"),
    ],
)
def test_an_import_that_fails_says_why(source: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "app_broken.py").write_text(source)
    for target in ("app_broken", "app_broken.py"):
        with pytest.raises(UsageError) as caught:
            load_application(target)
        assert said in str(caught.value)
        assert "Nothing was done" in str(caught.value)
    assert "app_broken" not in sys.modules


@pytest.mark.parametrize("target", ["app_nowhere", "app_nowhere.py", "", ":x"])
def test_what_is_not_there_cannot_be_imported(target: str) -> None:
    with pytest.raises(UsageError, match="could not be imported"):
        load_application(target)


def test_an_interrupt_during_an_import_is_no_failure_of_it(tmp_path: Path) -> None:
    (tmp_path / "app_slow.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_application("app_slow")


@pytest.mark.parametrize(
    ("declaration", "kind"),
    [
        ("@nt.tool", UnclassifiedTool),
        ("@nt.tool('idempotent_with_key', window='1h')", InvalidTool),
    ],
)
def test_a_refused_declaration_speaks_for_itself(
    declaration: str, kind: type[UsageError], tmp_path: Path
) -> None:
    source = f"import nottwice as nt\n\n{declaration}\ndef refused(x: int) -> int: ...\n"
    (tmp_path / "app_refused.py").write_text(source)
    with pytest.raises(UsageError) as caught:
        load_application("app_refused")
    assert isinstance(caught.value.__cause__, kind)
    assert str(caught.value) == str(caught.value.__cause__)


def test_who_needs_an_application_is_told_how_to_name_one() -> None:
    with pytest.raises(UsageError, match=r"recheck needs your tools.*--app agent"):
        need_application(Settings(), what_for="recheck")
