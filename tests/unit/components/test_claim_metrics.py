"""The claim controller's metrics have the names and labels of the cluster's release."""

from __future__ import annotations

from allotment.cluster.cached_item import CachedItem
from allotment.components.claim_metrics import claim_families
from allotment.controllers.claim_counts import ClaimCounts
from allotment.exporter.metric import Distribution, Sample
from allotment.model.features import Features
from allotment.model.trees import Tree


def claim(owner: str = "Pod", *, admin: bool = False, allocated: bool = False, **annotations: str) -> Tree:
    group = {"Pod": "v1", "PodGroup": "scheduling.k8s.io/v1beta1"}.get(owner, "")
    metadata: Tree = {"name": "c", "annotations": {f"resource.kubernetes.io/{k}": v for k, v in annotations.items()}}
    if group:
        metadata["ownerReferences"] = [{"apiVersion": group, "kind": owner, "name": "o", "uid": "u"}]
    exactly = {"deviceClassName": "gpu", **({"adminAccess": True} if admin else {})}
    status: Tree = {"allocation": {}} if allocated else {}
    return {
        "metadata": metadata, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}, "status": status,
    }  # fmt: skip


def counts() -> ClaimCounts:
    made = ClaimCounts()
    made.record_creation(claim(), "success")
    made.record_creation(claim(), "success")
    made.record_creation(claim("PodGroup"), "success")
    made.record_creation(claim(admin=True), "failure")
    generated: Tree = {"pod-claim-name": "gpu"}
    extended: Tree = {"extended-resource-claim": "true"}
    trees = [
        claim(**generated), claim(allocated=True, **generated), claim(allocated=True, **extended), claim("", admin=True)
    ]  # fmt: skip
    made.items = [CachedItem(tree) for tree in trees]
    return made


def samples(release: str) -> dict[str, list[Sample | Distribution]]:
    families = claim_families(counts(), Features(release))
    return {family.metric.name: list(family.samples) for family in families}


EXISTING = [
    Sample(("false", "false", "resource_claim_template"), 1),
    Sample(("false", "true", ""), 1),
    Sample(("true", "false", "extended_resource"), 1),
    Sample(("true", "false", "resource_claim_template"), 1),
]


def test_1_37_has_new_names_and_the_owner_as_label() -> None:
    assert samples("1.37") == {
        "dynamic_resource_allocation_resourceclaim_creates_total": [
            Sample(("failure", "true", "", "Pod"), 1),
            Sample(("success", "false", "", "Pod"), 2),
            Sample(("success", "false", "scheduling.k8s.io", "PodGroup"), 1),
        ],
        "dynamic_resource_allocation_resource_claims": EXISTING,
    }


def test_earlier_releases_have_the_old_names() -> None:
    created = [Sample(("failure", "true"), 1), Sample(("success", "false"), 3)]
    assert samples("1.36") == {
        "resourceclaim_controller_creates_total": created,
        "resourceclaim_controller_resource_claims": EXISTING,
    }
    assert samples("1.34") == {"resourceclaim_controller_creates_total": created}
