"""The objects to delete and create again, because Kubernetes does not allow to change them.

Claims, templates, PodGroups and the specs of pods are immutable. A generated claim is a copy of its template, so the
pod, or the workload that creates it, is replaced together with the template. Only objects of the pod's own namespace
are replaced, or moved to it, and no claim that is in use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import to_builtins

from allotment.engine.refusal import SuggestedChange
from allotment.explanation.fixes import change_tree, path_steps
from allotment.explanation.origin_mapping import owner_of, template_of
from allotment.explanation.outdated_pods import DELETE_POD
from allotment.explanation.report import Answer
from allotment.explanation.stale_claims import RECREATE, stale_claims
from allotment.explanation.subjects import ANY_POD
from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimTemplate
from allotment.model.trees import Tree
from allotment.model.workloads import PodGroup

#: kind -> API group and resource, in the order of creation.
REPLACEABLE: Final[Mapping[str, tuple[str, str]]] = {
    "ResourceClaimTemplate": ("resource.k8s.io", "resourceclaimtemplates"),
    "ResourceClaim": ("resource.k8s.io", "resourceclaims"),
    "PodGroup": ("scheduling.k8s.io", "podgroups"),
    "Deployment": ("apps", "deployments"),
    "ReplicaSet": ("apps", "replicasets"),
    "StatefulSet": ("apps", "statefulsets"),
    "DaemonSet": ("apps", "daemonsets"),
    "ReplicationController": ("", "replicationcontrollers"),
    "Job": ("batch", "jobs"),
    "CronJob": ("batch", "cronjobs"),
    "Pod": ("", "pods"),
}
#: Kinds of workloads: one exists if it has a pod, even if they were not read.
_UNREAD: Final = REPLACEABLE.keys() - {"ResourceClaimTemplate", "ResourceClaim", "PodGroup", "Pod"}
_SET_BY_SERVER: Final = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "managedFields", "ownerReferences", "selfLink", "finalizers", "generateName",
)  # fmt: skip
#: Labels of the pods of a Job that name it by its uid or name; the server sets them.
_OF_JOB: Final = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
_REVISION: Final = "deployment.kubernetes.io/revision"


class Replacement(NamedTuple):
    """The objects to replace, by kind and name in the order of creation, and the changes of the first remedy.

    ``remaining``: its changes of other objects, which have to be made as well. ``moved``: those of the objects that are
    created in another namespace, and have to be deleted in their own one.
    """

    objects: tuple[str, ...]
    changes: tuple[SuggestedChange, ...]
    remaining: tuple[SuggestedChange, ...] = ()
    moved: tuple[str, ...] = ()


def named(text: str) -> tuple[str, ObjectKey]:
    """Kind and key of an object that a change names.

    >>> named("Pod ml/trainer"), named("Node gpu-1")
    (('Pod', ObjectKey(namespace='ml', name='trainer')), ('Node', ObjectKey(namespace='', name='gpu-1')))
    """
    kind, _, full = text.partition(" ")
    namespace, _, name = full.rpartition("/")
    return kind, ObjectKey(namespace, name)


def replacement_of(
    answer: Answer, objects: Mapping[str, Object], in_files: frozenset[str] = frozenset()
) -> Replacement | None:
    """The replacement after which the pod or claim of an answer fits; None if its first remedy is none.

    ``objects``: those of the question by kind and name. ``in_files``: the objects that are not in the cluster.
    """
    if answer.reasons is None:
        return None
    own: list[SuggestedChange] = []
    remaining: list[SuggestedChange] = []
    recreates = False
    for change in answer.reasons.headline.changes:
        if change.remedy == RECREATE:
            recreates = True
        elif named(change.object)[0] in REPLACEABLE and change.remedy not in ("wait", DELETE_POD):
            own.append(change)
        else:
            remaining.append(change)
    names = dict.fromkeys([*(change.object for change in own), *_users(answer, own, objects, in_files, recreates)])
    if not names or not all(_is_replaceable(name, objects, in_files) for name in names):
        return None
    namespace = answer.name.partition("/")[0]
    moved = tuple(c.object for c in own if c.path == "metadata.namespace" and c.becomes == namespace)
    if not all(named(name)[1].namespace == namespace for name in names if name not in moved):
        return None
    changes = tuple(change for change in own if recreates or not _is_made(change, answer, objects))
    return Replacement(tuple(sorted(names, key=_rank)), changes, tuple(remaining), moved)


def _rank(name: str) -> int:
    return list(REPLACEABLE).index(named(name)[0])


def _is_replaceable(name: str, objects: Mapping[str, Object], in_files: frozenset[str]) -> bool:
    kind, key = named(name)
    if kind not in REPLACEABLE or name in in_files or key.name.startswith(ANY_POD):
        return False
    value = objects.get(name)
    if value is None and kind not in _UNREAD:
        return False
    if isinstance(value, ResourceClaim):
        is_generated = any(owner.controller for owner in value.metadata.owner_references)
        if is_generated or value.status.allocation is not None:
            return False
    return True


def _users(
    answer: Answer,
    changes: Sequence[SuggestedChange],
    objects: Mapping[str, Object],
    in_files: frozenset[str],
    recreates: bool,
) -> Iterator[str]:
    """The objects that have to be replaced for the changes to take effect, if they are in the cluster."""
    kinds = {named(change.object)[0] for change in changes}
    pod = objects.get(f"Pod {answer.name}")
    if (
        (recreates or "ResourceClaimTemplate" in kinds)
        and isinstance(pod, Pod)
        and f"Pod {answer.name}" not in in_files
    ):
        group = objects.get(answer.group)
        changed = {named(change.object)[1].name for change in changes}
        if isinstance(group, PodGroup) and any(
            entry.resource_claim_template_name in changed for entry in group.spec.resource_claims
        ):
            kinds.add("PodGroup")
            yield answer.group
        yield template_of(pod, answer.owner or owner_of(pod))[0]
    if "PodGroup" in kinds:  # which is deleted only when no pod is left in it
        groups = {answer.group, *(change.object for change in changes)}
        for value in objects.values():
            if isinstance(value, Pod) and f"PodGroup {_group(value)}" in groups:
                yield template_of(value, owner_of(value))[0]


def _group(pod: Pod) -> ObjectKey:
    group = pod.spec.scheduling_group
    return ObjectKey(pod.metadata.namespace, (group.pod_group_name if group is not None else "") or "")


def _is_made(change: SuggestedChange, answer: Answer, objects: Mapping[str, Object]) -> bool:
    """Whether the template of the change is not the one that the claim of the pod was created from."""
    pod, template = objects.get(f"Pod {answer.name}"), objects.get(change.object)
    if not isinstance(pod, Pod) or not isinstance(template, ResourceClaimTemplate):
        return False
    names = (status.resource_claim_name or "" for status in pod.status.resource_claim_statuses)
    keys = (ObjectKey(pod.metadata.namespace, name) for name in names)
    own = ((key, objects.get(f"ResourceClaim {key}")) for key in keys)
    claims = {key: value for key, value in own if isinstance(value, ResourceClaim)}
    return any(stale_claims(pod, claims, {template.key: template}))


def manifests(found: Replacement, trees: Mapping[str, Tree]) -> list[Tree]:
    """The manifests to pass to ``kubectl replace --force``, from the objects as the cluster has them.

    ``trees``: at least the objects to replace, by kind and name. ``LookupError`` if a field to change does not exist.
    """
    result = {name: _as_written(trees[name]) for name in found.objects}
    for change in found.changes:
        becomes = to_builtins(change.becomes, enc_hook=str)
        change_tree(result[change.object], path_steps(change.path), json.loads(json.dumps(becomes)))
    return list(result.values())


def manager_of(tree: Tree) -> str:
    """The object that controls another one and would revert its change, as ``Kind name``; empty if there is none.

    A Job or ReplicaSet of a workload is independent once it is created again.
    """
    owners = tree["metadata"].get("ownerReferences") or ()
    managers = (owner for owner in owners if owner.get("controller") and owner["kind"] not in REPLACEABLE)
    return next((f"{owner['kind']} {owner['name']}" for owner in managers), "")


def _as_written(tree: Tree) -> Tree:
    """A copy of an object without what the API server and controllers have set."""
    copy: Tree = json.loads(json.dumps({name: value for name, value in tree.items() if name != "status"}))
    metadata = copy["metadata"]
    for name in _SET_BY_SERVER:
        metadata.pop(name, None)
    _drop(metadata, "annotations", (_REVISION,))
    if copy["kind"] == "Job" and not copy["spec"].get("manualSelector"):
        copy["spec"].pop("selector", None)
        for labelled in (metadata, copy["spec"].get("template", {}).get("metadata", {})):
            _drop(labelled, "labels", _OF_JOB)
    return copy


def _drop(metadata: dict[str, Any], field: str, keys: Sequence[str]) -> None:
    kept = {key: value for key, value in (metadata.pop(field, None) or {}).items() if key not in keys}
    if kept:
        metadata[field] = kept
