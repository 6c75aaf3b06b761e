"""A DBOS program that a test kills: ``python dbos_program.py FOLDER ID PLAN [bare]``.

It starts the workflow, or lets DBOS recover it, and prints its result. With ``bare`` it has the
same steps without nottwice, as the control.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

import nottwice as nt
from tests.hosts.inside.effects import die_if_planned, lines, take_effect

FOLDER, BARE = Path(sys.argv[1]), sys.argv[4:] == ["bare"]
PLACE = FOLDER / "place"
STORE = PLACE.read_text() if PLACE.exists() else str(FOLDER / "ledger.db")
SYSTEM = PLACE.read_text() if PLACE.exists() else f"sqlite:///{FOLDER / 'dbos.sqlite'}"
CONFIG: DBOSConfig = {
    "name": "hosted",
    "system_database_url": SYSTEM,
    "run_admin_server": False,
    "executor_id": "only",
    "application_version": "1",
    "log_level": "ERROR",
}


def look(call: nt.Call) -> nt.Verification:
    line = str(call.args["line"])
    return nt.happened({"did": line}) if line in lines(FOLDER) else nt.did_not_happen()


def send(line: str) -> dict[str, str]:
    """Send a line. Whether it was sent can be found out."""
    return take_effect(FOLDER, line)


def post(line: str) -> dict[str, str]:
    """Send a line. Whether it was sent can only be seen by a person."""
    return take_effect(FOLDER, line)


async def asend(line: str) -> dict[str, str]:
    return take_effect(FOLDER, line)


def refuse(line: str) -> None:
    raise nt.Permanent(f"{line} is not accepted")


STEPS: dict[str, Any] = {"send": send, "post": post, "asend": asend, "refuse": refuse}
if BARE:
    STEPS = {name: DBOS.step(name=name)(each) for name, each in STEPS.items()}
else:
    step = nt.dbos.step(STORE, look_again="500ms")
    found = nt.tool("unsafe_on_replay", verify=look, settles="100ms")
    asked = nt.tool("unsafe_on_replay")
    STEPS = {name: step((found if "send" in name else asked)(each)) for name, each in STEPS.items()}


@DBOS.workflow(name="task")
def task(plan: list[list[str]]) -> list[Any]:
    done = []
    for name, line in plan:
        done.append(STEPS[name](line))
        die_if_planned(FOLDER, "acknowledge")
    return done


@DBOS.workflow(name="together")
async def together(plan: list[list[str]]) -> list[Any]:
    return list(await asyncio.gather(*(STEPS["asend"](line) for _, line in plan)))


def main(workflow_id: str, plan: list[list[str]]) -> None:
    DBOS(config=CONFIG)
    DBOS.launch()
    try:
        if plan and plan[0][0] == "resume":
            DBOS.cancel_workflow(workflow_id)
            handle: Any = DBOS.resume_workflow(workflow_id)
        elif plan and plan[0][0] == "recovered":
            handle = DBOS.retrieve_workflow(workflow_id)
        else:
            with SetWorkflowID(workflow_id):
                gathers = plan[0][0] == "asend"
                handle = DBOS.start_workflow(together if gathers else task, plan)
        print(json.dumps({"result": handle.get_result()}), flush=True)
    except Exception as error:
        print(json.dumps({"error": type(error).__name__}), flush=True)
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    main(sys.argv[2], json.loads(sys.argv[3]))
