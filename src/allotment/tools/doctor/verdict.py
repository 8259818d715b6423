"""The answer in one sentence: how bad it is, and of how much it was looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from allotment.model.resource import ResourceClaim, ResourceSlice
from allotment.tools.doctor.examination import SEVERITIES
from allotment.tools.doctor.finding import Finding
from allotment.tools.doctor.objects import Node, Pod
from allotment.tools.doctor.snapshot import Found
from allotment.tools.doctor.wording import counted
from allotment.tools.sentences import listed


def verdict(found: Found, findings: Sequence[Finding]) -> str:
    """One sentence; what could not be read is not counted.

    >>> from allotment.model.features import Features
    >>> verdict(Found(Features(kube="1.36")), [])
    'Nothing wrong is seen in 0 nodes, 0 devices, 0 claims and 0 pods.'
    """
    of = Counter(type(value) for value in found.values)
    devices = sum(len(value.spec.devices or ()) for value in found.values if isinstance(value, ResourceSlice))
    seen = {
        "nodes": counted(of[Node], "node"), "resourceslices": counted(devices, "device"),
        "resourceclaims": counted(of[ResourceClaim], "claim"), "pods": counted(of[Pod], "pod"),
    }  # fmt: skip
    size = listed(words for kind, words in seen.items() if kind not in found.unread)
    where = f" in {size}" if size else ", and hardly anything could be looked at"
    if not findings:
        return f"Nothing wrong is seen{where}."
    bad = Counter(finding.severity for finding in findings)
    return f"{listed(counted(bad[one], one) for one in SEVERITIES if bad[one])}{where}."
