"""Pods for which no claim is generated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from allotment.model.meta import ObjectKey
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.wording import of, remedy
from allotment.tools.doctor.workload_groups import crowd

_REASON: Final = "FailedResourceClaimCreation"
_COMBINED: Final = "(combined from similar events): "
_GENERATED: Final = re.compile(r'"[a-z0-9.-]+" is forbidden')


def find(case: Case) -> Iterable[Sign]:
    """By what the claim controller said."""
    alike: dict[str, list[str]] = {}
    for pod in without_claims(case):
        said = [one.message for one in case.events.get(pod.metadata.uid, ()) if one.reason == _REASON]
        alike.setdefault(_plain(said[-1]) if said else "", []).append(name_of(pod))
    for message, names in alike.items():
        verb = "has" if len(names) == 1 else "have"
        text = f"{crowd(case, names)} {verb} no claim yet, though the template is there: "
        text += message or "the claim controller has not said why"
        words = (
            "Remove what is in the way; it is tried again by itself."
            if message
            else "The claim controller of kube-controller-manager makes them: see whether it runs."
        )
        look = f"kubectl describe pod {of(names[0])}" if message else "kubectl get lease -n kube-system"
        yield Sign.of("pod", names, text, remedy(words, look))


def _plain(message: str) -> str:
    """Without the generated name, which differs each time."""
    return _GENERATED.sub("is forbidden", message.removeprefix(_COMBINED)).replace(
        "ResourceClaim : ", "ResourceClaim: "
    )


def without_claims(case: Case) -> Iterator[Pod]:
    """Pods that wait for a claim of a template that is there."""
    for pod in case.pods:
        if is_finished(pod) or pod.metadata.deletion_timestamp or not case.is_old(pod.metadata.creation_timestamp):
            continue
        made = {one.name for one in pod.status.resource_claim_statuses}
        for entry in pod.spec.resource_claims:
            template = entry.resource_claim_template_name
            if template and entry.name not in made:
                if ObjectKey(pod.metadata.namespace, template) in case.templates:
                    yield pod
                break


CHECK = Check(
    code="D606",
    severity="error",
    summary="no claim is generated for pods, though their template is there",
    why="The claim controller makes a claim per pod and writes its name into the pod's status; until then no scheduler"
    " looks at the pod. It is refused by a full quota or an admission policy, or does not run.",
    find=find,
    needs=("pods", "resourceclaimtemplates"),
)
