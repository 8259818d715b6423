"""A pod keeps the claim of an earlier version of its template until it is created again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.explanation.stale_claims import StaleClaim, stale_claims
from allotment.model.core import Pod, PodResourceClaim, PodResourceClaimStatus, PodSpec, PodStatus
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.resource import (
    AllocationResult,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)


def spec(count: int) -> ResourceClaimSpec:
    exactly = ExactDeviceRequest(device_class_name="gpu", count=count)
    return ResourceClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(name="gpu", exactly=exactly),)))


POD = Pod(
    metadata=ObjectMeta(name="p", namespace="ml"),
    spec=PodSpec(resource_claims=(PodResourceClaim(name="gpu", resource_claim_template_name="t"),)),
    status=PodStatus(resource_claim_statuses=(PodResourceClaimStatus(name="gpu", resource_claim_name="p-gpu"),)),
)
CLAIM = ResourceClaim(metadata=ObjectMeta(name="p-gpu", namespace="ml", uid="1"), spec=spec(4))
ALLOCATED = replace(CLAIM, status=ResourceClaimStatus(allocation=AllocationResult()))
FROM_FILE = replace(CLAIM, metadata=ObjectMeta(name="p-gpu", namespace="ml"))


@pytest.mark.parametrize(
    ("claim", "count", "is_stale"), [(CLAIM, 2, True), (CLAIM, 4, False), (ALLOCATED, 2, False), (FROM_FILE, 2, False)]
)
def test_an_unallocated_claim_that_differs_from_its_template_is_stale(
    claim: ResourceClaim, count: int, is_stale: bool
) -> None:
    template = ResourceClaimTemplate(
        metadata=ObjectMeta(name="t", namespace="ml", uid="2"), spec=ResourceClaimTemplateSpec(spec=spec(count))
    )
    found = list(stale_claims(POD, {claim.key: claim}, {template.key: template}))
    assert found == ([StaleClaim(ObjectKey("ml", "p-gpu"), ObjectKey("ml", "t"))] if is_stale else [])
