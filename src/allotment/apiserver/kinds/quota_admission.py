"""ResourceQuota admission: rejects objects whose requests would exceed the hard limits of a quota.

Usage is computed from the stored objects, not read from the status of the quota, which a controller updates later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from allotment.apiserver.kinds.admission_errors import forbidden
from allotment.apiserver.kinds.kind import Write
from allotment.model.pod_resources import sum_amounts
from allotment.model.quantity import Quantity
from allotment.model.quota import CLAIMS_RESOURCE, IMPLICIT_REQUESTS_PREFIX, is_in_scope, usage
from allotment.model.trees import Tree

#: If a quota limits these, each container must specify them.
_MUST_BE_SPECIFIED: Final = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
)


def check_quotas(bucket: str, tree: Tree, write: Write) -> None:
    """Reject an object that exceeds a quota of its namespace."""
    if not write.namespace:
        return
    for entry in write.reader.list("resourcequotas", write.namespace):
        quota = entry.tree
        spec = quota.get("spec") or {}
        if spec.get("hard") and is_in_scope(spec, bucket, tree):
            _check_quota(quota, bucket, tree, write)


def _check_quota(quota: Tree, bucket: str, tree: Tree, write: Write) -> None:
    spec = quota["spec"]
    hard = {name: Quantity.parse(str(text)) for name, text in spec["hard"].items()}
    quota_name, name = quota["metadata"]["name"], tree["metadata"].get("name") or ""

    def extended_name(class_name: str) -> str:
        entry = write.reader.get("deviceclasses.resource.k8s.io", "", class_name)
        return str(((entry.tree.get("spec") or {}).get("extendedResourceName")) or "") if entry else ""

    requested = {
        key: amount for key, amount in usage(bucket, tree, extended_name).items() if key in hard and amount.nano
    }
    if bucket == "pods" and not (tree["spec"].get("resources") or {}):
        missing = _unspecified(tree["spec"], hard)
        if missing:
            raise forbidden(bucket, name, f"failed quota: {quota_name}: must specify {missing}")
    if not requested:
        return
    buckets = {bucket, *(_counted_bucket(key) for key in requested)}
    used = sum_amounts(
        usage(counted, entry.tree, extended_name)
        for counted in buckets
        for entry in write.reader.list(counted, write.namespace)
        if is_in_scope(spec, counted, entry.tree)
    )
    exceeded = [key for key in sorted(requested) if used.get(key, Quantity.ZERO).add(requested[key]) > hard[key]]
    if exceeded:
        raise forbidden(
            bucket, name,
            f"exceeded quota: {quota_name}, requested: {_amounts_text(exceeded, requested)}, "
            f"used: {_amounts_text(exceeded, used)}, limited: {_amounts_text(exceeded, hard)}",
        )  # fmt: skip


def _counted_bucket(key: str) -> str:
    """The bucket in which a resource is counted in addition to the bucket of the new object."""
    if key.startswith(IMPLICIT_REQUESTS_PREFIX) or (key.startswith("requests.") and "/" in key):
        return CLAIMS_RESOURCE
    return "pods"


def _unspecified(spec: Tree, hard: Mapping[str, Quantity]) -> str:
    containers_by_resource: dict[str, list[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        for name in _MUST_BE_SPECIFIED & hard.keys():
            part, _, resource = name.rpartition(".")
            if resource not in (resources.get(part or "requests") or {}):
                containers_by_resource.setdefault(name, []).append(container.get("name") or "")
    return "; ".join(
        f"{name} for: {','.join(sorted(set(containers_by_resource[name])))}" for name in sorted(containers_by_resource)
    )


def _amounts_text(keys: Iterable[str], amounts: Mapping[str, Quantity]) -> str:
    return ",".join(f"{key}={amounts.get(key, Quantity.ZERO)}" for key in keys)
