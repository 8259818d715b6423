"""Redaction of objects: the fields that are kept of each kind; other kinds are removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from allotment.model.quota import limits_devices
from allotment.model.trees import Tree
from allotment.tools.redact.messages import redact_message, words_of
from allotment.tools.redact.pods import claim_entry, condition, keyed, pod_spec, pod_status
from allotment.tools.redact.pseudonyms import Pseudonyms, is_plain, only

Redact = Callable[[Pseudonyms, Tree], Tree]

_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_OWN_DOMAIN = "resource.kubernetes.io/"
_WORKLOAD = (
    "replicas", "parallelism", "completions", "completionMode", "suspend", "backoffLimit", "schedule",
    "concurrencyPolicy", "podManagementPolicy", "minReadySeconds",
)  # fmt: skip
_GROUP_SPEC = ("schedulingPolicy", "schedulingConstraints", "disruptionMode", "priority", "preemptionPolicy")
_EVENT = (
    "reason", "type", "count", "firstTimestamp", "lastTimestamp", "eventTime", "series", "action",
    "reportingComponent",
)  # fmt: skip
#: Events whose messages contain only names of objects in the snapshot.
_EVENTS_WITH_MESSAGE = frozenset({"FailedScheduling", "Scheduled", "Preempted", "FailedResourceClaimCreation"})

#: Kinds of pseudonyms by kind of object; names of classes are kept, because they are names of vendors.
_NAME_KINDS = {
    "Namespace": "namespace", "Node": "node", "Pod": "pod", "ResourceClaim": "claim", "Event": "event",
    "ResourceClaimTemplate": "template", "ResourceSlice": "slice", "DeviceTaintRule": "rule",
    "Deployment": "deployment", "ReplicaSet": "replicaset", "StatefulSet": "statefulset", "DaemonSet": "daemonset",
    "ResourceQuota": "quota", "Lease": "lease",
    "Job": "job", "CronJob": "cronjob", "ReplicationController": "replicationcontroller",
    "PodGroup": "podgroup", "CompositePodGroup": "compositepodgroup",
}  # fmt: skip
#: Kinds of pseudonyms by the resource of a claim's consumer.
_USERS = {"pods": "pod", "podgroups": "podgroup"}


def redacted(objects: Iterable[Tree]) -> list[Tree]:
    """The redacted objects in the same order. The given trees are not modified."""
    listed = [tree for tree in objects if tree.get("kind") in _KINDS]
    names = Pseudonyms()
    seen = [_object(names, tree) for tree in listed]
    names.assign(frozenset(_texts(seen)))
    return [_object(names, tree) for tree in listed]


def _texts(value: Any) -> Iterator[str]:
    """All texts and keys at any depth, except messages."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key == "expression":
                yield from words_of(inner)
            elif key != "message":
                yield key
                yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _object(names: Pseudonyms, tree: Tree) -> Tree:
    kind = tree["kind"]
    found = {"apiVersion": tree.get("apiVersion"), "kind": kind, "metadata": _metadata(names, tree["metadata"], kind)}
    return {**found, **_KINDS[kind](names, tree)}


def _metadata(names: Pseudonyms, metadata: Tree, kind: str = "") -> Tree:
    found: Tree = {}
    if metadata.get("name") and kind:  # the metadata of a template has no name
        found["name"] = names.of(_NAME_KINDS[kind], metadata["name"]) if kind in _NAME_KINDS else metadata["name"]
    if metadata.get("namespace"):
        found["namespace"] = names.of("namespace", metadata["namespace"])
    found |= only(metadata, _METADATA)
    if metadata.get("labels"):
        found["labels"] = names.labels(metadata["labels"])
    if metadata.get("annotations"):
        found["annotations"] = {
            key: value if key.startswith(_OWN_DOMAIN) or is_plain(value) else names.of("annotation", value)
            for key, value in metadata["annotations"].items()
        }
    owners = metadata.get("ownerReferences")
    if owners:
        found["ownerReferences"] = [
            {**item, "name": names.of(_NAME_KINDS.get(item.get("kind", ""), "owner"), item.get("name", ""))}
            for item in owners
        ]
    return found


def _namespace(names: Pseudonyms, tree: Tree) -> Tree:
    return {"spec": {}, "status": only(tree.get("status") or {}, ("phase",))}


def _node(names: Pseudonyms, tree: Tree) -> Tree:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    kept = only(spec, ("unschedulable",))
    if spec.get("taints"):
        kept["taints"] = [keyed(names, item) for item in spec["taints"]]
    state = only(status, ("capacity", "allocatable", "declaredFeatures"))
    state["conditions"] = [condition(names, item) for item in status.get("conditions") or ()]
    state["nodeInfo"] = only(status.get("nodeInfo") or {}, ("kubeletVersion", "architecture", "operatingSystem"))
    return {"spec": kept, "status": state}


def _pod(names: Pseudonyms, tree: Tree) -> Tree:
    return {"spec": pod_spec(names, tree.get("spec") or {}), "status": pod_status(names, tree.get("status") or {})}


def _template(names: Pseudonyms, template: Tree) -> Tree:
    return {
        "metadata": _metadata(names, template.get("metadata") or {}),
        "spec": pod_spec(names, template.get("spec") or {}),
    }


def _workload(names: Pseudonyms, tree: Tree) -> Tree:
    spec = tree.get("spec") or {}
    status = {key: value for key, value in (tree.get("status") or {}).items() if isinstance(value, int)}
    return {"spec": _workload_spec(names, spec), "status": status}


def _workload_spec(names: Pseudonyms, spec: Tree) -> Tree:
    kept = only(spec, _WORKLOAD)
    selector = spec.get("selector")
    if selector:
        plain = not any(isinstance(value, dict | list) for value in selector.values())  # a ReplicationController's
        kept["selector"] = names.labels(selector) if plain else names.selectors(selector)
    if spec.get("template"):
        kept["template"] = _template(names, spec["template"])
    if spec.get("jobTemplate"):
        inner = spec["jobTemplate"]
        kept["jobTemplate"] = {
            "metadata": _metadata(names, inner.get("metadata") or {}),
            "spec": _workload_spec(names, inner.get("spec") or {}),
        }
    return kept


def _pod_group(names: Pseudonyms, tree: Tree) -> Tree:
    """A PodGroup or a CompositePodGroup, in any version."""
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    kept = only(spec, _GROUP_SPEC)
    if spec.get("parentCompositePodGroupName"):
        kept["parentCompositePodGroupName"] = names.of("compositepodgroup", spec["parentCompositePodGroupName"])
    if spec.get("resourceClaims"):
        kept["resourceClaims"] = [claim_entry(names, item) for item in spec["resourceClaims"]]
    found: Tree = {
        "resourceClaimStatuses": [claim_entry(names, item) for item in status.get("resourceClaimStatuses") or ()]
    }
    if status.get("conditions"):
        found["conditions"] = [condition(names, item) for item in status["conditions"]]
    return {"spec": kept, "status": found}


def _slice(names: Pseudonyms, tree: Tree) -> Tree:
    spec = tree.get("spec") or {}
    kept = {**names.selectors(spec), "pool": _in_pool(names, spec.get("pool") or {}, "name")}
    if spec.get("nodeName"):
        kept["nodeName"] = names.of("node", spec["nodeName"])
    if spec.get("devices"):
        kept["devices"] = [_device(names, item) for item in kept["devices"]]
    return {"spec": kept}


def _device(names: Pseudonyms, device: Tree) -> Tree:
    found = {**device, "nodeName": names.of("node", device["nodeName"])} if device.get("nodeName") else device
    return {**found, "basic": _device(names, device["basic"])} if device.get("basic") else found  # v1beta1


def _in_pool(names: Pseudonyms, tree: Tree, key: str = "pool") -> Tree:
    return {**tree, key: names.of("pool", tree[key])} if tree.get(key) else dict(tree)


def _claim(names: Pseudonyms, tree: Tree) -> Tree:
    status = tree.get("status") or {}
    kept: Tree = {}
    allocation = status.get("allocation")
    if allocation:
        devices = dict(allocation.get("devices") or {})
        devices["results"] = [_in_pool(names, item) for item in devices.get("results") or ()]
        kept["allocation"] = {**names.selectors(allocation), "devices": _without_parameters(devices)}
    if status.get("reservedFor"):
        kept["reservedFor"] = [
            {**item, "name": names.of(_USERS.get(item.get("resource", ""), "owner"), item.get("name", ""))}
            for item in status["reservedFor"]
        ]
    if status.get("devices"):
        kept["devices"] = [
            {
                **_in_pool(names, only(item, ("driver", "pool", "device", "shareID"))),
                "conditions": [condition(names, each) for each in item.get("conditions") or ()],
            }
            for item in status["devices"]
        ]
    return {"spec": _claim_spec(tree.get("spec") or {}), "status": kept}


def _claim_spec(spec: Tree) -> Tree:
    return {**spec, "devices": _without_parameters(spec["devices"])} if spec.get("devices") else spec


def _without_parameters(tree: Tree) -> Tree:
    """The tree with only apiVersion and kind of opaque driver parameters, which may contain anything."""
    if not tree.get("config"):
        return tree
    return {**tree, "config": [_config(item) for item in tree["config"]]}


def _config(item: Tree) -> Tree:
    opaque = item.get("opaque")
    if not opaque:
        return item
    return {**item, "opaque": {**opaque, "parameters": only(opaque.get("parameters") or {}, ("apiVersion", "kind"))}}


def _claim_template(names: Pseudonyms, tree: Tree) -> Tree:
    spec = tree.get("spec") or {}
    return {
        "spec": {"metadata": _metadata(names, spec.get("metadata") or {}), "spec": _claim_spec(spec.get("spec") or {})}
    }


def _device_class(names: Pseudonyms, tree: Tree) -> Tree:
    return {"spec": _without_parameters(names.selectors(tree.get("spec") or {}))}


def _taint_rule(names: Pseudonyms, tree: Tree) -> Tree:
    spec = tree.get("spec") or {}
    selector = spec.get("deviceSelector")
    kept = {**spec, "deviceSelector": _in_pool(names, selector)} if selector else dict(spec)
    conditions = [condition(names, item) for item in (tree.get("status") or {}).get("conditions") or ()]
    return {"spec": kept, "status": {"conditions": conditions}}


def _event(names: Pseudonyms, tree: Tree) -> Tree:
    about = tree.get("involvedObject") or {}
    kept = only(about, ("kind", "apiVersion", "uid"))
    kept["namespace"] = names.of("namespace", about.get("namespace", ""))
    kept["name"] = names.of(_NAME_KINDS.get(about.get("kind", ""), "owner"), about.get("name", ""))
    message = (
        redact_message(names, str(tree.get("message") or "")) if tree.get("reason") in _EVENTS_WITH_MESSAGE else ""
    )
    source = only(tree.get("source") or {}, ("component",))
    return {"involvedObject": kept, **only(tree, _EVENT), "source": source, "message": message}


def _quota(names: Pseudonyms, tree: Tree) -> Tree:
    """Only limits of claims and devices: other keys may contain names, such as storage classes."""
    status = tree.get("status") or {}
    return {
        "status": {
            part: {name: amount for name, amount in (status.get(part) or {}).items() if limits_devices(name)}
            for part in ("hard", "used")
        }
    }


def _lease(names: Pseudonyms, tree: Tree) -> Tree:
    return {"spec": only(tree.get("spec") or {}, ("leaseDurationSeconds", "renewTime"))}


_KINDS: dict[str, Redact] = {
    "Namespace": _namespace, "Node": _node, "Pod": _pod, "Deployment": _workload, "ReplicaSet": _workload,
    "StatefulSet": _workload, "DaemonSet": _workload, "Job": _workload, "CronJob": _workload,
    "ReplicationController": _workload, "PodGroup": _pod_group, "CompositePodGroup": _pod_group,
    "ResourceSlice": _slice, "ResourceClaim": _claim,
    "ResourceClaimTemplate": _claim_template, "DeviceClass": _device_class, "DeviceTaintRule": _taint_rule,
    "Event": _event, "ResourceQuota": _quota, "Lease": _lease,
}  # fmt: skip
