"""How do two places in a run relate? Questions about node and checkpoint ids."""

from __future__ import annotations

import re

from nottwice.model.run import StepRecord, StepStatus


def is_inside(node_id: str, outer: str) -> bool:
    """Whether a node is ``outer`` itself, a branch of it, or a step in it."""
    return node_id == outer or node_id.startswith((outer + "/", outer + "["))


def is_visit_of(checkpoint_id: str, visit: str) -> bool:
    """Whether a checkpoint belongs to a visit, or to the visit of a step inside it."""
    return checkpoint_id == visit or checkpoint_id.startswith(visit + "/")


def is_run_wide(node_id: str) -> bool:
    """Whether a call was made for the run as a whole and not in one of its steps.

    Each such call may have its own branch, so that one that waits does not stop the others.
    """
    return re.fullmatch(r"/(\[\d+\])?", node_id) is not None


def branches_differ(one: str, other: str) -> bool:
    """Whether two nodes are in different parallel branches of the same step."""
    mine, theirs = branch_path(one), branch_path(other)
    shorter = min(len(mine), len(theirs))
    return mine[:shorter] != theirs[:shorter]


def branch_path(node_id: str) -> list[str]:
    """Return the branches around a node, outermost first, each as everything up to its index.

    The outermost is the run itself, and its name is empty.
    """
    return ["", *(node_id[: match.end()] for match in re.finditer(r"\[\d+\]", node_id))]


def was_left(step: StepRecord, graph_id: str | None) -> bool:
    """Whether a run left a step unfinished when it moved to another version."""
    if graph_id is None or step.status is StepStatus.DONE:
        return False
    return not is_visit_of(step.checkpoint_id, graph_id)


def shown_node(node_id: str) -> str:
    """Return a node as people name it. In a node id, a branch index comes before the name."""
    found = re.match(r"/\[(\d+)\]/(.+)", node_id)
    return node_id if found is None else f"{found[2]}, branch {found[1]}"
