"""Pods that their workload keeps after its pod template was changed: only deleting them creates them as changed.

A StatefulSet updates a pod only after the pods before it are ready, which a pending pod never is (kubernetes/kubernetes
issue 67250), and a ReplicationController never replaces a pod. Deployments and DaemonSets do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from allotment.engine.refusal import AllocationRefusal, SuggestedChange
from allotment.explanation.fixes import path_steps
from allotment.explanation.origin_mapping import owner_of
from allotment.explanation.report import Answer, Explanation
from allotment.model.core import Pod
from allotment.model.loading.marks import at
from allotment.model.meta import Object, ObjectKey
from allotment.model.trees import to_tree

#: The key of the remedy; its change is of the pod, and has no path.
DELETE_POD: Final = "delete-pod"
_KEEPING_PODS: Final = frozenset({"StatefulSet", "ReplicationController"})


def outdated_pods(answer: Answer, changes: Iterable[SuggestedChange], objects: Mapping[str, Object]) -> list[ObjectKey]:
    """The pods to delete after these changes: all pending ones of the pod's workload.

    ``objects``: those of the question by kind and name. Empty unless such a workload's pod template is changed.
    """
    pod = objects.get(f"Pod {answer.name}")
    if not isinstance(pod, Pod) or not pod.metadata.uid:
        return []
    owner = owner_of(pod)
    changed = any(change.object == owner and change.path.startswith("spec.template.") for change in changes)
    if not changed or owner.partition(" ")[0] not in _KEEPING_PODS:
        return []
    return [
        value.key
        for value in objects.values()
        if isinstance(value, Pod) and owner_of(value) == owner and not value.spec.node_name
    ]


def with_outdated_pods(explanation: Explanation, objects: Mapping[str, Object]) -> Explanation:
    """The explanation with the remedy to delete the pod if its workload has been changed as suggested already."""
    return replace(explanation, answers=tuple(_with_deletion(answer, objects) for answer in explanation.answers))


def _with_deletion(answer: Answer, objects: Mapping[str, Object]) -> Answer:
    if answer.reasons is None:
        return answer
    before = answer.reasons.headline
    if not outdated_pods(answer, before.changes, objects) or not all(_is_made(c, objects) for c in before.changes):
        return answer
    owner, name = before.changes[0].object, answer.name.partition("/")[2]
    kind, _, key = owner.partition(" ")
    deletion = SuggestedChange(
        text=f"delete pod {name}: {kind} {key.partition('/')[2]} has the change already, but keeps the pod",
        object=f"Pod {answer.name}",
        node=before.changes[-1].node,
        remedy=DELETE_POD,
    )
    headline = replace(before, changes=(deletion,), otherwise=())

    def changed(refused: AllocationRefusal) -> AllocationRefusal:
        return headline if refused == before else refused

    rows = tuple(replace(row, refused=changed(row.refused)) for row in answer.reasons.nodes)
    return replace(answer, reasons=replace(answer.reasons, headline=headline, nodes=rows))


def _is_made(change: SuggestedChange, objects: Mapping[str, Object]) -> bool:
    """Whether an object has the value that a change gives to it."""
    value = objects.get(change.object)
    if value is None or not change.path:
        return False
    now = at(to_tree(value), path_steps(change.path))
    if isinstance(change.becomes, dict) and isinstance(now, dict):
        return change.becomes.items() <= now.items()
    return bool(now == (list(change.becomes) if isinstance(change.becomes, tuple) else change.becomes))
