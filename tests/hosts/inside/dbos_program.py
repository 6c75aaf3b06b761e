"""A DBOS program that a test kills: ``python dbos_program.py FOLDER ID PLAN [HOW]``.

It starts the workflow, or lets DBOS recover it, and prints its result. With ``bare`` it has the
same steps without nottwice, as the control; with ``rarely`` a step that waits looks every hour.
The file ``cancel`` lets it cancel the workflow. With ``briefly`` the workflow has twenty seconds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID, SetWorkflowTimeout

import nottwice as nt
from tests.hosts.inside.effects import die_if_planned, wait_for
from tests.hosts.inside.tools import (
    die_after_a_receipt,
    dying_after_its_return,
    functions,
    store_of,
)

FOLDER, BARE = Path(sys.argv[1]), sys.argv[4:] == ["bare"]
PLACE = FOLDER / "place"
STORE = store_of(FOLDER)
SYSTEM = STORE if PLACE.exists() else f"sqlite:///{FOLDER / 'dbos.sqlite'}"
CONFIG: DBOSConfig = {
    "name": "hosted",
    "system_database_url": SYSTEM,
    "run_admin_server": False,
    "executor_id": "only",
    "application_version": "1",
    "log_level": "ERROR",
}
STEPS = functions(FOLDER, bare=BARE)
RETRIED: dict[str, Any] = {"retries_allowed": True, "interval_seconds": 0.2}
if BARE:
    STEPS["send"] = dying_after_its_return(FOLDER, STEPS["send"])
    STEPS = {name: DBOS.step(name=name, **RETRIED)(each) for name, each in STEPS.items()}
else:
    die_after_a_receipt(FOLDER)
    step = nt.dbos.step(STORE, look_again="1h" if sys.argv[4:] == ["rarely"] else "500ms")
    STEPS = {name: step(each) for name, each in STEPS.items()}


@DBOS.workflow(name="task")
def task(plan: list[list[str]]) -> list[Any]:
    done = []
    for name, line in plan:
        done.append(STEPS[name](line))
        die_if_planned(FOLDER, "between")
    return done


@DBOS.workflow(name="together")
async def together(plan: list[list[str]]) -> list[Any]:
    return list(await asyncio.gather(*(STEPS[name](line) for name, line in plan)))


def obey(workflow_id: str) -> None:
    """Cancel the workflow when the test says so."""
    wait_for((FOLDER / "cancel").exists)
    DBOS.cancel_workflow(workflow_id)


def main(workflow_id: str, plan: list[list[str]]) -> None:
    logging.basicConfig(format="%(name)s: %(message)s")
    logging.getLogger("nottwice.dbos").setLevel(logging.INFO)
    DBOS(config=CONFIG)
    DBOS.launch()
    if sys.argv[4:] == ["rarely"]:
        threading.Thread(target=obey, args=[workflow_id], daemon=True).start()
    try:
        if plan and plan[0][0] == "resume":
            DBOS.cancel_workflow(workflow_id)
            handle: Any = DBOS.resume_workflow(workflow_id)
        elif plan and plan[0][0] == "recovered":
            handle = DBOS.retrieve_workflow(workflow_id)
        else:
            seconds = 20.0 if sys.argv[4:] == ["briefly"] else None
            with SetWorkflowID(workflow_id), SetWorkflowTimeout(seconds):
                gathers = plan[0][0] in ("asend", "apost")
                handle = DBOS.start_workflow(together if gathers else task, plan)
        print(json.dumps({"result": handle.get_result()}), flush=True)
    except Exception as error:
        print(json.dumps({"error": type(error).__name__}), flush=True)
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    main(sys.argv[2], json.loads(sys.argv[3]))
