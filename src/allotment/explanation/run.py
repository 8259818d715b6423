"""``explain``: allocates the claims of pods one after the other, as a scheduler would, and explains each result.

Pods are tried in the given order, and devices allocated to one pod are not available to the next. Replicas of a
workload are separate pods, with separate claims if they use a template. Claims that no pod uses are tried at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace as replace_fields
from functools import cached_property
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.engine.refusal import SuggestedChange
from allotment.explanation.cluster_devices import ClusterDevices
from allotment.explanation.extended_requests import extended_resources as extended_resources
from allotment.explanation.fixes import apply_change
from allotment.explanation.further_changes import AfterChange
from allotment.explanation.gang_trial import group_answers
from allotment.explanation.gangs import Gang, gangs_of, group_key, group_missing_answer
from allotment.explanation.group_corrections import group_corrections, with_correction
from allotment.explanation.input import (
    AdmittedObjects,
    ExplainInput,
    Readers,
    reads_everything,
    sort_objects,
    with_change,
)
from allotment.explanation.node_eligibility import EligibilityNode
from allotment.explanation.origin_mapping import endless_owner, owner_of, template_of
from allotment.explanation.orphaned_slices import orphaned_note
from allotment.explanation.pod_trial import DoesNotFit, PodTrial, TrialScope
from allotment.explanation.refusal_reasons import RefusalReasons
from allotment.explanation.report import Answer, Explanation
from allotment.explanation.stale_claims import stale_claims, with_recreation
from allotment.explanation.trial_state import TrialState
from allotment.explanation.waiting import with_waiting_reason
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.model.workload_pods import pods_of
from allotment.phrases import first_few
from allotment.time_limits import check_time

#: Number of changes past an obstacle after which the pod is explained again; this takes as long as reading the cluster.
_MAX_FURTHER: Final = 3
#: Number of remedies that are verified by a new trial of a pod or a whole gang; each takes as long as reading the
#: cluster.
_MAX_VERIFICATIONS: Final = 8


def explain(
    values: Iterable[Object],
    features: Features,
    tries: int | None = None,
    others: Iterable[Pod] = (),
    *,
    default_namespace: str = "default",
    readers: Readers = reads_everything,
    admitted: AdmittedObjects | None = None,
) -> Explanation:
    """The devices that every pod and claim gets, or the reason why it gets none.

    ``values`` are the decoded objects of the cluster and those to explain; earlier ones get devices first. ``tries``
    limits the trials for changes that would help, which take most of the time, over all answers together. ``others``:
    pods of the cluster that are not explained; they count as members of their groups, and as users of their nodes.
    ``default_namespace``: that of new objects whose file names none. ``readers``: who reads the answers about the pods
    of a namespace; objects that the reader may not see are not named. ``admitted``: the objects that an earlier
    explanation with the same features has validated.
    """
    run = ExplainRun(sort_objects(values, features, others, default_namespace, readers, admitted), tries)
    answers = list(run.answers(TrialScope()))
    answers += [run.claim_alone(key, TrialScope()) for key in run.unnamed()]
    return Explanation(answers=tuple(answers), notes=tuple(run.notes()))


def fits(values: Iterable[Object], features: Features) -> bool:
    """Whether everything fits; faster than an explanation, because it ends at the first pod that does not fit."""
    run, scope = ExplainRun(sort_objects(values, features)), TrialScope(with_reasons=False)
    try:
        return all(answer.fits for answer in run.answers(scope)) and all(
            run.claim_alone(key, scope).fits for key in run.unnamed()
        )
    except DoesNotFit:
        return False


class Attempt(NamedTuple):
    """A pod to try, or the pods of a group, which are tried together; ``gangs`` are all groups."""

    pod: Pod
    owner: str
    gang: Gang | None = None
    gangs: Mapping[ObjectKey, Gang] = {}


class ExplainRun:
    """The pods and claims of an input, tried in order."""

    def __init__(
        self,
        input: ExplainInput,
        tries: int | None = None,
        further: int = _MAX_FURTHER,
        devices: ClusterDevices | None = None,
    ) -> None:
        """``devices``: those that become the devices of the input, instead of new ones."""
        self._input = input
        self._tries = tries
        self._devices = devices or ClusterDevices(input.features)
        self._devices.follow(input)
        self._state = TrialState(input, tries, self._devices)
        self._trial = PodTrial(self._state, RefusalReasons(self._state, self._endless_owner, self._pod_after))
        self._verifications = 0 if tries == 0 else _MAX_VERIFICATIONS
        self._further = 0 if tries == 0 else further
        """Number of changes after which a pod may still be explained."""
        self._idle: tuple[str, int] | None = None
        """A workload whose pods cannot run with the devices they would get, and the mark before them."""
        self._users: list[Pod] = []
        self._used: set[ObjectKey] = set()
        """The claims that pods mean to name, apart from those that these ``_users`` name."""

    # --- input -------------------------------------------------------------------------------------------------------

    @cached_property
    def pods(self) -> Sequence[tuple[Pod, str]]:
        """The pods to try, with their workloads."""
        return [
            (pod, owner_of(pod))
            for value in self._input.workloads
            for pod in ((value,) if isinstance(value, Pod) else pods_of(value, nodes=self.nodes))
        ]

    @property
    def claims(self) -> Mapping[ObjectKey, ResourceClaim]:
        """The claims as they are now."""
        return self._state.placer.claims

    @property
    def nodes(self) -> dict[str, EligibilityNode]:
        """The nodes of the cluster."""
        return self._state.placer.nodes

    def unnamed(self) -> list[ObjectKey]:
        """Claims that no pod uses and that are not allocated."""
        used = self._used.union(*map(_claims_named_by, self._users))
        return [key for key, claim in self.claims.items() if claim.status.allocation is None and key not in used]

    def notes(self) -> list[str]:
        """Notes about the input."""
        found = []
        for (kind, key), errors in self._input.refused.items():
            if kind == "ResourceSlice":
                found.append(f"ResourceSlice {key} is ignored, because the API server rejects it: {errors[0]}")
        if self._input.missing_nodes:
            found.append(orphaned_note(self._input.missing_nodes))
        unknown = [name for name, node in self.nodes.items() if not node.has_object]
        if unknown and self._input.nodes:
            found.append(f"no Node object for {first_few(unknown, 4)}; assuming no labels and no taints")
        return found

    @cached_property
    def _all_pods(self) -> Mapping[tuple[str, str], Pod]:
        """The explained pods and the others by namespace and name."""
        pods = (*(pod for pod, _ in self.pods), *self._input.others)
        return {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}

    def _endless_owner(self, claim: ObjectKey) -> str:
        """See `RefusalReasons`."""
        users = self.claims[claim].status.reserved_for if claim in self.claims else ()
        pods = (self._all_pods.get((claim.namespace, user.name)) for user in users)
        return next(filter(None, map(endless_owner, filter(None, pods))), "")

    # --- trying ------------------------------------------------------------------------------------------------------

    def answers(self, scope: TrialScope) -> Iterator[Answer]:
        """Try all pods; those of a group together, when its first one is reached. Raises DoesNotFit."""
        for attempt in self.attempts(self.pods):
            yield from self.try_pods(attempt, scope)

    def attempts(self, pods: Sequence[tuple[Pod, str]]) -> Iterator[Attempt]:
        """Yield an attempt for each of these pods, or for each group of them."""
        gangs = gangs_of(pods, self._input.others, self._input.groups, self._input.features)
        tried: set[ObjectKey] = set()
        for pod, owner in pods:
            key = group_key(pod) if gangs and not pod.spec.node_name else None
            if key is None:
                yield Attempt(pod, owner)
            elif key not in tried:
                tried.add(key)
                yield Attempt(pod, owner, gangs[key], gangs)

    def try_pods(self, attempt: Attempt, scope: TrialScope) -> Iterator[Answer]:
        """Try the pods of an attempt. Raises DoesNotFit."""
        check_time()
        self._free_idle(attempt.owner)
        if attempt.gang is None:
            yield with_waiting_reason(self._single(attempt, scope), attempt.pod)
        else:
            yield from self._group(attempt.gang, attempt.gangs, scope)

    def _single(self, attempt: Attempt, scope: TrialScope) -> Answer:
        """The answer for a pod that belongs to no group. If it cannot run, only its replicas find its devices taken."""
        mark = self.mark()
        answer = self.pod(attempt.pod, attempt.owner, scope)
        if self._idle is None and answer.fits and answer.node and not self._can_run(attempt.pod, answer.node):
            self._idle = (attempt.owner, mark)
        return answer

    def _can_run(self, pod: Pod, node: str) -> bool:
        """Whether a pod that was placed on a node runs there with its devices."""
        return not pod.spec.scheduling_gates and self._state.room.has_room(pod, node, is_counted=True)

    def _free_idle(self, owner: str = "") -> None:
        """Take back what pods got that cannot run, except before further pods of the workload ``owner``."""
        if self._idle is not None and (not owner or owner != self._idle[0]):
            self.revert(self._idle[1])
            self._idle = None

    def _group(self, gang: Gang, gangs: Mapping[ObjectKey, Gang], scope: TrialScope) -> Iterator[Answer]:
        """The answers for the pods of a group that are explained."""
        if gang.group is None:
            found = [group_missing_answer(member, gang.key, self._input.groups) for member in gang.members]
        else:
            found = group_answers(self, gang, scope)
        if scope.with_reasons and not any(answer.fits for answer in found):
            found = self._with_corrected_name(found, gang, gangs)
        for member, answer in zip(gang.members, found, strict=True):
            if member.is_explained:
                waiting = with_waiting_reason(answer, member.pod)
                held = gang.gates if waiting.fits and not member.pod.spec.scheduling_gates else ""
                notes = (*answer.notes, *gang.notes)
                yield replace(waiting, group=f"PodGroup {gang.key}", waits=held or waiting.waits, notes=notes)

    def _with_corrected_name(self, answers: list[Answer], gang: Gang, gangs: Mapping[ObjectKey, Gang]) -> list[Answer]:
        """The answers with the first correction of the group's name or topology after which some of its pods fit."""
        for correction in group_corrections(gang, gangs, self._input.groups, self.nodes.values()):
            if any(name in correction.changes for name in self._fitting(self._present(), correction.gang)):
                return with_correction(answers, correction)
        return answers

    def pod(self, pod: Pod, owner: str, scope: TrialScope) -> Answer:
        """Try one pod and record its allocations. Raises DoesNotFit."""
        self.count_as_used(pod)
        answer = self._trial.pod(pod, owner, scope)
        self._used.update(_intended_claims(answer, pod.metadata.namespace))
        if answer.fits or not self._further:
            return answer
        stale = next(stale_claims(pod, self.claims, self._input.templates), None)
        return answer if stale is None else with_recreation(answer, pod, stale, self._pod_without_claims)

    def count_as_used(self, pod: Pod) -> None:
        """Do not try the claims of a pod alone."""
        self._users.append(pod)

    def _pod_without_claims(self, pod: Pod) -> AfterChange:
        """The result for a pod that gets new claims."""
        with self._after(self._present(), self._further - 1) as run:
            answer = run.pod(pod, owner_of(pod), TrialScope())
        return AfterChange(answer.node, answer.reasons.headline.changes if answer.reasons is not None else ())

    def _pod_after(self, pod: Pod, owner: str, change: SuggestedChange) -> AfterChange:
        """The result for a pod after a change past an obstacle, unless enough of them were tried."""
        if not self._further:
            return AfterChange()
        self._further -= 1
        where, changed = template_of(pod, owner), replace_fields(self._input, claims=dict(self.claims))
        try:
            if change.object == where[0]:
                pod = apply_change(pod, change.path.removeprefix(where[1]), change.becomes)
            elif (found := with_change(changed, change)) is not None:
                changed = found
            else:
                return AfterChange()
        except LookupError:
            return AfterChange()
        if change.object.startswith("ResourceClaimTemplate "):  # the pod gets other claims than it has now
            pod = replace(pod, status=replace(pod.status, resource_claim_statuses=()))
        with self._after(changed, self._further) as run:
            answer = run.pod(pod, owner, TrialScope())
        return AfterChange(answer.node, answer.reasons.headline.changes if answer.reasons is not None else ())

    def claim_alone(self, key: ObjectKey, scope: TrialScope) -> Answer:
        """Try a claim as if it belonged to a pod that may run on any node. Raises DoesNotFit."""
        self._free_idle()
        return self._trial.claim_alone(key, scope)

    def mark(self) -> int:
        """The present state, for `revert`."""
        return self._state.mark()

    def revert(self, mark: int) -> None:
        """Take back all allocations since then."""
        self._state.revert(mark)

    def after(self, changes: Sequence[SuggestedChange], gang: Gang) -> Iterable[str]:
        """The names of the pods of a gang that fit together after changes. Only the first few are tried."""
        changed, members = self._present(), gang.members
        for change in changes:
            try:
                members = tuple(member.changed(change) for member in members)
                if not any(member.where[0] == change.object for member in members):
                    found = with_change(changed, change)
                    if found is None:
                        return
                    changed = found
            except LookupError:
                return
        yield from self._fitting(changed, gang._replace(members=members))

    def _present(self) -> ExplainInput:
        """The input with the claims as they are now."""
        return replace_fields(self._input, claims=dict(self.claims))

    def _fitting(self, input: ExplainInput, gang: Gang) -> Iterable[str]:
        """The names of the pods of a gang that fit together. Only the first few gangs are tried."""
        if not self._verifications:
            return
        self._verifications -= 1
        try:
            with self._after(input) as run:
                answers = group_answers(run, gang, TrialScope(with_reasons=False))
        except DoesNotFit:
            return
        yield from (answer.name for answer in answers if answer.fits)

    @contextmanager
    def _after(self, changed: ExplainInput, further: int = _MAX_FURTHER) -> Iterator[ExplainRun]:
        """A run on a changed input. Meanwhile, the devices are those of that input."""
        try:
            yield ExplainRun(changed, self._tries, further, self._devices)
        finally:
            self._devices.follow(self._present())


def _claims_named_by(pod: Pod) -> Iterator[ObjectKey]:
    namespace = pod.metadata.namespace
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name:
            yield ObjectKey(namespace, entry.resource_claim_name)
    for status in pod.status.resource_claim_statuses:
        if status.resource_claim_name:
            yield ObjectKey(namespace, status.resource_claim_name)


def _intended_claims(answer: Answer, namespace: str) -> Iterator[ObjectKey]:
    """The claims that a pod would use after the remedy, as they are named now: they are not to be tried alone."""
    changes = answer.reasons.headline.changes if answer.reasons is not None else ()
    for change in changes:
        if change.path.endswith(".resourceClaimName"):
            yield ObjectKey(namespace, str(change.becomes))
        elif change.path.endswith("spec.resourceClaims"):
            names = (entry.get("resourceClaimName") for entry in change.becomes)
            yield from (ObjectKey(namespace, name) for name in names if name)
        elif change.path == "metadata.namespace" and change.object.startswith("ResourceClaim "):
            yield ObjectKey(*change.object.removeprefix("ResourceClaim ").split("/", 1))
