"""A ledger that another program wrote into: a reader gets an answer or a typed error.

Each example changes one cell of a real ledger with plain SQL, or one place of a JSON file, and then
does everything that reads: the command line, a resume, a decision, a copy.
"""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import nottwice as nt
from nottwice.cli.main import main
from nottwice.errors import NottwiceError
from tests.spoiling import ODD, TEXTS, places, spoiled, spoiled_data

CELLS: list[Any] = [
    None,
    b"\xff\xfe",
    -1,
    2**63 - 1,
    -(2**63),
    1e308,
    math.inf,
    -math.inf,
    0.5,
    "a\0b",
    "x@1.0.9999999999",
]
NOT_UTF8 = "not UTF-8"
READING = [
    "",
    "runs",
    "runs --by-version",
    "runs --ready",
    "workers",
    "report --json",
    "show guard --all",
    "show guard --all --json",
    "show flow",
    "show flow --json",
    "reviews",
    "reviews --json",
    "audit",
    "audit --lines",
    "history flow",
    "history flow --at 1",
    "history flow --diff 0 1",
    "gc --dry-run",
]


@nt.tool("pure", name="spoiled look")
def look(x: int) -> int:
    return x


@nt.tool("idempotent_with_key", key="key-{x}", window="24h", name="spoiled book")
def book(x: int) -> dict[str, int]:
    return {"booked": x}


@nt.tool("unsafe_on_replay", name="spoiled send")
def send(x: int) -> str:
    if x == 0:
        raise nt.Permanent("no")
    if x < 0:
        raise TimeoutError("late")
    return "sent"


flow = nt.Graph("spoiled", version="1.0.0")


@flow.node
def first(state: dict[str, Any]) -> dict[str, Any]:
    return {"list": [look(1), 2, 3]}


@flow.node
def second(state: dict[str, Any]) -> dict[str, Any]:
    return {"sent": send(1)}


@flow.node
def third(state: dict[str, Any]) -> dict[str, Any]:
    return {"answer": nt.ask("Go on?", options=["yes", "no"])}


@flow.node
def fourth(state: dict[str, Any]) -> dict[str, Any]:
    return {"heard": nt.receive("paid")}


def resume_guard(store: str) -> None:
    with nt.run("guard", store=store):
        look(1)
        book(2)
        with nt.step("step"):
            send(3)
        with pytest.raises(nt.Permanent):
            send(0)
        send(-1)


def resume_flow(store: str) -> None:
    flow.run("flow", {"z": 1}, store=store)


def fill(store: str) -> None:
    """A run with a call of every status, and one of a graph that a person answered."""
    with pytest.raises(nt.errors.ReplayUnsafeError):
        resume_guard(store)
    resume_flow(store)
    listed = CliRunner().invoke(main, ["reviews", "--json", "--store", store])
    (asked,) = (one for one in json.loads(listed.stdout)["reviews"] if one["kind"] == "question")
    told = [f"decide {asked['review_id']} yes --by ann", "send flow paid --data 7 --by ann"]
    for words in told:
        assert CliRunner().invoke(main, [*words.split(), "--store", store]).exit_code == 0


def uses(store: str, beside: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    for words in READING:
        yield f"nottwice {words}", partial(command, words, store)
    yield "resume the flow", lambda: resume_flow(store)
    yield "resume the guard", lambda: resume_guard(store)
    yield "copy", lambda: nt.backup(beside / "copy", store=store)
    yield "cancel", lambda: command("cancel flow --why it --by ann", store)


def command(words: str, store: str) -> None:
    result = CliRunner().invoke(main, [*words.split(), "--store", store])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception


def use_all(store: str, beside: Path, what: object) -> None:
    for name, use in uses(store, beside):
        try:
            use()
        except NottwiceError:
            continue
        except Exception as error:
            raise AssertionError(f"{name} stumbled over {what!r}") from error


# SQLite


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spoiled") / "base.db"
    fill(str(path))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # An attacker who can write can also do this.
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        connection.execute("DROP TRIGGER " + name)
    connection.close()
    return path


def cells(path: Path) -> list[tuple[str, str, str | None]]:
    """Every column, and every JSON text in one: the table, the column, and what it holds."""
    connection = sqlite3.connect(path)
    found: list[tuple[str, str, str | None]] = []
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    for (table,) in connection.execute(tables).fetchall():
        for column in connection.execute("SELECT name FROM pragma_table_info(?)", (table,)):
            found.append((table, column[0], None))
            if column[0].endswith("_json"):
                held = connection.execute(" ".join(("SELECT DISTINCT", column[0], "FROM", table)))
                found += [(table, column[0], text) for (text,) in held if text is not None]
    connection.close()
    return found


def overwrite(path: Path, table: str, column: str, old: str | None, value: Any) -> bool:
    connection = sqlite3.connect(path)
    new = "CAST(x'ff31' AS TEXT)" if value == NOT_UTF8 else "?"
    parameters = [] if value == NOT_UTF8 else [value]
    words = ["UPDATE OR IGNORE", table, "SET", column, "=", new]
    if old is not None:
        words += ["WHERE", column, "= ?"]
        parameters.append(old)
    try:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        with connection:
            return connection.execute(" ".join(words), parameters).rowcount > 0
    except sqlite3.IntegrityError:
        return False
    finally:
        connection.close()


@given(data=st.data())
@settings(max_examples=25)
def test_a_changed_cell_is_a_typed_error_or_does_no_harm(
    database: Path, data: st.DataObject
) -> None:
    table, column, held = data.draw(st.sampled_from(cells(database)))
    if held is None:
        value = data.draw(st.one_of(st.sampled_from([*CELLS, NOT_UTF8]), TEXTS))
    else:
        plain = json.loads(held)
        value = data.draw(TEXTS if not [*places(plain)] else spoiled_data(plain).map(json.dumps))
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        shutil.copy(database, path)
        if overwrite(path, table, column, held, value):
            use_all(str(path), Path(folder), (table, column, str(value)[:200]))


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("nottwice_runs", "input_json", None),
        ("nottwice_reviews", "decision_json", None),
        ("tool_call_results", "status", "DONE"),
        ("tool_call_results", "status", "FAILED"),
        ("nottwice_runs", "created_at", math.inf),
        ("nottwice_runs", "ready_at", -math.inf),
        ("nottwice_runs", "graph_id", b"\xff\xfe"),
        ("nottwice_openings", "usd", -math.inf),
        ("nottwice_openings", "usd", 1e308),
        ("tool_call_results", "window_seconds", math.inf),
    ],
)
def test_a_record_that_no_process_wrote_is_a_typed_error(
    database: Path, tmp_path: Path, table: str, column: str, value: Any
) -> None:
    path = tmp_path / "a.db"
    shutil.copy(database, path)
    assert overwrite(path, table, column, None, value)
    use_all(str(path), tmp_path, (table, column, value))


# JSON files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spoiled") / "base"
    fill(f"file:{path}")
    return path


def raw_damage(content: bytes) -> list[bytes]:
    half = content[: len(content) // 2]
    deep = b"[" * 20_000 + b"]" * 20_000
    return [b"", b"\xff", b"{}", b"[]", b"null", b"\0" * 9, deep, half, content + content]


@given(data=st.data())
@settings(max_examples=20)
def test_a_changed_file_is_a_typed_error_or_does_no_harm(files: Path, data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(sorted(one for one in files.rglob("*") if one.is_file())))
    content = file.read_bytes()
    lines = content.splitlines() if file.suffix in (".jsonl", ".inbox") else [content]
    number = data.draw(st.integers(0, max(0, len(lines) - 1)))
    if not content or data.draw(st.integers(0, 9)) == 0:
        changed = data.draw(st.sampled_from(raw_damage(content)))
    else:
        plain = json.loads(lines[number])
        where = data.draw(st.sampled_from([*places(plain)]))
        odd = spoiled(plain, where, data.draw(st.sampled_from(ODD)))
        lines[number] = json.dumps(odd).encode()
        changed = b"\n".join(lines)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "runs"
        shutil.copytree(files, place)
        (place / file.relative_to(files)).write_bytes(changed)
        use_all(f"file:{place}", Path(folder), (file.name, changed[:200]))
