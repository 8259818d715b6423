"""The engine's reasons in terms of what the user wrote: templates instead of generated claims, replicas of one kind."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from allotment.engine.refusal import CODES, Change, Diagnosis, NodeReason, Refused
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey


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
    """The pod rules out every node."""
    summary = "; ".join(row.refused.summary for row in rows[:3])
    refused = Refused(
        code="node-not-eligible",
        summary=summary,
        changes=_fewest(rows),
        kubernetes=CODES["node-not-eligible"].kubernetes,
    )
    return Diagnosis(headline=refused, nodes=rows if len(rows) > 1 else ())


def with_excluded(diagnosis: Diagnosis, rows: tuple[NodeReason, ...]) -> Diagnosis:
    """With those nodes that the pod rules out. Where nothing else helps, it may be told to go to one of them."""
    told = diagnosis.headline
    if told.changes or not _fewest(rows):
        return replace(diagnosis, nodes=(*diagnosis.nodes, *rows))
    headline = replace(told, changes=_fewest(rows))
    others = tuple(replace(row, refused=headline) if row.refused == told else row for row in diagnosis.nodes)
    return replace(diagnosis, headline=headline, nodes=(*others, *rows))


def _fewest(rows: tuple[NodeReason, ...]) -> tuple[Change, ...]:
    """The smallest change that is told for any of these nodes."""
    return min((row.refused.changes for row in rows if row.refused.changes), key=len, default=())


def by_origin(diagnosis: Diagnosis, templates: Mapping[ObjectKey, str], extended: str) -> Diagnosis:
    """Changes of a generated claim are changes of its template: the claim itself is immutable and not the user's."""
    origin = {
        f"ResourceClaim {key}": f"ResourceClaimTemplate {ObjectKey(key.namespace, name)}"
        for key, name in templates.items()
    }

    def moved(change: Change) -> Change:
        if change.object in origin:
            return replace(change, object=origin[change.object], path=f"spec.{change.path}")
        return Change(text=change.text, node=change.node) if change.object == extended else change

    def mend(refused: Refused) -> Refused:
        return replace(refused, changes=tuple(map(moved, refused.changes)))

    rows = tuple(NodeReason(nodes=row.nodes, refused=mend(row.refused)) for row in diagnosis.nodes)
    headline = rows[0].refused if rows else mend(diagnosis.headline)
    return replace(diagnosis, headline=headline, nodes=rows)
