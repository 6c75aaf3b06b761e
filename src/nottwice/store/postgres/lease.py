"""Which holders are alive, if many machines share a ledger? A lease and the process table tell.

A holder that renews its lease on the database's clock is alive. A holder whose lease has run out is
not proven dead: it may be stopped or cut off, and wake up. Its runs can be taken over, but what it
left in doubt is treated as if it might still happen. Death is proven only by the process table: on
a machine with the same boot id, in the same pid namespace, if the process with that id and start
time is gone. A host name proves nothing, and neither does a machine id, which images and clones
share.

No worker's clock is compared with the database's clock. Promises kept here: P57, P58, P59.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable

from nottwice.model.run import HolderRecord, Life
from nottwice.store.machine import process_table

log = logging.getLogger("nottwice")
RENEWALS_PER_LEASE = 4


def life_of(record: HolderRecord | None, *, leased: bool, here: HolderRecord) -> Life:
    """What can be proven about a holder, given whether its lease is still valid."""
    if record is None:
        return Life.NOT_PROVEN
    if record.holder_id == here.holder_id:
        return Life.ALIVE
    if _is_gone(record, here):
        return Life.DEAD
    return Life.ALIVE if leased else Life.NOT_PROVEN


def _is_gone(record: HolderRecord, here: HolderRecord) -> bool:
    return process_table.life_of(record, here=here) is Life.DEAD


class Renewal:
    """Renews a lease in the background, for as long as its store is open or holds a run."""

    def __init__(self, renew: Callable[[], None], *, lease_seconds: float) -> None:
        # A weak reference, so that a store that is no longer used does not keep its lease forever.
        self._renew = weakref.WeakMethod(renew)
        self._pause_seconds = lease_seconds / RENEWALS_PER_LEASE
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="nottwice-lease", daemon=True)
        self._pid = os.getpid()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing, and return when no renewal is in progress."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def works(self) -> bool:
        return self._pid == os.getpid() and self._thread.is_alive() and not self._stop.is_set()

    def _work(self) -> None:
        while not self._stop.wait(self._pause_seconds):
            renew = self._renew()
            if renew is None:
                return
            try:
                renew()
            except Exception as error:
                # It is tried again soon. If another process takes a run over meanwhile, the next
                # write of this process is refused, which keeps the ledger correct.
                log.warning("the lease of this process could not be renewed (%s)", error)
            del renew
