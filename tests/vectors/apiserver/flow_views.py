"""The parts of a flow's objects that are compared: the final state without what differs from run to run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from allotment.model.trees import Tree
from tests.vectors.apiserver.masking import masked

View = Callable[[Tree], Tree]
#: Fields of a Job's status that do not depend on how far its controller had come.
_JOB_STATUS = ("active", "failed", "succeeded", "completedIndexes", "failedIndexes", "conditions")


def by_name(items: Iterable[Tree], view: View) -> Tree:
    """Views by masked name; objects with generated names are sorted by their content."""
    views: dict[str, list[Any]] = {}
    for item in items:
        views.setdefault(masked(item["metadata"]["name"]), []).append(view(item))
    return {name: sorted(found, key=lambda view_: json.dumps(view_, sort_keys=True)) for name, found in views.items()}


def pod(tree: Tree) -> Tree:
    """Where a pod runs, its conditions and its claims."""
    status = tree.get("status") or {}
    view: Tree = masked({
        "node": tree["spec"].get("nodeName"),
        "phase": status.get("phase"),
        "terminating": "deletionTimestamp" in tree["metadata"],
        "conditions": _conditions(status),
        "claims": status.get("resourceClaimStatuses"),
        "extended": status.get("extendedResourceClaimStatus"),
        "nominated": status.get("nominatedNodeName"),
    })  # fmt: skip
    return view


def pod_with_group(tree: Tree) -> Tree:
    """The same with the pod's group and its node-allocatable resources."""
    status = tree.get("status") or {}
    more: Tree = masked({
        "group": tree["spec"].get("schedulingGroup"),
        "nodeAllocatable": status.get("nodeAllocatableResourceClaimStatuses"),
    })  # fmt: skip
    return pod(tree) | more


def claim(tree: Tree) -> Tree:
    """A claim's owners, its request and its allocation."""
    more: Tree = masked({"status": _in_order(tree.get("status") or {})})
    return _common(tree) | more


def other(tree: Tree) -> Tree:
    """A Job, a group of pods, a taint rule or a request for the state of pools."""
    status = tree.get("status") or {}
    if tree["kind"] == "Job":
        status = {key: status[key] for key in _JOB_STATUS if key in status}
    rest = {key: item for key, item in status.items() if key != "conditions"}
    more: Tree = masked({"conditions": _conditions(status), "status": rest})
    return _common(tree) | more


def kind_of(tree: Tree) -> tuple[str, str]:
    """The version and kind of an object."""
    return (tree["apiVersion"], tree["kind"])


def _common(tree: Tree) -> Tree:
    meta = tree["metadata"]
    view: Tree = masked({
        "annotations": meta.get("annotations"),
        "owners": meta.get("ownerReferences"),
        "finalizers": meta.get("finalizers"),
        "terminating": "deletionTimestamp" in meta,
        "spec": tree.get("spec"),
    })  # fmt: skip
    return view


def _conditions(status: Tree) -> Tree:
    return {
        condition["type"]: [condition["status"], condition.get("reason")]
        for condition in status.get("conditions") or ()
    }


def _in_order(status: Tree) -> Tree:
    """Pods that were created together are reserved for in the order in which they were bound."""
    if "reservedFor" not in status:
        return status
    return {**status, "reservedFor": sorted(status["reservedFor"], key=lambda user: str(user["name"]))}
