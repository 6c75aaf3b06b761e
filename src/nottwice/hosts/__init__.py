"""For programs that host calls and runs: workflow engines, queues, schedulers (``nt.hosts``).

``verdict(error)`` says what a host does with an exception of nottwice. The modules
``nottwice.temporal``, ``nottwice.dbos``, ``nottwice.celery`` and ``nottwice.restate`` build
on it and on ``ledger.once``. Nothing is repeated there either if a database restarts during a call,
or if a holder is in another pid namespace (P290).
"""

from __future__ import annotations

from nottwice.hosts.ordinals import Ordinals
from nottwice.hosts.verdict import HostVerdict, verdict

__all__ = ["HostVerdict", "Ordinals", "verdict"]
