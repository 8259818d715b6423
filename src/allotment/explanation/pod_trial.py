"""Tries one pod or claim in the present state of the cluster, and records what it gets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from allotment.engine.refusal import Diagnosis
from allotment.explanation.gangs import Domain
from allotment.explanation.node_accounts import shared_reason, unknown_reason
from allotment.explanation.obstacles import Obstacle
from allotment.explanation.origin_mapping import template_of
from allotment.explanation.pod_claims import PodClaims, pod_claims
from allotment.explanation.refusal_reasons import RefusalReasons
from allotment.explanation.report import Answer, ClaimAllocation, claim_allocation
from allotment.explanation.trial_state import TrialState
from allotment.explanation.tried_pod import TriedPod
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.node_fit.node_allocatable import UnknownUse


class DoesNotFit(Exception):
    """Raised when a pod or claim does not fit and no reason is requested, to end the trial."""


class TrialScope(NamedTuple):
    """The way in which pods are tried. ``domain``: where they may run. ``with_reasons``: whether the reasons of a
    refusal are determined, which takes most of the time; otherwise DoesNotFit is raised."""

    domain: Domain = Domain()
    with_reasons: bool = True


class PodTrial:
    """Trials of pods and claims, one after the other."""

    def __init__(self, state: TrialState, reasons: RefusalReasons) -> None:
        self._state = state
        self._placer = state.placer
        self._reasons = reasons

    def pod(self, pod: Pod, owner: str, scope: TrialScope) -> Answer:
        """Try one pod and record its allocations. Raises DoesNotFit."""
        tried = self._read(pod, owner, scope.domain)
        if isinstance(tried, Obstacle):
            return _refused(_pod(pod, owner), scope, partial(self._reasons.of_obstacle, pod, owner, tried))
        try:
            refused = self._refused_on_all_nodes(tried, pod, scope)
            return refused if refused is not None else self._on_nodes(tried, scope)
        except UnknownUse as error:
            return _refused(tried, scope, partial(unknown_reason, error))

    def claim_alone(self, key: ObjectKey, scope: TrialScope) -> Answer:
        """Try a claim as if it belonged to a pod that may run on any node. Raises DoesNotFit."""
        tried = TriedPod(str(key), PodClaims([self._placer.claims[key]]), list(self._placer.nodes))
        rejected = self._reasons.of_invalid_claim(key)
        if rejected is not None:
            return _refused(tried, scope, lambda: rejected)
        return self._place(tried, scope)

    def _read(self, pod: Pod, owner: str, domain: Domain) -> TriedPod | Obstacle:
        """The pod with its claims and eligible nodes, or what prevents its scheduling."""
        placer, where = self._placer, template_of(pod, owner)
        eligible, exclusions = placer.eligible_nodes(pod)
        if domain.rule:
            exclusions = domain.exclusions(placer.nodes) | exclusions
            eligible = [node for node in eligible if node not in exclusions]
        plugins, eligible = placer.plugin_resources(pod, where, eligible)
        requested = pod_claims(pod, where, self._state.input, placer.claims, plugins)
        if isinstance(requested, Obstacle):
            return requested
        return TriedPod(str(pod.key), requested, eligible, exclusions, pod, owner)

    def _refused_on_all_nodes(self, tried: TriedPod, pod: Pod, scope: TrialScope) -> Answer | None:
        """The answer if no node is examined, as in Kubernetes, or if another pod uses a claim."""
        placer, requested = self._placer, tried.requested
        if placer.nodes and placer.lacks_class(requested):
            return _refused(tried, scope, partial(self._reasons.of_missing_class, tried))
        if requested.allocated and placer.aborts(requested, tried.eligible):
            return _refused(tried, scope, partial(self._reasons.of_pending_claims, tried))
        taken = next((claim for claim in requested.allocated if self._state.accounts.is_taken(pod, claim)), None)
        return _refused(tried, scope, partial(shared_reason, taken)) if taken is not None else None

    def _on_nodes(self, tried: TriedPod, scope: TrialScope) -> Answer:
        for claim in tried.requested.allocated:
            eligible, unreachable = self._placer.reachable_nodes(claim, list(tried.eligible))
            if unreachable is not None:
                return _refused(tried, scope, partial(self._reasons.of_claims_elsewhere, tried, unreachable))
            tried = tried._replace(eligible=eligible)
        return self._place(tried, scope)

    def _place(self, tried: TriedPod, scope: TrialScope) -> Answer:
        if not tried.eligible and self._placer.nodes:
            return _refused(tried, scope, partial(self._reasons.of_exclusions, tried))
        if not tried.pending:
            return self._place_without_pending_claims(tried, scope)
        placed, shortages = self._state.place(tried)
        if placed is None:
            if shortages:
                return _refused(tried, scope, partial(self._reasons.of_shortages, tried, shortages))
            return _refused(tried, scope, partial(self._reasons.of_pending_claims, tried))
        placed = self._state.place_with_room(tried, placed)
        if tried.pod is not None:
            self._state.use_node(tried.pod, placed.node, tried.with_results(placed.results))
        allocated = self._state.allocate(tried, placed.results)
        return _fits(
            tried, placed.node, [self._report(claim, tried) for claim in (*tried.requested.allocated, *allocated)]
        )

    def _place_without_pending_claims(self, tried: TriedPod, scope: TrialScope) -> Answer:
        node, short = self._state.first_node(tried)
        if short:
            return _refused(tried, scope, partial(self._reasons.of_shortages, tried, short))
        pod = tried.pod
        if node and pod is not None and not pod.spec.node_name:
            self._state.use_node(pod, node, tried.allocations)
        if not tried.requested.allocated:
            return _fits(tried, "", [], "no claims, so any node fits")
        return _fits(tried, node, [self._report(claim, tried) for claim in tried.requested.allocated])

    def _report(self, claim: ResourceClaim, tried: TriedPod) -> ClaimAllocation:
        template = tried.requested.templates.get(claim.key, "")
        before = any(claim is other for other in tried.requested.allocated)
        return claim_allocation(claim, template, before, self._placer.devices.device)


def _pod(pod: Pod, owner: str) -> TriedPod:
    """A pod whose claims are not known."""
    return TriedPod(str(pod.key), PodClaims(), (), {}, pod, owner)


def _refused(tried: TriedPod, scope: TrialScope, reasons: Callable[[], Diagnosis]) -> Answer:
    if not scope.with_reasons:
        raise DoesNotFit
    return Answer(kind=tried.kind, name=tried.name, outcome="refused", reasons=reasons(), owner=tried.owner)


def _fits(tried: TriedPod, node: str, claims: list[ClaimAllocation], *notes: str) -> Answer:
    return Answer(
        kind=tried.kind,
        name=tried.name,
        outcome="fits",
        node=node,
        owner=tried.owner,
        claims=tuple(claims),
        notes=notes,
    )
