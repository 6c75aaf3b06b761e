"""What identifies a call, and what the ledger keeps about it.

Promises kept here: P1 (five axes make one identity), P9 (what was stored is never recomputed).
All times are seconds since the epoch, UTC.
"""

from __future__ import annotations

import enum
import hashlib
from typing import Any, NamedTuple

from nottwice.errors import InvalidId, LedgerCorrupt
from nottwice.model import values
from nottwice.model.data.records import frozen_record, light_record
from nottwice.model.failure import Failure
from nottwice.model.replay_class import ReplayClass

MAX_ID_CHARACTERS = 512
ROOT_NODE = "/"
FIRST_CHECKPOINT = "start"


class CallStatus(enum.Enum):
    """What is known about a call. PENDING and UNKNOWN are both *in doubt*."""

    PENDING = "PENDING"
    DONE = "DONE"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"

    @property
    def in_doubt(self) -> bool:
        return self is CallStatus.PENDING or self is CallStatus.UNKNOWN


class CallIdentity(NamedTuple):
    """The five axes of one call (L1). Two calls are the same exactly when all five are equal.

    This is a named tuple, like the row below: both are made and compared in every call, and a
    frozen dataclass takes several times as long.
    """

    workflow_id: str
    node_id: str
    checkpoint_id: str
    tool_name: str
    input_hash: str

    @property
    def call_id(self) -> str:
        """A short name for the identity. Stable over attempts, and fit as an upstream marker."""
        run, node, checkpoint, tool, hashed = self
        # Every part carries its length, so no part can imitate a separator.
        text = (
            f"{len(run)}:{run}{len(node)}:{node}{len(checkpoint)}:{checkpoint}"
            f"{len(tool)}:{tool}{len(hashed)}:{hashed}"
        )
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class ResultKind(enum.Enum):
    """How a result is kept, and so how it is returned again."""

    PLAIN = "plain"
    TYPED = "typed"
    GIVEN = "given"
    """A person gave it where the tool was not declared. The tool's annotation reads it later."""
    NOT_KEPT = "not_kept"


@light_record(frozen=True, slots=True)
class StoredResult:
    """A result as the ledger stores it: its text, and how to read it."""

    kind: ResultKind
    json: str


LOST = "unknown"
"""The outcome of an attempt that recorded none, because its process died."""
_THEN_RETRIED = ", then retried by name"


@frozen_record(frozen=True, slots=True)
class PastAttempt:
    """One attempt of a call that has ended or was abandoned."""

    attempt: int
    attempt_id: str
    holder_id: str
    started_at: float
    ended_at: float
    outcome: str

    def to_plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class CallRow(NamedTuple):
    """One row of the ledger table ``tool_call_results``."""

    identity: CallIdentity
    call_id: str
    status: CallStatus
    replay_class: ReplayClass
    attempt: int
    attempt_id: str
    holder_id: str
    args_json: str
    created_at: float
    started_at: float
    finished_at: float | None = None
    result: StoredResult | None = None
    failure: Failure | None = None
    retry_at: float | None = None
    ambiguous: bool = False
    label: str | None = None
    key: str | None = None
    key_since: float | None = None
    window_seconds: float | None = None
    trace_id: str | None = None
    settled_by: str | None = None
    past: tuple[PastAttempt, ...] = ()
    parent_call_id: str | None = None
    """The call whose body made this one, in the body's context or in a copy of it. None: the code
    of the run made it."""

    @property
    def state(self) -> tuple[CallStatus, str]:
        """What a write must have seen to follow this row."""
        return (self.status, self.attempt_id)

    @property
    def failed_attempts(self) -> int:
        """How many attempts ended with an error, over all processes (P131).

        A retry that was requested by name restarts the count.
        """
        count = 1 if self.failure is not None else 0
        for one in reversed(self.past):
            if one.outcome.endswith(_THEN_RETRIED):
                break
            count += one.outcome != LOST
        return count

    @property
    def lost_attempts(self) -> int:
        """How many attempts recorded no outcome, over all processes, counted in the same way."""
        count = 1 if self.failure is None and self.status.in_doubt else 0
        for one in reversed(self.past):
            if one.outcome.endswith(_THEN_RETRIED):
                break
            count += one.outcome == LOST
        return count

    def kept_result(self) -> StoredResult:
        """Return the result of a finished call. Raises LedgerCorrupt if the row has none."""
        if self.result is None:
            raise self._incomplete("result")
        return self.result

    def kept_failure(self) -> Failure:
        """Return the failure of a failed call. Raises LedgerCorrupt if the row has none."""
        if self.failure is None:
            raise self._incomplete("failure")
        return self.failure

    def _incomplete(self, what: str) -> LedgerCorrupt:
        return LedgerCorrupt(
            f"Call {self.call_id} of tool {self.identity.tool_name!r} is {self.status.value}, and "
            f"the ledger holds no {what} of it. It was not used, and nothing was sent. Restore "
            "the ledger from a backup, or ask for help with this text."
        )

    def next_attempt(self, *, attempt_id: str, holder_id: str, now: float) -> CallRow:
        """Return the PENDING row of another attempt. The previous attempt becomes history."""
        outcome = self.failure.failure_class.value if self.failure else LOST
        if self.status is CallStatus.FAILED and self.retry_at is None:
            # The failure was final. Another attempt is made only if the caller asks for it.
            outcome += _THEN_RETRIED
        before = PastAttempt(
            attempt=self.attempt,
            attempt_id=self.attempt_id,
            holder_id=self.holder_id,
            started_at=self.started_at,
            ended_at=self.finished_at or now,
            outcome=outcome,
        )
        return self._replace(
            status=CallStatus.PENDING,
            attempt=self.attempt + 1,
            attempt_id=attempt_id,
            holder_id=holder_id,
            started_at=now,
            finished_at=None,
            failure=None,
            retry_at=None,
            # An attempt that may have taken effect taints all later ones (D4).
            ambiguous=self.ambiguous or self.status.in_doubt,
            past=(*self.past, before),
        )

    def done(self, result: StoredResult, *, now: float, settled_by: str | None = None) -> CallRow:
        """The receipt."""
        # Field by field: this runs in every call, and _replace takes twice as long.
        return CallRow(
            self.identity,
            self.call_id,
            CallStatus.DONE,
            self.replay_class,
            self.attempt,
            self.attempt_id,
            self.holder_id,
            self.args_json,
            self.created_at,
            self.started_at,
            now,
            result,
            None,  # failure
            None,  # retry_at
            self.ambiguous,
            self.label,
            self.key,
            self.key_since,
            self.window_seconds,
            self.trace_id,
            settled_by,
            self.past,
            self.parent_call_id,
        )

    def failed(self, failure: Failure, *, now: float, retry_at: float | None = None) -> CallRow:
        """Return the row of a call without effect. ``retry_at``: when another attempt is due."""
        return self._replace(
            status=CallStatus.FAILED, failure=failure, finished_at=now, retry_at=retry_at
        )

    def unknown(self, failure: Failure, *, now: float, over: bool = True) -> CallRow:
        """Return the row of a call that may or may not have taken effect.

        Not ``over``: it was stopped from outside, and what it started may run for as long as its
        process lives.
        """
        return self._replace(
            status=CallStatus.UNKNOWN,
            failure=failure,
            finished_at=now if over else None,
            retry_at=None,
            ambiguous=True,
        )


@frozen_record(frozen=True, slots=True)
class Call:
    """One call as a tool and its ``verify`` hook see it (``nt.current_call()``)."""

    id: str
    """Stable over attempts and restarts. Send it to the upstream as a marker."""
    run_id: str
    tool: str
    step: str
    args: dict[str, Any]
    """The recorded arguments as plain data."""
    key: str | None
    """The idempotency key to send, for ``idempotent_with_key`` tools."""
    attempt: int
    first_started_at: float
    """When the intent of the first attempt was recorded. An effect cannot be older."""
    started_at: float


def call_from_row(row: CallRow) -> Call:
    return Call(
        id=row.call_id,
        run_id=row.identity.workflow_id,
        tool=row.identity.tool_name,
        step=row.identity.node_id,
        args=values.decode_object(row.args_json),
        key=row.key,
        attempt=row.attempt,
        first_started_at=row.created_at,
        started_at=row.started_at,
    )


def check_id(text: object, *, what: str) -> str:
    """Refuse an id that some store could not keep, log or print."""
    if not isinstance(text, str):
        raise InvalidId(f"{what} must be text, not {type(text).__name__}. Nothing happened.")
    # Use the bare text: a member of a text enum is formatted differently.
    text = str.__str__(text)
    if not text:
        raise InvalidId(f"{what} is empty. Nothing happened. Give it a name.")
    if len(text) > MAX_ID_CHARACTERS:
        raise InvalidId(
            f"{what} has {len(text):,} characters; at most {MAX_ID_CHARACTERS} can be kept. "
            "Nothing happened. Use a shorter name, or a hash of this one."
        )
    if not text.isprintable():
        bad = next(character for character in text if not character.isprintable())
        raise InvalidId(
            f"{what} contains the unprintable character {bad!a}. Nothing happened. "
            "Use printable characters only."
        )
    return text


def child_node(parent: str, name: str) -> str:
    """Return the node id of a step inside another scope. No name can imitate a path or a branch."""
    escaped = _escape(name)
    return escaped if parent == ROOT_NODE else f"{parent}/{escaped}"


def branch_node(parent: str, index: int) -> str:
    """Return the node id of one parallel branch."""
    return f"{parent}[{index}]"


def own_branch(identity: CallIdentity) -> CallIdentity:
    """Return the same call in its own branch: if it waits for a person, it stops no other call.

    This is where a call belongs that a model asked for, wherever the code happens to be.
    """
    index = int(identity.input_hash[:8], 16)
    return identity._replace(node_id=branch_node(ROOT_NODE, index))


def following(failed: CallIdentity) -> CallIdentity:
    """Return the identity of the same effect after a call that failed without effect (P213)."""
    return failed._replace(node_id=branch_node(ROOT_NODE, int(failed.call_id[:12], 16)))


def child_checkpoint(parent: str, at: str | int | None) -> str:
    """Return the checkpoint id of a visit. Each level adds one segment, so that no two collide."""
    return f"{parent}/{'' if at is None else _escape(str(at))}"


def _escape(text: str) -> str:
    for character, code in (("%", "%25"), ("/", "%2F"), ("[", "%5B"), ("]", "%5D")):
        text = text.replace(character, code)
    return text
