"""Kubernetes' message for a pod without a feasible node, to the letter (``framework.FitError``).

Dashboards, alerts and people search for this text; additional findings are put in front of it (see `reasons`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

GATED = "Scheduling is blocked due to non-empty scheduling gates"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NO_CLAIMS = "no new claims to deallocate"
STILL_NOT = "still not schedulable"
LEFT_BEHIND = "cannot schedule extended resource claim"
DISCARDED = "deletion of ResourceClaim completed"
DEALLOCATED = "deallocation of ResourceClaim completed"
UNRESERVED = "ResourceClaim unreserved for PodGroup"
#: The post-filter of devices fails without the state of their own pre-filter, and preemption is not tried.
NO_DEVICE_STATE = "not found"
NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
VICTIM_LEAVING = "not eligible due to a terminating pod on the nominated node."


def count_texts(texts: Iterable[str]) -> dict[str, int]:
    """Return the number of occurrences of each text."""
    found: dict[str, int] = {}
    for text in texts:
        found[text] = found.get(text, 0) + 1
    return found


def fit_error_message(nodes: int, reasons: Mapping[str, int], before: str = "", after: str = "") -> str:
    """Return the message. ``before``: why no node was checked; ``after``: the message of the post-filters.

    >>> fit_error_message(4, {"Insufficient cpu": 1, "cannot allocate all claims": 3})
    '0/4 nodes are available: 1 Insufficient cpu, 3 cannot allocate all claims.'
    """
    text = f"0/{nodes} nodes are available:"
    if before:
        text += f" {before}."
    elif reasons:
        text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in reasons.items()))}."
    return f"{text} {after}" if after else text


def post_filter_message(claims: str, nodes: int, preemption: Mapping[str, int] | str) -> str:
    """Return what was tried after no node was feasible: freeing claims (may be empty), and preemption."""
    tried = preemption if isinstance(preemption, str) else fit_error_message(nodes, preemption)
    return f"{claims}, preemption: {tried}" if claims else f"preemption: {tried}"


def preemption_message(node: str, victims: int) -> str:
    """Return the message of the post-filters if pods are preempted (1.37).

    >>> preemption_message("a", 2)
    'preemption: found a potential placement for pod on node a, preempting 2 victims'
    """
    return f"preemption: found a potential placement for pod on node {node}, preempting {victims} victims"
