"""Defaults of the core group's other kinds."""

from __future__ import annotations

import base64
from typing import Final

from allotment.apiserver.kinds.defaults.combinators import Fill, absent, each, empty, when_empty, within
from allotment.model.trees import Tree

_CLIENT_IP_SECONDS: Final = 10800
_NAME_LABEL: Final = "kubernetes.io/metadata.name"


def namespace(tree: Tree) -> Tree:
    """A namespace is labelled with its name, so that selectors can name it (KEP-2161)."""
    metadata = tree.get("metadata") or {}
    name = metadata.get("name")
    if name and (metadata.get("labels") or {}).get(_NAME_LABEL) != name:
        labels = {**(metadata.get("labels") or {}), _NAME_LABEL: name}
        tree = {**tree, "metadata": {**metadata, "labels": labels}}
    return within(tree, "status", when_empty(phase="Active"))


def service(tree: Tree) -> Tree:
    """Types, ports and policies."""
    spec: Tree = tree.get("spec") or {}
    filled = _affinity(empty(spec, {"sessionAffinity": "None", "type": "ClusterIP"}))
    filled = each(filled, "ports", _target)
    type_ = filled["type"]
    if type_ in ("LoadBalancer", "NodePort") or (type_ == "ClusterIP" and filled.get("externalIPs")):
        filled = empty(filled, {"externalTrafficPolicy": "Cluster"})
    if type_ in ("LoadBalancer", "NodePort", "ClusterIP"):
        filled = absent(filled, {"internalTrafficPolicy": "Cluster"})
    if type_ == "LoadBalancer":
        filled = absent(filled, {"allocateLoadBalancerNodePorts": True})
        tree = _with_ip_modes(tree)
    return tree if filled is spec and "spec" in tree else {**tree, "spec": filled}


def _affinity(spec: Tree) -> Tree:
    config = spec.get("sessionAffinityConfig")
    if spec["sessionAffinity"] == "None" and config is not None:
        return {name: value for name, value in spec.items() if name != "sessionAffinityConfig"}
    if spec["sessionAffinity"] == "ClientIP" and ((config or {}).get("clientIP") or {}).get("timeoutSeconds") is None:
        return {**spec, "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": _CLIENT_IP_SECONDS}}}
    return spec


def _target(port: Tree) -> Tree:
    return port if port.get("targetPort") else {**port, "targetPort": port.get("port") or 0}


def _with_ip_modes(tree: Tree) -> Tree:
    status = tree.get("status") or {}
    balancer = status.get("loadBalancer") or {}

    def mode(ingress: Tree) -> Tree:
        return absent(ingress, {"ipMode": "VIP"}) if ingress.get("ip") else ingress

    filled = each(balancer, "ingress", mode)
    return tree if filled is balancer else {**tree, "status": {**status, "loadBalancer": filled}}


def secret(tree: Tree) -> Tree:
    """``stringData`` becomes ``data``."""
    tree = empty(tree, {"type": "Opaque"})
    texts = tree.get("stringData")
    if texts is None:
        return tree
    data = {
        **(tree.get("data") or {}),
        **{name: base64.b64encode(text.encode()).decode() for name, text in texts.items()},
    }
    return {name: value for name, value in tree.items() if name != "stringData"} | {"data": data}


def replication_controller(tree: Tree) -> Tree:
    """Labels of the template select and name the controller."""
    spec: Tree = tree.get("spec") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not labels:
        return tree
    if not spec.get("selector"):
        tree = {**tree, "spec": {**spec, "selector": labels}}
    return within(tree, "metadata", when_empty(labels=labels))


def persistent_volume(tree: Tree) -> Tree:
    """A volume that was made by hand is kept."""
    tree = within(tree, "status", when_empty(phase="Pending"))

    def spec(inner: Tree) -> Tree:
        return absent(empty(inner, {"persistentVolumeReclaimPolicy": "Retain"}), {"volumeMode": "Filesystem"})

    return within(tree, "spec", spec)


def node_spec(tree: Tree) -> Tree:
    """One range and the list of ranges tell the same."""
    one, several = tree.get("podCIDR"), tree.get("podCIDRs")
    if one and (not several or several[0] != one):
        return {**tree, "podCIDRs": [one]}
    if several and not one:
        return {**tree, "podCIDR": several[0]}
    return tree


def node_status(tree: Tree) -> Tree:
    """What a node has can be given out, unless it says otherwise."""
    if not tree.get("allocatable") and tree.get("capacity"):
        return {**tree, "allocatable": tree["capacity"]}
    return tree


def limit_range_item(tree: Tree) -> Tree:
    """For containers: limits from the maximum, requests from limits, else from the minimum."""
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
