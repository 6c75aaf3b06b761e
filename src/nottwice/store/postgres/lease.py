"""Who is alive, where many machines share a ledger? A lease on the database's clock, and proof.

A holder that renews its lease is alive. One whose lease has run out is not proven dead: it may be
stopped, or cut off, and wake up. It may be overtaken, but what it left in doubt is treated as if it
might still happen. Death is proven only where the process table tells it: on the machine that runs
under the same boot id, in the same pid namespace, when the process with that id and start is gone.
A host name proves nothing, and neither does a machine id, which images and clones share.

No clock of a worker is compared with the database's. Promises kept here: P57, P58, P59.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable

from nottwice.model.run import HolderRecord, Life
from nottwice.store import process_table

log = logging.getLogger("nottwice")
RENEWALS_PER_LEASE = 4


def life_of(record: HolderRecord | None, *, leased: bool, here: HolderRecord) -> Life:
    """What can be proven about a holder, given whether its lease still runs."""
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
        # Weakly, so that a store that everybody has forgotten does not keep its lease for ever.
        self._renew = weakref.WeakMethod(renew)
        self._pause_seconds = lease_seconds / RENEWALS_PER_LEASE
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="nottwice-lease", daemon=True)
        self._pid = os.getpid()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Renew no more, and return when nothing is under way."""
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
                # It is tried again soon. If others take a run over meanwhile, the next write of
                # this process is refused, and that is what counts.
                log.warning("the lease of this process could not be renewed (%s)", error)
            del renew
