"""The diagnosis of a pending pod in terms of the objects that users wrote: templates, workloads, and rules for nodes.

`pending_diagnosis` assembles it for all tools, so that explain, the scheduler's events, check and doctor name the same
first remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from allotment.engine.cluster.node_selection import NodeFacts
from allotment.engine.refusal import BUSY, CODES, MISWRITTEN, AllocationRefusal, Diagnosis, NodeReason, SuggestedChange
from allotment.engine.remedies import REMEDIES, RESELECTIONS, Distance, LossClass, distance, is_alternative
from allotment.explanation.extended_corrections import with_count
from allotment.fleet.accelerator_labels import accelerator_label
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey, OwnerReference
from allotment.phrases import first_few

#: Workloads whose pods do not end by themselves; those of the first ones can be reduced in number.
_SCALABLE: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})
ENDLESS: Final = _SCALABLE | {"DaemonSet"}
#: The beginning of `freeing_text`.
_ENDS: Final = re.compile(r"wait for pods? .+? to finish \(claims? [^)]+\)")
#: The claims in such a text, also after `_instead_of_endless_waits`.
_CLAIMS: Final = re.compile(r"\(claims? (?P<names>[^)]+)\)(?:, and wait for claims? (?P<rest>.+?) to be released)?")
#: The label of the pods of a Deployment; their ReplicaSet has its value as the suffix of its name.
HASH_LABEL: Final = "pod-template-hash"
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
    endless_owner: Callable[[ObjectKey], str] = lambda claim: "",
    nodes: Mapping[str, NodeFacts] = {},
) -> Diagnosis:
    """The diagnosis of a pending pod, from the reasons ``found`` on eligible nodes and the ``excluded`` nodes.

    ``templates`` and ``extended``: see `by_origin`. ``pod`` is None for a claim without a pod. ``ended``: an error on
    an eligible node ends the scheduling attempt. ``endless_owner``: the workload of the pods that use a claim,
    empty if they end by themselves. ``nodes``: the nodes of the cluster.
    """
    reasons = by_origin(found, templates, extended, pod)
    if pod is not None:
        reasons = _with_replica_advice(reasons, pod)
    reasons = _instead_of_endless_waits(reasons, endless_owner)
    return _with_excluded(reasons, excluded, ended, endless_owner, nodes) if excluded else reasons


def _with_replica_advice(diagnosis: Diagnosis, pod: Pod) -> Diagnosis:
    """The reasons, with other advice instead of "wait" if pods of the same workload hold the devices.

    A node where something nearer helps, such as waiting for a pod of another workload, becomes the headline.
    """
    owner = next((ref for ref in pod.metadata.owner_references if ref.controller), None)
    if owner is None or owner.kind not in _SCALABLE:
        return diagnosis
    headline = _instead_of_own_pods(diagnosis.headline, pod, owner)
    if headline is diagnosis.headline:
        return diagnosis
    rows = tuple(replace(row, refused=_instead_of_own_pods(row.refused, pod, owner)) for row in diagnosis.nodes)
    nearest = easiest_fix(rows)
    if nearest is not None and _distance(nearest.refused) < _distance(headline):
        headline = replace(nearest.refused, otherwise=headline.changes)
        rows = (replace(nearest, refused=headline), *(row for row in rows if row is not nearest))
    return replace(diagnosis, headline=headline, nodes=rows)


def _instead_of_own_pods(refused: AllocationRefusal, pod: Pod, owner: OwnerReference) -> AllocationRefusal:
    """The reason with other advice if its first remedy waits for a pod of the same workload; otherwise as it is."""
    first = next(iter(refused.changes), None)
    if first is None or first.remedy != "wait":
        return refused
    before, namespace = f"ResourceClaim {pod.metadata.namespace}/", pod.metadata.namespace
    hash_ = pod.metadata.labels.get(HASH_LABEL, "")
    deployment = owner.name.removesuffix(f"-{hash_}")
    if first.object.startswith(f"{before}{owner.name}-"):
        whose = template_of(pod, owner_of(pod))[0]  # a Deployment would undo the change of its ReplicaSet
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
        return refused
    return replace(refused, changes=(instead,))


def _instead_of_endless_waits(diagnosis: Diagnosis, endless_owner: Callable[[ObjectKey], str]) -> Diagnosis:
    """The reasons with other advice instead of "wait" if the pods to wait for do not end: it names their workloads."""

    def map_change(change: SuggestedChange) -> SuggestedChange:
        found = _ENDS.match(change.text) if change.remedy == "wait" else None
        users = {claim: endless_owner(claim) for claim in awaited_claims(change)}
        owners = list(dict.fromkeys(filter(None, users.values())))
        if found is None or not owners:
            return change
        held = _claims([claim for claim, owner in users.items() if owner])
        others = [claim for claim, owner in users.items() if not owner]  # of pods that end
        verb = "stop" if any(owner.startswith("DaemonSet ") for owner in owners) else "scale down"
        rest = change.text[found.end() :].replace(", and for", ", and wait for")
        if others:
            rest = f", and wait for {_claims(others)} to be released{rest}"
        text = f"{verb} {first_few(owners)}, whose pods do not end ({held}){rest}, or add a node"
        return replace(change, text=text)

    def map_refusal(refused: AllocationRefusal) -> AllocationRefusal:
        changes, otherwise = tuple(map(map_change, refused.changes)), tuple(map(map_change, refused.otherwise))
        return replace(refused, changes=changes, otherwise=otherwise)

    rows = tuple(replace(row, refused=map_refusal(row.refused)) for row in diagnosis.nodes)
    return replace(diagnosis, headline=map_refusal(diagnosis.headline), nodes=rows)


def _claims(keys: Sequence[ObjectKey]) -> str:
    return f"claim{'s' * (len(keys) > 1)} {', '.join(map(str, keys))}"


def awaited_claims(change: SuggestedChange) -> list[ObjectKey]:
    """The claims that a change waits for, without those of which only the number is known.

    >>> awaited_claims(SuggestedChange("wait for pods x, y to finish (claims ml/a, ml/b)", remedy="wait"))
    [ObjectKey(namespace='ml', name='a'), ObjectKey(namespace='ml', name='b')]
    """
    found = _CLAIMS.search(change.text) if change.remedy == "wait" else None
    if found is None:
        return []
    names = [*found["names"].split(", "), *(found["rest"].split(", ") if found["rest"] else ())]
    return [ObjectKey(*name.split("/", 1)) for name in names]


def owner_of(pod: Pod) -> str:
    """The workload that owns a pod, as ``Deployment ml/server``; empty if there is none."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return f"{owner.kind} {pod.metadata.namespace}/{owner.name}"
    return ""


#: Paths of the pod template in workloads, if not ``spec.template.``.
_POD_SPEC = {"CronJob": "spec.jobTemplate.spec.template."}


def template_of(pod: Pod, owner: str) -> tuple[str, str]:
    """The object that contains the pod, and the path of the pod in it; for a ReplicaSet of a Deployment the latter."""
    if not owner:
        return f"Pod {pod.key}", ""
    suffix = f"-{pod.metadata.labels.get(HASH_LABEL, '')}"
    if owner.startswith("ReplicaSet ") and len(suffix) > 1 and owner.endswith(suffix):
        return f"Deployment {owner.removeprefix('ReplicaSet ').removesuffix(suffix)}", "spec.template."
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
    diagnosis: Diagnosis,
    rows: tuple[NodeReason, ...],
    ended: bool,
    endless_owner: Callable[[ObjectKey], str],
    nodes: Mapping[str, NodeFacts],
) -> Diagnosis:
    """The diagnosis with the excluded nodes added.

    If an excluded node has the requested devices, the exclusion becomes the headline, unless other changes lose less of
    what was intended or an error ``ended`` the attempt: a cordoned or tainted node comes before waiting for a pod.
    Nodes that the pod's own rules exclude come after it: the rules match nodes, so they are intended; so do nodes that
    are not ready. A missing driver and tainted devices of the nodes that the rules match stay the headline.
    """
    before, fix = diagnosis.headline, easiest_fix(rows)
    if fix is None:
        return replace(diagnosis, nodes=(*diagnosis.nodes, *rows))
    waits = [REMEDIES[change.remedy].scope == "nothing" for change in before.changes]
    waiting_helps = before.code in BUSY or (bool(waits) and all(waits))
    nearness = _distance_in_time(before, endless_owner)
    last = any(change.remedy in ("select", "recover") for change in fix.refused.changes)
    comes_after = nearness.loss <= LossClass.WAIT and last
    scopes = {REMEDIES[change.remedy].scope for change in fix.refused.changes}
    is_of_claim = not scopes.isdisjoint({"spelling", "devices"})
    if (is_of_claim or not ended) and not comes_after and _distance(fix.refused) <= nearness:
        keeps = waiting_helps or is_alternative([change.remedy for change in before.changes])
        otherwise = before.changes if keeps else ()
        if (is_of_claim and ended) or ("spelling" in scopes and before.code in MISWRITTEN):
            # The claim has a mistake that shows on every node, which comes before the exclusion.
            headline = replace(before, changes=fix.refused.changes, otherwise=otherwise)
            return replace(diagnosis, headline=headline, nodes=(*_with(diagnosis.nodes, before, headline), *rows))
        reselects = any(change.remedy in RESELECTIONS for change in fix.refused.changes)
        notes = _missing_driver(diagnosis, nodes) if before.code == "driver-missing" else ()
        if reselects and (notes or before.code == "devices-tainted"):
            # The rules match nodes with accelerators, whose state is the cause; other nodes are only a way out.
            headline = replace(before, changes=fix.refused.changes, otherwise=otherwise, notes=(*before.notes, *notes))
            return replace(diagnosis, headline=headline, nodes=(*_with(diagnosis.nodes, before, headline), *rows))
        headline = replace(fix.refused, otherwise=otherwise)
        others = tuple(row for row in rows if row is not fix)
        return replace(diagnosis, headline=headline, nodes=(replace(fix, refused=headline), *diagnosis.nodes, *others))
    remedies = (before.changes, fix.refused.changes) if before.changes else (fix.refused.changes, ())
    headline = replace(before, changes=remedies[0], otherwise=remedies[1])
    return replace(diagnosis, headline=headline, nodes=(*_with(diagnosis.nodes, before, headline), *rows))


def _missing_driver(diagnosis: Diagnosis, nodes: Mapping[str, NodeFacts]) -> tuple[str, ...]:
    """A note about the first node of the headline whose labels indicate accelerators; empty if there is none."""
    named = (name for row in diagnosis.nodes if row.refused == diagnosis.headline for name in row.nodes)
    labels = ((name, accelerator_label(nodes[name].labels)) for name in named if name in nodes)
    return tuple(f"{name} has label {label}: is its driver running?" for name, label in labels if label)[:1]


def _with(rows: Iterable[NodeReason], before: AllocationRefusal, after: AllocationRefusal) -> Iterator[NodeReason]:
    """The rows with another reason instead of ``before``."""
    return (replace(row, refused=after) if row.refused == before else row for row in rows)


def _distance(refused: AllocationRefusal) -> Distance:
    return distance(change.remedy for change in refused.changes)


def _distance_in_time(refused: AllocationRefusal, endless_owner: Callable[[ObjectKey], str]) -> Distance:
    """The distance of the first remedy; a pod that does not end must be stopped, which is as far as fewer replicas."""
    first = next(iter(refused.changes), None)
    if first is not None and first.remedy == "wait" and first.object:
        namespace, _, name = first.object.removeprefix("ResourceClaim ").rpartition("/")
        if endless_owner(ObjectKey(namespace, name)):
            return distance(["replicas"])
    return _distance(refused)


def endless_owner(pod: Pod) -> str:
    """The workload that owns a pod, if its pods do not end by themselves; otherwise empty."""
    owner = owner_of(pod)
    return template_of(pod, owner)[0] if owner.partition(" ")[0] in ENDLESS else ""


def easiest_fix(rows: Iterable[NodeReason]) -> NodeReason | None:
    """The row whose changes are easiest, or None if no row has changes; of equal ones, the pod's own rules for nodes
    are changed last."""
    fixable = [row for row in rows if row.refused.changes]
    return min(fixable, key=_easiest, default=None)


def _easiest(row: NodeReason) -> tuple[Distance, bool]:
    return _distance(row.refused), any(change.remedy == "select" for change in row.refused.changes)


def by_origin(
    diagnosis: Diagnosis, templates: Mapping[ObjectKey, str], extended: str, pod: Pod | None = None
) -> Diagnosis:
    """The diagnosis with changes of generated claims mapped to their templates, because claims are immutable.

    Changes of the claim for ``extended`` resources become changes of the pod's container, or only a text.
    """
    origin = {
        f"ResourceClaim {key}": f"ResourceClaimTemplate {ObjectKey(key.namespace, name)}"
        for key, name in templates.items()
    }

    def map_change(change: SuggestedChange) -> SuggestedChange:
        if change.object in origin:
            return replace(change, object=origin[change.object], path=f"spec.{change.path}")
        if change.object != extended:
            return change
        counted = with_count(change, pod, template_of(pod, owner_of(pod))) if pod is not None else None
        return counted or replace(change, object="", path="", becomes=None)

    def map_refusal(refused: AllocationRefusal) -> AllocationRefusal:
        changes, otherwise = tuple(map(map_change, refused.changes)), tuple(map(map_change, refused.otherwise))
        return replace(refused, changes=changes, otherwise=otherwise)

    rows = tuple(NodeReason(nodes=row.nodes, refused=map_refusal(row.refused)) for row in diagnosis.nodes)
    headline = rows[0].refused if rows else map_refusal(diagnosis.headline)
    return replace(diagnosis, headline=headline, nodes=rows)
