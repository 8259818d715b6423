"""A report on equivalent pods names each pod's own claims."""

from __future__ import annotations

from collections.abc import Mapping

from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.reporting.own_objects import own_names
from tests.unit.scheduler.world import pod


def waiting(name: str, made: Mapping[str, str]) -> QueuedPod:
    """A pod with the shared claim ``model`` and with claims made from templates, by entry."""
    templates = [{"name": entry, "resourceClaimTemplateName": "one"} for entry in made]
    _, tree = pod(name, resourceClaims=[{"name": "model", "resourceClaimName": "model"}, *templates])
    tree["metadata"]["uid"] = f"uid-{name}"
    tree["status"] = {"resourceClaimStatuses": [{"name": e, "resourceClaimName": c} for e, c in made.items()]}
    return QueuedPod(tree, PodRequirementsCache().of(tree["spec"]))


def test_claims_are_paired_in_the_order_of_the_entries() -> None:
    second = waiting("p-2", {"gpu": "p-2-gpu", "nic": "p-2-nic"})
    named = ["ns/model", "ns/p-1-gpu", "ns/p-1-nic"]
    assert own_names(named, second) == {"ns/model": "ns/model", "ns/p-1-gpu": "ns/p-2-gpu", "ns/p-1-nic": "ns/p-2-nic"}
    assert own_names(["ns/p-2-gpu"], second) == {}


def test_an_allocated_claim_that_both_share_is_not_taken_for_the_pending_one() -> None:
    assert own_names(["ns/p-1-gpu"], waiting("p-2", {"gpu": "p-2-gpu"})) == {"ns/p-1-gpu": "ns/p-2-gpu"}
