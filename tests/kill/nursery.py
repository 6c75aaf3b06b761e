"""How does a test get a new process without paying for its imports every time?

This file is a process of its own. It imports the agents once and opens no file; for every plan
that arrives it forks a child that carries the plan out and then leaves like any interpreter does,
joining its threads. The nursery itself only reports: the child's pid, and how the child ended. A
child is a real process with its own pid, locks and connections, and dies of a real SIGKILL.
"""

from __future__ import annotations

import gc
import sys

import nottwice as nt
from tests.kill import fleet as fleet
from tests.kill import graphs as graphs
from tests.kill import soak as soak
from tests.kill.agents import carry_out
from tests.kill.programs import PROGRAMS
from tests.nursery import forks


def warm_up() -> None:
    """Make one call in memory: what is imported at the first call is imported here, once."""

    @nt.tool("pure", name="warm up")
    def act(order: int, cents: int = 1) -> dict[str, str]:
        return {}

    with nt.Ledger(":memory:").run("warm up"):
        act(order=1)


def main(path: str) -> None:
    listener = forks.listen(path)
    warm_up()
    gc.collect()
    gc.freeze()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    request = forks.serve(listener)
    if request is not None:
        carry_out(request.line, request.connection.fileno(), PROGRAMS)


if __name__ == "__main__":
    main(sys.argv[1])
