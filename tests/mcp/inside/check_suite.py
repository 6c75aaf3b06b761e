"""The adapter suite, with the real frameworks: every claim, real kills, and the bare control.

Importing a framework takes seconds, so this process does it once and forks a real process for each
scene.
"""

from __future__ import annotations

import json
import os
import signal
import traceback
from dataclasses import asdict
from typing import Any

# Imported here, so that no scene imports them again.
import nottwice.mcp.extension
import nottwice.mcp.middleware  # noqa: F401
from nottwice.testing.adapters import AdapterConformance, AdapterFailed, Driven
from nottwice.testing.adapters.child import load_driver


class Forked(AdapterConformance):
    driver = ""

    def play(self, *replies: Any, **options: Any) -> Driven:
        scene = self.scene(
            [one if isinstance(one, list) else [one] for one in replies],
            **{name: value for name, value in options.items() if value is not None},
        )
        told, telling = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                seen = load_driver(self.driver)(scene)
                os.write(telling, json.dumps(asdict(seen)).encode())
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(telling)
        with os.fdopen(told) as line:
            text = line.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        wanted = -signal.SIGKILL if options.get("dies") else 0
        if code != wanted:
            raise AdapterFailed(f"The driver ended with {code}, not {wanted}")
        return Driven(**json.loads(text)) if text else Driven()


class TestExtension(Forked):
    driver = "tests.mcp.inside.shops:drive_extension"
    repeats = True


class TestExtensionWithAnOlderClient(Forked):
    driver = "tests.mcp.inside.shops:drive_extension_of_2025"
    repeats = True


class TestMiddleware(Forked):
    driver = "tests.mcp.inside.shops:drive_middleware"
    repeats = True


class TestProxy(Forked):
    driver = "tests.mcp.inside.shops:drive_proxy"
    repeats = True


class TestProxyWithAnOlderClient(Forked):
    driver = "tests.mcp.inside.shops:drive_proxy_of_2025"
    repeats = True
