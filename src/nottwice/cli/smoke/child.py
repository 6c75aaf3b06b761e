"""A process that calls a tool when `nottwice check --smoke` says so, and may be killed by it."""

from __future__ import annotations

import sys

from nottwice.cli.smoke.trials import load_tool
from nottwice.testing.smoke_caller import serve, take_over_streams


def main() -> None:
    """``python -m nottwice.cli.smoke.child TOOL TARGET SANDBOX``."""
    # First, so that nothing that an import prints is taken for an answer.
    orders, answers = take_over_streams()
    serve(load_tool(*sys.argv[1:4]), orders=orders, answers=answers)


if __name__ == "__main__":
    main()
