"""The adapter suite, with the real frameworks: every claim, real kills, and the bare control.

MCP has no streaming of results, so there is no claim about it.
"""

from __future__ import annotations

# Imported here, so that no scene imports them again.
import nottwice.mcp.extension
import nottwice.mcp.middleware  # noqa: F401
from tests.testing.adapters.forking import Forking


class OnServer(Forking):
    """What every server and client of MCP can do."""

    repeats = True
    declares = True
    shows_schemas = True


class TestExtension(OnServer):
    driver = "tests.mcp.inside.shops:drive_extension"


class TestExtensionWithAnOlderClient(OnServer):
    driver = "tests.mcp.inside.shops:drive_extension_of_2025"


class TestMiddleware(OnServer):
    driver = "tests.mcp.inside.shops:drive_middleware"


class TestProxy(OnServer):
    driver = "tests.mcp.inside.shops:drive_proxy"


class TestProxyWithAnOlderClient(OnServer):
    driver = "tests.mcp.inside.shops:drive_proxy_of_2025"
