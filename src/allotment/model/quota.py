"""The usage that objects add to a ResourceQuota, and the scopes of quotas.

Devices are counted in three ways (KEP-5004, KEP-4381): the number of claims (``count/resourceclaims.resource.k8s.io``),
their devices by class (``<class>.deviceclass.resource.k8s.io/devices``, the maximum that a request can get), and, for a
class with an extended resource, together with the pods that request this resource by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.model.pod_resources import add_amounts, pod_limits, pod_requests
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation.names import is_extended_resource

Usage = dict[str, Quantity]

CLAIMS_RESOURCE: Final = "resourceclaims.resource.k8s.io"
CLASS_DEVICES_SUFFIX: Final = ".deviceclass.resource.k8s.io/devices"
IMPLICIT_REQUESTS_PREFIX: Final = "requests.deviceclass.resource.kubernetes.io/"
_MAX_DEVICES: Final = 32
_ONE: Final = Quantity.of_int(1)
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
#: Resources that quotas also count by their plain name.
_COUNTED_BY_NAME: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
_TERMINAL_PHASES: Final = ("Succeeded", "Failed")


def limits_devices(name: str) -> bool:
    """Whether a key of a quota limits claims or devices, including those of extended resources.

    >>> [limits_devices(k) for k in ("gpu.deviceclass.resource.k8s.io/devices", "requests.nvidia.com/gpu", "pods")]
    [True, True, False]
    """
    if (
        name.endswith(CLASS_DEVICES_SUFFIX)
        or name.startswith(IMPLICIT_REQUESTS_PREFIX)
        or name == f"count/{CLAIMS_RESOURCE}"
    ):
        return True
    return name.startswith("requests.") and is_extended_resource(name.removeprefix("requests."))


def usage(bucket: str, tree: Tree, extended_name: Callable[[str], str] = lambda class_name: "") -> Usage:
    """The usage of an object by quota key.

    ``bucket``: ``plural.group``. ``extended_name``: returns the extended resource of a class, or an empty string.

    >>> sorted(usage("secrets", {}))
    ['count/secrets', 'secrets']
    """
    counted = {f"count/{bucket}": _ONE}
    if bucket in _COUNTED_BY_NAME:
        counted[bucket] = _ONE
    spec = tree.get("spec") or {}
    if bucket == "pods":
        if (tree.get("status") or {}).get("phase") not in _TERMINAL_PHASES:
            counted |= _pod(spec, tree.get("status") or {})
    elif bucket == CLAIMS_RESOURCE:
        counted |= _claim(spec, extended_name)
    elif bucket == "services":
        counted |= _service(spec)
    elif bucket == "persistentvolumeclaims":
        counted |= _volume_claim(spec)
    return counted


def _pod(spec: Tree, status: Tree) -> Usage:
    # Kubernetes 1.36 counts resizes of containers, but not of pod-level resources.
    status = {name: part for name, part in status.items() if name not in ("resources", "allocatedResources")}
    requests, limits = pod_requests(spec, status), pod_limits(spec, status)
    counted: Usage = {"pods": _ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            counted[name] = counted[f"requests.{name}"] = amount
        elif is_extended_resource(name) or name.startswith("deviceclass.resource.kubernetes.io/"):
            counted[f"requests.{name}"] = amount
    for name in _COMPUTE:
        if name in limits:
            counted[f"limits.{name}"] = limits[name]
    return counted


def _claim(spec: Tree, extended_name: Callable[[str], str]) -> Usage:
    devices: Usage = {}
    for request in (spec.get("devices") or {}).get("requests") or ():
        maximum: Usage = {}
        for request_fields in request.get("firstAvailable") or [request.get("exactly") or {}]:
            name, count = request_fields.get("deviceClassName"), _device_count(request_fields)
            if name:
                maximum[name] = max(maximum.get(name, Quantity.ZERO), Quantity.of_int(count))
        add_amounts(devices, maximum)
    counted: Usage = {}
    for name, amount in devices.items():
        add_amounts(counted, {f"{name}{CLASS_DEVICES_SUFFIX}": amount, f"{IMPLICIT_REQUESTS_PREFIX}{name}": amount})
        if extended := extended_name(name):
            add_amounts(counted, {f"requests.{extended}": amount})
    return counted


def _device_count(request_fields: Tree) -> int:
    mode = request_fields.get("allocationMode") or "ExactCount"
    if mode == "All":
        return _MAX_DEVICES
    return int(request_fields.get("count") or 1) if mode == "ExactCount" else 0


def _service(spec: Tree) -> Usage:
    ports = len(spec.get("ports") or ())
    if spec.get("type") == "NodePort":
        return {"services.nodeports": Quantity.of_int(ports)}
    if spec.get("type") == "LoadBalancer":
        with_port = ports if spec.get("allocateLoadBalancerNodePorts") is not False else 0
        return {"services.loadbalancers": _ONE, "services.nodeports": Quantity.of_int(with_port)}
    return {}


def _volume_claim(spec: Tree) -> Usage:
    request_fields = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if request_fields is None:
        return {}
    amount, storage_class = Quantity.parse(str(request_fields)), spec.get("storageClassName")
    counted: Usage = {"requests.storage": amount}
    if storage_class:
        prefix = f"{storage_class}.storageclass.storage.k8s.io"
        counted |= {f"{prefix}/requests.storage": amount, f"{prefix}/persistentvolumeclaims": _ONE}
    return counted


# --- scopes ----------------------------------------------------------------------------------------------------------


def is_in_scope(quota_spec: Tree, bucket: str, tree: Tree) -> bool:
    """Whether an object is in the scopes of a quota. A quota with scopes applies to pods only."""
    scopes = [{"scopeName": name, "operator": "Exists"} for name in quota_spec.get("scopes") or ()]
    scopes += (quota_spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    if not scopes:
        return True
    return bucket == "pods" and all(_in_scope(scope, tree) for scope in scopes)


def _in_scope(scope: Tree, pod: Tree) -> bool:
    spec, name = pod.get("spec") or {}, scope.get("scopeName")
    if name == "PriorityClass":
        priority_class: str = spec.get("priorityClassName") or ""
        values: list[str] = scope.get("values") or []
        operator = scope.get("operator")
        if operator in ("In", "NotIn"):
            return (priority_class in values) is (operator == "In")
        exists: bool = operator == "Exists"
        return bool(priority_class) is exists
    terminating = spec.get("activeDeadlineSeconds") is not None
    best_effort: bool = (pod.get("status") or {}).get("qosClass", "BestEffort") == "BestEffort"
    scopes: dict[str, bool] = {
        "Terminating": terminating, "NotTerminating": not terminating,
        "BestEffort": best_effort, "NotBestEffort": not best_effort,
        "CrossNamespacePodAffinity": _has_cross_namespace_affinity(spec),
    }  # fmt: skip
    return scopes.get(str(name), False)


def _has_cross_namespace_affinity(spec: Tree) -> bool:
    affinity = spec.get("affinity") or {}
    for part in ("podAffinity", "podAntiAffinity"):
        side = affinity.get(part) or {}
        terms = [*(side.get("requiredDuringSchedulingIgnoredDuringExecution") or ())]
        weighted = side.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [term.get("podAffinityTerm") or {} for term in weighted]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
