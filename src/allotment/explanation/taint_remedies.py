"""Remedies against the taint of a node, by the reason for the taint, which only its name indicates.

A pod may tolerate a taint that reserves the node for some pods, but neither one that stands for maintenance nor one of
a node that is about to be deleted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from allotment.explanation.node_eligibility import UNSCHEDULABLE, EligibilityNode, taint_text, tolerated
from allotment.model.core import Taint, Toleration

#: A key of `remedies.REMEDIES`; empty if nothing helps except another node.
TaintRemedy: TypeAlias = Literal["uncordon", "recover", "tolerate-node", ""]
#: Taints of nodes that do not work at present.
_OUTAGES: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_MAINTENANCE: Final = re.compile(r"mainten|drain|repair|remediat|quarantin", re.IGNORECASE)
#: Such as ``ToBeDeletedByClusterAutoscaler`` and ``karpenter.sh/disrupted``.
_LEAVING: Final = re.compile(r"tobedeleted|disrupt|terminat|shutdown|decommission", re.IGNORECASE)


def remedy_of(taint: Taint) -> TaintRemedy:
    """The remedy against a taint.

    >>> remedy_of(Taint(key="dedicated", value="ml", effect="NoSchedule"))
    'tolerate-node'
    >>> remedy_of(Taint(key="example.com/maintenance", effect="NoExecute"))
    'recover'
    """
    if taint == UNSCHEDULABLE:
        return "uncordon"
    if taint.key in _OUTAGES:
        return "recover"
    name = f"{taint.key}={taint.value}"
    if taint.key.startswith("node.kubernetes.io/") or _LEAVING.search(name):
        return ""
    return "recover" if _MAINTENANCE.search(name) else "tolerate-node"


def recovery_text(node: str, taint: Taint) -> str:
    """The text of the remedy ``recover`` against a taint."""
    if taint.key in _OUTAGES:
        return f"repair {node}, or wait until it is ready again"
    return f"wait until the maintenance of {node} is over (taint {taint_text(taint)})"


def uncordon_text(node: EligibilityNode, tolerations: Sequence[Toleration]) -> str:
    """The text of the remedy ``uncordon``, with the other taints of the node that do not exclude the pod."""
    kept = (taint for taint in node.taints if not taint.key.startswith("node.kubernetes.io/"))
    also = [taint_text(taint) for taint in kept if taint.effect == "PreferNoSchedule" or tolerated(taint, tolerations)]
    more = f", which also has the {'taint' if len(also) == 1 else 'taints'} {', '.join(also)}" if also else ""
    return f"uncordon {node.facts.name}{more}"
