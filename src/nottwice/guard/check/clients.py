"""Which client libraries retry on their own, how often, and how do you turn that off? (T7)

The ledger never sees a retry that a client makes. The figures are the defaults of the releases that
were current when this was written. Nothing here imports a client: only modules that the user's code
has already imported are inspected.
"""

from __future__ import annotations

import enum
from typing import Any

from nottwice.model.data.records import frozen_record


class Retries(enum.Enum):
    """Whether the client inside a tool retries on its own."""

    NONE_KNOWN = "none known"
    YES = "yes"
    CANNOT_TELL = "cannot tell"


@frozen_record(frozen=True, slots=True)
class Client:
    """What one library does by default when a request fails."""

    retries: str | None
    """How often, in words; None: it does not retry."""
    remedy: str = ""
    harmless: bool = False
    """Its retries have no second effect: they carry a key, or repeat an idempotent request."""


@frozen_record(frozen=True, slots=True)
class Opinion:
    """What is known about the retries behind one reference."""

    package: str
    retries: Retries
    text: str
    harmless: bool = False


_NO_RETRIES = Client(None)
_MAX_RETRIES_ZERO = "give the client max_retries=0"

CLIENTS: dict[str, Client] = {
    "aiohttp": Client(
        "GET, PUT and DELETE once, when a kept connection turns out to be closed",
        "use a connector with force_close=True",
        harmless=True,
    ),
    "aiosmtplib": _NO_RETRIES,
    "anthropic": Client("2 times", _MAX_RETRIES_ZERO),
    "azure": Client("up to 10 times", "give the client retry_total=0"),
    "boto3": Client(
        "2 times (4 times in legacy mode)",
        "give the client Config(retries={'total_max_attempts': 1})",
    ),
    "botocore": Client(
        "2 times (4 times in legacy mode)",
        "give the client Config(retries={'total_max_attempts': 1})",
    ),
    "cohere": Client("2 times", "pass request_options={'max_retries': 0}"),
    "elasticsearch": Client("up to 3 times", _MAX_RETRIES_ZERO),
    "email": _NO_RETRIES,
    "ftplib": _NO_RETRIES,
    "github": Client("up to 10 times", "make it with Github(retry=None)"),
    "google.api_core": Client("many calls until a deadline", "pass retry=None to the call"),
    "google.cloud": Client("many calls until a deadline", "pass retry=None to the call"),
    "googleapiclient": Client(
        "a dropped connection once, inside httplib2", "set httplib2.RETRIES = 1"
    ),
    "groq": Client("2 times", _MAX_RETRIES_ZERO),
    "http": _NO_RETRIES,
    "httplib2": Client("a dropped connection once", "set httplib2.RETRIES = 1"),
    "httpx": _NO_RETRIES,
    "openai": Client("2 times", _MAX_RETRIES_ZERO),
    "psycopg": _NO_RETRIES,
    "psycopg2": _NO_RETRIES,
    "pymongo": Client("a write once", "connect with retryWrites=False", harmless=True),
    "redis": Client("3 times (since redis-py 6)", "connect with retry=Retry(NoBackoff(), 0)"),
    "requests": _NO_RETRIES,
    "sendgrid": _NO_RETRIES,
    "slack_sdk": Client("a dropped connection once", "give the client retry_handlers=[]"),
    "smtplib": _NO_RETRIES,
    "socket": _NO_RETRIES,
    "sqlite3": _NO_RETRIES,
    "stripe": Client(
        "2 times, with its own idempotency key for each request",
        "set stripe.max_network_retries = 0",
        harmless=True,
    ),
    "subprocess": _NO_RETRIES,
    "twilio": _NO_RETRIES,
    "urllib": _NO_RETRIES,
    "urllib3": Client("3 times", "pass retries=False"),
}

# Libraries whose decorators exist to retry.
RETRYING_DECORATORS = ("backoff", "retry", "retrying", "stamina", "tenacity")

# Libraries that send nothing, so their retries do not matter.
SENDS_NOTHING = frozenset(
    "annotated_types attr attrs bs4 click dateutil jinja2 jsonschema loguru lxml markdown "
    "marshmallow msgspec numpy opentelemetry orjson pandas PIL pydantic pydantic_core rich "
    "simplejson structlog typing_extensions typing_inspection yaml".split()
)


def form_opinion(value: Any, module: str) -> Opinion | None:
    """Say what a value from ``module`` means for retries; None if it is no known client.

    If the client already exists, its own setting counts; otherwise the default does.
    """
    package = _package_of(module)
    if package in RETRYING_DECORATORS:
        text = f"{package} runs it again when it fails; remove that and declare retry= instead"
        return Opinion(package, Retries.YES, text)
    client = CLIENTS.get(package)
    if client is None:
        return None
    own = _own_setting(package, value)
    if own == 0 or (own is None and client.retries is None):
        why = "has its retries off" if own == 0 and client.retries else "does not retry on its own"
        return Opinion(package, Retries.NONE_KNOWN, f"{package} {why}")
    if own is not None:
        how_often, remedy = f"{own} times here", client.remedy or "mount an adapter without Retry"
    else:
        how_often, remedy = f"{client.retries}, by default", client.remedy
    return Opinion(
        package,
        Retries.YES,
        f"{package} retries {how_often}; to turn it off, {remedy}",
        client.harmless,
    )


def _package_of(module: str) -> str:
    """Return the longest prefix of a module's name that is a known client, else its first part."""
    parts = module.split(".")
    for length in range(len(parts), 1, -1):
        if ".".join(parts[:length]) in CLIENTS:
            return ".".join(parts[:length])
    return parts[0]


def _own_setting(package: str, value: Any) -> int | None:
    """Return how often this client retries, if it says so; None: unknown."""
    try:
        match package:
            case "openai" | "anthropic" | "groq":
                return _whole(vars(value).get("max_retries"))
            case "stripe":
                return _whole(vars(value).get("max_network_retries"))
            case "requests":
                adapters = vars(value).get("adapters", {}).values()
                return max((_total(adapter.max_retries) for adapter in adapters), default=None)
            case "urllib3":
                options = vars(value).get("connection_pool_kw", {})
                return _total(options["retries"]) if "retries" in options else None
            case "boto3" | "botocore":
                attempts = _whole(value.meta.config.retries.get("total_max_attempts"))
                return None if attempts is None else attempts - 1
            case _:
                return None
    except (TypeError, AttributeError):
        # This setting belongs to another kind of object; this may be a function of the library.
        return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _total(retries: Any) -> int:
    if isinstance(retries, bool | int):
        return int(retries)
    total = retries.total
    return int(total or 0)
