"""What the tests of views share: the ledgers that killed processes left."""

from __future__ import annotations

from tests.cli.conftest import empty as empty
from tests.cli.conftest import graph_place as graph_place
from tests.cli.conftest import graph_runs as graph_runs
from tests.cli.conftest import host as host
from tests.cli.conftest import killed as killed
from tests.cli.conftest import workplace as workplace
