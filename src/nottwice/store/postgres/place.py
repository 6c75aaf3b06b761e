"""Where is a ledger on PostgreSQL, and how is it named without its password?

A ledger is named by a database URL, ``postgresql://user@host/database``, with any parameters that
libpq knows after the question mark, and four of our own: ``schema``, ``lease_seconds``,
``connections`` and ``standbys``. Nothing here needs a driver, so every command can print the name
of a ledger.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record

SCHEMES = ("postgresql", "postgres")
DEFAULT_SCHEMA = "nottwice"
LEASE_SECONDS = 30.0
MOST_CONNECTIONS = 8
_SECRETS = ("password", "sslpassword", "oauth_client_secret", "passfile")
_OWN = ("schema", "lease_seconds", "connections", "standbys")
_STANDBYS = ("any", "synchronous")
# This is also a limit of PostgreSQL, which silently cuts off longer names.
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")


def is_postgres(store: object) -> bool:
    """Whether this names a ledger on PostgreSQL."""
    return str(store).partition("://")[0] in SCHEMES and "://" in str(store)


@frozen_record(frozen=True, slots=True)
class Place:
    """A ledger on PostgreSQL: how to reach it, and how to name it to people."""

    connection: dict[str, str]
    """The parameters for libpq, including the password."""
    location: str
    """A URL without any secret. The password must come from elsewhere if this URL is used."""
    schema: str = DEFAULT_SCHEMA
    lease_seconds: float = LEASE_SECONDS
    most_connections: int = MOST_CONNECTIONS
    only_synchronous: bool = False
    """Whether only standbys that had confirmed every commit are ever promoted (P122)."""

    def __repr__(self) -> str:
        return f"Place({self.location!r})"

    def hide_secrets(self, text: str) -> str:
        """The same text without any secret of this place, wherever it comes from."""
        for name in _SECRETS:
            secret = self.connection.get(name)
            if secret:
                text = text.replace(secret, "***")
        return text


def read_place(url: str) -> Place:
    """Read a URL. UsageError if it is not valid, before anything is opened."""
    try:
        parts = urlsplit(url)
        hosts, ports = _hosts(parts.netloc.rpartition("@")[2])
        queried = (
            dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
            if (parts.query)
            else {}
        )
    except ValueError as error:
        # Without the text of the URL, which may contain a password.
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
    """The name of a store as it may be printed and logged."""
    if not is_postgres(store):
        # The URL of a store of another package may have a password, too.
        return _PASSWORD.sub(r"\1@", store)
    try:
        return read_place(store).location
    except UsageError:
        return "postgresql://…"


def _hosts(netloc: str) -> tuple[str, str]:
    """Hosts and ports in libpq's form: lists, because a URL may name several servers."""
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
        # The folder of a socket, which libpq also accepts after the question mark.
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
            f"{name!r} is not a valid schema name: use small letters, digits and _ only, and do "
            "not start with a digit. Nothing was opened."
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
