"""Whether the written objects get their devices on the given hardware, decided by ``explain``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from allotment.explanation import Answer, explain
from allotment.explanation.subjects import identity, objects_to_explain, other_pods
from allotment.model.decoding import Manifest, decode_all
from allotment.model.features import Features
from allotment.model.loading import Document, load_text
from allotment.model.meta import Object
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


def reason_for_refusal(
    text: str, plan: Plan, workload: Workload | None, cluster: Sequence[Object], features: Features, namespace: str
) -> str:
    """Return why a claim gets no devices in a cluster, a sentence; empty if it gets them.

    ``text``: the new manifests; ``workload``: before it was changed. Only its pods are placed, not those of other
    workloads in the same file.
    """
    if workload is None and plan.limits is not None:
        text += "---\n" + _POD.format(*plan.limits)
    requested = [value for value in _values(text, features, namespace) if workload is None or _is_used(value, workload)]
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
