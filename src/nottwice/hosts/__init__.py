"""For what hosts calls and runs: workflow engines, queues, schedulers (``nt.hosts``).

``verdict(error)`` says what a host does with an exception of nottwice. The modules
``nottwice.temporal``, ``nottwice.dbos``, ``nottwice.celery`` and ``nottwice.restate`` are made of
it and of ``ledger.once``: a database that is restarted under a call, and a holder in another pid
namespace, repeat nothing there either (P290).
"""

from __future__ import annotations

from nottwice.hosts.ordinals import Ordinals
from nottwice.hosts.verdict import HostVerdict, verdict

__all__ = ["HostVerdict", "Ordinals", "verdict"]
