"""The admission plugin PodResizeValidator: a resized pod fits its node, which runs Linux."""

from __future__ import annotations

from typing import Final

from allotment.apiserver import api_errors
from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.kinds.kind import StoreReader
from allotment.model.pod_resources import pod_requests
from allotment.model.quantity import Quantity
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_OS: Final = "kubernetes.io/os"
#: Units in which messages show amounts, in units of 10^-9.
_MILLI: Final = 10**6
_ONE: Final = 10**9


def check_resize(attributes: Attributes, reader: StoreReader, kube: str) -> None:
    """Raise StatusError (403) if the node of a resized pod does not exist, is not Linux, or is too small."""
    new, old = attributes.new, attributes.old
    if attributes.subresource != "resize" or new is None or old is None or new["spec"] == old["spec"]:
        return
    name = new["spec"].get("nodeName")
    if not name:
        return
    entry = reader.get("nodes", "", name)
    if entry is None:
        raise api_errors.forbidden(attributes.kind, attributes.name, f"node {quote(name)} not found")
    node = entry.tree
    system = (node["metadata"].get("labels") or {}).get(_OS, "linux")
    if system != "linux":
        reason = f"pod resize is only supported on linux nodes, node {quote(name)} is {quote(system)}"
        raise api_errors.forbidden(attributes.kind, attributes.name, reason, ({"reason": "UnsupportedPlatform"},))
    shortage = _shortage(new["spec"], (node.get("status") or {}).get("allocatable") or {})
    if shortage:
        reason = f"node didn't have enough allocatable resources: {shortage}"
        raise api_errors.forbidden(attributes.kind, attributes.name, reason, ({"reason": "NodeCapacity"},))


def _shortage(spec: Tree, allocatable: Tree) -> str:
    """The resources of which a pod requests more than its node has; CPU in millicores, memory in bytes."""
    requests = pod_requests(spec)
    parts = []
    for resource, unit in (("cpu", _MILLI), ("memory", _ONE)):
        requested, available = requests.get(resource, Quantity.ZERO), Quantity.parse(allocatable.get(resource, "0"))
        if requested > available:
            amounts = f"requested: {_rounded_up(requested, unit)}, allocatable: {_rounded_up(available, unit)}"
            parts.append(f"{resource}, {amounts}")
    return "; ".join(parts)


def _rounded_up(quantity: Quantity, unit: int) -> int:
    return -(-quantity.nano // unit)
