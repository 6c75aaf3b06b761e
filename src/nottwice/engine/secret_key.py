"""Which key fingerprints the secrets of a run? One key, for as long as the run lives.

The hash of a call includes the fingerprints of its secrets, which depend on the key. A run that
continued with another key would not recognise its own calls and would make them again. So the id of
the key is recorded with the run's first secret, in the same commit. A resumed run uses that key,
even if a newer one exists. If the key is gone, the run stops before anything is sent. Promise kept:
P102.
"""

from __future__ import annotations

from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Session
from nottwice.errors import KeyMissing, LedgerCorrupt
from nottwice.model import values
from nottwice.model.call import (
    FIRST_CHECKPOINT,
    ROOT_NODE,
    CallIdentity,
    CallRow,
    CallStatus,
    ResultKind,
    StoredResult,
)
from nottwice.model.replay_class import ReplayClass
from nottwice.model.sealing.keyring import Key, Keyring
from nottwice.model.tool import OWN_PREFIX
from nottwice.store.interface import CallWrite

KEY_IN_USE = f"{OWN_PREFIX}key"
"""The row that says which key a run uses; its result is the key's id."""
_NO_ARGUMENTS = "{}"


def key_of_run(session: Session, ring: Keyring) -> Doing[Key]:
    """Return the key for the secrets of this run. Raises KeyMissing if it is not in the ring.

    Durable: the choice of the key, with the next commit of the run, which records the intent.
    """
    identity = CallIdentity(
        session.run_id, ROOT_NODE, FIRST_CHECKPOINT, KEY_IN_USE, values.hash_of({})
    )
    row = session.pending.find_call(identity)
    if row is None:
        row = yield Read(lambda store: store.load_call(identity))
    if row is None:
        session.pending.add_call(CallWrite(_chosen(session, identity, ring.current), None))
        return ring.current
    key_id = _recorded(row)
    found = ring.find(key_id)
    if found is None:
        known = ", ".join(key.id for key in ring.keys)
        raise KeyMissing(
            f"The secrets of run {session.run_id!r} were recorded with key {key_id}, but the keys "
            f"here are {known}. Without that key its calls cannot be recognised and might be made "
            "twice. Nothing was sent. Put that key back, on a line below the newest one.",
            key_id=key_id,
        )
    return found


def _chosen(session: Session, identity: CallIdentity, key: Key) -> CallRow:
    now = session.clock.now()
    blank = CallRow(
        identity,
        identity.call_id,
        CallStatus.PENDING,
        ReplayClass.PURE,
        1,
        session.new_attempt_id(),
        session.holder.holder_id,
        _NO_ARGUMENTS,
        created_at=now,
        started_at=now,
    )
    return blank.done(StoredResult(ResultKind.PLAIN, values.encode(key.id)), now=now)


def _recorded(row: CallRow) -> str:
    key_id = None if row.result is None else values.decode(row.result.json)
    if not isinstance(key_id, str):
        raise LedgerCorrupt(
            f"The id of the key of run {row.identity.workflow_id!r} cannot be read. Nothing was "
            "sent. Restore the ledger from a backup."
        )
    return key_id
