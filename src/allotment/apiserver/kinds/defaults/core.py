"""Defaults of the core group, except for pods."""

from __future__ import annotations

import base64
from typing import Final

from allotment.apiserver.kinds.defaults.combinators import (
    Fill,
    fill_absent,
    fill_each,
    fill_empty,
    fill_within,
    when_empty,
)
from allotment.model.trees import Tree

_CLIENT_IP_SECONDS: Final = 10800
_NAME_LABEL: Final = "kubernetes.io/metadata.name"


def namespace(tree: Tree) -> Tree:
    """A namespace gets a label with its name, for selectors (KEP-2161)."""
    metadata = tree.get("metadata") or {}
    name = metadata.get("name")
    if name and (metadata.get("labels") or {}).get(_NAME_LABEL) != name:
        labels = {**(metadata.get("labels") or {}), _NAME_LABEL: name}
        tree = {**tree, "metadata": {**metadata, "labels": labels}}
    return fill_within(tree, "status", when_empty(phase="Active"))


def service(tree: Tree) -> Tree:
    spec: Tree = tree.get("spec") or {}
    filled = _affinity(fill_empty(spec, {"sessionAffinity": "None", "type": "ClusterIP"}))
    filled = fill_each(filled, "ports", _target_port)
    type_ = filled["type"]
    if type_ in ("LoadBalancer", "NodePort") or (type_ == "ClusterIP" and filled.get("externalIPs")):
        filled = fill_empty(filled, {"externalTrafficPolicy": "Cluster"})
    if type_ in ("LoadBalancer", "NodePort", "ClusterIP"):
        filled = fill_absent(filled, {"internalTrafficPolicy": "Cluster"})
    if type_ == "LoadBalancer":
        filled = fill_absent(filled, {"allocateLoadBalancerNodePorts": True})
        tree = _with_ip_modes(tree)
    return tree if filled is spec and "spec" in tree else {**tree, "spec": filled}


def _affinity(spec: Tree) -> Tree:
    config = spec.get("sessionAffinityConfig")
    if spec["sessionAffinity"] == "None" and config is not None:
        return {name: value for name, value in spec.items() if name != "sessionAffinityConfig"}
    if spec["sessionAffinity"] == "ClientIP" and ((config or {}).get("clientIP") or {}).get("timeoutSeconds") is None:
        return {**spec, "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": _CLIENT_IP_SECONDS}}}
    return spec


def _target_port(port: Tree) -> Tree:
    return port if port.get("targetPort") else {**port, "targetPort": port.get("port") or 0}


def _with_ip_modes(tree: Tree) -> Tree:
    status = tree.get("status") or {}
    balancer = status.get("loadBalancer") or {}

    def mode(ingress: Tree) -> Tree:
        return fill_absent(ingress, {"ipMode": "VIP"}) if ingress.get("ip") else ingress

    filled = fill_each(balancer, "ingress", mode)
    return tree if filled is balancer else {**tree, "status": {**status, "loadBalancer": filled}}


def secret(tree: Tree) -> Tree:
    """The default type, and ``stringData`` merged into ``data``."""
    tree = fill_empty(tree, {"type": "Opaque"})
    texts = tree.get("stringData")
    if texts is None:
        return tree
    data = {
        **(tree.get("data") or {}),
        **{name: base64.b64encode(text.encode()).decode() for name, text in texts.items()},
    }
    return {name: value for name, value in tree.items() if name != "stringData"} | {"data": data}


def replication_controller(tree: Tree) -> Tree:
    """Selector and labels default to the labels of the template."""
    spec: Tree = tree.get("spec") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not labels:
        return tree
    if not spec.get("selector"):
        tree = {**tree, "spec": {**spec, "selector": labels}}
    return fill_within(tree, "metadata", when_empty(labels=labels))


def persistent_volume(tree: Tree) -> Tree:
    """The reclaim policy of manually created volumes is Retain."""
    tree = fill_within(tree, "status", when_empty(phase="Pending"))

    def spec(inner: Tree) -> Tree:
        return fill_absent(fill_empty(inner, {"persistentVolumeReclaimPolicy": "Retain"}), {"volumeMode": "Filesystem"})

    return fill_within(tree, "spec", spec)


def node_spec(tree: Tree) -> Tree:
    """podCIDR and podCIDRs default to each other."""
    cidr, cidrs = tree.get("podCIDR"), tree.get("podCIDRs")
    if cidr and (not cidrs or cidrs[0] != cidr):
        return {**tree, "podCIDRs": [cidr]}
    if cidrs and not cidr:
        return {**tree, "podCIDR": cidrs[0]}
    return tree


def node_status(tree: Tree) -> Tree:
    """Allocatable defaults to the capacity."""
    if not tree.get("allocatable") and tree.get("capacity"):
        return {**tree, "allocatable": tree["capacity"]}
    return tree


def limit_range_item(tree: Tree) -> Tree:
    """For containers: limits default to the maximum, requests to the limits, else to the minimum."""
    if tree.get("type") != "Container":
        return tree
    limits = {**(tree.get("max") or {}), **(tree.get("default") or {})}
    requests = {**(tree.get("min") or {}), **limits, **(tree.get("defaultRequest") or {})}
    if limits == (tree.get("default") or {}) and requests == (tree.get("defaultRequest") or {}):
        return tree
    return {**tree, "default": limits, "defaultRequest": requests}


TYPES: Final[dict[str, Fill]] = {
    "core/v1.Namespace": namespace,
    "core/v1.Service": service,
    "core/v1.Secret": secret,
    "core/v1.ReplicationController": replication_controller,
    "core/v1.PersistentVolume": persistent_volume,
    "core/v1.NodeSpec": node_spec,
    "core/v1.NodeStatus": node_status,
    "core/v1.EndpointPort": when_empty(protocol="TCP"),
    "core/v1.LimitRangeItem": limit_range_item,
}
