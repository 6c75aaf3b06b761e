"""The agent of ``nottwice demo`` without nottwice, in the two ways in which people write it.

Both are honest attempts. What they lack is the moment between an act and the note that it is done.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from nottwice.testing import WorldClient

shop = WorldClient(os.environ.get("SHOP_URL", "http://127.0.0.1:8000"))


def serve_at(client: WorldClient) -> None:
    """Use another client: that of the demo dies at a given point."""
    global shop
    shop = client


def handle_without_state(order_id: int) -> None:
    """Do one thing after the other, and start over after a crash."""
    refund(order_id)
    send_email(order_id)


def handle_with_checkpoint(order_id: int, checkpoint: Path) -> None:
    """Act, then save; after a crash, skip what is saved."""
    done: list[str] = json.loads(checkpoint.read_text()) if checkpoint.exists() else []
    for act in (refund, send_email):
        if act.__name__ not in done:
            act(order_id)
            done.append(act.__name__)
            save(done, checkpoint)


def refund(order_id: int) -> None:
    shop.do("refund", order_id=order_id, cents=4000)


def send_email(order_id: int) -> None:
    shop.do("send_email", to=f"customer-{order_id}@example.com", order_id=order_id)


def save(done: list[str], checkpoint: Path) -> None:
    """Replace the file atomically, after the new one has reached the disk."""
    draft = checkpoint.with_suffix(".draft")
    with draft.open("w") as file:
        json.dump(done, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(checkpoint)
