"""ResourceQuota at the door: what a new object counts for must fit beside what is there.

What is there is counted, not read from the quota's status: the status is for people, and a controller writes it later.
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

#: If a quota bounds these, each container has to say what it wants of them.
_MUST_ASK: Final = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})


def charge(bucket: str, tree: Tree, write: Write) -> None:
    """Refuse an object that exceeds a quota of its namespace."""
    if not write.namespace:
        return
    for entry in write.reader.list("resourcequotas", write.namespace):
        quota = entry.tree
        spec = quota.get("spec") or {}
        if spec.get("hard") and is_in_scope(spec, bucket, tree):
            _fits(quota, bucket, tree, write)


def _fits(quota: Tree, bucket: str, tree: Tree, write: Write) -> None:
    spec = quota["spec"]
    hard = {name: Quantity.parse(str(text)) for name, text in spec["hard"].items()}
    title, name = quota["metadata"]["name"], tree["metadata"].get("name") or ""

    def extended_name(class_name: str) -> str:
        entry = write.reader.get("deviceclasses.resource.k8s.io", "", class_name)
        return str(((entry.tree.get("spec") or {}).get("extendedResourceName")) or "") if entry else ""

    wanted = {key: amount for key, amount in usage(bucket, tree, extended_name).items() if key in hard and amount.nano}
    if bucket == "pods" and not (tree["spec"].get("resources") or {}):
        missing = _unsaid(tree["spec"], hard)
        if missing:
            raise forbidden(bucket, name, f"failed quota: {title}: must specify {missing}")
    if not wanted:
        return
    buckets = {bucket, *(_bucket_of(key) for key in wanted)}
    used = sum_amounts(
        usage(other, entry.tree, extended_name)
        for other in buckets
        for entry in write.reader.list(other, write.namespace)
        if is_in_scope(spec, other, entry.tree)
    )
    over = [key for key in sorted(wanted) if used.get(key, Quantity.ZERO).add(wanted[key]) > hard[key]]
    if over:
        raise forbidden(
            bucket, name,
            f"exceeded quota: {title}, requested: {_listed(over, wanted)}, used: {_listed(over, used)}, limited: "
            f"{_listed(over, hard)}",
        )  # fmt: skip


def _bucket_of(key: str) -> str:
    """Beside the object's own bucket: where else a resource is counted."""
    if key.startswith(IMPLICIT_REQUESTS_PREFIX) or (key.startswith("requests.") and "/" in key):
        return CLAIMS_RESOURCE
    return "pods"


def _unsaid(spec: Tree, hard: Mapping[str, Quantity]) -> str:
    silent: dict[str, list[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        for name in _MUST_ASK & hard.keys():
            part, _, bare = name.rpartition(".")
            if bare not in (resources.get(part or "requests") or {}):
                silent.setdefault(name, []).append(container.get("name") or "")
    return "; ".join(f"{name} for: {','.join(sorted(set(silent[name])))}" for name in sorted(silent))


def _listed(keys: Iterable[str], amounts: Mapping[str, Quantity]) -> str:
    return ",".join(f"{key}={amounts.get(key, Quantity.ZERO)}" for key in keys)
