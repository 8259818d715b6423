"""Pods whose claims are not generated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from allotment.model.meta import ObjectKey
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.wording import kubectl_args, remedy
from allotment.tools.doctor.workload_groups import pods_text

_REASON: Final = "FailedResourceClaimCreation"
_COMBINED: Final = "(combined from similar events): "
_GENERATED: Final = re.compile(r'"[a-z0-9.-]+" is forbidden')


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Such pods by the message of the claim controller."""
    groups: dict[str, list[str]] = {}
    for pod in pods_without_claims(cluster):
        messages = [event.message for event in cluster.events.get(pod.metadata.uid, ()) if event.reason == _REASON]
        groups.setdefault(_plain(messages[-1]) if messages else "", []).append(name_of(pod))
    for message, names in groups.items():
        verb = "has" if len(names) == 1 else "have"
        text = f"{pods_text(cluster, names)} {verb} no claim yet although the template exists: "
        text += message or "the claim controller has not reported a reason"
        words = (
            "Fix the cause; the claim controller retries automatically."
            if message
            else "The claim controller of kube-controller-manager creates the claims: check whether it is running."
        )
        look = f"kubectl describe pod {kubectl_args(names[0])}" if message else "kubectl get lease -n kube-system"
        yield Symptom.of("pod", names, text, remedy(words, look))


def _plain(message: str) -> str:
    """The message without the generated name, which is different for each attempt."""
    return _GENERATED.sub("is forbidden", message.removeprefix(_COMBINED)).replace(
        "ResourceClaim : ", "ResourceClaim: "
    )


def pods_without_claims(cluster: ClusterIndex) -> Iterator[Pod]:
    """Pods whose claim was not generated although its template exists."""
    for pod in cluster.pods:
        if is_finished(pod) or pod.metadata.deletion_timestamp or not cluster.is_old(pod.metadata.creation_timestamp):
            continue
        generated = {status.name for status in pod.status.resource_claim_statuses}
        for entry in pod.spec.resource_claims:
            template = entry.resource_claim_template_name
            if template and entry.name not in generated:
                if ObjectKey(pod.metadata.namespace, template) in cluster.templates:
                    yield pod
                break


CHECK = ClusterCheck(
    code="D606",
    severity="error",
    summary="no claim is generated for pods although their template exists",
    why="The claim controller creates a claim for each pod and writes the claim's name to the pod's status; until "
    "then, no scheduler considers the pod. A full quota or an admission policy may reject the claim, or the "
    "controller may not be "
    "running.",
    find=find,
    needs=("pods", "resourceclaimtemplates"),
)
