"""Whether the written objects get their devices on the given hardware, decided by ``explain``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from allotment.explanation import Answer, explain
from allotment.explanation.subjects import identity, objects_to_explain, other_pods, pod_spec_of
from allotment.model.core import Node, Pod
from allotment.model.decoding import Manifest, decode_all
from allotment.model.features import Features
from allotment.model.loading import Document, load_text
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.tools.claims.objects import Plan
from allotment.tools.claims.workload import Workload

#: A pod with an extended resource, if no workload is given.
_POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: any-pod}}
spec:
  containers:
  - name: any
    resources: {{limits: {{"{0}": "{1}"}}}}
"""


class ClaimRefusal(NamedTuple):
    """The reason, a sentence. ``is_temporary``: the claim gets devices once they are free and nothing is tainted."""

    reason: str
    is_temporary: bool


def refusal_of(
    text: str, plan: Plan, workload: Workload | None, cluster: Sequence[Object], features: Features, namespace: str
) -> ClaimRefusal | None:
    """Return why a claim gets no devices in a cluster; None if it gets them.

    ``text``: the new manifests; ``workload``: before it was changed. Only its pods are placed, not those of other
    workloads in the same file.
    """
    if workload is None and plan.limits is not None:
        text += "---\n" + _POD.format(*plan.limits)
    requested = [value for value in _values(text, features, namespace) if workload is None or _is_used(value, workload)]
    cluster = tuple(_without_waiting(cluster, requested))
    if not (reason := _reason(requested, workload, cluster, features)):
        return None
    return ClaimRefusal(reason, not _reason(requested, workload, tuple(map(_untainted, _unused(cluster))), features))


def _without_waiting(cluster: Iterable[Object], requested: Iterable[Object]) -> Iterator[Object]:
    """The objects of a cluster without the claims that wait for devices, unless a requested pod names them."""
    named = {
        ObjectKey(value.metadata.namespace, entry.resource_claim_name)
        for value in requested
        for entry in pod_spec_of(value).resource_claims
        if entry.resource_claim_name
    }
    for value in cluster:
        if not isinstance(value, ResourceClaim) or value.status.allocation is not None or value.key in named:
            yield value


def _unused(cluster: Iterable[Object]) -> Iterator[Object]:
    """The objects of a cluster in which no device is allocated."""
    for value in cluster:
        is_allocated = isinstance(value, ResourceClaim) and value.status.allocation is not None
        if not (is_allocated or isinstance(value, Pod | DeviceTaintRule)):
            yield value


def _untainted(value: Object) -> Object:
    """A node that takes all pods, a slice without tainted devices, or another object as it is."""
    if isinstance(value, Node):
        return replace(value, spec=replace(value.spec, unschedulable=False, taints=()))
    if isinstance(value, ResourceSlice) and value.spec.devices:
        devices = tuple(replace(device, taints=()) for device in value.spec.devices)
        return replace(value, spec=replace(value.spec, devices=devices))
    return value


def _reason(
    requested: Sequence[Object], workload: Workload | None, cluster: Sequence[Object], features: Features
) -> str:
    values = objects_to_explain(cluster, requested)
    explanation = explain(values, features, others=other_pods(cluster, values))
    of_workload = [answer for answer in explanation.answers if workload is not None and _is_of(answer, workload)]
    # Pods of third-party kinds are unknown; a pod that stands for them is tried with each template.
    refused = next((answer for answer in of_workload or explanation.answers if not answer.fits), None)
    if refused is None or refused.reasons is None:
        return ""
    return refused.reasons.headline.summary


def _values(text: str, features: Features, namespace: str) -> Iterable[Object]:
    documents: Iterable[Document] = load_text(text, "claim.yaml").documents
    for manifest in decode_all(documents, release=features.kube).manifests:
        if isinstance(manifest.value, Object):
            yield _in_namespace(manifest, manifest.value, namespace)


def _in_namespace(manifest: Manifest, value: Object, namespace: str) -> Object:
    written = (manifest.document.tree.get("metadata") or {}).get("namespace")
    if written or not manifest.key.namespace:
        return value
    return replace(value, metadata=replace(value.metadata, namespace=namespace))


def _is_used(value: Object, workload: Workload) -> bool:
    """Whether an object matters for a workload: it is the workload, or has no pods of its own."""
    kind, key = identity(value)
    is_dra = kind in ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "Namespace", "Node", "PodGroup")
    return is_dra or (kind == workload.view.kind and key == workload.view.key)


def _is_of(answer: Answer, workload: Workload) -> bool:
    """Whether an answer is about a pod of a workload."""
    return answer.kind == "Pod" and str(workload.view.key) in (answer.owner.rpartition(" ")[2], answer.name)
