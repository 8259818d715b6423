"""A valid object of every kind of ``resource.k8s.io`` with every field of every release, as JSON in the v1 shape."""

from __future__ import annotations

from typing import Any

SHARE = "8d0c4ddb-1c6a-4f3e-9b39-6d7a3c0c1d10"
META = {
    "name": "x",
    "labels": {"l": "v"},
    "annotations": {"example.com/a": "v"},
    "finalizers": ["example.com/f"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
}
_NODES = {
    "nodeSelectorTerms": [
        {
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "Exists"}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}],
        }
    ]
}
_REQUEST: dict[str, Any] = {
    "deviceClassName": "gpu.example.com",
    "selectors": [{"cel": {"expression": "true"}}],
    "allocationMode": "ExactCount",
    "count": 2,
    "tolerations": [
        {"key": "a/b", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5},
        {"operator": "Exists"},
    ],
    "capacity": {"requests": {"memory": "1Gi"}},
    "derivedAttributes": [{"name": "d.io/attr", "expression": "true"}],
}
_OPAQUE = {"driver": "d.io", "parameters": {"k": [1, "x"]}}
_CLAIM = {
    "devices": {
        "requests": [
            {"name": "a", "exactly": {**_REQUEST, "adminAccess": False}},
            {"name": "b", "firstAvailable": [{"name": "x", **_REQUEST}, {"name": "y", **_REQUEST}]},
            {"name": "c", "exactly": {"deviceClassName": "k", "allocationMode": "All"}},
        ],
        "constraints": [{"requests": ["a", "b"], "matchAttribute": "d.io/attr"}, {"distinctAttribute": "d.io/other"}],
        "config": [{"requests": ["b/x"], "opaque": _OPAQUE}, {"opaque": _OPAQUE}],
    }
}
_DEVICE = {
    "name": "d0",
    "attributes": {
        "a": {"int": 1}, "d.io/b": {"string": "s"}, "c": {"version": "1.2.3"}, "e": {"bool": False},
        "l": {"strings": ["x"]}, "m": {"versions": ["1.0.0"]}, "n": {"ints": [1, 2]}, "o": {"bools": [True]},
    },
    "capacity": {
        "memory": {
            "value": "40Gi",
            "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "5Gi", "step": "1Gi"}},
        },
        "cores": {"value": "10", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
        "plain": {"value": "3"},
    },
    "consumesCounters": [{"counterSet": "cs", "counters": {"m": {"value": "1"}}, "compatibilityGroups": ["g", "h"]}],
    "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    "bindsToNode": True,
    "bindingConditions": ["a"],
    "bindingFailureConditions": ["b"],
    "allowMultipleAllocations": True,
    "nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "cores"}, "memory": {"allocationMultiplier": "2"}},
    "nodeAllocatableResources": {
        "cpu": {"mapping": {"capacityKey": "cores", "capacityMultiplier": "500m"}},
        "memory": {"mapping": {"deviceMultiplier": "2"}, "overhead": {"perPod": "1Mi", "perContainer": "0"}},
    },
}  # fmt: skip
_POOL = {"name": "p/q", "generation": 1, "resourceSliceCount": 1}

#: Resources, each with a valid spec.
SPECS: list[tuple[str, dict[str, Any]]] = [
    ("resourceclaims", _CLAIM),
    ("resourceclaimtemplates", {"metadata": {"labels": {"a": "b"}}, "spec": _CLAIM}),
    (
        "deviceclasses",
        {
            "selectors": [{"cel": {"expression": "true"}}],
            "config": [{"opaque": _OPAQUE}],
            "extendedResourceName": "example.com/gpu",
        },
    ),
    (
        "resourceslices",
        {
            "driver": "d.io",
            "pool": _POOL,
            "allNodes": True,
            "devices": [_DEVICE, {"name": "d1"}],
            "partitionTypeAttribute": "d.io/b",
            "skipNodeOperations": ["NodePrepareResources", "NodeUnprepareResources"],
        },
    ),
    (
        "resourceslices",
        {
            "driver": "d.io",
            "pool": _POOL,
            "nodeSelector": _NODES,
            "sharedCounters": [
                {"name": "cs", "counters": {"m": {"value": "1"}}},
                {"name": "ct", "counters": {"m": {"value": "1"}}},
            ],
        },
    ),
    (
        "resourceslices",
        {
            "driver": "d.io",
            "pool": _POOL,
            "perDeviceNodeSelection": True,
            "devices": [
                {"name": "d0", "nodeName": "n"},
                {"name": "d1", "nodeSelector": _NODES},
                {"name": "d2", "allNodes": True},
            ],
        },
    ),
    (
        "devicetaintrules",
        {
            "deviceSelector": {"driver": "d.io", "pool": "p/q", "device": "d0"},
            "taint": {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
        },
    ),
    (
        "resourcepoolstatusrequests",
        {"driver": "d.io", "poolName": "p/q", "limit": 5, "defaultPartitionTypeAttribute": "d.io/b"},
    ),
]
