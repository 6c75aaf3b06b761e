"""What every test shares: how inputs are generated, which ring it is in, and how many run together.

Property tests are judged by their answers, not by the clock. The rings are in CONTRIBUTING.md:
`make test` leaves out what is marked `deep`, and `make deep` runs it.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import zlib
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Two workers on a small machine make single examples slow at random; a deadline, or a check of how
# fast they are generated, would report the machine and not the code.
timeless = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nottwice", timeless, max_examples=25)
# `make deep-properties` tries this many.
settings.register_profile("deep", timeless, max_examples=500)
settings.load_profile("nottwice")

# Each commit waits for the disk, some tens of thousands of times. What a SIGKILL leaves is in the
# kernel, so memory is as good a disk as any. The tests in tests/store/ stay on the disk.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 1024**3:
    os.environ.setdefault("TMPDIR", str(MEMORY))
    tempfile.tempdir = None

# A shell script that starts tests in the background lets them ignore Ctrl-C, and so would every
# process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Prepare this process for many tests and the processes that they start."""
    # Python tells compiled code from newer source by the second and the size. A test that writes a
    # module twice within a second would run the first one again, sometimes.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # Thousands of collected tests stay until the end. A garbage collector that visits them each
    # time is slow, and slower still in a process that is forked and has to copy what it visits.
    gc.collect()
    gc.freeze()
    # Once more, since a full collection waits for a share of what the last one found. Otherwise
    # ledgers that tests dropped would keep a thousand files open.
    gc.collect()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of a `sampled` test as deep, except for those that `make test` keeps."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            cases[item.nodeid.split("[")[0]].append(item)
    for each in cases.values():
        # The same cases every time, in every process, wherever the file is; and not every n-th,
        # which would miss the same value of a parameter each time.
        mark = each[0].get_closest_marker("sampled")
        assert mark is not None
        for item in sorted(each, key=_scattered)[mark.kwargs["keep"] :]:
            item.add_marker(pytest.mark.deep(part=mark.kwargs["part"]))


def _scattered(item: pytest.Item) -> tuple[int, str]:
    case = item.nodeid.partition("[")[2]
    return zlib.crc32(case.encode()), case


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many `-n auto` means: one more than there are cores, since many tests wait for others."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return cores + 1
