"""Is the key that is found the one that was meant, and is there none when none is named?"""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.guard.settings.keyring import find_keyring
from nottwice.model.sealing.keyring import Keyring, make_key

ARGUMENT, VARIABLE, FILE, PROJECT = (bytes(range(n, n + 32)) for n in (0, 40, 80, 120))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which no key is named yet."""
    monkeypatch.delenv("NOTTWICE_KEY", raising=False)
    monkeypatch.delenv("NOTTWICE_KEY_FILE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def current(ring: Keyring | None) -> bytes | None:
    return None if ring is None else ring.current.secret


def test_an_argument_beats_the_variable_which_beats_the_file_which_beats_the_project(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_keyring() is None
    (elsewhere / "pyproject.toml").write_text('[tool.nottwice]\nkey_file = "own.key"\n')
    (elsewhere / "own.key").write_text(f"{PROJECT.hex()}\n")
    (elsewhere / "inner").mkdir()
    monkeypatch.chdir(elsewhere / "inner")
    assert current(find_keyring()) == PROJECT
    (elsewhere / "other.key").write_text(f"{FILE.hex()}\n{PROJECT.hex()}\n")
    monkeypatch.setenv("NOTTWICE_KEY_FILE", str(elsewhere / "other.key"))
    assert find_keyring() == Keyring(make_key(FILE), (make_key(PROJECT),))
    monkeypatch.setenv("NOTTWICE_KEY", VARIABLE.hex())
    assert current(find_keyring()) == VARIABLE
    assert current(find_keyring(ARGUMENT)) == ARGUMENT


@pytest.mark.parametrize(
    "key", [ARGUMENT, ARGUMENT.hex(), lambda: ARGUMENT, lambda: Keyring(make_key(ARGUMENT))]
)
def test_a_ledger_takes_the_text_the_bytes_or_a_function(key: object) -> None:
    with nt.Ledger(":memory:", key=key) as ledger:  # type: ignore[arg-type]
        assert current(ledger.keyring) == ARGUMENT
        assert current(ledger.with_policies((lambda call: None,)).keyring) == ARGUMENT


def test_a_function_is_asked_once_and_only_if_the_key_is_needed() -> None:
    asked: list[int] = []

    def fetch() -> bytes:
        asked.append(1)
        return ARGUMENT

    with nt.Ledger(":memory:", key=fetch) as ledger:
        assert asked == []
        assert ledger.keyring == ledger.keyring
    assert asked == [1]


@pytest.mark.parametrize("key", [lambda: None, 7, ["a"], b"short", ""])
def test_what_is_no_key_is_refused_and_never_taken_for_none(key: object) -> None:
    with pytest.raises(nt.errors.UsageError, match="nottwice key"):
        find_keyring(key)  # type: ignore[arg-type]


def test_a_file_that_is_not_there_is_an_error_and_not_the_absence_of_a_key(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_KEY_FILE", str(elsewhere / "gone.key"))
    with pytest.raises(
        nt.errors.UsageError, match=r"gone\.key, .* cannot be read.*Nothing happened"
    ):
        find_keyring()
    (elsewhere / "gone.key").write_bytes(b"\xff\xfe" * 40)
    with pytest.raises(nt.errors.UsageError, match="it is not text"):
        find_keyring()
    monkeypatch.delenv("NOTTWICE_KEY_FILE")
    (elsewhere / "pyproject.toml").write_text('[tool.nottwice]\nkey_file = "none.key"\n')
    with pytest.raises(
        nt.errors.UsageError, match=r"none\.key, which .*pyproject.* cannot be read"
    ):
        find_keyring()


@pytest.mark.parametrize("variable", ["NOTTWICE_KEY", "NOTTWICE_KEY_FILE"])
@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_a_variable_that_is_set_and_empty_is_an_error(
    variable: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that could not be fetched must not switch the seals off."""
    monkeypatch.setenv(variable, text)
    with pytest.raises(
        nt.errors.KeyMissing, match=f"{variable} is set and empty.*unset {variable}"
    ):
        find_keyring()


def test_no_ledger_is_opened_with_an_empty_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_KEY", "")
    with pytest.raises(nt.errors.KeyMissing), nt.run("ticket-7", store=tmp_path / "agent.db"):
        pytest.fail("the run was opened")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", " "])
def test_a_project_that_names_no_key_file_is_an_error(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.nottwice]\nkey_file = "{text}"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(nt.errors.KeyMissing, match=r"key_file in .* is empty"):
        find_keyring()
