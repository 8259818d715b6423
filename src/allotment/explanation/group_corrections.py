"""Corrected names for groups of pods: of the PodGroup that pods name, and of the label of its topology."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from allotment.engine.diagnosis.published_names import similar_names, similar_qualified_names
from allotment.engine.refusal import Diagnosis, SuggestedChange
from allotment.explanation.gangs import Gang, Member
from allotment.explanation.node_eligibility import EligibilityNode
from allotment.explanation.report import Answer
from allotment.model.meta import ObjectKey
from allotment.model.workloads import PodGroup


class GroupCorrection(NamedTuple):
    """A group after a correction, and the change for each of its pods by name."""

    gang: Gang
    changes: Mapping[str, SuggestedChange]


def group_corrections(
    gang: Gang, gangs: Mapping[ObjectKey, Gang], groups: Mapping[ObjectKey, PodGroup], nodes: Iterable[EligibilityNode]
) -> Iterator[GroupCorrection]:
    """Corrections of a name that does not exist, best first; verify them before reporting.

    ``gangs`` are the groups with pods, ``groups`` all that exist.
    """
    if gang.group is None:
        yield from _of_group(gang, gangs, groups)
    elif gang.topology_key:
        yield from _of_topology(gang, nodes)


def _of_group(
    gang: Gang, gangs: Mapping[ObjectKey, Gang], groups: Mapping[ObjectKey, PodGroup]
) -> Iterator[GroupCorrection]:
    namespace = gang.key.namespace
    for name in similar_names(gang.key.name, (key.name for key in groups if key.namespace == namespace)):
        key = ObjectKey(namespace, name)
        right = gangs.get(key, Gang(key, groups[key], (), ()))
        changes = [_renamed(member, name) for member in gang.members]
        renamed = tuple(member.changed(change) for member, change in zip(gang.members, changes, strict=True))
        by_pod = {str(member.pod.key): change for member, change in zip(gang.members, changes, strict=True)}
        yield GroupCorrection(right._replace(members=(*right.members, *renamed)), by_pod)


def _renamed(member: Member, name: str) -> SuggestedChange:
    object_, path = member.where
    return SuggestedChange(
        text=f"use {name}", object=object_, path=f"{path}spec.schedulingGroup.podGroupName", becomes=name, remedy="name"
    )


def _of_topology(gang: Gang, nodes: Iterable[EligibilityNode]) -> Iterator[GroupCorrection]:
    labels = {label for node in nodes for label in node.facts.labels}
    if gang.topology_key in labels:
        return
    for label in similar_qualified_names(gang.topology_key, labels):
        change = SuggestedChange(
            text=f"use {label}",
            object=f"PodGroup {gang.key}",
            path="spec.schedulingConstraints.topology[0].key",
            becomes=label,
            remedy="name",
        )
        by_pod = dict.fromkeys((str(member.pod.key) for member in gang.members), change)
        yield GroupCorrection(gang._replace(topology_key=label), by_pod)


def with_correction(answers: Iterable[Answer], correction: GroupCorrection) -> list[Answer]:
    """The answers with the change that the correction makes for each pod."""
    return [
        replace(answer, reasons=_with_change(answer.reasons, change))
        if answer.reasons is not None and (change := correction.changes.get(answer.name)) is not None
        else answer
        for answer in answers
    ]


def _with_change(reasons: Diagnosis, change: SuggestedChange) -> Diagnosis:
    return replace(reasons, headline=replace(reasons.headline, changes=(change,)))
