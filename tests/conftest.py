"""What every test shares: property tests are judged by their answers, not by the clock."""

from __future__ import annotations

import signal

from hypothesis import settings

# Two workers on a small machine make single examples slow at random; a deadline would report
# the machine and not the code.
settings.register_profile("nottwice", deadline=None, max_examples=50)
settings.load_profile("nottwice")

# Whoever starts tests in the background of a script starts them deaf to Ctrl-C, and so would be
# every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
