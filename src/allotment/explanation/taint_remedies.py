"""Remedies against the taint of a node, by the reason for the taint, which only its name indicates.

A pod may tolerate a taint that reserves the node for some pods, but neither one that stands for a broken node or for
maintenance nor one of a node that is about to be deleted.
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
#: Of nodes that an autoscaler deletes, such as ``ToBeDeletedByClusterAutoscaler`` and ``karpenter.sh/disrupted``.
_LEAVING: Final = re.compile(r"tobedeleted|disrupt|terminat", re.IGNORECASE)
#: Keys of taints that reserve nodes; what their values say is the name of a user.
_RESERVED: Final = re.compile(r"\b(?:dedicated|reserved|team|tenant|owner|project|workload)\b")
#: States of a node, by the words in the name of its taint, with the advice; the first match decides.
_STATES: Final = (
    (
        re.compile(r"\b(?:decommission|retir|evict|out-of-service|shut-?down|offline)"),
        "find out whether {node} returns to service",
    ),
    (
        re.compile(
            r"\b(?:broken|(?:un)?healthy?\b|fail(?:ed|ing|ures?|s)?\b|fault|errors?\b|xid|ecc\b|degraded|defect|"
            r"bad\b|dead\b|problem|repair|remediat|quarantin|rma\b|impaired|suspect)"
        ),
        "wait until {node} is repaired",
    ),
    (
        re.compile(r"\b(?:mainten|drain|upgrad|updat|patching|reboot|restart|cordon)"),
        "wait until the maintenance of {node} is over",
    ),
    (
        re.compile(r"\b(?:not-?ready|unready|uninitiali[sz]ed|unregistered|unavailable|unreachable|pressure)\b"),
        "wait until {node} is available",
    ),
)
#: The words of a taint's name, also of one in camel case.
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def remedy_of(taint: Taint) -> TaintRemedy:
    """The remedy against a taint.

    >>> remedy_of(Taint(key="dedicated", value="ml", effect="NoSchedule"))
    'tolerate-node'
    >>> remedy_of(Taint(key="xid", value="79", effect="NoExecute"))
    'recover'
    """
    if taint == UNSCHEDULABLE:
        return "uncordon"
    if _LEAVING.search(f"{taint.key}={taint.value}"):
        return ""
    return "recover" if taint.key in _OUTAGES or _recovery(taint) else "tolerate-node"


def recovery_text(node: str, taint: Taint) -> str:
    """The text of the remedy ``recover`` against a taint."""
    if taint.key in _OUTAGES:
        return f"repair {node}, or wait until it is ready again"
    return f"{_recovery(taint).format(node=node)} (taint {taint_text(taint)})"


def _recovery(taint: Taint) -> str:
    """The advice about the state of a node for which a taint stands; empty if it stands for none."""
    key = _words(taint.key)
    name = key if _RESERVED.search(key) else f"{key}-{_words(taint.value)}"
    for pattern, text in _STATES:
        if pattern.search(name):
            return text
    return "wait until {node} is available" if taint.key.startswith("node.kubernetes.io/") else ""


def _words(name: str) -> str:
    """
    >>> _words("example.com/gpuUnhealthy")
    'example-com-gpu-unhealthy'
    """
    return "-".join(_WORD.findall(name)).lower()


def uncordon_text(node: EligibilityNode, tolerations: Sequence[Toleration]) -> str:
    """The text of the remedy ``uncordon``, with the other taints of the node that do not exclude the pod."""
    kept = (taint for taint in node.taints if not taint.key.startswith("node.kubernetes.io/"))
    also = [taint_text(taint) for taint in kept if taint.effect == "PreferNoSchedule" or tolerated(taint, tolerations)]
    more = f", which also has the {'taint' if len(also) == 1 else 'taints'} {', '.join(also)}" if also else ""
    return f"uncordon {node.facts.name}{more}"
