"""Mapping of reasons to the objects that the user wrote: templates, workloads and node rules of the pod."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from allotment.engine.refusal import BUSY, CODES, AllocationRefusal, Diagnosis, NodeReason, SuggestedChange
from allotment.engine.remedies import REMEDIES, effort, is_alternative
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey

#: Workloads whose pods do not end by themselves.
_ENDLESS: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})
_HASH: Final = "pod-template-hash"
#: The strategy with which a Deployment replaces pods without devices for an additional one.
_REPLACE_IN_PLACE: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def with_replica_advice(diagnosis: Diagnosis, pod: Pod) -> Diagnosis:
    """The reasons, with other advice instead of "wait" if pods of the same workload hold the devices."""
    owner = next((ref for ref in pod.metadata.owner_references if ref.controller), None)
    first = next(iter(diagnosis.headline.changes), None)
    if owner is None or owner.kind not in _ENDLESS or first is None or first.remedy != "wait":
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


def with_excluded(diagnosis: Diagnosis, rows: tuple[NodeReason, ...], ended: bool = False) -> Diagnosis:
    """The diagnosis with the excluded nodes added. If an excluded node has the requested devices, the exclusion becomes
    the headline, unless waiting helps or an error ``ended`` the attempt."""
    headline_before, fix = diagnosis.headline, easiest_fix(rows)
    if fix is None:
        return replace(diagnosis, nodes=(*diagnosis.nodes, *rows))
    waiting_helps = any(REMEDIES[change.remedy].scope == "nothing" for change in headline_before.changes[:1])
    if not waiting_helps and not ended and headline_before.code not in BUSY:
        second = (
            headline_before.changes if is_alternative([change.remedy for change in headline_before.changes]) else ()
        )
        headline = replace(fix.refused, otherwise=second)
        others = tuple(row for row in rows if row is not fix)
        return replace(diagnosis, headline=headline, nodes=(replace(fix, refused=headline), *diagnosis.nodes, *others))
    fixable = (headline_before.changes, fix.refused.changes) if headline_before.changes else (fix.refused.changes, ())
    headline = replace(headline_before, changes=fixable[0], otherwise=fixable[1])
    nodes = tuple(replace(row, refused=headline) if row.refused == headline_before else row for row in diagnosis.nodes)
    return replace(diagnosis, headline=headline, nodes=(*nodes, *rows))


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
