"""The engine's reasons in terms of what the user wrote: templates instead of generated claims, replicas of one kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from allotment.engine.refusal import BUSY, CODES, Change, Diagnosis, NodeReason, Refused
from allotment.engine.remedies import REMEDIES, effort, is_alternative
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey

#: Workloads whose pods run until somebody ends them.
_ENDLESS: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})
_HASH: Final = "pod-template-hash"
#: How a Deployment replaces pods where there are no devices for one more.
_IN_TURN: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def with_replicas(diagnosis: Diagnosis, pod: Pod) -> Diagnosis:
    """The reasons; where the pod was told to wait for its own kind, with what to do instead."""
    owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    first = next(iter(diagnosis.headline.changes), None)
    if owner is None or owner.kind not in _ENDLESS or first is None or first.remedy != "wait":
        return diagnosis
    before, namespace = f"ResourceClaim {pod.metadata.namespace}/", pod.metadata.namespace
    hash_ = pod.metadata.labels.get(_HASH, "")
    deployment = owner.name.removesuffix(f"-{hash_}")
    if first.object.startswith(f"{before}{owner.name}-"):
        whose = f"{owner.kind} {namespace}/{owner.name}"
        text = f"run fewer replicas of {whose}, or add a node: its other pods hold devices, and do not end"
        instead = Change(text=text, remedy="replicas")
    elif hash_ and re.match(rf"{re.escape(before + deployment)}-[a-z0-9]+-[a-z0-9]{{5}}-", first.object):
        instead = Change(
            text="let the Deployment end an old pod before it starts a new one, for the old ones hold the devices",
            object=f"Deployment {namespace}/{deployment}",
            path="spec.strategy",
            becomes=_IN_TURN,
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
    """The workload that a pod belongs to, as ``Deployment ml/server``."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return f"{owner.kind} {pod.metadata.namespace}/{owner.name}"
    return ""


#: Where the pod's spec stands in the workloads that make pods.
_POD_SPEC = {"CronJob": "spec.jobTemplate.spec.template."}


def template_of(pod: Pod, owner: str) -> tuple[str, str]:
    """The object whose author can change the pod, and where the pod stands in it."""
    if not owner:
        return f"Pod {pod.key}", ""
    return owner, _POD_SPEC.get(owner.partition(" ")[0], "spec.template.")


def not_eligible(rows: tuple[NodeReason, ...]) -> Diagnosis:
    """The pod may go to no node."""
    way = easiest(rows)
    first = sorted(rows, key=lambda row: row is not way)[:3]
    summary = "; ".join(row.refused.summary for row in first)
    refused = Refused(
        code="node-not-eligible",
        summary=summary,
        changes=way.refused.changes if way is not None else (),
        kubernetes=CODES["node-not-eligible"].kubernetes,
    )
    return Diagnosis(headline=refused, nodes=rows if len(rows) > 1 else ())


def with_excluded(diagnosis: Diagnosis, rows: tuple[NodeReason, ...], ended: bool = False) -> Diagnosis:
    """With those nodes that the pod may not go to. Where one of them has what the pod asks for, just as it asks for
    it, that is the cause, unless it need only wait; or an error ``ended`` the attempt."""
    told, way = diagnosis.headline, easiest(rows)
    if way is None:
        return replace(diagnosis, nodes=(*diagnosis.nodes, *rows))
    patient = any(REMEDIES[change.remedy].changes == "nothing" for change in told.changes[:1])
    if not patient and not ended and told.code not in BUSY:
        second = told.changes if is_alternative([change.remedy for change in told.changes]) else ()
        headline = replace(way.refused, otherwise=second)
        others = tuple(row for row in rows if row is not way)
        return replace(diagnosis, headline=headline, nodes=(replace(way, refused=headline), *diagnosis.nodes, *others))
    ways = (told.changes, way.refused.changes) if told.changes else (way.refused.changes, ())
    headline = replace(told, changes=ways[0], otherwise=ways[1])
    nodes = tuple(replace(row, refused=headline) if row.refused == told else row for row in diagnosis.nodes)
    return replace(diagnosis, headline=headline, nodes=(*nodes, *rows))


def easiest(rows: Iterable[NodeReason]) -> NodeReason | None:
    """The nodes to which the way is easiest, of those that there is a way to."""
    ways = [row for row in rows if row.refused.changes]
    return min(ways, key=lambda row: effort(change.remedy for change in row.refused.changes), default=None)


def by_origin(diagnosis: Diagnosis, templates: Mapping[ObjectKey, str], extended: str) -> Diagnosis:
    """Changes of a generated claim are changes of its template: the claim itself is immutable and not the user's."""
    origin = {
        f"ResourceClaim {key}": f"ResourceClaimTemplate {ObjectKey(key.namespace, name)}"
        for key, name in templates.items()
    }

    def moved(change: Change) -> Change:
        if change.object in origin:
            return replace(change, object=origin[change.object], path=f"spec.{change.path}")
        return replace(change, object="", path="", becomes=None) if change.object == extended else change

    def mend(refused: Refused) -> Refused:
        changes, otherwise = tuple(map(moved, refused.changes)), tuple(map(moved, refused.otherwise))
        return replace(refused, changes=changes, otherwise=otherwise)

    rows = tuple(NodeReason(nodes=row.nodes, refused=mend(row.refused)) for row in diagnosis.nodes)
    headline = rows[0].refused if rows else mend(diagnosis.headline)
    return replace(diagnosis, headline=headline, nodes=rows)
