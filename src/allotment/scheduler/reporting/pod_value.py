"""A pending pod as a value, for reports."""

from __future__ import annotations

from typing import Any, Final

from allotment.model.core import Pod
from allotment.model.trees import Tree, to_value

_PARTS: Final = ("nodeName", "nodeSelector", "affinity", "tolerations")
_CONTAINERS: Final = ("initContainers", "containers")


def pod_of(tree: dict[str, Any]) -> Pod:
    """Return the pod as a value, with the fields that concern nodes and extended resources."""
    metadata, spec = tree["metadata"], tree["spec"]
    owners = [{k: v for k, v in o.items() if v is not None} for o in metadata.get("ownerReferences") or ()]
    return to_value(
        {
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata.get("namespace", ""),
                "labels": metadata.get("labels") or {},
                "ownerReferences": owners,
            },
            "spec": {
                **{name: spec[name] for name in _PARTS if spec.get(name) is not None},
                **{name: [_with_resources(container) for container in spec.get(name) or ()] for name in _CONTAINERS},
            },
        },
        Pod,
    )


def _with_resources(container: Tree) -> Tree:
    """The container with its name and the amounts that it requests."""
    resources = container.get("resources") or {}
    amounts = {field: resources.get(field) or {} for field in ("limits", "requests")}
    return {"name": container["name"], "resources": amounts}
