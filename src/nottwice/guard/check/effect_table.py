"""Which calls of known libraries have an effect? One table, and the code that reads it (T5).

A call is identified by its package and its last name: ``httpx.Client().post`` is ``post`` of httpx.
Reads are left out if a name, a method, a file's mode or the first words of an SQL statement show
that the call only reads. Requests to a model are left out, too: asking twice costs money but
changes nothing. Creating a folder is left out, because a second time creates none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

NETWORK = "sends a request"
MAIL = "sends mail"
PROGRAM = "starts a program"
FILE = "changes files"
DATABASE = "writes to a database"
SERVICE = "changes something in a service"

Told = Callable[[ast.expr], str]
"""The dotted name that an expression comes from, or its text; empty if unknown."""

_HTTP = frozenset("post put patch delete request send stream urlopen ws_connect websocket".split())
_SQL = frozenset(
    "execute executemany executescript execute_batch execute_values exec_driver_sql copy "
    "copy_expert copy_from copy_records_to_table fetchval fetchrow fetch".split()
)
_OS = (
    "open remove unlink rename renames replace rmdir removedirs link symlink truncate chmod chown "
    "kill killpg"
)

CALLS: dict[str, tuple[str, frozenset[str]]] = {
    "aiofiles": (FILE, frozenset({"open"})),
    "aiohttp": (NETWORK, _HTTP),
    "aiosmtplib": (MAIL, frozenset("send sendmail send_message".split())),
    "asyncio": (
        PROGRAM,
        frozenset("create_subprocess_exec create_subprocess_shell open_connection".split()),
    ),
    "builtins": (FILE, frozenset({"open"})),
    "codecs": (FILE, frozenset({"open"})),
    "ftplib": (NETWORK, frozenset("storbinary storlines delete rename mkd rmd".split())),
    "gzip": (FILE, frozenset({"open"})),
    "http": (NETWORK, frozenset({"request"})),
    "httpx": (NETWORK, _HTTP),
    "io": (FILE, frozenset({"open"})),
    "os": (FILE, frozenset(_OS.split())),
    "paramiko": (PROGRAM, frozenset("exec_command put remove rename".split())),
    "pathlib": (
        FILE,
        frozenset(
            "write_text write_bytes unlink rename replace rmdir touch symlink_to hardlink_to "
            "chmod open".split()
        ),
    ),
    "requests": (NETWORK, _HTTP),
    "shutil": (
        FILE,
        frozenset("copy copy2 copyfile copytree move rmtree make_archive unpack_archive".split()),
    ),
    "smtplib": (MAIL, frozenset("sendmail send_message".split())),
    "socket": (
        NETWORK,
        frozenset("create_connection connect connect_ex send sendall sendto sendfile".split()),
    ),
    "subprocess": (
        PROGRAM,
        frozenset(
            "run call check_call check_output Popen getoutput getstatusoutput".split(),
        ),
    ),
    "urllib": (NETWORK, frozenset({"urlopen"})),
    "urllib3": (NETWORK, frozenset("request urlopen".split())),
    "websockets": (NETWORK, frozenset("connect send".split())),
    **dict.fromkeys(
        "aiomysql aiosqlite asyncpg duckdb MySQLdb mysql oracledb psycopg psycopg2 pymysql pyodbc "
        "sqlalchemy sqlite3".split(),
        (DATABASE, _SQL),
    ),
}
# Calls with another effect than the rest of their package.
_OTHERWISE = {
    "asyncio": {"open_connection": NETWORK},
    "os": dict.fromkeys("system popen startfile posix_spawn posix_spawnp".split(), PROGRAM),
}

# Clients of services: a method counts if a word in its name implies a change.
SERVICES = frozenset(
    "adyen aiobotocore aiokafka airtable algoliasearch atlassian azure boto3 botocore braintree "
    "celery confluent_kafka discord dulwich elasticsearch git github gitlab google.cloud "
    "googleapiclient gspread hubspot intercom jira kafka kubernetes mailchimp_transactional "
    "mailjet_rest minio motor notion_client nats paypalrestsdk pika plaid postmarker pygit2 "
    "pymongo redis resend sendgrid shopify simple_salesforce slack_sdk square stripe telegram "
    "tweepy twilio zenpy".split()
)
_CHANGING = frozenset(
    "add append apply approve archive assign attach batch cancel capture charge clear close "
    "comment commit confirm copy create decrement decr delay delete detach dispatch disable drop "
    "enable enqueue expire finalize hset import incr increment insert invite invoke lpush merge "
    "modify move patch pay post produce publish purge push put refund reject remove rename replace "
    "reply restart revoke run rpush sadd send set setex start stop submit tag terminate transfer "
    "trigger unassign undo update upload upsert void write xadd zadd".split()
)
_READING = frozenset(
    "count describe exists fetch find get has head is list load query read retrieve scan search "
    "select show".split()
)
# Names rare enough to count on any object, if the source does not show its type.
_TELLING = {
    "write_text": FILE,
    "write_bytes": FILE,
    "sendmail": MAIL,
    "send_message": MAIL,
}
_WRITING_SQL = re.compile(
    r"\s*(?:insert\s+into|update\s+\S+\s+set|delete\s+from|replace\s+into|merge\s+into|truncate\s"
    r"|create\s|drop\s|alter\s|copy\s|grant\s|revoke\s|call\s)",
    re.IGNORECASE,
)
_READING_SQL = re.compile(r"\s*(?:select|show|explain|pragma|values|describe)\b", re.IGNORECASE)
_ENDS_A_READ = re.compile(r"(?i)\b(?:insert\s+into|update\s+\S+\s+set|delete\s+from)\b")
_READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_READING_GIT = frozenset(
    "blame cat-file describe diff diff-tree for-each-ref grep log ls-files ls-remote ls-tree "
    "merge-base name-rev rev-list rev-parse shortlog show show-ref status version".split()
)


def effect_of(origin: str, call: ast.Call | None, told: Told) -> str | None:
    """Say what a call does to the world, in words; None if nothing indicates an effect.

    ``origin`` is the dotted name that is called. ``call`` is None if the function is only passed
    on, for example to a thread; then nothing that depends on its arguments is judged.
    """
    package, name = _package(origin), origin.rpartition(".")[2]
    if package in SERVICES:
        return SERVICE if _changes(name) else None
    otherwise = _OTHERWISE.get(package, {}).get(name)
    if otherwise is not None or (package == "os" and name.startswith(("exec", "spawn"))):
        return otherwise or PROGRAM
    what, names = CALLS.get(package, ("", frozenset[str]()))
    if name not in names:
        return None
    if call is None and name in ("open", "urlopen", *_SQL):
        return None
    return what if call is None or not _only_reads(package, name, call, told) else None


def telling_effect(name: str, call: ast.Call) -> str | None:
    """Do the same for a method of an unknown object: only its name or its SQL counts."""
    if name in _SQL and _WRITING_SQL.match(_text(_argument(call, 0, "query"))):
        return DATABASE
    return _TELLING.get(name)


def _package(origin: str) -> str:
    parts = origin.split(".")
    two = ".".join(parts[:2])
    return two if two in SERVICES or two in CALLS else parts[0]


def _changes(name: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")
    return words[0] not in _READING and not _CHANGING.isdisjoint(words)


def _only_reads(package: str, name: str, call: ast.Call, told: Told) -> bool:
    if name == "open":
        if package == "os":
            return all(each not in ast.unparse(call) for each in ("O_WRONLY", "O_RDWR"))
        place = 0 if package == "pathlib" else 1
        mode = _argument(call, place, "mode")
        return mode is None or (_is_text(mode) and not set(_text(mode)) & set("wax+"))
    if name == "urlopen" and package == "urllib":
        request = _argument(call, 0, "url")
        sends = isinstance(request, ast.Call) and (
            _argument(request, 1, "data") is not None
            or _text(_argument(request, 5, "method")).upper() not in ("", *_READING_METHODS)
        )
        is_known = not isinstance(request, ast.Name) or not told(request).endswith("Request")
        return not sends and is_known and _argument(call, 1, "data") is None
    if name in ("request", "stream"):
        return _text(_argument(call, 0, "method")).upper() in _READING_METHODS
    if CALLS[package][0] == DATABASE:
        sql = _text(_argument(call, 0, "query"), told)
        if name in ("fetch", "fetchrow", "fetchval"):
            # Cursors have methods with these names that take no statement.
            return not _WRITING_SQL.match(sql)
        reads = bool(_READING_SQL.match(sql)) or sql.lstrip()[:4].lower() == "with"
        return reads and not _ENDS_A_READ.search(sql)
    return package == "subprocess" and _is_reading_git(_argument(call, 0, "args"))


def _is_reading_git(command: ast.expr | None) -> bool:
    if isinstance(command, ast.List | ast.Tuple):
        words = [_text(each) for each in command.elts]
    else:
        text = _text(command)
        words = [] if set(text) & set(";&|<>`$") else text.split()
    return words[:1] == ["git"] and len(words) > 1 and words[1] in _READING_GIT


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    named = next((each.value for each in call.keywords if each.arg == name), None)
    if named is not None:
        return named
    before = call.args[: place + 1]
    if any(isinstance(each, ast.Starred) for each in before):
        return None
    return before[place] if len(before) > place else None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _text(node: ast.expr | None, told: Told | None = None) -> str:
    """Return the text that an expression is or begins with; ``told`` looks up named constants."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr) and node.values:
        return "".join(_text(each) or "?" for each in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left, told)
    if isinstance(node, ast.Call) and node.args:
        # sqlalchemy.text("..."), psycopg.sql.SQL("...")
        return _text(node.args[0], told)
    if isinstance(node, ast.Name) and told is not None:
        return told(node)
    return ""
