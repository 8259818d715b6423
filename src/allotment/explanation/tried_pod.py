"""``TriedPod``: a pod whose placement is tried, with its claims and the nodes where it may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from allotment.explanation.node_accounts import Allocations
from allotment.explanation.origin_mapping import template_of
from allotment.explanation.pod_claims import PodClaims
from allotment.model.core import Pod
from allotment.model.resource import AllocationResult, ResourceClaim


class TriedPod(NamedTuple):
    """A pod, or a claim that is tried without a pod. ``exclusions``: the rule that excludes each other node."""

    name: str
    requested: PodClaims
    eligible: Sequence[str]
    exclusions: Mapping[str, str] = {}
    pod: Pod | None = None
    owner: str = ""

    @property
    def kind(self) -> str:
        return "Pod" if self.pod is not None else "ResourceClaim"

    @property
    def pending(self) -> tuple[ResourceClaim, ...]:
        """The claims that have to be allocated."""
        return tuple(self.requested.pending)

    @property
    def where(self) -> tuple[str, str]:
        """The object that contains the pod, and the path there."""
        return template_of(self.pod, self.owner) if self.pod is not None else ("", "")

    @property
    def allocations(self) -> Allocations:
        """The allocations of the claims that are allocated already."""
        return [(c, c.status.allocation) for c in self.requested.allocated if c.status.allocation is not None]

    def with_results(self, results: Sequence[AllocationResult]) -> Allocations:
        """The allocations of all claims, if the pending ones get these ``results``."""
        return [*self.allocations, *zip(self.pending, results, strict=True)]
