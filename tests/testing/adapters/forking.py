"""The adapter suite in forked processes, for frameworks whose import takes seconds.

The process of the suite imports the framework once, does nothing else with it, and forks a real
process for every scene.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict

from nottwice.testing.adapters import AdapterConformance, Driven, Scene
from nottwice.testing.adapters.child import load_driver


class Forking(AdapterConformance):
    """Derive from it, and import the framework before the first fork."""

    driver = ""

    def process(self, scene: Scene) -> subprocess.CompletedProcess[str]:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _play(load_driver(self.driver), scene, writing)
        os.close(writing)
        with os.fdopen(reading) as said:
            text = said.read()
        _, status = os.waitpid(pid, 0)
        return subprocess.CompletedProcess([], os.waitstatus_to_exitcode(status), text, text)


def _play(drive: Callable[[Scene], Driven], scene: Scene, writing: int) -> None:
    """Play a scene and end this process, whatever happens."""
    code = 1
    try:
        text = json.dumps(asdict(drive(scene)))
        code = 0
    except BaseException:
        text = traceback.format_exc()
    with os.fdopen(writing, "w") as out:
        out.write(text)
    sys.stderr.flush()
    os._exit(code)
