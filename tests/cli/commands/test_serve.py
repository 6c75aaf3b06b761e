"""Does `nottwice serve` refuse what is unsafe before it opens anything?"""

from __future__ import annotations

import sys

import pytest

from tests.cli.workplace import Workplace


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bind", "0.0.0.0"], "can be reached from a network"),
        (["--user-header", "X-User"], "--token-file"),
        (["--decider", "bob"], "--user-header"),
        (["--token-file", "missing"], "could not be read"),
        (["--port", "70000"], "70000"),
    ],
)
def test_what_would_be_open_is_refused(words: list[str], said: str, killed: Workplace) -> None:
    result = killed.cli("serve", *words)
    assert result.exit_code in (1, 2)
    assert said in result.stderr


def test_a_short_token_is_refused(workplace: Workplace) -> None:
    (workplace.folder / "token").write_text("short")
    result = workplace.cli("serve", "--port", "0", "--token-file", str(workplace.folder / "token"))
    assert result.exit_code == 1
    assert "at least 32 are needed" in result.stderr


def test_a_missing_ledger_is_not_created(empty: Workplace) -> None:
    result = empty.cli("serve", "--port", "0")
    assert result.exit_code == 1
    assert not (empty.folder / "agent.db").exists()


def test_without_the_extra_it_says_what_to_install(
    killed: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [one for one in sys.modules if one.startswith("nottwice.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = killed.cli("serve")
    assert result.exit_code == 1
    assert "pip install 'nottwice[web]'" in result.stderr
