"""Does the table tell effects from reads by package, name and arguments? (P165)"""

from __future__ import annotations

import ast

import pytest

from nottwice.guard.check.effect_table import CALLS, SERVICES, effect_of, telling_effect


def told(source: str, origin: str) -> str | None:
    call = ast.parse(source, mode="eval").body
    assert isinstance(call, ast.Call)
    return effect_of(origin, call, lambda node: "")


@pytest.mark.parametrize(
    ("source", "origin", "what"),
    [
        ("f('url')", "httpx.Client.post", "sends a request"),
        ("f('post', 'url')", "requests.request", "sends a request"),
        ("f(method, 'url')", "aiohttp.ClientSession.request", "sends a request"),
        ("f(*everything)", "httpx.request", "sends a request"),
        ("f('a', 'w')", "io.open", "changes files"),
        ("f('w')", "pathlib.Path.open", "changes files"),
        ("f(['git', 'push'])", "subprocess.run", "starts a program"),
        ("f(['git', name])", "subprocess.run", "starts a program"),
        ("f('git log > out')", "subprocess.run", "starts a program"),
        ("f('x')", "os.spawnlp", "starts a program"),
        ("f('host', 1)", "asyncio.open_connection", "sends a request"),
        ("f(message)", "smtplib.SMTP.send_message", "sends mail"),
        ("f('insert into t values (1)')", "sqlite3.Connection.execute", "writes to a database"),
        ("f(text('UPDATE t SET a = 1'))", "sqlalchemy.Connection.execute", "writes to a database"),
        ("f(data)", "psycopg.Cursor.executemany", "writes to a database"),
        ("f()", "stripe.PaymentIntent.create", "changes something in a service"),
        ("f()", "google.cloud.storage.Client.upload_blob", "changes something in a service"),
        ("f()", "git.Repo.remotes.origin.push", "changes something in a service"),
    ],
)
def test_an_effect_is_told(source: str, origin: str, what: str) -> None:
    assert told(source, origin) == what


@pytest.mark.parametrize(
    ("source", "origin"),
    [
        ("f('url')", "httpx.Client.get"),
        ("f('GET', 'url')", "httpx.request"),
        ("f(method='HEAD', url='url')", "requests.request"),
        ("f('a')", "io.open"),
        ("f('a', mode='rb')", "builtins.open"),
        ("f()", "pathlib.Path.open"),
        ("f(['git', 'diff'])", "subprocess.run"),
        ("f('SELECT 1')", "sqlite3.Connection.execute"),
        ("f('PRAGMA user_version')", "sqlite3.Connection.execute"),
        ("f()", "stripe.PaymentIntent.retrieve"),
        ("f()", "boto3.client.list_objects_v2"),
        ("f()", "github.Github.get_repo"),
        ("f()", "json.dumps"),
        ("f()", "openai.OpenAI.responses.create"),
        ("f('url')", "urllib.request.urlopen"),
    ],
)
def test_a_read_is_not_told(source: str, origin: str) -> None:
    assert told(source, origin) is None


def test_what_is_only_handed_on_is_judged_by_its_name_alone() -> None:
    assert effect_of("httpx.post", None, lambda node: "") == "sends a request"
    assert effect_of("builtins.open", None, lambda node: "") is None


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x.write_text('a')", "changes files"),
        ("x.execute('DELETE FROM t')", "writes to a database"),
        ("x.execute('SELECT 1')", None),
        ("x.update({})", None),
        ("x.send('a')", None),
    ],
)
def test_on_something_unknown_only_a_telling_name_counts(source: str, found: str | None) -> None:
    call = ast.parse(source, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Attribute)
    assert telling_effect(call.func.attr, call) == found


def test_no_package_is_in_both_tables() -> None:
    assert not SERVICES & CALLS.keys()
