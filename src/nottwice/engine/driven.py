"""Which runs does this process drive? At most one driver for each (P118, P128).

The store cannot tell two drivers of one process apart, so the process itself keeps this list. A
worker claims several runs in one statement (P308). Such a run is marked as driven here before its
driver starts, and is given back if the driver cannot start.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from dataclasses import replace

from nottwice.engine.asks import Doing, Write
from nottwice.engine.host import Host
from nottwice.errors import NottwiceError, OwnershipLost, StoreError
from nottwice.model.run import Fence, HolderRecord, RunRecord
from nottwice.store.claiming import ClaimedRun
from nottwice.store.interface import Commit, Outdated, RunUpdate

log = logging.getLogger("nottwice")


class Driving:
    """Marks a run as driven in this process, for as long as its driver can be reached.

    Only the driver holds a reference. If an interrupt (Ctrl-C) strikes where the run cannot be
    released, nothing remains that could drive the run, so nothing blocks it either (P118).
    """

    __slots__ = ("__weakref__",)


_driven: weakref.WeakValueDictionary[tuple[str, str], Driving] = weakref.WeakValueDictionary()
_driven_guard = threading.Lock()


def _renew_after_fork() -> None:
    """Replace the guard: another thread may have held it when this process was forked."""
    global _driven_guard
    _driven_guard = threading.Lock()


os.register_at_fork(after_in_child=_renew_after_fork)


def drive_here(holder: HolderRecord, run_id: str) -> Driving | None:
    """Register the only driver of a run in this process. None: there is one already.

    The store cannot tell two drivers of one process apart.
    """
    with _driven_guard:
        key = (holder.holder_id, run_id)
        if key in _driven:
            return None
        driving = Driving()
        _driven[key] = driving
        return driving


def drive_claimed(one: ClaimedRun, holder: HolderRecord, *, words: int) -> Preclaimed | None:
    """Mark a run that was claimed with others as driven here. None: another driver has it.

    ``words``: how many cancellations this process had made before the claim; see cancelled.py.
    """
    driving = drive_here(holder, one.found.workflow_id)
    return None if driving is None else Preclaimed(one, driving, words)


def driven_here(holder: HolderRecord) -> list[str]:
    """Return the ids of all runs that this process drives."""
    with _driven_guard:
        return [run_id for holder_id, run_id in _driven if holder_id == holder.holder_id]


def is_driven_here(holder: HolderRecord, run_id: str) -> bool:
    """Whether this process drives a run, even if it only waits for the last attempt to end.

    This is true from before the claim is written until the release is written.
    """
    with _driven_guard:
        return (holder.holder_id, run_id) in _driven


def stop_driving_here(holder: HolderRecord, run_id: str, driving: object | None = None) -> None:
    """Remove the mark of a run. ``driving``: only this one, not a later claim."""
    with _driven_guard:
        if driving is None or _driven.get((holder.holder_id, run_id)) is driving:
            _driven.pop((holder.holder_id, run_id), None)


class Preclaimed:
    """A claimed run, and whether a session has taken it."""

    __slots__ = ("driving", "is_taken", "one", "words")

    def __init__(self, one: ClaimedRun, driving: object, words: int) -> None:
        self.one = one
        self.words = words
        self.driving: object | None = driving
        """Keeps other drivers of this process out while it exists."""
        self.is_taken = False

    def taken(self) -> object | None:
        """Note that a session drives the run now, and return the mark."""
        self.is_taken = True
        driving, self.driving = self.driving, None
        return driving


def store_trace(run: RunRecord, traceparent: str | None) -> Doing[RunRecord]:
    """Store the trace context of an opening whose claim was written before, with those of others.

    Durable: when this returns. Without a trace nothing is written. If it cannot be written, the run
    continues without it: telemetry never stops a run.
    """
    if traceparent is None:
        return run
    assert run.holder_id is not None
    update = RunUpdate(run.status, run.updated_at, traceparent=traceparent)
    fence = Fence(run.holder_id, run.epoch)
    try:
        yield Write(Commit(workflow_id=run.workflow_id, fence=fence, run=update))
    except OwnershipLost:
        raise
    except StoreError as error:
        log.warning("the trace of run=%r was not stored: %s", run.workflow_id, error)
        return run
    return replace(run, traceparent=traceparent)


def give_back(host: Host, found: RunRecord | None, run: RunRecord) -> Doing[None]:
    """Release a run in which nothing was done, as it was found before it was claimed.

    ``found``: None if the claim created it. Durable: when this returns. If it fails, the worker
    finds the run again (P128).
    """
    found = found or run
    assert run.holder_id is not None
    back = RunUpdate(
        found.status,
        found.updated_at,
        found.failure,
        release=True,
        waits=found.waits,
        released_at=host.clock.now(),
    )
    fence = Fence(run.holder_id, run.epoch)
    try:
        yield Write(Commit(workflow_id=run.workflow_id, fence=fence, run=back))
    except OwnershipLost:
        # The claim was not written, or another process has the run by now.
        return
    except (NottwiceError, Outdated) as error:
        log.warning("run=%r was claimed and could not be given back: %s", run.workflow_id, error)
