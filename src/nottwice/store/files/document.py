"""How is a run written down so that a person can read it, compare it, and nothing is lost?

A file begins with what people ask for: the run, its phases and steps (B2). Then come the records,
under the same names as the columns of the SQL stores; times are ISO 8601, and JSON is shown as
JSON. Everything above the records is made from them anew with every commit and never read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from nottwice.errors import (
    KeyMissing,
    LedgerCorrupt,
    LedgerTampered,
    NottwiceError,
    SchemaTooNew,
)
from nottwice.model import values
from nottwice.model.records import frozen_record
from nottwice.model.run import GraphRecord, HolderRecord
from nottwice.model.seal import Seals
from nottwice.store import graph_rows, rows
from nottwice.store.columns import SEALING
from nottwice.store.files.phases import overview
from nottwice.store.interface import (
    CallWrite,
    ChargeWrite,
    Claim,
    Commit,
    EventWrite,
    ReviewWrite,
    RunUpdate,
)
from nottwice.store.rules import MemoryData

FORMAT = 1
# How deep a value lies in a file: the file, a section, a record.
_OUR_DEPTH = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@frozen_record(frozen=True, slots=True)
class Kind:
    """How one kind of record is written and read: through the columns of the SQL stores."""

    section: str
    columns: tuple[str, ...]
    to_sql: Callable[[Any], tuple[Any, ...]]
    from_sql: Callable[[rows.Row], Any]

    def to_plain(self, record: Any) -> dict[str, Any]:
        """The record as it stands in a file; what is empty is left out, and so is the run."""
        named = zip(self.columns, self.to_sql(record), strict=False)
        return dict(
            _shown(column, value)
            for column, value in named
            if value is not None and column != "workflow_id"
        )

    def from_plain(self, plain: Mapping[str, Any], workflow_id: str) -> Any:
        found = [_stored(column, plain) for column in self.columns]
        if "workflow_id" in self.columns:
            found[self.columns.index("workflow_id")] = workflow_id
        return self.from_sql(found)

    def as_stored(self, record: Any) -> Any:
        """The record as it will be read again: a time has microseconds and no more."""
        return self.from_sql(self.to_sql(record))


def _kind(section: str, columns: str, to_sql: Any, from_sql: Any) -> Kind:
    # Rows end with what seals them; a file is sealed whole.
    return Kind(section, tuple(SEALING.sub("", columns).split(", ")), to_sql, from_sql)


RUNS = _kind("run", rows.RUN_COLUMNS, rows.run_to_sql, rows.run_from_sql)
CALLS = _kind("calls", rows.CALL_COLUMNS, rows.call_to_sql, rows.call_from_sql)
STEPS = _kind("steps", rows.STEP_COLUMNS, rows.step_to_sql, rows.step_from_sql)
REVIEWS = _kind("reviews", rows.REVIEW_COLUMNS, rows.review_to_sql, rows.review_from_sql)
EVIDENCE = _kind("evidence", rows.EVIDENCE_COLUMNS, rows.evidence_to_sql, rows.evidence_from_sql)
AUDIT = _kind("audit", rows.AUDIT_COLUMNS, rows.audit_to_sql, rows.audit_from_sql)
CHARGES = _kind("charges", rows.CHARGE_COLUMNS, rows.charge_to_sql, rows.charge_from_sql)
HOLDERS = _kind(
    "holders",
    rows.LOCKING_HOLDER_COLUMNS,
    rows.locking_holder_to_sql,
    rows.locking_holder_from_sql,
)
CHECKPOINTS = _kind(
    "checkpoints",
    graph_rows.CHECKPOINT_COLUMNS,
    graph_rows.checkpoint_to_sql,
    graph_rows.checkpoint_from_sql,
)
EVENTS = _kind(
    "events", graph_rows.EVENT_COLUMNS, graph_rows.event_to_sql, graph_rows.event_from_sql
)
GRAPHS = _kind(
    "graphs", graph_rows.GRAPH_COLUMNS, graph_rows.graph_to_sql, graph_rows.graph_from_sql
)


@dataclass
class RunFile:
    """One run as its file and its inbox show it."""

    workflow_id: str
    data: MemoryData = field(default_factory=MemoryData)
    folded: int = 0
    """The number of the last line of the inbox that the file contains already."""
    texts: dict[int, tuple[Any, str]] = field(default_factory=dict)
    """Records that were written before, as text: most of a file is the same next time. They are
    found by their ids, and kept here so that no other gets one: to hash them takes far longer."""

    def sections(self) -> Iterable[tuple[Kind, Iterable[Any]]]:
        data = self.data
        yield RUNS, data.runs.values()
        yield CALLS, data.calls.values()
        yield STEPS, data.steps.values()
        yield REVIEWS, data.reviews.values()
        yield EVENTS, data.events.values()
        yield CHECKPOINTS, data.checkpoints.values()
        yield EVIDENCE, data.evidence
        yield AUDIT, data.audit
        yield GRAPHS, data.graphs.values()
        yield CHARGES, data.charges.values()

    def copy(self) -> RunFile:
        """A copy to apply a commit to; the records themselves never change."""
        data = self.data
        return replace(
            self,
            data=MemoryData(
                runs=data.runs.copy(),
                calls=data.calls.copy(),
                steps=data.steps.copy(),
                reviews=data.reviews.copy(),
                evidence=data.evidence.copy(),
                audit=data.audit.copy(),
                checkpoints=data.checkpoints.copy(),
                events=data.events.copy(),
                graphs=dict(data.graphs),
                charges=data.charges.copy(),
            ),
        )


def write(file: RunFile, seals: Seals | None = None) -> bytes:
    """The whole file. Its order is that of the records, so that a change is a small difference."""
    parts = [f'"{name}": {_pretty(value, 2)}' for name, value in overview(file.data).items()]
    parts.insert(0, f'"workflow_id": {_pretty(file.workflow_id, 2)}')
    parts.append(f'"nottwice": {FORMAT}')
    parts.append(f'"folded": {file.folded}')
    texts: dict[int, tuple[Any, str]] = {}
    for kind, records in file.sections():
        written = []
        for record in records:
            known = file.texts.get(id(record))
            if known is None:
                known = (record, _pretty(kind.to_plain(record), 4))
            texts[id(record)] = known
            written.append(known[1])
        inside = ",\n    ".join(written)
        parts.append(
            f'"{kind.section}": [\n    {inside}\n  ]' if written else f'"{kind.section}": []'
        )
    file.texts = texts
    return _sealed(seals, "file", "{\n  " + ",\n  ".join(parts), ",\n  ", "\n}\n")


def read(
    content: bytes, *, where: str, seals: Seals | None = None, vouched: bool = False
) -> RunFile:
    """What a file holds; LedgerCorrupt for anything that nottwice cannot have written."""
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
        raise LedgerTampered(str(corrupt(where, error))) from error
    except (*rows.UNREADABLE, NottwiceError) as error:
        raise corrupt(where, error) from error
    return file


def _read_records(file: RunFile, plain: Mapping[str, Any]) -> None:
    def found(kind: Kind) -> list[Any]:
        # What later versions added to a file is not in older ones.
        records = plain.get(kind.section, ()) if kind is CHARGES else plain[kind.section]
        return [kind.from_plain(record, file.workflow_id) for record in records]

    data = file.data
    data.runs.update({record.workflow_id: record for record in found(RUNS)})
    data.calls.update({record.identity: record for record in found(CALLS)})
    data.steps.update(
        {(one.workflow_id, one.node_id, one.checkpoint_id): one for one in found(STEPS)}
    )
    data.reviews.update({record.review_id: record for record in found(REVIEWS)})
    data.events.update({(one.workflow_id, one.event_id): one for one in found(EVENTS)})
    data.checkpoints.update({(one.workflow_id, one.version): one for one in found(CHECKPOINTS)})
    data.evidence.update(dict.fromkeys(found(EVIDENCE)))
    data.audit.update(dict.fromkeys(found(AUDIT)))
    data.graphs.update({record.graph_id: record for record in found(GRAPHS)})
    data.charges.update({(record.meter, record.call_id): record for record in found(CHARGES)})


# A file, or a line, is sealed whole: the seal is its last member.


def _sealed(seals: Seals | None, what: str, text: str, between: str, end: str) -> bytes:
    if seals is not None:
        text += f'{between}"seal": "{seals.seal(what, (text,))}"'
    return (text + end).encode()


def _check_seal(
    seals: Seals | None, what: str, content: bytes, plain: Any, between: str, end: str
) -> None:
    """Refuse what was sealed, or should be, and is not what was sealed."""
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
            # Half a character can be spelled in JSON, and neither written again nor shown.
            json.dumps(plain, ensure_ascii=False).encode()
        return plain
    except RecursionError as error:
        # Text that is shallow enough is innocent: the caller's own stack is used up.
        if values.nesting(text) <= values.MAX_DEPTH + _OUR_DEPTH:
            raise
        raise ValueError("it is nested too deep") from error


def check_format(number: object, *, where: str) -> None:
    """Refuse what a newer nottwice has written."""
    if type(number) is not int or number < 1:
        raise ValueError(f"{number!r} is not the number of a format")
    if number > FORMAT:
        raise SchemaTooNew(
            f"{where} has format {number}; this nottwice knows {FORMAT}. Nothing was changed. "
            "Upgrade nottwice here, too."
        )


def write_mark() -> bytes:
    """What tells a folder that is a ledger from one that is not."""
    return json.dumps({"nottwice": FORMAT}).encode() + b"\n"


def check_mark(content: bytes, *, where: str) -> int:
    """The format of a folder; refused if it is newer, or says nothing that we understand."""
    try:
        number: int = _parse(content)["nottwice"]
        check_format(number, where=where)
    except rows.UNREADABLE as error:
        raise corrupt(where, error) from error
    return number


def read_holder(line: bytes, *, where: str) -> HolderRecord:
    """One line of the list of processes."""
    try:
        record: HolderRecord = HOLDERS.from_plain(_parse(line), "")
    except rows.UNREADABLE as error:
        raise corrupt(where, error) from error
    return record


# The inbox: what others than the holder have to say, one commit a line.


def write_line(commit: Commit, number: int, seals: Seals | None = None) -> bytes:
    """A commit of somebody who is not the holder, as one line of an inbox."""
    plain: dict[str, Any] = {"number": number, "workflow_id": commit.workflow_id}
    said: list[tuple[Kind, list[Any]]] = [
        (REVIEWS, [write.review for write in commit.reviews]),
        (EVENTS, [write.event for write in commit.events]),
        (EVIDENCE, list(commit.evidence)),
        (AUDIT, list(commit.audit)),
        (GRAPHS, [] if commit.graph is None else [commit.graph]),
    ]
    for kind, records in said:
        if records:
            plain[kind.section] = [kind.to_plain(record) for record in records]
    text = json.dumps(plain, ensure_ascii=False, separators=(", ", ": "))
    return _sealed(seals, "line", text.removesuffix("}"), ", ", "}")


def read_line(
    line: bytes, *, where: str, seals: Seals | None = None, vouched: bool = False
) -> tuple[int, Commit]:
    """A line of an inbox: its number, and the commit. Its preconditions held when it was made."""
    try:
        plain = _parse(line)
        if not vouched:
            _check_seal(seals, "line", line, plain, ", ", "}")
        number, run = plain["number"], plain["workflow_id"]
        if type(number) is not int or not isinstance(run, str):
            raise ValueError("it has no number or no run")

        def found(kind: Kind) -> list[Any]:
            return [kind.from_plain(record, run) for record in plain.get(kind.section, ())]

        graphs: list[GraphRecord] = found(GRAPHS)
        return number, Commit(
            workflow_id=run,
            reviews=tuple(map(ReviewWrite, found(REVIEWS))),
            events=tuple(map(EventWrite, found(EVENTS))),
            evidence=tuple(found(EVIDENCE)),
            audit=tuple(found(AUDIT)),
            graph=graphs[0] if graphs else None,
        )
    except KeyMissing:
        raise
    except LedgerTampered as error:
        raise LedgerTampered(str(corrupt(where, error))) from error
    except (*rows.UNREADABLE, NottwiceError) as error:
        raise corrupt(where, error) from error


def as_stored(commit: Commit) -> Commit:
    """The commit as it will be read again, so that a repeated one meets its equal (P7)."""
    claim, graph, removal = commit.claim, commit.graph, commit.removal
    return replace(
        commit,
        claim=None if claim is None else Claim(RUNS.as_stored(claim.run), claim.after_epoch),
        run=None if commit.run is None else _update_as_stored(commit.run),
        calls=tuple(CallWrite(CALLS.as_stored(one.row), one.after) for one in commit.calls),
        steps=tuple(map(STEPS.as_stored, commit.steps)),
        reviews=tuple(
            ReviewWrite(REVIEWS.as_stored(one.review), one.after_version) for one in commit.reviews
        ),
        evidence=tuple(map(EVIDENCE.as_stored, commit.evidence)),
        audit=tuple(map(AUDIT.as_stored, commit.audit)),
        checkpoints=tuple(map(CHECKPOINTS.as_stored, commit.checkpoints)),
        events=tuple(EventWrite(EVENTS.as_stored(one.event)) for one in commit.events),
        charges=tuple(
            ChargeWrite(CHARGES.as_stored(one.charge), one.at_most, one.since)
            for one in commit.charges
        ),
        graph=None if graph is None else GRAPHS.as_stored(graph),
        removal=None if removal is None else replace(removal, run=RUNS.as_stored(removal.run)),
    )


def _update_as_stored(update: RunUpdate) -> RunUpdate:
    return replace(update, at=rows.micros(update.at) / 1_000_000)


def corrupt(where: str, error: BaseException) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"{where} cannot be read ({error}). It was not believed and nothing was changed. Take back "
        "what somebody changed in it, or restore it from a backup."
    )


# Columns


_TIMES = frozenset({"at", "since", "key_since"})
_CLAIMS = frozenset({"ambiguous", "if_failed"})


def _shown(column: str, value: Any) -> tuple[str, Any]:
    """A column as people read it: its name, and its value."""
    if column in _TIMES or column.endswith("_at"):
        return column, iso(value)
    if column in _CLAIMS:
        return column, bool(value)
    if column.endswith("_json"):
        try:
            shown = values.decode(value)
            if values.encode(shown) == value:
                return column.removesuffix("_json"), shown
        except LedgerCorrupt:
            pass
        # Text that is not spelled as we spell it must come back letter by letter.
    return column, value


def _stored(column: str, plain: Mapping[str, Any]) -> Any:
    short = column.removesuffix("_json")
    if short != column and short in plain:
        return values.encode(plain[short])
    value = plain.get(column)
    if value is not None and (column in _TIMES or column.endswith("_at")):
        return _micros(value)
    if column in _CLAIMS:
        return int(bool(value))
    return value


def iso(micros: int) -> str | int:
    """A time as ISO 8601, in UTC; one that no calendar holds stays a number of microseconds."""
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return micros
    return moment.isoformat(timespec="microseconds")


def _micros(shown: str | int) -> int:
    if type(shown) is int:
        return shown
    return (datetime.fromisoformat(shown) - _EPOCH) // _MICROSECOND  # type: ignore[arg-type]


def _pretty(value: object, indent: int) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text.replace("\n", "\n" + " " * indent)
