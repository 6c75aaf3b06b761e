"""A Celery app whose workers a test kills: ``celery --app tests.hosts.inside.celery_program``.

The variable ``CELERY_FOLDER`` says where the test is; a file ``broker`` there names the broker.
With ``CELERY_BARE=1`` it has the same tasks without nottwice, as the control.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import Celery, signals
from kombu.transport import TRANSPORT_ALIASES

import nottwice as nt
from tests.hosts.inside.tools import (
    die_after_a_receipt,
    dying_after_its_return,
    functions,
    store_of,
)

FOLDER, BARE = Path(os.environ.get("CELERY_FOLDER", ".")), os.environ.get("CELERY_BARE") == "1"
VISIBLE_SECONDS = 3
FOLDERS = "folders://"
TRANSPORT_ALIASES["folders"] = "tests.hosts.inside.folder_broker:Transport"
REDELIVERED = {"acks_late": True, "reject_on_worker_lost": True}
RETRIED = {"autoretry_for": (Exception,), "retry_kwargs": {"countdown": 0.2}}


def made(folder: Path) -> Celery:
    """The app, for workers and for the test that sends to them."""
    app = Celery("hosted")
    broker = (folder / "broker").read_text()
    options: dict[str, Any] = {"visibility_timeout": VISIBLE_SECONDS}
    # How often workers look for what is to be delivered again; by default every 100 seconds.
    options |= {"unacked_restore_interval": 1, "unacked_restore_throttle": 1}
    if broker == FOLDERS:
        queue, control = str(folder / "queue"), str(folder / "control")
        options = {"data_folder_in": queue, "data_folder_out": queue, "control_folder": control}
        options["polling_interval"] = 0.1
    app.conf.update(
        broker_url=broker,
        broker_transport_options=options,
        broker_connection_retry_on_startup=True,
        result_backend=f"file://{folder / 'results'}",
        worker_prefetch_multiplier=1,
        # How long Celery waits for the result of a process that has died.
        worker_lost_wait=0.5,
    )
    return app


if "CELERY_FOLDER" in os.environ:
    app = made(FOLDER)
    die_after_a_receipt(FOLDER)
    store = {} if BARE else {"store": store_of(FOLDER), "look_again": "500ms", "run": "line"}
    for name, function in functions(FOLDER, bare=BARE).items():
        if name in ("asend", "apost"):
            continue
        if BARE:
            app.task(name=name, **REDELIVERED, **RETRIED)(dying_after_its_return(FOLDER, function))
        else:
            nt.celery.task(app, name=name, **store)(function)

    @signals.worker_ready.connect
    def note_ready(**_: Any) -> None:
        (FOLDER / "ready").touch()
