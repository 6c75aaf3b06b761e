"""Does a client still want the call that it asked for, and does it wait for the answer?"""

from __future__ import annotations

from nottwice.mcp.connection import ClientConnection, Occurrence
from nottwice.mcp.guard import NotSent


class RequestedCall:
    """A call of a client, until the client leaves or cancels it."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.occurrence: Occurrence | None = None
        self.is_dropped = False
        """The client does not wait for the answer."""
        self.is_cancelled = False
        """Nor does it want the call: it is not sent, unless it has been."""

    def begun(self, occurrence: Occurrence) -> None:
        self.occurrence = occurrence
        self.check_wanted()
        if self.is_dropped:
            self.connection.lost(occurrence)

    def check_wanted(self) -> None:
        """Raise NotSent if the client has cancelled the call."""
        if self.is_cancelled:
            raise NotSent("the client cancelled it")
