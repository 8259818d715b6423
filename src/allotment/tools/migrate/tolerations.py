"""Tolerations that pods get only because they request an extended resource.

If GPU nodes have a taint with the resource's name, the admission plugin ExtendedResourceToleration, which GKE runs,
adds the toleration to pods that request the resource. A pod with a claim does not get it and needs an explicit one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from allotment.tools.migrate.plugin_requests import WorkloadRequests
from allotment.tools.migrate.target import Target
from allotment.tools.views import items

#: Labels of clusters that have both the taint and the plugin.
_GKE: Final = "cloud.google.com/"
_BLOCKING_EFFECTS: Final = ("NoSchedule", "NoExecute")


def tolerations_from_admission(workload: WorkloadRequests, target: Target) -> tuple[str, ...]:
    """The keys of taints that a workload's pods tolerate by admission and not by their spec."""
    resources = dict.fromkeys(name for container in workload.containers for name in container.resources)
    terms = (*workload.selector, *(term for terms in workload.affinity for term in terms))
    is_gke = any(term.key.startswith(_GKE) for term in terms)
    tainted = {taint.key for node in target.nodes for taint in node.spec.taints if taint.effect in _BLOCKING_EFFECTS}
    declared = [toleration for _, toleration in items(workload.view.tree.get("tolerations"))]
    return tuple(
        name
        for name in resources
        if (name in tainted or (is_gke and name == "nvidia.com/gpu"))
        and not any(_covers(toleration, name) for toleration in declared)
    )


def toleration(key: str) -> dict[str, str]:
    """The toleration that the admission plugin adds."""
    return {"key": key, "operator": "Exists", "effect": "NoSchedule"}


def _covers(declared: Mapping[str, Any], key: str) -> bool:
    if declared.get("effect") not in (None, "", "NoSchedule"):
        return False
    if declared.get("operator") == "Exists" and not declared.get("key"):
        return True
    return declared.get("key") == key
