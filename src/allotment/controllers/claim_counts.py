"""Counts of created and existing claims, in the categories of kube-controller-manager's metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from allotment.cluster.cached_item import CachedItem
from allotment.model.generated_claims import EXTENDED_RESOURCE_ANNOTATION, POD_CLAIM_NAME
from allotment.model.trees import Tree


class CreatedClaim(NamedTuple):
    """A category of requests that create claims. ``admin_access``: whether a request of the claim has admin access."""

    status: Literal["success", "failure"]
    admin_access: bool
    owner_group: str
    owner_kind: str


class ExistingClaim(NamedTuple):
    """A category of claims. ``source``: what the claim was created for; empty if a user created it."""

    allocated: bool
    admin_access: bool
    source: Literal["resource_claim_template", "extended_resource", ""]


class ClaimCounts:
    """The counts of one claim controller. ``items``: the claims that it knows; set by the controller."""

    def __init__(self) -> None:
        self.created: Counter[CreatedClaim] = Counter()
        self.items: Iterable[CachedItem[Any]] = ()

    def record_creation(self, claim: Tree, status: Literal["success", "failure"]) -> None:
        """Count a request to create a claim."""
        owner: Tree = next(iter(claim["metadata"].get("ownerReferences") or ()), {})
        group = str(owner.get("apiVersion", "")).rpartition("/")[0]
        self.created[CreatedClaim(status, _has_admin_access(claim), group, str(owner.get("kind", "")))] += 1

    def existing(self) -> Counter[ExistingClaim]:
        """Count the existing claims."""
        return Counter(
            ExistingClaim("allocation" in claim.status, _has_admin_access(claim.tree), _source_of(claim))
            for claim in self.items
        )


def _has_admin_access(claim: Tree) -> bool:
    requests = ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    return any((request.get("exactly") or {}).get("adminAccess") for request in requests)


def _source_of(claim: CachedItem[Any]) -> Literal["resource_claim_template", "extended_resource", ""]:
    annotations = claim.metadata.get("annotations") or {}
    if annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true":
        return "extended_resource"
    return "resource_claim_template" if annotations.get(POD_CLAIM_NAME) else ""
