"""A pod that uses resources of a node, and its construction from the Pod object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment.model.trees import Tree
from allotment.node_fit.pod_requirements import PodRequirements


class AssignedPod(NamedTuple):
    """A pod that is bound to a node or assumed to be."""

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    priority: int
    requirements: PodRequirements
    started: str
    terminating: bool = False
    preempted: bool = False


def to_assigned_pod(tree: Tree, demand: PodRequirements) -> AssignedPod:
    """Return the pod as it counts on its node."""
    metadata, spec, status = tree["metadata"], tree["spec"], tree.get("status") or {}
    return AssignedPod(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        labels=metadata.get("labels") or {},
        priority=spec.get("priority") or 0,
        requirements=demand,
        started=status.get("startTime") or metadata.get("creationTimestamp") or "",
        terminating="deletionTimestamp" in metadata,
        preempted=any(
            c.get("type") == "DisruptionTarget"
            and c.get("status") == "True"
            and c.get("reason") == "PreemptionByScheduler"
            for c in status.get("conditions") or ()
        ),
    )
