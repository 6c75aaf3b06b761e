"""How does a receiver know who sent a message? By its signature, as Standard Webhooks define it.

The signature covers the id, the time and the body. A receiver refuses old times, and remembers ids:
a message that comes again has the same id. Promise kept here: P335.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"


def signed_headers(secret: bytes, message_id: str, at: float, body: bytes) -> dict[str, str]:
    """Return the three headers of a signed message."""
    timestamp = str(int(at))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    digest = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    return {ID: message_id, TIMESTAMP: timestamp, SIGNATURE: f"v1,{digest}"}
