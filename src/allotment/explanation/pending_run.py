"""``PendingRun``: all pending pods of a cluster, explained once for each shape, and trials of changes.

The pods are tried in their order, as `explain` does, so that the answer for the first pod of a shape is that of
`explain`. A change is tried in the state that the earlier pods left, in which `explain` has verified it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace as replace_fields
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.engine.refusal import SuggestedChange
from allotment.explanation.cluster_devices import ClusterDevices
from allotment.explanation.gangs import Domain, Member, gangs_of
from allotment.explanation.input import (
    AdmittedObjects,
    ExplainInput,
    Readers,
    reads_everything,
    sort_objects,
    with_change,
)
from allotment.explanation.origin_mapping import owner_of, template_of
from allotment.explanation.pod_shapes import PodShape, PodShapes
from allotment.explanation.pod_trial import DoesNotFit, TrialScope
from allotment.explanation.report import Answer
from allotment.explanation.run import Attempt, ExplainRun
from allotment.explanation.stale_claims import RECREATE
from allotment.model.core import HOSTNAME_LABEL, Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import AllocationResult, ResourceClaim

_ROLLOUT: Final = "rollout"


class ShapeAnswer(NamedTuple):
    """The answer for the first pod of a shape, and all pods that it holds for. A claim without a pod has none.

    ``digest``: that of the shape; the same in other namespaces.
    """

    answer: Answer
    pods: tuple[Pod, ...]
    digest: str


class NotApplicable(ValueError):
    """Raised for a change that no object can be changed by, with the reason."""


class _Point(NamedTuple):
    """When a pod was tried: its attempt, and the number of claims that earlier pods had got."""

    attempt: Attempt
    booked: int


def is_applicable(changes: Sequence[SuggestedChange]) -> bool:
    """Whether changes can be tried: each changes an object, or creates the pod again."""
    return bool(changes) and all(change.object or change.remedy == RECREATE for change in changes)


class PendingRun:
    """The pending pods and claims of a cluster. Threads may try changes at the same time."""

    def __init__(
        self,
        values: Iterable[Object],
        features: Features,
        others: Iterable[Pod] = (),
        *,
        tries: int | None = None,
        readers: Readers = reads_everything,
        is_explained: Callable[[Pod], bool] = lambda pod: True,
        devices: ClusterDevices | None = None,
        shapes: PodShapes | None = None,
        admitted: AdmittedObjects | None = None,
    ) -> None:
        """The other arguments are those of `explain`. ``is_explained``: whether the reasons for a pod are determined,
        which takes most of the time; otherwise its refusal has none. ``devices`` and ``shapes``: those of an earlier
        run with the same features, of which everything that did not change is used again; only the owner of the lock
        of the devices may create a run with them.
        """
        self._is_explained = is_explained
        self._input = sort_objects(values, features, others, readers=readers, admitted=admitted)
        self._tries = tries
        self._devices = devices or ClusterDevices(features)
        self._booked: list[tuple[ObjectKey, ResourceClaim]] = []
        self._points: dict[str, _Point] = {}
        run = ExplainRun(self._input, tries, devices=self._devices)
        shapes = shapes or PodShapes()
        self.answers: tuple[ShapeAnswer, ...] = tuple(self._answers(run, shapes))
        """In the order in which the pods were tried."""
        self.claims: Mapping[ObjectKey, ResourceClaim] = run.claims
        """The claims after all pods were tried, with what they got."""

    def allocations(self) -> dict[ObjectKey, AllocationResult]:
        """The allocations after all pods were tried."""
        allocations = ((key, claim.status.allocation) for key, claim in self.claims.items())
        return {key: allocation for key, allocation in allocations if allocation is not None}

    # --- answers -----------------------------------------------------------------------------------------------------

    def _answers(self, run: ExplainRun, shapes: PodShapes) -> Iterator[ShapeAnswer]:
        scope = TrialScope()
        shapes.begin(self._input.claims, self._input.templates)
        refused: dict[PodShape, tuple[Answer, list[Pod]]] = {}
        found: list[tuple[PodShape, Answer, list[Pod]]] = []
        for attempt in run.attempts(run.pods):
            shape = shapes.of(attempt.pod, attempt.owner)
            known = refused.get(shape) if attempt.gang is None else None
            if known is not None and (known[0].reasons is not None or not self._is_explained(attempt.pod)):
                known[1].append(attempt.pod)
                run.count_as_used(attempt.pod)
                continue
            point = _Point(attempt, len(self._booked))
            members = attempt.gang.members if attempt.gang is not None else (Member(attempt.pod, attempt.owner),)
            pods = [member for member in members if member.is_explained]
            for member, answer in zip(pods, self._try_pods(run, attempt, scope), strict=True):
                self._points[answer.name] = point
                pods_of_shape = [member.pod]
                found.append((shapes.of(member.pod, member.owner), answer, pods_of_shape))
                if attempt.gang is None and not answer.fits:
                    refused[shape] = (answer, pods_of_shape)
                self._book(run, answer)
        yield from (ShapeAnswer(answer, tuple(pods), shape.digest) for shape, answer, pods in found)
        for key in run.unnamed():
            self._points[str(key)] = _Point(Attempt(Pod(), ""), len(self._booked))
            yield ShapeAnswer(run.claim_alone(key, scope), (), str(key))

    def _try_pods(self, run: ExplainRun, attempt: Attempt, scope: TrialScope) -> Iterator[Answer]:
        """Try the pods of an attempt."""
        if attempt.gang is not None or self._is_explained(attempt.pod):
            yield from run.try_pods(attempt, scope)
            return
        try:
            yield from run.try_pods(attempt, scope._replace(with_reasons=False))
        except DoesNotFit:
            yield Answer(kind="Pod", name=str(attempt.pod.key), outcome="refused", owner=attempt.owner)

    def _book(self, run: ExplainRun, answer: Answer) -> None:
        """Remember the claims that were allocated to a pod."""
        if not answer.fits:
            return
        for allocated in answer.claims:
            key = ObjectKey(*allocated.name.split("/", 1))
            if not allocated.before and key in run.claims:
                self._booked.append((key, run.claims[key]))

    # --- trials ------------------------------------------------------------------------------------------------------

    def after(self, answer: Answer, changes: Sequence[SuggestedChange]) -> Answer:
        """The answer for a pod or claim if changes had been made before it was tried.

        Raises NotApplicable if a change is of an object that does not exist, or of none.
        """
        if not is_applicable(changes):
            raise NotApplicable("no object can be changed")
        point = self._points[answer.name]
        claims = {**self._input.claims, **dict(self._booked[: point.booked])}
        given = replace_fields(self._input, claims=claims)
        tried = (
            self._try_claim(answer, variant, changes)
            if answer.kind == "ResourceClaim"
            else self._try_pod(answer, point.attempt, variant, changes)
            for variant in _variants(given, changes)
        )
        first = next(tried, None)
        if first is None:
            raise NotApplicable("no pod of an earlier version holds devices")
        return first if first.fits else next((other for other in tried if other.fits), first)

    def _try_claim(self, answer: Answer, given: ExplainInput, changes: Sequence[SuggestedChange]) -> Answer:
        changed = given
        key = ObjectKey(*answer.name.split("/", 1))
        for change in changes:
            changed = _changed(changed, change)
            if change.object == f"ResourceClaim {key}" and change.path == "metadata.namespace":
                key = ObjectKey(str(change.becomes), key.name)
        with self._devices.lock:
            return ExplainRun(changed, self._tries, devices=self._devices).claim_alone(key, TrialScope())

    def _try_pod(
        self, answer: Answer, attempt: Attempt, given: ExplainInput, changes: Sequence[SuggestedChange]
    ) -> Answer:
        changed = given
        members = attempt.gang.members if attempt.gang is not None else (Member(attempt.pod, attempt.owner),)
        for change in changes:
            try:
                awaited = self._awaited(change)
                if change.remedy == _ROLLOUT or (awaited is not None and awaited.key not in changed.claims):
                    continue  # a pod of the same group would not get the devices
                if change.remedy == RECREATE or change.object.startswith("ResourceClaimTemplate "):
                    members = tuple(member._replace(pod=_without_claims(member.pod)) for member in members)
                if any(member.where[0] == change.object for member in members):
                    members = tuple(member.changed(change) for member in members)
                elif change.object:
                    changed = _changed(changed, change)
            except LookupError:
                raise NotApplicable(f"{change.object} has no field {change.path}") from None
        with self._devices.lock:
            run = ExplainRun(changed, self._tries, devices=self._devices)
            pods = {str(member.pod.key): (member.pod, member.owner) for member in members if member.is_explained}
            pod, owner = pods[answer.name]
            ended = set(self._ended(changes))
            every = [pods.get(str(p.key), (p, of)) for p, of in run.pods if p.key not in ended]
            if not gangs_of(every, changed.others, changed.groups, changed.features):
                return _on_node(run, Attempt(pod, owner), changes[-1].node)
            # All members of the group to which the pod belongs now are tried together.
            own = next(attempt for attempt in run.attempts(every) if _contains(attempt, pod))
            return next(found for found in run.try_pods(own, TrialScope()) if found.name == answer.name)

    def _ended(self, changes: Sequence[SuggestedChange]) -> Iterator[ObjectKey]:
        """The pods that changes wait for; pods that were tried are among them."""
        for claim in filter(None, map(self._awaited, changes)):
            yield from (ObjectKey(claim.metadata.namespace, user.name) for user in claim.status.reserved_for)

    def _awaited(self, change: SuggestedChange) -> ResourceClaim | None:
        """The claim whose pods a change waits for."""
        if change.remedy != "wait":
            return None
        key = ObjectKey(*change.object.removeprefix("ResourceClaim ").split("/", 1))
        return next((claim for booked, claim in self._booked if booked == key), self._input.claims.get(key))


def _on_node(run: ExplainRun, attempt: Attempt, node: str) -> Answer:
    """The answer for a pod that is placed on the node for which the changes are suggested if it fits there."""
    if node in run.nodes:
        there = TrialScope(Domain(f"{HOSTNAME_LABEL}={node}", frozenset({node})), with_reasons=False)
        with suppress(DoesNotFit):
            return next(run.try_pods(attempt, there))
    return next(run.try_pods(attempt, TrialScope()))


def _contains(attempt: Attempt, pod: Pod) -> bool:
    if attempt.gang is None:
        return attempt.pod.key == pod.key
    return any(member.pod.key == pod.key for member in attempt.gang.members)


def _changed(given: ExplainInput, change: SuggestedChange) -> ExplainInput:
    try:
        changed = with_change(given, change)
    except LookupError:
        raise NotApplicable(f"{change.object} has no field {change.path}") from None
    if changed is None:
        raise NotApplicable(f"{change.object} does not exist")
    return changed


def _without_claims(pod: Pod) -> Pod:
    """The pod as it is created again: its claims are generated from the present templates."""
    return replace(pod, status=replace(pod.status, resource_claim_statuses=()))


def _variants(given: ExplainInput, changes: Sequence[SuggestedChange]) -> Iterator[ExplainInput]:
    """The input; with a rollout that deletes an old pod first, one for each claim that such a pod releases."""
    rollout = next((change for change in changes if change.remedy == _ROLLOUT), None)
    if rollout is None:
        yield given
        return
    for claim in given.claims.values():
        if claim.status.allocation is not None and _user(claim, given) == rollout.object:
            release = SuggestedChange("", f"ResourceClaim {claim.key}", "status.allocation", remedy="wait")
            yield _changed(given, release)


def _user(claim: ResourceClaim, given: ExplainInput) -> str:
    """The workload whose pods use a claim."""
    users = {user.name for user in claim.status.reserved_for}
    for pod in (*given.others, *given.pods):
        if pod.metadata.namespace == claim.metadata.namespace and pod.metadata.name in users:
            return template_of(pod, owner_of(pod))[0]
    return ""
