"""How is a run written so that a person can read and compare it, and nothing is lost?

A file begins with what people ask for: the run, its phases and steps (B2). The records follow,
under the names of the columns of the SQL stores. Times are ISO 8601, and JSON appears as JSON.
Everything above the records is derived from them at every commit and is never read.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from nottwice.errors import (
    KeyMissing,
    LedgerCorrupt,
    LedgerTampered,
    NottwiceError,
    SchemaTooNew,
)
from nottwice.model import values
from nottwice.model.run import HolderRecord
from nottwice.model.runs.workers import WorkerRecord
from nottwice.model.sealing.seal import Seals
from nottwice.store.files.derived import Derived
from nottwice.store.files.disk import Content
from nottwice.store.files.phases import Seen, overview
from nottwice.store.interface import (
    CallWrite,
    ChargeWrite,
    Claim,
    Commit,
    EventWrite,
    NoticeWrite,
    ReviewWrite,
    RunUpdate,
)
from nottwice.store.rules import MemoryData
from nottwice.store.table import UNREADABLE, Column, Table, Type
from nottwice.store.tables import (
    AUDIT,
    CALLS,
    CHARGES,
    CHECKPOINTS,
    EVENTS,
    EVIDENCE,
    GRAPHS,
    HOLDERS,
    OPENINGS,
    OUTBOX,
    REVIEWS,
    RUNS,
    STEPS,
    TOOLS,
    WORKERS,
    micros,
    seconds,
)

R = TypeVar("R")
FORMAT = 1
# The depth of a value in a file: the file, a section, a record.
_OUR_DEPTH = 3
Texts = Derived[Any, bytes, bytes]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


SECTIONS: dict[str, Table[Any]] = {
    "run": RUNS,
    "calls": CALLS,
    "steps": STEPS,
    "reviews": REVIEWS,
    "events": EVENTS,
    "checkpoints": CHECKPOINTS,
    "evidence": EVIDENCE,
    "audit": AUDIT,
    "graphs": GRAPHS,
    "charges": CHARGES,
    "openings": OPENINGS,
    "tools": TOOLS,
    "outbox": OUTBOX,
}
"""The sections of a file, in this order. No row has its own seal: the file is sealed as a whole."""
_LATER = frozenset({"charges", "openings", "tools", "outbox"})
"""Sections that later versions added, so they may be missing."""
_LAST_OF_HEAD = "folded"
"""The last member of a file before its sections."""


def to_plain(table: Table[R], record: R) -> dict[str, Any]:
    """The record as it appears in a file, without empty values and without the run's id."""
    named = zip(table.said, table.row(record), strict=False)
    return dict(
        _shown(column, value)
        for column, value in named
        if value is not None and column.name != "workflow_id"
    )


def from_plain(table: Table[R], plain: Mapping[str, Any], workflow_id: str) -> R:
    """The record that ``to_plain`` wrote."""
    return table.record(
        [
            workflow_id if column.name == "workflow_id" else _stored(column, plain)
            for column in table.said
        ]
    )


def _as_stored(table: Table[R], record: R) -> R:
    """The record as it will be read again: times are rounded to microseconds."""
    return table.record(table.row(record))


@dataclass
class RunFile:
    """One run, as its file and its inbox show it together."""

    workflow_id: str
    data: MemoryData = field(default_factory=MemoryData)
    folded: int = 0
    """The number of the last inbox line that the file already contains."""
    texts: dict[str, Texts] = field(default_factory=dict)
    """The records of each section as they were last written."""
    seen: Seen = field(default_factory=Seen)
    """What the head of the file was made from."""
    unknown: dict[str, Any] = field(default_factory=dict)
    """Sections that a newer nottwice added. They are written back unchanged (P225)."""
    unknown_columns: dict[tuple[str, tuple[Any, ...]], dict[str, Any]] = field(default_factory=dict)
    """The same for columns of known sections, by section and key of the record."""

    def section(self, name: str) -> Iterable[Any]:
        """The records of one section."""
        records: Any = getattr(self.data, "runs" if name == "run" else name)
        found: Iterable[Any] = records if name in ("evidence", "audit") else records.values()
        return found

    def copy(self) -> RunFile:
        """A copy to apply a commit to. The records themselves are immutable."""
        return replace(self, data=self.data.copy())


def write(file: RunFile, seals: Seals | None = None) -> Content:
    """The whole file. Records keep their order, so that a change makes a small diff.

    Records that were written before are not encoded again, and their blocks are not joined again.
    """
    file.seen = file.seen.updated(file.data)
    shown = overview(file.data, file.seen).items()
    head = [f'"{name}": {_pretty(value, 2)}' for name, value in shown]
    head.insert(0, f'"workflow_id": {_pretty(file.workflow_id, 2)}')
    head += [f'"nottwice": {FORMAT}', f'"{_LAST_OF_HEAD}": {file.folded}']
    pieces = [("{\n  " + ",\n  ".join(head)).encode()]
    texts: dict[str, Texts] = {}
    for name in SECTIONS:
        texts[name] = file.texts.get(name, Texts()).updated(
            list(file.section(name)), of_one=partial(_text_of, file, name), of_block=_joined
        )
        pieces += _section(name, texts[name].of_blocks)
    unknown = [f',\n  "{name}": {_pretty(found, 2)}' for name, found in file.unknown.items()]
    pieces.append("".join(unknown).encode())
    file.texts = texts
    return _sealed(seals, "file", pieces, ",\n  ", "\n}\n")


def _section(name: str, blocks: Sequence[bytes]) -> list[bytes]:
    if not blocks:
        return [f',\n  "{name}": []'.encode()]
    # A text ends with the comma that separates it from the next one. The last one has none.
    last = blocks[-1].removesuffix(b",\n") + b"\n  ]"
    return [f',\n  "{name}": [\n'.encode(), *blocks[:-1], last]


def _joined(records: Sequence[Any], texts: Sequence[bytes]) -> bytes:
    return b"".join(texts)


def _text_of(file: RunFile, section: str, record: Any) -> bytes:
    """A record in a section, with what separates it from the next one."""
    table = SECTIONS[section]
    plain = to_plain(table, record)
    if file.unknown_columns:
        plain |= file.unknown_columns.get((section, table.where(table.row(record))), {})
    return f"    {_pretty(plain, 4)},\n".encode()


def read(
    content: bytes, *, where: str, seals: Seals | None = None, vouched: bool = False
) -> RunFile:
    """The content of a file. LedgerCorrupt for anything that nottwice cannot have written."""
    try:
        plain = _parse(content)
        if not vouched:
            _check_seal(seals, "file", content, plain, ",\n  ", "\n}\n")
        check_format(plain["nottwice"], where=where)
        workflow_id = plain["workflow_id"]
        file = RunFile(workflow_id, folded=plain["folded"])
        if not isinstance(workflow_id, str) or type(file.folded) is not int:
            raise ValueError("its head is not what it should be")
        _read_records(file, plain)
    except (SchemaTooNew, KeyMissing):
        raise
    except LedgerTampered as error:
        raise tampered(where, error, plain.get("workflow_id")) from error
    except (*UNREADABLE, NottwiceError) as error:
        raise corrupt(where, error) from error
    return file


def _read_records(file: RunFile, plain: Mapping[str, Any]) -> None:
    for name, table in SECTIONS.items():
        found = plain.get(name, ()) if name in _LATER else plain[name]
        records = [from_plain(table, record, file.workflow_id) for record in found]
        file.data.add(table, records)
        for record, shown in zip(records, found, strict=True):
            unknown = shown.keys() - _KNOWN_NAMES[name]
            if unknown:
                where = (name, table.where(table.row(record)))
                file.unknown_columns[where] = {one: shown[one] for one in shown if one in unknown}
    names = list(plain)
    sections = names[names.index(_LAST_OF_HEAD) + 1 :]
    file.unknown = {one: plain[one] for one in sections if one not in _NOT_UNKNOWN}


_NOT_UNKNOWN = {*SECTIONS, "seal"}
_KNOWN_NAMES = {
    name: {shown for one in table.said for shown in (one.name, one.name.removesuffix("_json"))}
    for name, table in SECTIONS.items()
}


# A file, or a line, is sealed as a whole: the seal is its last member.


def _sealed(
    seals: Seals | None, what: str, pieces: Sequence[bytes], between: str, end: str
) -> Content:
    if seals is not None:
        text = b"".join(pieces).decode()
        end = f'{between}"seal": "{seals.seal(what, (text,))}"{end}'
    return (*pieces, end.encode())


def _check_seal(
    seals: Seals | None, what: str, content: bytes, plain: Any, between: str, end: str
) -> None:
    """Refuse content that was sealed, or should be, and does not fit its seal."""
    seal = plain.get("seal")
    if seals is None:
        if seal is not None:
            raise KeyMissing(
                "It is sealed, and no key was given. Nothing was done. Set NOTTWICE_KEY_FILE or "
                "NOTTWICE_KEY to the key that the ledger was sealed with."
            )
        return
    text = content.decode().removesuffix(f'{between}"seal": "{seal}"{end}')
    flaw = seals.flaw(what, (text,), seal)
    if flaw is not None:
        raise LedgerTampered(flaw)


def _parse(content: bytes) -> Any:
    text = content.decode()
    try:
        plain = json.loads(text)
        if r"\ud" in text.lower():
            # JSON can spell half a character, which can be neither written again nor shown.
            json.dumps(plain, ensure_ascii=False).encode()
        return plain
    except RecursionError as error:
        # If the text is not nested too deep, it is valid, and the caller's own stack is full.
        if values.nesting(text) <= values.MAX_DEPTH + _OUR_DEPTH:
            raise
        raise ValueError("it is nested too deep") from error


def check_format(number: object, *, where: str) -> None:
    """Refuse a format of a newer nottwice."""
    if type(number) is not int or number < 1:
        raise ValueError(f"{number!r} is not the number of a format")
    if number > FORMAT:
        raise SchemaTooNew(
            f"{where} has format {number}; this nottwice knows {FORMAT}. Nothing was changed. "
            "Upgrade nottwice here, too."
        )


def write_mark() -> bytes:
    """The content of the file that marks a folder as a ledger."""
    return json.dumps({"nottwice": FORMAT}).encode() + b"\n"


def check_mark(content: bytes, *, where: str) -> int:
    """The format of a folder. Refused if it is newer, or cannot be read."""
    try:
        number: int = _parse(content)["nottwice"]
        check_format(number, where=where)
    except UNREADABLE as error:
        raise corrupt(where, error) from error
    return number


def plain_line(table: Table[R], record: R) -> bytes:
    """A record as one line of a journal."""
    return json.dumps(to_plain(table, record), ensure_ascii=False).encode()


def read_holder(line: bytes, *, where: str) -> HolderRecord:
    """One line of the list of processes."""
    try:
        return from_plain(HOLDERS, _parse(line), "")
    except UNREADABLE as error:
        raise corrupt(where, error) from error


def read_worker(content: bytes, *, where: str) -> WorkerRecord:
    """The file of a worker."""
    try:
        return from_plain(WORKERS, _parse(content), "")
    except UNREADABLE as error:
        raise corrupt(where, error) from error


# The inbox: what processes other than the holder write, one commit per line.


def write_line(commit: Commit, number: int, seals: Seals | None = None) -> bytes:
    """A commit of a process that is not the holder, as one line of an inbox."""
    plain: dict[str, Any] = {"number": number, "workflow_id": commit.workflow_id}
    said: dict[str, Iterable[Any]] = {
        "reviews": [write.review for write in commit.reviews],
        "events": [write.event for write in commit.events],
        "evidence": commit.evidence,
        "audit": commit.audit,
        "graphs": [] if commit.graph is None else [commit.graph],
        "outbox": [write.notice for write in commit.notices],
    }
    for name, records in said.items():
        if records:
            plain[name] = [to_plain(SECTIONS[name], record) for record in records]
    if commit.forgotten:
        plain["forgotten"] = commit.forgotten
    text = json.dumps(plain, ensure_ascii=False, separators=(", ", ": "))
    return b"".join(_sealed(seals, "line", [text.removesuffix("}").encode()], ", ", "}"))


def read_line(
    line: bytes, *, where: str, seals: Seals | None = None, vouched: bool = False
) -> tuple[int, Commit]:
    """A line of an inbox: its number and its commit, whose preconditions held when it was made."""
    try:
        plain = _parse(line)
        if not vouched:
            _check_seal(seals, "line", line, plain, ", ", "}")
        number, run = plain["number"], plain["workflow_id"]
        if type(number) is not int or not isinstance(run, str):
            raise ValueError("it has no number or no run")

        def found(table: Table[R], section: str) -> list[R]:
            return [from_plain(table, record, run) for record in plain.get(section, ())]

        return number, Commit(
            workflow_id=run,
            reviews=tuple(map(ReviewWrite, found(REVIEWS, "reviews"))),
            events=tuple(map(EventWrite, found(EVENTS, "events"))),
            evidence=tuple(found(EVIDENCE, "evidence")),
            audit=tuple(found(AUDIT, "audit")),
            graph=next(iter(found(GRAPHS, "graphs")), None),
            notices=tuple(map(NoticeWrite, found(OUTBOX, "outbox"))),
            forgotten=tuple(map(str, plain.get("forgotten", ()))),
        )
    except KeyMissing:
        raise
    except LedgerTampered as error:
        raise tampered(where, error, plain.get("workflow_id")) from error
    except (*UNREADABLE, NottwiceError) as error:
        raise corrupt(where, error) from error


def as_stored(commit: Commit) -> Commit:
    """The commit as it will be read again, so that a repeated commit equals the first (P7)."""
    claim, graph, removal = commit.claim, commit.graph, commit.removal
    return replace(
        commit,
        claim=None if claim is None else _claim_as_stored(claim),
        run=None if commit.run is None else _update_as_stored(commit.run),
        calls=tuple(CallWrite(_as_stored(CALLS, one.row), one.after) for one in commit.calls),
        steps=tuple(_as_stored(STEPS, each) for each in commit.steps),
        reviews=tuple(
            ReviewWrite(_as_stored(REVIEWS, one.review), one.after_version)
            for one in commit.reviews
        ),
        evidence=tuple(_as_stored(EVIDENCE, each) for each in commit.evidence),
        audit=tuple(_as_stored(AUDIT, each) for each in commit.audit),
        checkpoints=tuple(_as_stored(CHECKPOINTS, each) for each in commit.checkpoints),
        events=tuple(EventWrite(_as_stored(EVENTS, one.event)) for one in commit.events),
        charges=tuple(
            ChargeWrite(_as_stored(CHARGES, one.charge), one.at_most, one.since)
            for one in commit.charges
        ),
        graph=None if graph is None else _as_stored(GRAPHS, graph),
        tools=tuple(_as_stored(TOOLS, each) for each in commit.tools),
        removal=None if removal is None else replace(removal, run=_as_stored(RUNS, removal.run)),
        notices=tuple(
            NoticeWrite(_as_stored(OUTBOX, one.notice), one.after) for one in commit.notices
        ),
    )


def _claim_as_stored(claim: Claim) -> Claim:
    at = None if claim.at is None else seconds(micros(claim.at))
    return replace(claim, run=_as_stored(RUNS, claim.run), at=at)


def _update_as_stored(update: RunUpdate) -> RunUpdate:
    released_at = update.at if update.released_at is None else update.released_at
    return replace(update, at=seconds(micros(update.at)), released_at=seconds(micros(released_at)))


def tampered(where: str, flaw: LedgerTampered, workflow_id: object) -> LedgerTampered:
    run = shlex.quote(workflow_id) if isinstance(workflow_id, str) else "RUN"
    return LedgerTampered(
        f"{where} cannot be trusted: {flaw}. It was not used, and nothing was changed. If you know "
        f"that it is right as it is, vouch for it (nottwice audit --adopt {run} --why TEXT). "
        "Otherwise undo the changes that were made to it by hand, restore it from a backup, or "
        "give the key that it was sealed with."
    )


def corrupt(where: str, error: BaseException) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"{where} cannot be read ({error}). It was not used, and nothing was changed. Undo the "
        "changes that were made to it by hand, or restore it from a backup."
    )


# Columns


def _shown(column: Column, value: Any) -> tuple[str, Any]:
    """A column as people read it: its name, and its value."""
    match column.holds:
        case Type.TIME:
            return column.name, iso(value)
        case Type.FLAG:
            return column.name, bool(value)
        case Type.JSON:
            try:
                shown = values.decode(value)
                if values.encode(shown) == value:
                    return column.name.removesuffix("_json"), shown
            except LedgerCorrupt:
                pass
            # Text in a different spelling than ours must come back character by character.
    return column.name, value


def _stored(column: Column, plain: Mapping[str, Any]) -> Any:
    if column.holds is Type.JSON and (short := column.name.removesuffix("_json")) in plain:
        return values.encode(plain[short])
    value = plain.get(column.name)
    if column.holds is Type.TIME and value is not None:
        return _micros(value)
    return int(bool(value)) if column.holds is Type.FLAG else value


def iso(stored: int) -> str | int:
    """A time as ISO 8601, in UTC; a time outside of the calendar stays a number of microseconds."""
    try:
        moment = _EPOCH + timedelta(microseconds=stored)
    except OverflowError:
        return stored
    return moment.isoformat(timespec="microseconds")


def _micros(shown: str | int) -> int:
    if type(shown) is int:
        return shown
    return (datetime.fromisoformat(shown) - _EPOCH) // _MICROSECOND  # type: ignore[arg-type]


def _pretty(value: object, indent: int) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text.replace("\n", "\n" + " " * indent)
