"""A folder as a broker of Celery: kombu's own, but a message appears in it as a whole.

Kombu writes a message where workers look for it, so a worker may take it before it is written, and
lose it.
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

from kombu.transport import filesystem


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: Any, **_: Any) -> None:
        name = f"{time.monotonic_ns()}_{uuid.uuid4()}.{queue}.msg"
        part = Path(self.data_folder_out) / f"{name}.part"
        part.write_text(json.dumps(payload))
        part.rename(part.with_suffix(""))


class Transport(filesystem.Transport):
    Channel = Channel
