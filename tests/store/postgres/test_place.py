"""Where is a ledger on PostgreSQL, and is its password nowhere to be seen?"""

from __future__ import annotations

import pytest

from nottwice.errors import UsageError
from nottwice.store.postgres.place import is_postgres, read_place, without_secrets

SECRET = "hunter2%2F@!"


@pytest.mark.parametrize(
    ("url", "connection", "location"),
    [
        (
            "postgresql://ann:p%40ss@db.example:5433/agents",
            {
                "user": "ann",
                "password": "p@ss",
                "host": "db.example",
                "port": "5433",
                "dbname": "agents",
            },
            "postgresql://ann@db.example:5433/agents",
        ),
        (
            "postgres://db.example/agents?sslmode=verify-full&password=p@ss",
            {
                "host": "db.example",
                "dbname": "agents",
                "sslmode": "verify-full",
                "password": "p@ss",
            },
            "postgresql://db.example/agents?sslmode=verify-full",
        ),
        (
            "postgresql://one:1,two:2/agents?target_session_attrs=read-write",
            {
                "host": "one,two",
                "port": "1,2",
                "dbname": "agents",
                "target_session_attrs": "read-write",
            },
            "postgresql://one:1,two:2/agents?target_session_attrs=read-write",
        ),
        (
            "postgresql://ann@/agents?host=/run/postgresql",
            {"user": "ann", "host": "/run/postgresql", "dbname": "agents"},
            "postgresql://ann@/agents?host=/run/postgresql",
        ),
        (
            "postgresql://[::1]:5432/agents",
            {"host": "::1", "port": "5432", "dbname": "agents"},
            "postgresql://[::1]:5432/agents",
        ),
        ("postgresql:///", {}, "postgresql:///"),
    ],
)
def test_a_url_says_where_and_its_location_says_it_without_the_password(
    url: str, connection: dict[str, str], location: str
) -> None:
    place = read_place(url)
    assert place.connection == connection
    assert place.location == location
    # What people are shown can be typed unchanged, and means the same place.
    again = read_place(place.location)
    assert again.location == location
    assert again.connection == {
        name: text for name, text in connection.items() if name != "password"
    }


def test_our_own_words_are_not_handed_to_the_server_and_stay_in_the_name() -> None:
    url = "postgresql://db/agents?schema=team_a&lease_seconds=5&connections=3"
    place = read_place(url)
    assert place.connection == {"host": "db", "dbname": "agents"}
    assert (place.schema, place.lease_seconds, place.most_connections) == ("team_a", 5.0, 3)
    assert place.location == url


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://db/agents?schema=Team",
        "postgresql://db/agents?schema=a;drop",
        "postgresql://db/agents?schema=" + "x" * 64,
        "postgresql://db/agents?schema=",
        "postgresql://db/agents?lease_seconds=0",
        "postgresql://db/agents?lease_seconds=soon",
        "postgresql://db/agents?lease_seconds=nan",
        "postgresql://db/agents?connections=1",
        f"postgresql://ann:{SECRET}@db/agents?sslmode",
        f"postgresql://ann:{SECRET}@[::1/agents",
    ],
)
def test_a_url_that_says_nothing_sensible_is_refused_without_repeating_its_password(
    url: str,
) -> None:
    with pytest.raises(UsageError, match="Nothing was opened") as refused:
        read_place(url)
    assert SECRET not in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_no_secret_is_shown_by_anything_that_has_it() -> None:
    place = read_place("postgresql://ann:hunter2@db/agents?sslpassword=swordfish")
    for text in (repr(place), place.location, without_secrets("postgresql://a:hunter2@[/")):
        assert "hunter2" not in text
        assert "swordfish" not in text
    assert place.hide_secrets("hunter2 or swordfish?") == "*** or ***?"


def test_what_is_not_postgresql_is_left_alone() -> None:
    assert not any(map(is_postgres, ("agent.db", "file:runs", "mysql://db/x", "postgresql", "")))
    assert without_secrets("agent.db") == "agent.db"
