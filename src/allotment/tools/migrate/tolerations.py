"""Tolerations that pods have only because they ask for an extended resource.

Where GPU nodes have a taint of the resource's name, an admission plugin (ExtendedResourceToleration, which GKE runs)
lets pods come that ask for the resource. A pod with a claim asks for it no more, and needs the toleration written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from allotment.tools.migrate.plugin_requests import WorkloadAsk
from allotment.tools.migrate.target import Target
from allotment.tools.views import items

#: Labels of clusters that have both the taint and the plugin.
_GKE: Final = "cloud.google.com/"
_KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")


def given_by_admission(workload: WorkloadAsk, target: Target) -> tuple[str, ...]:
    """The taints, by key, that a workload's pods are let past for what they ask for, and not for what they say."""
    resources = dict.fromkeys(name for container in workload.containers for name in container.resources)
    terms = (*workload.selector, *(term for terms in workload.affinity for term in terms))
    gke = any(term.key.startswith(_GKE) for term in terms)
    tainted = {taint.key for node in target.nodes for taint in node.spec.taints if taint.effect in _KEEPS_AWAY}
    said = [toleration for _, toleration in items(workload.view.tree.get("tolerations"))]
    return tuple(
        name
        for name in resources
        if (name in tainted or (gke and name == "nvidia.com/gpu")) and not any(_covers(one, name) for one in said)
    )


def toleration(key: str) -> dict[str, str]:
    """What the plugin adds."""
    return {"key": key, "operator": "Exists", "effect": "NoSchedule"}


def _covers(said: Mapping[str, Any], key: str) -> bool:
    if said.get("effect") not in (None, "", "NoSchedule"):
        return False
    if said.get("operator") == "Exists" and not said.get("key"):
        return True
    return said.get("key") == key
