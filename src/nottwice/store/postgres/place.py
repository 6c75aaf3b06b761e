"""Where is a ledger on PostgreSQL, and how is that said without its password?

A ledger is named by a URL of the database, ``postgresql://user@host/database``, with whatever libpq
knows behind the question mark, and four words of our own: ``schema``, ``lease_seconds``,
``connections`` and ``standbys``. Nothing here needs a driver, so that a command can print the name
of a ledger.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from nottwice.errors import UsageError
from nottwice.model.records import frozen_record

SCHEMES = ("postgresql", "postgres")
DEFAULT_SCHEMA = "nottwice"
LEASE_SECONDS = 30.0
MOST_CONNECTIONS = 8
_SECRETS = ("password", "sslpassword", "oauth_client_secret", "passfile")
_OWN = ("schema", "lease_seconds", "connections", "standbys")
_STANDBYS = ("any", "synchronous")
# Also a limit of PostgreSQL: a longer name would be cut off in silence.
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def is_postgres(store: object) -> bool:
    """Whether somebody names a ledger on PostgreSQL."""
    return str(store).partition("://")[0] in SCHEMES and "://" in str(store)


@frozen_record(frozen=True, slots=True)
class Place:
    """A ledger on PostgreSQL: how to reach it, and how to name it to people."""

    connection: dict[str, str]
    """What libpq is told, the password included."""
    location: str
    """A URL without any secret; whoever types it brings the password along in another way."""
    schema: str = DEFAULT_SCHEMA
    lease_seconds: float = LEASE_SECONDS
    most_connections: int = MOST_CONNECTIONS
    only_synchronous: bool = False
    """Whether only standbys are ever promoted that had confirmed every commit (P122)."""

    def __repr__(self) -> str:
        return f"Place({self.location!r})"

    def hide_secrets(self, text: str) -> str:
        """The same text without any secret of this place, whoever put it there."""
        for name in _SECRETS:
            secret = self.connection.get(name)
            if secret:
                text = text.replace(secret, "***")
        return text


def read_place(url: str) -> Place:
    """What a URL says; UsageError if it is none, before anything is opened."""
    try:
        parts = urlsplit(url)
        hosts, ports = _hosts(parts.netloc.rpartition("@")[2])
        queried = (
            dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
            if (parts.query)
            else {}
        )
    except ValueError as error:
        # Not the text of the URL: it may hold a password.
        raise UsageError(f"The URL of the ledger cannot be read ({error}). {_NOT_OPENED}") from None
    own = {name: queried.pop(name) for name in _OWN if name in queried}
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    named = {
        "user": unquote(user),
        "password": unquote(password),
        "host": hosts,
        "port": ports,
        "dbname": unquote(parts.path.removeprefix("/")),
    }
    connection = {name: text for name, text in named.items() if text} | queried
    return Place(
        connection=connection,
        location=_location(connection, own),
        schema=_schema(own.get("schema", DEFAULT_SCHEMA)),
        lease_seconds=_number(own, "lease_seconds", LEASE_SECONDS, least=1.0),
        most_connections=int(_number(own, "connections", MOST_CONNECTIONS, least=2)),
        only_synchronous=_standbys(own.get("standbys", "any")) == "synchronous",
    )


_NOT_OPENED = "Nothing was opened. Write it as postgresql://user@host:5432/database"


def without_secrets(store: str) -> str:
    """A store as it may be printed and logged."""
    if not is_postgres(store):
        return store
    try:
        return read_place(store).location
    except UsageError:
        return "postgresql://…"


def _hosts(netloc: str) -> tuple[str, str]:
    """Hosts and ports as libpq takes them: lists, because a URL may name several servers."""
    hosts, ports = [], []
    for one in netloc.split(","):
        bracketed, closed, rest = one.rpartition("]")
        host, _, port = rest.partition(":") if closed else one.partition(":")
        hosts.append(unquote(bracketed.removeprefix("[") if closed else host))
        ports.append(port)
    return ",".join(hosts), ",".join(ports) if any(ports) else ""


def _location(connection: dict[str, str], own: dict[str, str]) -> str:
    shown = {name: text for name, text in connection.items() if name not in _SECRETS}
    user = quote(shown.pop("user", ""), safe="")
    hosts, ports = shown.pop("host", ""), shown.pop("port", "")
    dbname = quote(shown.pop("dbname", ""), safe="")
    if "/" in hosts:
        # The folder of a socket: libpq reads it from behind the question mark, too.
        shown = {"host": hosts, **({"port": ports} if ports else {}), **shown}
        where = ""
    else:
        pairs = zip(hosts.split(","), (ports or "," * hosts.count(",")).split(","), strict=False)
        where = ",".join(_host(host) + (f":{port}" if port else "") for host, port in pairs)
    query = urlencode({**shown, **own}, safe="/")
    netloc = f"{user}@{where}" if user else where
    return f"postgresql://{netloc}/{dbname}" + (f"?{query}" if query else "")


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else quote(host, safe="")


def _schema(name: str) -> str:
    if not _SCHEMA_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a schema: small letters, digits and _ only, and no digit "
            "first. Nothing was opened."
        )
    return name


def _standbys(word: str) -> str:
    if word not in _STANDBYS:
        raise UsageError(
            f"standbys={word} in the URL of the ledger must be one of {', '.join(_STANDBYS)}. "
            "Nothing was opened."
        )
    return word


def _number(own: dict[str, str], name: str, default: float, *, least: float) -> float:
    try:
        number = float(own.get(name, default))
    except ValueError:
        number = float("nan")
    if not least <= number < 1e6:
        raise UsageError(
            f"{name}={own[name]} in the URL of the ledger must be a number of at least {least:g}. "
            "Nothing was opened."
        )
    return number
