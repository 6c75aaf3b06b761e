"""Is every entry in a note once, even if a process dies, repeats or writes beside it? (P79)"""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.calls import scratchpad
from nottwice.agent.calls.scratchpad import MOST_CHARACTERS, Scratchpad
from nottwice.guard.check.clients import Retries
from nottwice.guard.check.report import report_on
from nottwice.model.replay_class import ReplayClass
from nottwice.store.machine import confined_files
from tests.recipes.killing import AROUND_THE_EFFECT, fork, kill_at, kill_at_lines, work_on

LINES = int(os.environ.get("SCRATCHPAD_LINES", "9"))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def pad(tmp_path: Path) -> Scratchpad:
    return Scratchpad(tmp_path / "notes")


def tool(pad: Scratchpad, name: str) -> Any:
    (found,) = [each for each in pad.tools if each.tool.name == name]
    return found


def test_notes_are_written_added_to_read_and_listed(pad: Scratchpad, ledger: Path) -> None:
    with nt.run("run", store=str(ledger)):
        assert tool(pad, "read_note")(note="ann") is None
        written = tool(pad, "write_note")(note="ann", text="# Ann\nlikes tea")
        assert written == {"note": "ann", "output_file": "ann.md", "characters": 15}
        tool(pad, "add_to_note")(note="ann", text="no sugar")
        tool(pad, "add_to_note")(note="orders/7", text="Grüße")
        with nt.step("later"):
            assert tool(pad, "read_note")(note="ann") == "# Ann\nlikes tea\n\nno sugar"
            assert tool(pad, "list_notes")() == [
                {"note": "ann", "characters": 25, "begins": "# Ann"},
                {"note": "orders/7", "characters": 5, "begins": "Grüße"},
            ]
    assert pad.names() == ["ann", "orders/7"]
    assert pad.read("orders/7") == "Grüße"
    assert (
        (Path(pad.folder) / "ann.md").read_text().startswith("# Ann\nlikes tea\n\nno sugar\n<!--")
    )


def test_reads_are_pure_and_writes_are_keyed_and_nothing_is_to_complain(pad: Scratchpad) -> None:
    kinds = {each.tool.name: each.tool.replay_class for each in pad.tools}
    assert kinds == {
        "list_notes": ReplayClass.PURE,
        "read_note": ReplayClass.PURE,
        "write_note": ReplayClass.IDEMPOTENT_WITH_KEY,
        "add_to_note": ReplayClass.IDEMPOTENT_WITH_KEY,
    }
    for each in pad.tools:
        report = report_on(each)
        assert (report.findings, report.answers.retries) == ((), Retries.NONE_KNOWN)


@pytest.mark.parametrize("place", AROUND_THE_EFFECT)
@pytest.mark.parametrize("name", ["write_note", "add_to_note"])
def test_an_entry_whose_writer_was_killed_is_there_once(
    pad: Scratchpad, ledger: Path, name: str, place: str
) -> None:
    pad.ingest("first", "ann", "likes tea")

    def work() -> Any:
        return tool(pad, name)(note="ann", text="no sugar")

    kill_at(place, ledger, work)
    work_on(ledger, work)
    expected = "no sugar" if name == "write_note" else "likes tea\n\nno sugar"
    assert pad.read("ann") == expected


def test_killed_at_any_line_that_writes_an_entry_is_there_once(
    pad: Scratchpad, tmp_path: Path
) -> None:
    number = 0

    def work() -> Any:
        ledger = tmp_path / f"{number}.db"
        add = tool(pad, "add_to_note")
        return work_on(ledger, lambda: add(note="ann", text=f"entry {number}"))

    for line in kill_at_lines((scratchpad, confined_files), work, every=LINES):
        entries = [f"entry {each}" for each in range(number)]
        assert (pad.read("ann") or "").split() in (
            " ".join(entries).split(),
            " ".join([*entries, f"entry {number}"]).split(),
        ), f"killed at line {line}"
        work()
        entries.append(f"entry {number}")
        assert pad.read("ann") == "\n\n".join(entries), f"killed at line {line}"
        number += 1
    assert number > 5
    assert sorted(os.listdir(pad.folder)) == [".lock", "ann.md"]


def test_a_write_that_was_overtaken_by_another_run_is_not_made_again(
    pad: Scratchpad, ledger: Path
) -> None:
    """Killed after its effect; meanwhile another run has rewritten the note."""
    write = tool(pad, "write_note")
    kill_at("before result", ledger, lambda: write(note="ann", text="first"))
    with nt.run("another run", store=str(ledger)):
        write(note="ann", text="second")
    work_on(ledger, lambda: write(note="ann", text="first"))
    assert pad.read("ann") == "second"


def test_what_a_receipt_told_is_ingested_once(pad: Scratchpad) -> None:
    assert pad.ingest("receipt-1", "log", "ordered") is True
    assert pad.ingest("receipt-2", "log", "paid") is True
    assert pad.ingest("receipt-1", "log", "ordered") is False
    assert pad.read("log") == "ordered\n\npaid"
    # Another note is another matter.
    assert pad.ingest("receipt-1", "other", "ordered") is True


def test_two_processes_lose_nothing_of_each_other(pad: Scratchpad) -> None:
    children = [fork(partial(_ingest_many, pad, child)) for child in range(2)]
    _ingest_many(pad, 2)
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    entries = (pad.read("log") or "").split("\n\n")
    shared = [f"shared {number}" for number in range(20)]
    own = [f"{child} {number}" for child in range(3) for number in range(20)]
    assert sorted(entries) == sorted([*shared, *own])


def _ingest_many(pad: Scratchpad, child: int) -> None:
    for number in range(20):
        pad.ingest(f"own-{child}-{number}", "log", f"{child} {number}")
        pad.ingest(f"shared-{number}", "log", f"shared {number}")


def test_a_note_that_is_being_written_is_tried_again(pad: Scratchpad, ledger: Path) -> None:
    with scratchpad._locked(pad.folder, wait=True):
        impatient = tool(pad, "add_to_note")
        with pytest.raises(nt.Retryable, match="another one is being written"):
            work_on(ledger, lambda: impatient(note="ann", text="x"))
    with nt.run("run", store=str(ledger)):
        impatient.retry(note="ann", text="x")
    assert pad.read("ann") == "x"


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../out", "/etc/passwd", "a/../b", "A", "a b", ".lock", "a/.b", "a" * 101, "ä"],
)
def test_no_name_leads_out_or_hides(pad: Scratchpad, ledger: Path, name: str) -> None:
    for each in ("read_note", "write_note", "add_to_note"):
        arguments = {"note": name} if each == "read_note" else {"note": name, "text": "x"}
        with pytest.raises(nt.errors.InvalidArguments):
            work_on(ledger, partial(tool(pad, each), **arguments))
    for use in (lambda: pad.read(name), lambda: pad.ingest("receipt", name, "x")):
        with pytest.raises(nt.errors.InvalidArguments):
            use()
    assert not list(Path(pad.folder).rglob("*.md"))


def test_links_are_not_followed(pad: Scratchpad, ledger: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    Path(pad.folder).mkdir()
    (Path(pad.folder) / "ann.md").symlink_to(tmp_path / "secret.md")
    (Path(pad.folder) / "out").symlink_to(tmp_path)
    for name in ("ann", "out/secret"):
        with pytest.raises(nt.Permanent):
            work_on(ledger, partial(tool(pad, "write_note"), note=name, text="x"))
        with pytest.raises(confined_files.NotAFile):
            pad.read(name)
    assert (tmp_path / "secret.md").read_text() == "secret"


def test_a_file_that_a_person_wrote_or_edited_is_a_note(pad: Scratchpad) -> None:
    Path(pad.folder).mkdir()
    (Path(pad.folder) / "ann.md").write_text("written by hand\n")
    assert pad.read("ann") == "written by hand\n"
    pad.ingest("receipt-1", "ann", "more")
    assert pad.read("ann") == "written by hand\n\nmore"
    assert pad.ingest("receipt-1", "ann", "more") is False


@pytest.mark.parametrize(
    "text", ["", "<!-- nottwice abc -->", "a\n<!-- nottwice -->", "\n\n", "x\r\n"]
)
def test_whatever_a_note_says_it_is_read_again(pad: Scratchpad, ledger: Path, text: str) -> None:
    work_on(ledger, lambda: tool(pad, "write_note")(note="ann", text=text))
    assert pad.read("ann") == text


def test_a_note_that_grows_too_long_is_told(pad: Scratchpad, ledger: Path) -> None:
    add = tool(pad, "add_to_note")
    with nt.run("run", store=str(ledger)):
        with pytest.raises(nt.errors.InvalidArguments):
            add(note="ann", text="x" * (MOST_CHARACTERS + 1))
        add(note="ann", text="x" * MOST_CHARACTERS)
        with pytest.raises(nt.Permanent, match="limit"):
            add(note="ann", text="y")
    assert re.fullmatch("x+", pad.read("ann") or "")


def test_two_scratchpads_need_two_names(pad: Scratchpad, tmp_path: Path) -> None:
    with pytest.raises(nt.errors.InvalidTool, match="Give it another name"):
        Scratchpad(tmp_path / "elsewhere")
    other = Scratchpad(tmp_path / "elsewhere", name="diary")
    assert [each.tool.name for each in other.tools] == [
        "list_diarys",
        "read_diary",
        "write_diary",
        "add_to_diary",
    ]


@pytest.mark.parametrize("receipt_id", ["", "a b", "a-->b", "ä", "x" * 201, 7])
def test_what_is_no_id_of_a_receipt_is_refused(pad: Scratchpad, receipt_id: Any) -> None:
    with pytest.raises(nt.errors.UsageError):
        pad.ingest(receipt_id, "ann", "x")
    assert pad.names() == []
