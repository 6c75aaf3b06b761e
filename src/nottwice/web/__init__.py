"""The operator's page as an ASGI app: for ``nottwice serve``, and to mount in an app of your own.

    app.mount("/nottwice", nottwice.web.page(ledger, user=current_user))

It needs the extra ``nottwice[web]``. It holds no logic: it shows what the views tell and records
what a person decides with the same functions as the commands.
"""

from __future__ import annotations

from nottwice.web.app import page as page
from nottwice.web.visitors import Visitor as Visitor

__all__ = ["Visitor", "page"]
