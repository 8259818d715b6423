"""PodGroups, CompositePodGroups and their pods, and what the scheduler wrote about them."""

from __future__ import annotations

from typing import Any

from allotment.cluster.client import Resource
from allotment.cluster.resources import COMPOSITE_POD_GROUPS, POD_GROUPS
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.scheduler.world import NAMESPACE, World, pod

ON = Features("1.37", {"GenericWorkload": True})
WITH_TOPOLOGY = Features("1.37", {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True})
WITH_CLAIMS = Features(
    "1.37", {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "DRAWorkloadResourceClaims": True}
)
WITH_COMPOSITES = Features(
    "1.37", {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
)


def gang(name: str = "g", minimum: int = 2, *, parent: str = "", topology: str = "", **spec: Any) -> tuple[
    Resource, Tree
]:  # fmt: skip
    """A PodGroup with a minimum number of pods."""
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    tree = {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}, "priority": 0, **spec},
    }
    return POD_GROUPS, tree


def composite(name: str = "top", minimum: int = 2, **spec: Any) -> tuple[Resource, Tree]:
    """A CompositePodGroup with a minimum number of child groups."""
    tree = {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": minimum}}, "priority": 0, **spec},
    }
    return COMPOSITE_POD_GROUPS, tree


def member(name: str, *claims: str, of: str = "g", **more: Any) -> tuple[Resource, Tree]:
    """A pod of a group."""
    return pod(name, *claims, schedulingGroup={"podGroupName": of}, **more)


def group_condition(lab: World, name: str = "g") -> tuple[str, str, str]:
    """Status, reason and message of the condition PodGroupInitiallyScheduled; empty if there is none."""
    tree = lab.client.objects[POD_GROUPS, NAMESPACE, name]
    for condition in tree.get("status", {}).get("conditions", []):
        if condition["type"] == "PodGroupInitiallyScheduled":
            return condition["status"], condition["reason"], condition["message"]
    return "", "", ""
