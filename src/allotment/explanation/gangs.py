"""PodGroups whose pods Kubernetes schedules together (KEP-4671): their members, where they may run, and the reason if
too few of their pods fit.

As `allotment.scheduler.groups` decides; groups of groups (CompositePodGroup, alpha) are not considered, which a note
says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.engine.diagnosis.holders import claim_holder
from allotment.engine.diagnosis.wording import freeing_text
from allotment.engine.refusal import AllocationRefusal, Diagnosis, NodeReason, SuggestedChange
from allotment.explanation.fixes import apply_change
from allotment.explanation.node_eligibility import EligibilityNode
from allotment.explanation.obstacles import group_missing, refused_everywhere
from allotment.explanation.origin_mapping import owner_of, template_of
from allotment.explanation.report import Answer
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import TOPOLOGY, are_pods_scheduled_together
from allotment.model.resource import ResourceClaim
from allotment.model.workloads import PodGroup
from allotment.phrases import counted, first_few

INCOMPLETE: Final = "gang-incomplete"
_ENDED: Final = ("Succeeded", "Failed")
#: Maximum number of claims of other users whose release is verified.
_MAX_WAITS: Final = 8
#: Explains the claims of earlier pods in the reason of a later one.
_TENTATIVE: Final = "devices of the pods of the gang that fit count as in use for the others"
_SILENT: Final = " (the pod stays Pending without an event)"
_TOO_FEW: Final = f"waiting for minCount pods from a gang to appear in scheduling queue{_SILENT}"


class Member(NamedTuple):
    """A pod of a group, and its workload. ``is_explained``: whether an answer about it is expected."""

    pod: Pod
    owner: str
    is_explained: bool = True

    @property
    def where(self) -> tuple[str, str]:
        """The object that contains the pod, and the path there."""
        return template_of(self.pod, self.owner)

    def changed(self, change: SuggestedChange) -> Member:
        """The member after a change of its pod or workload; unchanged if it changes something else. Raises
        LookupError."""
        name, path = self.where
        if change.object != name:
            return self
        if not change.path.startswith(path):
            raise LookupError(change.path)
        return self._replace(pod=apply_change(self.pod, change.path.removeprefix(path), change.becomes))


class Gang(NamedTuple):
    """A group with its pods. ``members`` have no node yet, ``placed`` have one. ``group`` is None if it is missing."""

    key: ObjectKey
    group: PodGroup | None
    members: tuple[Member, ...]
    placed: tuple[Pod, ...]
    topology_key: str = ""

    @property
    def minimum(self) -> int:
        """The number of pods that must fit; one with the basic policy."""
        gang = self.group.spec.scheduling_policy.gang if self.group is not None else None
        return max((gang.min_count or 1) if gang is not None else 1, 1)

    @property
    def missing(self) -> int:
        """The number of pods that do not exist."""
        return max(self.minimum - len(self.placed) - len(self.members), 0)

    @property
    def notes(self) -> tuple[str, ...]:
        """The restrictions of the answers: what they do not consider."""
        parent = self.group.spec.parent_composite_pod_group_name if self.group is not None else None
        if not parent:
            return ()
        return (f"PodGroup {self.key} is scheduled together with CompositePodGroup {parent}, which is not considered",)

    @property
    def gates(self) -> str:
        """The reason why Kubernetes holds all pods of the group, the scheduling gates of one; empty if none."""
        for member in self.members:
            if gates := member.pod.spec.scheduling_gates:
                return (
                    f"pod {member.pod.key} of PodGroup {self.key} has scheduling gate {gates[0].name}, and the pods of "
                    "a group are scheduled together"
                )
        return ""


def gangs_of(
    pods: Iterable[tuple[Pod, str]], others: Iterable[Pod], groups: Mapping[ObjectKey, PodGroup], features: Features
) -> dict[ObjectKey, Gang]:
    """The groups of the pods to explain; empty if Kubernetes schedules pods one by one.

    ``others``: further pods of the cluster, which are only counted, and placed with their group.
    """
    if not are_pods_scheduled_together(features):
        return {}
    found: dict[ObjectKey, tuple[list[Member], list[Pod]]] = {}
    for pod, owner in pods:
        if (key := group_key(pod)) is not None:
            _add(found.setdefault(key, ([], [])), Member(pod, owner))
    for pod in others if found else ():
        if (key := group_key(pod)) in found:
            _add(found[key], Member(pod, owner_of(pod), is_explained=False))
    by_topology = features.enabled(TOPOLOGY)
    return {
        key: Gang(
            key, group, tuple(sorted(members, key=_age)), tuple(placed), _topology_key(group) if by_topology else ""
        )
        for key, (members, placed) in found.items()
        for group in (groups.get(key),)
    }


def group_key(pod: Pod) -> ObjectKey | None:
    """The PodGroup that a pod names, whether or not groups are scheduled together."""
    reference = pod.spec.scheduling_group
    if reference is None or not reference.pod_group_name:
        return None
    return ObjectKey(pod.metadata.namespace, reference.pod_group_name)


def group_missing_answer(member: Member, key: ObjectKey, groups: Iterable[ObjectKey]) -> Answer:
    """The answer for a pod whose group does not exist: kube-scheduler waits for it."""
    text = f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue{_SILENT}'
    return _refused(member, group_missing(key, groups, text))


def _add(found: tuple[list[Member], list[Pod]], member: Member) -> None:
    if member.pod.status.phase in _ENDED:
        return
    if member.pod.spec.node_name:
        found[1].append(member.pod)
    else:
        found[0].append(member)


def _age(member: Member) -> str:
    """Sort key: kube-scheduler tries the oldest pods first; those that do not exist yet are the youngest."""
    return member.pod.metadata.creation_timestamp or ("~" if member.is_explained else "")


def _topology_key(group: PodGroup | None) -> str:
    constraints = group.spec.scheduling_constraints if group is not None else None
    return constraints.topology[0].key if constraints is not None and constraints.topology else ""


# --- topology --------------------------------------------------------------------------------------------------------


class Domain(NamedTuple):
    """Nodes on which a group may run together. ``rule``: the label that they share; empty for all nodes."""

    rule: str = ""
    nodes: frozenset[str] = frozenset()

    def exclusions(self, nodes: Iterable[str]) -> dict[str, str]:
        """The other nodes, with the rule that excludes them."""
        return {node: f"PodGroup topology {self.rule}" for node in nodes if node not in self.nodes}


class NoDomain(ValueError):
    """Raised if a group cannot have a topology domain. ``kubernetes`` is its text."""

    def __init__(self, text: str, kubernetes: str) -> None:
        super().__init__(text)
        self.kubernetes = kubernetes


def domains(gang: Gang, nodes: Mapping[str, EligibilityNode]) -> list[Domain]:
    """The sets of nodes on which a group may run; its pods that have a node determine the domain. Raises NoDomain."""
    label = gang.topology_key
    if not label:
        return [Domain()]
    required = _domain_of_placed(gang, nodes)
    found: dict[str, list[str]] = {}
    for name, node in nodes.items():
        value = node.facts.labels.get(label)
        if value is not None and required in (None, value):
            found.setdefault(value, []).append(name)
    if not found:
        raise NoDomain(
            f"no node has label {label}, whose value the nodes of all pods of PodGroup {gang.key} must share",
            "no feasible placements found",
        )
    return [Domain(f"{label}={value}", frozenset(names)) for value, names in found.items()]


def _domain_of_placed(gang: Gang, nodes: Mapping[str, EligibilityNode]) -> str | None:
    values: dict[str, None] = {}
    prefix = "cannot determine domain for already scheduled pods: "
    for pod in gang.placed:
        node = nodes.get(pod.spec.node_name or "")
        value = node.facts.labels.get(gang.topology_key) if node is not None else None
        if value is None:
            raise NoDomain(
                f"pod {pod.key} of PodGroup {gang.key} is on a node without label {gang.topology_key}",
                f"{prefix}no topology domain found for pod {pod.key}",
            )
        values[value] = None
    if len(values) > 1:
        raise NoDomain(
            f"pods of PodGroup {gang.key} are already on nodes with different values of label {gang.topology_key}: "
            f"{first_few(list(values))}",
            f"{prefix}more than 1 domain found for pod group: {', '.join(list(values)[:2])}",
        )
    return next(iter(values), None)


def without_domain(gang: Gang, error: NoDomain) -> list[Answer]:
    """The answers if a group has no topology domain."""
    reasons = refused_everywhere("group-topology-missing", str(error), kubernetes=error.kubernetes)
    return [_refused(member, reasons) for member in gang.members]


# --- too few pods ----------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """The result for the pods of a group: an answer for each member, in order."""

    gang: Gang
    domain: Domain
    answers: tuple[Answer, ...]
    placements: int = 1
    """The number of domains that were tried."""

    @property
    def fitting(self) -> int:
        """The number of pods that fit or have a node."""
        return len(self.gang.placed) + sum(answer.fits for answer in self.answers)

    @property
    def is_complete(self) -> bool:
        """Whether Kubernetes schedules the pods that fit."""
        return self.fitting >= self.gang.minimum

    @property
    def refused(self) -> Answer | None:
        """The first pod that does not fit."""
        return next((answer for answer in self.answers if not answer.fits), None)


class Remedies(NamedTuple):
    """Verified changes for an incomplete gang, and the names of the pods that fit after them."""

    changes: tuple[SuggestedChange, ...]
    helped: frozenset[str]


def held_claims(reasons: Diagnosis, claims: Mapping[ObjectKey, ResourceClaim]) -> list[ResourceClaim]:
    """The first claims that hold devices of a refused pod on any node, except those of its own gang, which ``claims``
    do not contain as allocated."""
    refusals = (reasons.headline, *(row.refused for row in reasons.nodes))
    funnels = (funnel for refused in refusals for funnel in refused.funnels)
    names = dict.fromkeys(name for funnel in funnels for step in funnel.steps for name in step.claims)
    known = (claims.get(ObjectKey(*name.split("/", 1))) for name in names)
    held = (claim for claim in known if claim is not None and claim.status.allocation is not None)
    return list(islice(held, _MAX_WAITS))


def wait_for(claims: Sequence[ResourceClaim]) -> SuggestedChange:
    """The advice to wait until claims are released."""
    text = freeing_text([claim_holder(claim) for claim in claims])
    object_ = f"ResourceClaim {claims[0].key}" if len(claims) == 1 else ""
    path = "status.allocation" if object_ else ""
    return SuggestedChange(text=text, object=object_, path=path, remedy="wait")


def smaller_gang(outcome: Outcome) -> Remedies | None:
    """The change of the PodGroup after which the pods that fit are scheduled."""
    if not outcome.fitting:
        return None
    gang = outcome.gang
    text = f"lower minCount of PodGroup {gang.key} to {outcome.fitting}"
    change = SuggestedChange(
        text=text, object=f"PodGroup {gang.key}", path="spec.schedulingPolicy.gang",
        becomes={"minCount": outcome.fitting}, remedy="smaller-gang",
    )  # fmt: skip
    return Remedies((change,), frozenset(answer.name for answer in outcome.answers if answer.fits))


def more_pods(outcome: Outcome) -> Remedies:
    """The advice to create the missing pods."""
    text = f"create {counted(outcome.gang.missing, 'more pod')} of PodGroup {outcome.gang.key}"
    change = SuggestedChange(text=text, remedy="more-pods")
    return Remedies((change,), frozenset(answer.name for answer in outcome.answers if answer.fits))


def incomplete(outcome: Outcome, remedies: Sequence[Remedies]) -> list[Answer]:
    """The answers if too few pods fit, with the changes that help the whole gang.

    All pods have the same reason: that of the first pod that does not fit, as the reason of the gang. If no pod fits,
    each one keeps its own reason, because the gang is not the cause.
    """
    gang, refused = outcome.gang, outcome.refused
    if not outcome.fitting and not gang.missing:
        note = _together(gang.key, gang.minimum)
        return [
            replace(answer, reasons=_with_changes(answer.reasons, answer, remedies), notes=(*answer.notes, note))
            for answer in outcome.answers
            if answer.reasons is not None
        ]
    before = refused.reasons if refused is not None else None
    tentative = (_TENTATIVE,) if before is not None and any(answer.claims for answer in outcome.answers) else ()
    shared = before or Diagnosis(headline=AllocationRefusal(code=INCOMPLETE, summary=""))
    found = []
    for member, answer in zip(gang.members, outcome.answers, strict=True):
        own = answer.reasons.headline if answer.reasons is not None and not gang.missing else None
        headline = replace(
            shared.headline, code=INCOMPLETE, summary=_summary(outcome), notes=(*shared.headline.notes, *tentative),
            kubernetes=own.kubernetes if own is not None else _kubernetes(outcome),
        )  # fmt: skip
        found.append(_refused(member, _with_changes(_with_headline(shared, headline), answer, remedies)))
    return found


def of_one_pod(reasons: Diagnosis, key: ObjectKey, minimum: int) -> Diagnosis:
    """The reasons of a pod of a gang that was tried without the others, so that no change is verified for the gang.

    To wait for the devices of this pod may not suffice. If the pod fits alone, the others hold what it needs.
    """
    refused = reasons.headline
    if refused.code == "not-explained":
        summary = f"the pod fits alone, but not together with the other pods of gang {key}, which requires {minimum}"
        return Diagnosis(headline=AllocationRefusal(code=INCOMPLETE, summary=summary))
    waits_only = any(change.remedy == "wait" for change in refused.changes)
    changes = () if waits_only else refused.changes
    notes = (*refused.notes, _together(key, minimum))
    return _with_headline(reasons, replace(refused, changes=changes, otherwise=(), notes=notes))


def _together(key: ObjectKey, minimum: int) -> str:
    return f"PodGroup {key} is scheduled only if {minimum} of its pods fit together"


def _with_headline(reasons: Diagnosis, headline: AllocationRefusal) -> Diagnosis:
    """The reasons with another headline. Changes for other nodes are dropped: they are not verified for the gang."""
    rows = tuple(
        NodeReason(
            row.nodes, headline if row.refused == reasons.headline else replace(row.refused, changes=(), otherwise=())
        )
        for row in reasons.nodes
    )
    return replace(reasons, headline=headline, nodes=rows)


def _with_changes(reasons: Diagnosis, answer: Answer, remedies: Sequence[Remedies]) -> Diagnosis:
    """The reasons with the first two remedies after which the pod fits together with its gang."""
    helping = [remedy.changes for remedy in remedies if answer.name in remedy.helped]
    changes, otherwise = (*helping, (), ())[:2]
    return _with_headline(reasons, replace(reasons.headline, changes=changes, otherwise=otherwise))


def _summary(outcome: Outcome) -> str:
    gang, fitting = outcome.gang, outcome.fitting
    where = f" on nodes with {outcome.domain.rule}" if outcome.domain.rule else ""
    verb = "fits" if fitting == 1 else "fit"
    if gang.missing:
        existing = len(gang.placed) + len(gang.members)
        text = f"gang {gang.key} requires {gang.minimum} pods, {existing} {'exists' if existing == 1 else 'exist'}"
        if fitting < existing:
            text += f", and {fitting} {verb}{where}"
    else:
        text = f"{fitting} of the {gang.minimum} pods that gang {gang.key} requires {verb}{where}"
    refused = outcome.refused
    if refused is None or refused.reasons is None:
        return text
    cause = refused.reasons.headline
    return f"{text}; {refused.name} does not ({cause.code}): {cause.summary}"


def _kubernetes(outcome: Outcome) -> str:
    """Kubernetes' message for a pod that was not refused itself: it stops when the minimum is out of reach."""
    gang = outcome.gang
    if gang.missing:
        return _TOO_FEW
    if outcome.domain.rule:
        return f"pod group is unschedulable, 0/{outcome.placements} placements are available"
    scheduled, remaining = len(gang.placed), len(gang.members)
    for answer in outcome.answers:
        if scheduled + remaining < gang.minimum:
            break
        scheduled += answer.fits
        remaining -= 1
    counts = f"{scheduled} scheduled, {remaining} remaining"
    return f"pod group is unschedulable, minCount ({gang.minimum}) cannot be satisfied: {counts}"


def _refused(member: Member, reasons: Diagnosis) -> Answer:
    return Answer(kind="Pod", name=str(member.pod.key), outcome="refused", reasons=reasons, owner=member.owner)
