"""Hostile input is stored exactly, or refused with its place before anything happens.

Nothing that a model, a user or an upstream can make up forges a log line, reaches another file,
becomes a second effect, or is silently turned into something else.
"""

from __future__ import annotations

import copy
import io
import itertools
import logging
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import nottwice as nt
from nottwice.model import values
from nottwice.model.call import ResultKind
from tests.tidy.source import ROOT


class Sender:
    """A tool that counts what it sends; its parameter takes anything, or a certain type."""

    def __init__(self, annotation: Any = Any) -> None:
        self.sent: list[Any] = []

        def send(thing: Any) -> str:
            self.sent.append(thing)
            return f"sent {len(self.sent)}"

        send.__annotations__ = {"thing": annotation, "return": str}
        declare: Any = nt.tool
        self.send = declare("unsafe_on_replay", name="hostile send")(send)


# Arguments


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def cycle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = [value]
    return value


class Unreadable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no eq")

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no iter")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


REFUSED: dict[str, Callable[[], Any]] = {
    "not a number": lambda: math.nan,
    "infinity": lambda: math.inf,
    "minus infinity": lambda: -math.inf,
    "lone surrogate": lambda: "a\ud800b",
    "lone surrogate as a key": lambda: {"a\ud800": 1},
    "5,000 digits": lambda: 10**5000,
    "depth 100,000": lambda: deep(100_000),
    "cycle": cycle,
    "number as a key": lambda: {1: 2},
    "None as a key": lambda: {None: 2},
    "tuple as a key": lambda: {(1, 2): 2},
    "set": lambda: {1},
    "frozenset": lambda: frozenset("a"),
    "bytes": lambda: b"a",
    "bytearray": lambda: bytearray(b"a"),
    "generator": lambda: (each for each in "ab"),
    "iterator": lambda: iter([1]),
    "function": lambda: len,
    "lambda": lambda: lambda: 1,
    "class": lambda: int,
    "module": lambda: os,
    "open file": lambda: io.StringIO("a"),
    "object": object,
    "unreadable object": Unreadable,
    "complex number": lambda: 1j,
}
PLACES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "bare": (lambda value: value, "thing"),
    "in a list": (lambda value: [0, value], "thing[1]"),
    "deep inside": (lambda value: {"a": [{"b c": value}]}, 'thing.a[0]["b c"]'),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", REFUSED)
def test_an_argument_that_cannot_be_kept_is_refused_with_its_path(what: str, place: str) -> None:
    sender, ledger = Sender(), nt.Ledger(":memory:")
    put, path = PLACES[place]
    with ledger.run("r"), pytest.raises(nt.errors.NotPlainData) as caught:
        sender.send(put(REFUSED[what]()))
    where = "thing" if what in ("depth 100,000", "cycle") else path
    assert caught.value.path == where
    text = str(caught.value)
    assert where in text
    assert "'hostile send'" in text
    assert "The tool was not run." in text
    assert text.isprintable()
    assert (sender.sent, ledger.store.calls("r")) == ([], [])


TYPES: list[Any] = [
    int,
    float,
    str,
    bool,
    list,
    list[str],
    tuple[int, ...],
    dict,
    dict[str, int],
    dict[str, list[str]],
    str | None,
    list[int] | dict[str, int],
]


@pytest.mark.parametrize("annotation", TYPES, ids=str)
def test_an_annotated_parameter_lets_none_of_it_through(annotation: Any) -> None:
    sender, ledger = Sender(annotation), nt.Ledger(":memory:")
    for what, place in itertools.product(REFUSED, PLACES):
        del sender.sent[:]
        run_id = f"{what} {place}"
        error = refusal(ledger.run(run_id), sender, PLACES[place][0](REFUSED[what]()))
        if error is not None:
            assert (sender.sent, ledger.store.calls(run_id)) == ([], [])
            assert "thing" in str(error)
            assert "was not run" in str(error)
            assert str(error).isprintable()
        else:
            (sent,) = sender.sent
            assert is_ordered_text_or_numbers(sent), f"{run_id} became {sent!r}"


def refusal(run: nt.types.Run, sender: Sender, value: Any) -> nt.errors.UsageError | None:
    with run:
        try:
            sender.send(value)
        except (nt.errors.NotPlainData, nt.errors.InvalidArguments) as error:
            return error
    return None


def is_ordered_text_or_numbers(value: Any) -> bool:
    """What a generator, a file or bytes may be read as, where the annotation asks for it."""
    items = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(each, str | int) for each in items)


@pytest.mark.parametrize(
    "annotation", [list[str], tuple[str, ...], list, dict[str, list[str]], list[list[str]]]
)
@pytest.mark.parametrize("make", [set, frozenset])
def test_a_set_is_never_read_as_a_list_because_its_order_changes_with_the_process(
    annotation: Any, make: Callable[[str], Any]
) -> None:
    """The resumed process would compute another hash, and send again."""
    sender, ledger = Sender(annotation), nt.Ledger(":memory:")
    put: dict[Any, Callable[[Any], Any]] = {
        dict[str, list[str]]: lambda value: {"a": value},
        list[list[str]]: lambda value: [["x"], value],
    }
    with (
        ledger.run("r"),
        pytest.raises(nt.errors.NotPlainData, match="Use a sorted list") as caught,
    ):
        sender.send(put.get(annotation, lambda value: value)(make("abc")))
    assert caught.value.path.startswith("thing")
    assert (sender.sent, ledger.store.calls("r")) == ([], [])


ORDER_OF_A_SET = """
import nottwice as nt
@nt.tool("unsafe_on_replay")
def send(names: list[str]) -> None: ...
with nt.Ledger(":memory:").run("r"):
    try:
        print(send.receipt({chr(97 + i) * 5 for i in range(20)}).id)
    except nt.errors.NotPlainData:
        print("refused")
"""


def test_the_identity_of_a_call_does_not_hang_on_the_seed_of_a_process() -> None:
    answers = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")}
        answers.add(
            subprocess.run(
                [sys.executable, "-c", ORDER_OF_A_SET],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout
        )
    assert answers == {"refused\n"}


KEPT: dict[str, Any] = {
    "NUL": "a\0b",
    "escape": "\x1b[31mred\x1b[0m",
    "line ends": "a\nb\r\nc\u2028d\x85e",
    "right to left": "\u202eabc\u202c",
    "emoji": "👨\u200d👩\u200d👧",
    "quotes": "'\"`$(rm -rf ~); DROP TABLE runs; --",
    "not a character": "\uffff\U0010ffff",
    "combining": "e\u0301 is not \u00e9",
    "64-bit id": 2**64 + 1,
    "2,000 digits": 10**2000,
    "smallest double": 5e-324,
    "keys": {"": 1, "a\0b": 2, "🧾": 3, "__proto__": 4},
    "127 levels": deep(125),
    "a million characters": "x" * 1_000_000,
    "a hundred thousand items": list(range(100_000)),
}


@pytest.mark.parametrize("what", KEPT)
def test_what_plain_data_can_hold_is_kept_to_the_letter(what: str, tmp_path: Path) -> None:
    sender, value = Sender(), KEPT[what]
    for _ in range(2):
        with nt.Ledger(tmp_path / "a.db") as ledger, ledger.run("r"):
            assert sender.send(value) == "sent 1"
            (row,) = ledger.store.calls("r")
    assert sender.sent == [value]
    assert values.decode(row.args_json) == {"thing": value}


def test_a_result_of_100_mb_reaches_its_caller_and_not_the_ledger(tmp_path: Path) -> None:
    @nt.tool("unsafe_on_replay")
    def hostile_result() -> str:
        return "x" * 100_000_000

    with nt.Ledger(tmp_path / "a.db") as ledger:
        with ledger.run("r"):
            assert len(hostile_result()) == 100_000_000
            with pytest.raises(nt.errors.ResultNotKept, match="100,000,002 characters"):
                hostile_result()
        (row,) = ledger.store.calls("r")
    assert row.result is not None
    assert row.result.kind is ResultKind.NOT_KEPT
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1_000_000


HUGE = 20_000_000


@nt.tool("unsafe_on_replay", name="hostile huge")
def huge(text: str) -> str:
    return text * 4


@nt.tool("unsafe_on_replay", name="hostile deep")
def deep_result() -> list[Any]:
    return deep(100_000)


def check_huge(ledger: nt.Ledger) -> None:
    """An argument of 5 MB is kept to the letter; results of 20 MB or without end are not kept."""
    text = "x" * (HUGE // 4)
    with ledger.run("huge"):
        assert len(huge(text)) == HUGE
        assert len(deep_result()) == 1
        for again in (lambda: huge(text), deep_result):
            with pytest.raises(nt.errors.ResultNotKept):
                again()
    kept, deepest = ledger.store.calls("huge")
    assert values.decode(kept.args_json) == {"text": text}
    for row in (kept, deepest):
        assert row.result is not None
        assert row.result.kind is ResultKind.NOT_KEPT
        assert len(row.result.json) < 10_000


@pytest.mark.parametrize("store", [":memory:", "a.db", "file:runs"])
def test_what_is_huge_breaks_no_store(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with nt.Ledger(store) as ledger:
        check_huge(ledger)


# Ids, steps, visits and labels

IDS: dict[str, str] = {
    "SQL": "'; DROP TABLE tool_call_results; --",
    "SQL wildcards": "%_*?[a-z]\\",
    "path": "../../../../etc/passwd",
    "absolute path": "/etc/passwd",
    "dots": "..",
    "percent codes": "%2F%2e%00",
    "branch": "map send[0]",
    "spaces": "   ",
    "shell": "$(touch hacked); `touch hacked` | rm -rf ~ &",
    "format": "{0} {run} %s %(message)s %r",
    "emoji": "🧾🔥",
    "joined emoji": "👨\u200d👩\u200d👧",
    "combining": "e\u0301",
    "Arabic": "تذكرة",
    "long": "x" * 512,
    "empty": "",
    "too long": "x" * 513,
    "1 MB": "x" * 1_000_000,
    "newline": "a\nrun='forged' step='/' tool=send call=0 decision='run'",
    "carriage return": "a\rb",
    "NUL": "a\0b",
    "escape": "a\x1b[2Jb",
    "right to left": "a\u202eb",
    "line separator": "a\u2028b",
    "byte order mark": "\ufeffa",
    "lone surrogate": "a\ud800b",
    "not a character": "a\U0010ffffb",
}
REFUSED_IDS = {
    "joined emoji",
    "empty",
    "too long",
    "1 MB",
    "newline",
    "carriage return",
    "NUL",
    "escape",
    "right to left",
    "line separator",
    "byte order mark",
    "lone surrogate",
    "not a character",
}
Use = Callable[[nt.Ledger, Sender, str], None]


def as_run(ledger: nt.Ledger, sender: Sender, text: str) -> None:
    with ledger.run(text):
        sender.send("ann")


def as_step(ledger: nt.Ledger, sender: Sender, text: str) -> None:
    with ledger.run("r"), nt.step(text):
        sender.send("ann")


def as_visit(ledger: nt.Ledger, sender: Sender, text: str) -> None:
    with ledger.run("r"), nt.step("s", at=text):
        sender.send("ann")


def as_label(ledger: nt.Ledger, sender: Sender, text: str) -> None:
    with ledger.run("r"):
        sender.send.again(text)("ann")


def as_branches(ledger: nt.Ledger, sender: Sender, text: str) -> None:
    with ledger.run("r"):
        nt.map(sender.send, ["ann"], name=text or "\0")


def run_ids(ledger: nt.Ledger) -> list[str]:
    return [run.workflow_id for run in ledger.store.runs()]


def step_names(ledger: nt.Ledger) -> list[str]:
    return [unquote(step.node_id) for step in ledger.store.steps("r")]


def visits(ledger: nt.Ledger) -> list[str]:
    found = [step.checkpoint_id for step in ledger.store.steps("r")]
    return [unquote(each.removeprefix("start/")) for each in found]


def labels(ledger: nt.Ledger) -> list[str]:
    return [str(row.label) for row in ledger.store.calls("r")]


def branches(ledger: nt.Ledger) -> list[str]:
    found = [row.identity.node_id for row in ledger.store.calls("r")]
    return [unquote(each.removesuffix("[0]")) for each in found]


USES: dict[str, tuple[Use, Callable[[nt.Ledger], list[str]]]] = {
    "run": (as_run, run_ids),
    "step": (as_step, step_names),
    "visit": (as_visit, visits),
    "label": (as_label, labels),
    "branches": (as_branches, branches),
}


@pytest.mark.parametrize("what", IDS)
@pytest.mark.parametrize("place", USES)
def test_an_id_is_kept_to_the_letter_or_refused(
    place: str, what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "ledgers"
    folder.mkdir()
    caplog.set_level(logging.DEBUG, logger="nottwice")
    (use, read), sender, text = USES[place], Sender(), IDS[what]
    refused = what in REFUSED_IDS
    for _ in range(2):
        with nt.Ledger(folder / "a.db") as ledger:
            if refused:
                with pytest.raises(nt.errors.InvalidId) as caught:
                    use(ledger, sender, text)
                assert "Nothing happened" in str(caught.value)
                assert str(caught.value).isprintable()
            else:
                use(ledger, sender, text)
            assert read(ledger) == ([] if refused else [text])
    assert sender.sent == ([] if refused else ["ann"])
    check_log(caplog, decisions=0 if refused else 2)
    assert [path.name for path in tmp_path.iterdir()] == ["ledgers"]
    assert {path.name.partition(".db")[0] for path in folder.iterdir()} == {"a"}


def check_log(caplog: pytest.LogCaptureFixture, *, decisions: int) -> None:
    """One line a decision, and nothing that a terminal would take for more than text."""
    lines = [record.getMessage() for record in caplog.records if record.name == "nottwice"]
    assert all(line.isprintable() for line in lines)
    about_calls = [line for line in lines if line.startswith("run=") and " call=" in line]
    assert len(about_calls) == decisions


def test_ids_that_only_look_alike_are_different(tmp_path: Path) -> None:
    alike = ["a", "A", "a ", " a", "á", "a\u0301", "а", "a%", "a_", "a/", "a[0]", "a%2F", "ａ"]
    sender = Sender()
    with nt.Ledger(tmp_path / "a.db") as ledger:
        for run_id in alike:
            with ledger.run(run_id):
                for name in alike:
                    with nt.step(name):
                        sender.send(run_id)
        assert len(sender.sent) == len(alike) ** 2
        assert sorted(run_ids(ledger)) == sorted(alike)
        for run_id in alike:
            assert len(ledger.store.calls(run_id)) == len(alike)


# Texts that come from outside

FORGED = "down\nrun='forged' step='/' tool=send call=0 decision='return the receipt'\x1b[2J\u202e"


def test_no_text_of_an_upstream_can_forge_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="nottwice")

    def verify(call: nt.Call) -> nt.Verification:
        raise ValueError(FORGED)

    @nt.tool("unsafe_on_replay", verify=verify)
    def hostile_doubt(x: int) -> str:
        raise ConnectionError(FORGED)

    @nt.tool("unsafe_on_replay")
    def hostile_failure(x: int) -> str:
        raise nt.Permanent(FORGED)

    @nt.tool("pure")
    def hostile_pure(x: int) -> object:
        return type(f"Odd{FORGED}", (), {"__repr__": lambda self: FORGED})()

    ledger = nt.Ledger(":memory:")
    with ledger.run("r"):
        hostile_pure(1)
        with pytest.raises(nt.Permanent):
            hostile_failure(1)
        with pytest.raises(nt.errors.ReplayUnsafeError):
            hostile_doubt(1)
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if not line.isprintable()] == []
    assert len([line for line in lines if "verify raised ValueError: down" in line]) >= 1
    assert not [line for line in lines if line.startswith("run='forged'")]


@pytest.mark.parametrize("what", ["shell", "SQL", "spaces", "format", "absolute path"])
def test_a_command_in_an_error_is_safe_to_paste(what: str, tmp_path: Path) -> None:
    run_id = IDS[what]

    @nt.tool("unsafe_on_replay")
    def hostile_unkept() -> object:
        return object()

    @nt.tool("unsafe_on_replay")
    def hostile_doubtful() -> str:
        raise TimeoutError

    path = tmp_path / f"a {what} $(touch hacked).db"
    with nt.Ledger(path) as ledger:
        with ledger.run(run_id):
            hostile_unkept()
            with pytest.raises(nt.errors.ResultNotKept) as unkept:
                hostile_unkept()
        with ledger.run(f"{run_id} too"):
            with pytest.raises(nt.errors.ReplayUnsafeError) as doubtful:
                hostile_doubtful()
    for error in (unkept.value, doubtful.value):
        decide = str(error).rpartition("Decide with: ")[2]
        assert shlex.split(decide)[:2] == ["nottwice", "decide"], str(error)
        assert shlex.split(decide)[-2:] == ["--store", str(path.resolve())]


@pytest.mark.parametrize("what", ["shell", "SQL", "absolute path"])
def test_a_command_about_a_child_run_is_safe_to_paste(what: str) -> None:
    """The id of a child begins with that of its parent, which any user may have chosen."""
    child, parent = nt.Graph("hostile child", version="1.0.0"), nt.Graph("p", version="1.0.0")
    told: list[str] = []

    @child.node
    def listen(state: dict[str, Any]) -> None:
        nt.receive("paid")

    @parent.node
    def spawn(state: dict[str, Any]) -> None:
        try:
            nt.spawn(child, {})
        except nt.RunWaits as waits:
            told.append(str(waits))
            raise

    outcome = parent.run(IDS[what], {}, store=nt.Ledger(":memory:"))
    assert outcome.status == "waiting"
    command = shlex.split(told[0].rpartition("See: ")[2])
    assert command[:2] == ["nottwice", "show"]
    assert command[2].startswith(IDS[what])
    assert len(command) == 3


def test_no_exception_of_ours_carries_control_characters() -> None:
    """Printed as it is, by a traceback or by print(error), it must not steer a terminal."""
    evil = "gone\x1b[2J\x07\r\u202e\x9b\x00\ud800"

    @nt.tool("unsafe_on_replay", name="hostile_text")
    def act(x: str) -> None:
        raise nt.Permanent(evil)

    with nt.Ledger(":memory:").run("r"), pytest.raises(nt.Permanent) as caught:
        act("x")
    for error in (
        caught.value,
        nt.errors.UsageError(evil),
        copy.copy(nt.errors.DeniedByPolicy(evil)),
    ):
        for text in (str(error), error.message):
            assert "gone" in text
            assert all(each.isprintable() or each in "\n\t" for each in text)
