"""Is all text kept, whatever encoding a database or a client is set to? (P285)"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

import nottwice as nt
from nottwice.errors import StoreError
from tests.postgres import server


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def other_encoding(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty database that cannot hold all characters."""
    name = f"t_{request.param.lower()}"
    with server.connected() as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(
            f"CREATE DATABASE {name} ENCODING '{request.param}' LC_COLLATE 'C' LC_CTYPE 'C'"
            " TEMPLATE template0"
        )
    yield urlsplit(server.url())._replace(path=f"/{name}").geturl()
    with server.connected() as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_database_that_cannot_hold_all_characters_is_refused_before_anything_is_written(
    other_encoding: str,
) -> None:
    with pytest.raises(StoreError, match=r"Nothing was written. .* ENCODING 'UTF8'"):
        nt.Ledger(other_encoding)
    with server.connected(other_encoding) as connection:
        found = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname='nottwice'")
        assert found.fetchone() == (0,)


def test_no_setting_of_the_client_changes_the_text_that_comes_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    @nt.tool("unsafe_on_replay", name="say_in_every_encoding")
    def say(text: str) -> str:
        return text

    for number, encoding in enumerate(("LATIN1", "SQL_ASCII")):
        monkeypatch.setenv("PGCLIENTENCODING", encoding)
        for words in ({}, {"client_encoding": encoding}):
            name = f"{number} {len(words)} {tmp_path}"
            with nt.Ledger(server.ledger_url(name, **words)) as ledger:
                with ledger.run("ticket-7"):
                    assert say("20 € für Ærø 🙂") == "20 € für Ærø 🙂"
                with ledger.run("ticket-7"):
                    assert say("20 € für Ærø 🙂") == "20 € für Ærø 🙂"
