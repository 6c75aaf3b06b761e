"""Create something unless it exists: list, then create, and after a crash list again (P78).

For upstreams that would create a duplicate of the same name: cron jobs, labels, webhooks, channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from nottwice.errors import Permanent, Retryable
from nottwice.guard.check.report import ANY_CALL_WILL_DO
from nottwice.guard.declaration import Duration
from nottwice.guard.declare import SyncTool
from nottwice.guard.ready_made import declare
from nottwice.model import failure
from nottwice.model.call import Call
from nottwice.model.failure import Classifier, FailureClass
from nottwice.model.tool import Verification, did_not_happen, happened


def create_if_absent(
    *,
    read: Callable[[], Mapping[str, Any]],
    create: Callable[[str, dict[str, Any]], Any],
    settles: Duration,
    name: str = "create_if_absent",
    classify: Classifier | None = None,
    time_limit: Duration = "2m",
) -> SyncTool[..., Any]:
    """Make a tool ``create_if_absent(item, settings)`` that returns the existing or new item.

    ``read`` returns everything that exists, by name, as plain data. ``create`` creates one item
    with one request and returns it. This is not a lock: two runs that create the same item at the
    same moment may both do so, unless the upstream refuses the second.
    """

    def create_one(
        item: Annotated[str, Field(min_length=1, description="The name of the thing")],
        settings: dict[str, Any],
    ) -> Any:
        """Create the named thing with these settings. If it is there already, it stays as it is."""
        there = _read_first(read)
        return there[item] if item in there else create(item, settings)

    def find_created(call: Call) -> Verification:
        there, item = read(), call.args["item"]
        return happened(there[item]) if item in there else did_not_happen()

    # It only matters that the item exists, not which call created it.
    setattr(find_created, ANY_CALL_WILL_DO, True)
    protected: SyncTool[..., Any] = declare(
        create_one,
        "unsafe_on_replay",
        name=name,
        recipe="create_if_absent",
        works_on={"read": read, "create": create},
        verify=find_created,
        settles=settles,
        classify=classify,
        time_limit=time_limit,
    )
    return protected


def _read_first(read: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Read what exists. If that fails for whatever reason, nothing was created."""
    try:
        return read()
    except Exception as error:
        told = failure.classify(error, effectful=False, now=0.0)
        text = f"Nothing was created: what exists cannot be read ({told.error_type}: {error})."
        if told.failure_class is FailureClass.PERMANENT:
            raise Permanent(text) from error
        raise Retryable(text) from error
