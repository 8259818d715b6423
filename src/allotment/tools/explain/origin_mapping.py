"""The diagnosis of a pending pod in terms of the objects that users wrote: templates, workloads, and rules for nodes.

`pending_diagnosis` assembles it for all tools, so that explain, the scheduler's events, check and doctor name the same
first remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from allotment.engine.refusal import BUSY, CODES, AllocationRefusal, Diagnosis, NodeReason, SuggestedChange
from allotment.engine.remedies import REMEDIES, effort, is_alternative
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey

#: Workloads whose pods do not end by themselves; those of the first ones can be reduced in number.
_SCALABLE: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})
ENDLESS: Final = _SCALABLE | {"DaemonSet"}
_HASH: Final = "pod-template-hash"
#: The strategy with which a Deployment replaces pods without devices for an additional one.
_REPLACE_IN_PLACE: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def pending_diagnosis(
    found: Diagnosis,
    pod: Pod | None,
    templates: Mapping[ObjectKey, str],
    extended: str = "",
    excluded: tuple[NodeReason, ...] = (),
    *,
    ended: bool = False,
    is_endless: Callable[[ObjectKey], bool] = lambda claim: False,
) -> Diagnosis:
    """The diagnosis of a pending pod, from the reasons ``found`` on eligible nodes and the ``excluded`` nodes.

    ``templates`` and ``extended``: see `by_origin`. ``pod`` is None for a claim without a pod. ``ended``: an error on
    an eligible node ends the scheduling attempt. ``is_endless``: whether the pods that use a claim do not end by
    themselves.
    """
    reasons = by_origin(found, templates, extended)
    if pod is not None:
        reasons = _with_replica_advice(reasons, pod)
    return _with_excluded(reasons, excluded, ended, is_endless) if excluded else reasons


def _with_replica_advice(diagnosis: Diagnosis, pod: Pod) -> Diagnosis:
    """The reasons, with other advice instead of "wait" if pods of the same workload hold the devices."""
    owner = next((ref for ref in pod.metadata.owner_references if ref.controller), None)
    first = next(iter(diagnosis.headline.changes), None)
    if owner is None or owner.kind not in _SCALABLE or first is None or first.remedy != "wait":
        return diagnosis
    before, namespace = f"ResourceClaim {pod.metadata.namespace}/", pod.metadata.namespace
    hash_ = pod.metadata.labels.get(_HASH, "")
    deployment = owner.name.removesuffix(f"-{hash_}")
    if first.object.startswith(f"{before}{owner.name}-"):
        whose = f"{owner.kind} {namespace}/{owner.name}"
        text = f"run fewer replicas of {whose}, or add a node: the other pods hold the devices and keep running"
        instead = SuggestedChange(text=text, remedy="replicas")
    elif hash_ and re.match(rf"{re.escape(before + deployment)}-[a-z0-9]+-[a-z0-9]{{5}}-", first.object):
        instead = SuggestedChange(
            text=(
                "set maxSurge to 0, so that the Deployment deletes an old pod, which holds devices, before it "
                "creates a new one"
            ),
            object=f"Deployment {namespace}/{deployment}",
            path="spec.strategy",
            becomes=_REPLACE_IN_PLACE,
            node=first.node,
            remedy="rollout",
        )
    else:
        return diagnosis
    headline = replace(diagnosis.headline, changes=(instead,))
    rows = tuple(
        replace(row, refused=headline) if row.refused == diagnosis.headline else row for row in diagnosis.nodes
    )
    return replace(diagnosis, headline=headline, nodes=rows)


def owner_of(pod: Pod) -> str:
    """The workload that owns a pod, as ``Deployment ml/server``; empty if there is none."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return f"{owner.kind} {pod.metadata.namespace}/{owner.name}"
    return ""


#: Paths of the pod template in workloads, if not ``spec.template.``.
_POD_SPEC = {"CronJob": "spec.jobTemplate.spec.template."}


def template_of(pod: Pod, owner: str) -> tuple[str, str]:
    """The object that contains the pod, and the path of the pod in it."""
    if not owner:
        return f"Pod {pod.key}", ""
    return owner, _POD_SPEC.get(owner.partition(" ")[0], "spec.template.")


def not_eligible(rows: tuple[NodeReason, ...]) -> Diagnosis:
    """The diagnosis if every node is excluded."""
    fix = easiest_fix(rows)
    first = sorted(rows, key=lambda row: row is not fix)[:3]
    summary = "; ".join(row.refused.summary for row in first)
    refused = AllocationRefusal(
        code="node-not-eligible",
        summary=summary,
        changes=fix.refused.changes if fix is not None else (),
        kubernetes=CODES["node-not-eligible"].kubernetes,
    )
    return Diagnosis(headline=refused, nodes=rows if len(rows) > 1 else ())


def _with_excluded(
    diagnosis: Diagnosis, rows: tuple[NodeReason, ...], ended: bool, is_endless: Callable[[ObjectKey], bool]
) -> Diagnosis:
    """The diagnosis with the excluded nodes added.

    If an excluded node has the requested devices, the exclusion becomes the headline, unless waiting helps or an error
    ``ended`` the attempt. A cordoned node is the headline even if waiting helps: uncordoning is possible immediately.
    """
    before, fix = diagnosis.headline, easiest_fix(rows)
    if fix is None:
        return replace(diagnosis, nodes=(*diagnosis.nodes, *rows))
    waiting_helps = before.code in BUSY or any(REMEDIES[c.remedy].scope == "nothing" for c in before.changes[:1])
    is_cordoned = all(change.remedy == "uncordon" for change in fix.refused.changes)
    if not ended and (is_cordoned or not waiting_helps):
        keeps = waiting_helps or is_alternative([change.remedy for change in before.changes])
        headline = replace(fix.refused, otherwise=before.changes if keeps else ())
        others = tuple(row for row in rows if row is not fix)
        return replace(diagnosis, headline=headline, nodes=(replace(fix, refused=headline), *diagnosis.nodes, *others))
    remedies = [fix.refused.changes]
    if before.changes:
        remedies.insert(0 if ended or _needs_no_edit(before, is_endless) else 1, before.changes)
    headline = replace(before, changes=remedies[0], otherwise=remedies[1] if before.changes else ())
    nodes = tuple(replace(row, refused=headline) if row.refused == before else row for row in diagnosis.nodes)
    return replace(diagnosis, headline=headline, nodes=(*nodes, *rows))


def _needs_no_edit(refused: AllocationRefusal, is_endless: Callable[[ObjectKey], bool]) -> bool:
    """Whether the first remedy needs neither other rules for nodes nor fewer devices: a pod that ends by itself, the
    driver, or a Deployment's own rollout releases the devices."""
    first = refused.changes[0]
    if first.remedy != "wait":
        return first.remedy in ("driver", "rollout")
    namespace, _, name = first.object.removeprefix("ResourceClaim ").rpartition("/")
    return not (first.object and is_endless(ObjectKey(namespace, name)))


def has_endless_owner(pod: Pod) -> bool:
    """Whether a workload controls the pod whose pods do not end by themselves."""
    return any(owner.controller and owner.kind in ENDLESS for owner in pod.metadata.owner_references)


def easiest_fix(rows: Iterable[NodeReason]) -> NodeReason | None:
    """The row whose changes are easiest, or None if no row has changes."""
    fixable = [row for row in rows if row.refused.changes]
    return min(fixable, key=lambda row: effort(change.remedy for change in row.refused.changes), default=None)


def by_origin(diagnosis: Diagnosis, templates: Mapping[ObjectKey, str], extended: str) -> Diagnosis:
    """The diagnosis with changes of generated claims mapped to their templates, because claims are immutable."""
    origin = {
        f"ResourceClaim {key}": f"ResourceClaimTemplate {ObjectKey(key.namespace, name)}"
        for key, name in templates.items()
    }

    def map_change(change: SuggestedChange) -> SuggestedChange:
        if change.object in origin:
            return replace(change, object=origin[change.object], path=f"spec.{change.path}")
        return replace(change, object="", path="", becomes=None) if change.object == extended else change

    def map_refusal(refused: AllocationRefusal) -> AllocationRefusal:
        changes, otherwise = tuple(map(map_change, refused.changes)), tuple(map(map_change, refused.otherwise))
        return replace(refused, changes=changes, otherwise=otherwise)

    rows = tuple(NodeReason(nodes=row.nodes, refused=map_refusal(row.refused)) for row in diagnosis.nodes)
    headline = rows[0].refused if rows else map_refusal(diagnosis.headline)
    return replace(diagnosis, headline=headline, nodes=rows)
